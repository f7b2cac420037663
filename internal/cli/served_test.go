package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"redrive/internal/config"
	"redrive/internal/httpapi"
)

// testToken is known to the servers of the tests, under the name that the tests act
// under on Redis.
const testToken = "token-of-the-tests"

// serve puts the API of a worker before the namespace and has the program use it.
// change may change what is served.
func (b *testBundle) serve(change func(*httpapi.API)) *httpapi.Server {
	b.t.Helper()
	a := httpapi.API{Ledger: b.ledger, Limits: config.Default().API, FitFunc: func() []string { return nil }, Version: "test",
		Tokens: []config.Token{{Name: "ann@desk", Roles: config.Roles, SHA256: sha256.Sum256([]byte(testToken))}}}
	if change != nil {
		change(&a)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	server := httpapi.Serve(l, httpapi.Options{AliveFunc: func() error { return nil }, ReadyFunc: func() []string { return nil }, Metrics: http.NotFoundHandler(), API: &a})
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			b.t.Error(err)
		}
	})
	b.useServer("http://"+l.Addr().String(), testToken)
	return server
}

// useServer has the program ask a server under a token; "": none.
func (b *testBundle) useServer(server, token string) {
	b.t.Helper()
	b.env = map[string]string{"REDRIVE_SERVER": server}
	b.where = "at " + server
	if token != "" {
		b.env["REDRIVE_TOKEN_FILE"] = filepath.Join(b.t.TempDir(), "token")
		if err := os.WriteFile(b.env["REDRIVE_TOKEN_FILE"], []byte(token+"\n"), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// instead is a proxy before a server that hands on what it is asked, but for requests that
// are chosen, which it answers itself.
func instead(t *testing.T, b *testBundle, chosen func(r *http.Request, sent string) bool, answer func(http.ResponseWriter)) {
	t.Helper()
	to, err := url.Parse(b.env["REDRIVE_SERVER"])
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if chosen(r, string(sent)) {
			answer(w)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
	b.useServer(s.URL, testToken)
}
