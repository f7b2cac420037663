package httpapi

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/config"
	"redrive/internal/redistest"
	"redrive/internal/tlstest"
)

func TestACertificateIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	tlstest.Write(t, files.Cert, files.Key, tlstest.Loopback(1))
	const every = 50 * time.Millisecond
	c, err := loadTLS(files, slog.New(slog.DiscardHandler), every)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, Options{AliveFunc: func() error { return nil }, ReadyFunc: func() []string { return nil }, Metrics: http.NotFoundHandler(), TLS: c})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	serial := func() int64 {
		t.Helper()
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true}) // it is our own
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	await := func(want int64) {
		t.Helper()
		for range 100 {
			if serial() == want {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("the certificate is %d, want %d", serial(), want)
	}
	await(1)
	tlstest.Write(t, files.Cert, files.Key, tlstest.Loopback(2))
	await(2)
	if err := os.WriteFile(files.Cert, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * every)
	await(2) // what cannot be read changes nothing
	tlstest.Write(t, files.Cert, files.Key, tlstest.Loopback(3))
	await(3)

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}} // it is our own
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + l.Addr().String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Errorf("/livez: %d over %s", resp.StatusCode, resp.Proto)
	}
}

func TestACertificateThatCannotBeReadStopsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	if _, err := LoadTLS(files, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("missing files are taken")
	} else {
		says(t, err.Error(), "tls.crt")
	}
	tlstest.Write(t, files.Cert, files.Key, tlstest.Loopback(1))
	if err := os.WriteFile(files.Key, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTLS(files, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a key that is none is taken")
	}
	if c, err := LoadTLS(config.TLS{}, nil); c != nil || err != nil {
		t.Errorf("no files: %v, %v", c, err)
	}
}

// loopbackTLS is how to serve under a certificate for 127.0.0.1.
func loopbackTLS(t testing.TB) *tls.Config {
	t.Helper()
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	tlstest.Write(t, files.Cert, files.Key, tlstest.Loopback(1))
	c, err := LoadTLS(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStreamsWorkOverHTTP2(t *testing.T) {
	t.Parallel()
	c := loopbackTLS(t)
	_, client := redistest.Mini(t)
	b := startTLS(t, client, c)
	b.post("/v1/operations/charge/o-1/cancel", `{"note":"`+strings.Repeat("x", maxOrder)+`"}`).is(t, "a body that is announced too large", tooLarge)
	l := b.listen(t, "?kind=charge", "")
	if a := answersOf(t, b.importText(`{"kind":"charge","key":"o-1","body":{}}`+"\n"+`{"kind":"charge","key":"o-2","body":{}}`).body); a.last.Lines != 2 || a.last.Problem != nil {
		t.Errorf("import: %+v", a.last)
	}
	if e := l.next(); e.change.Operation != "charge/o-1" {
		t.Errorf("event %+v", e)
	}
	b.post("/v1/operations", `{"kind":"charge","key":"o-1"`).is(t, "over HTTP/2", malformed)
}

// Two servers of one process wrote into the TLS configuration that both were given.
func TestServingLeavesTheTLSConfigurationAlone(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	c := loopbackTLS(t)
	url, end := b.logged(c)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // it is our own
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("the server speaks %q, want h2", got)
	}
	conn.Close()
	end()
	if len(c.NextProtos) != 0 {
		t.Errorf("the caller's configuration speaks %v now", c.NextProtos)
	}
}
