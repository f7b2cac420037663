package remote

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyAServersAddressIsTaken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://redrive.example":          "https://redrive.example/v1/kinds",
		"https://redrive.example/":         "https://redrive.example/v1/kinds",
		"https://redrive.example/v1/":      "https://redrive.example/v1/kinds",
		"https://redrive.example/a%20b/":   "https://redrive.example/a%20b/v1/kinds",
		"https://redrive.example:8443/pay": "https://redrive.example:8443/pay/v1/kinds",
		"http://127.0.0.1:8080":            "http://127.0.0.1:8080/v1/kinds",
		"http://[::1]:8080":                "http://[::1]:8080/v1/kinds",
		"http://LocalHost":                 "http://LocalHost/v1/kinds",
	} {
		c, err := New(Options{Server: text, Token: testToken})
		if err != nil {
			t.Errorf("%s: %s", text, err)
			continue
		}
		if got := c.urlOf(Request{Path: []string{"kinds"}}); got != want {
			t.Errorf("%s is asked at %s, want %s", text, got, want)
		}
	}
	for text, word := range map[string]string{
		"":                               "must begin with https://",
		"redrive.example":                "must begin with https://",
		"redis://redrive.example":        "must begin with https://",
		"https://":                       "names no host",
		"https://:8080":                  "names no host",
		"https://user:s3cret@x.example":  "user or password",
		"https://x.example?token=s3cret": "a query",
		"https://x.example#s3cret":       "a fragment",
		"https://x.example:s3cret":       "not a URL",
	} {
		_, err := New(Options{Server: text})
		says(t, err, word)
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error repeats it: %s", text, err)
		}
	}
}

func TestATokenIsNotSentInTheClear(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"http://redrive.example", "http://10.0.0.1:8080", "http://localhost.example", "http://0.0.0.0:8080", "http://127.0.0.1.example"} {
		_, err := New(Options{Server: server, Token: testToken})
		says(t, err, "over https:// only")
		if _, err := New(Options{Server: server}); err != nil {
			t.Errorf("%s without a token: %s", server, err)
		}
	}
}

func TestANameOfThisMachineThatLeadsElsewhereGetsNoToken(t *testing.T) {
	t.Parallel()
	says(t, checkLocal(conn{addr: &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 80}}), "192.0.2.7", "not this machine")
	if err := checkLocal(conn{addr: &net.TCPAddr{IP: net.ParseIP("::1"), Port: 80}}); err != nil {
		t.Error(err)
	}
}

type conn struct {
	net.Conn
	addr net.Addr
}

func (c conn) RemoteAddr() net.Addr { return c.addr }

func TestKeysArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	var got []string
	mux.HandleFunc("GET /v1/operations/{kind}/{key}", func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.PathValue("key"))
		w.Header().Set("Content-Type", jsonType)
		_, _ = w.Write([]byte(`{"items":[]}`))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c := client(t, s.URL)
	keys := []string{"order-1", "a/b//c", "..", ".", "100%", "%2F", "a?b=c#d", "a;b:c@d&e+f=g,h", `"\`, "~!$'()*"}
	for _, key := range keys {
		if _, err := c.Ask(t.Context(), Request{Method: "GET", Path: []string{"operations", "charge", key}}, &list{}); err != nil {
			t.Errorf("%s: %s", key, err)
		}
	}
	if strings.Join(got, "\n") != strings.Join(keys, "\n") {
		t.Errorf("got %q, want %q", got, keys)
	}
}

func TestATokenIsReadFromItsFile(t *testing.T) {
	t.Parallel()
	write := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640, 0o604} {
		token, shared, err := ReadToken(write(" s3cret\r\n\n", mode))
		if err != nil || token != "s3cret" || shared != (mode&0o077 != 0) {
			t.Errorf("%o: %q %t %v", mode, token, shared, err)
		}
	}
	for text, word := range map[string]string{"": "is empty", " \n": "is empty", "s3cret\ns3cret2": "more than one token", "s3cret\x00": "no token has",
		"s3créT": "no token has", strings.Repeat("s3cret", 1000): "more than 4096 bytes"} {
		_, _, err := ReadToken(write(text, 0o600))
		says(t, err, word)
		if strings.Contains(err.Error(), "s3cr") {
			t.Errorf("the error repeats it: %s", err)
		}
	}
	if _, _, err := ReadToken(t.TempDir()); err == nil {
		t.Error("a directory is no token")
	}
	if _, _, err := ReadToken(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file is no token")
	}
}
