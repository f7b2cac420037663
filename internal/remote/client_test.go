package remote

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func ask(t *testing.T, c *Client) (list, error) {
	t.Helper()
	var out list
	_, err := c.Ask(t.Context(), Request{Method: "GET", Path: []string{"operations"}}, &out)
	return out, err
}

func answers(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestAnAnswerIsDecoded(t *testing.T) {
	t.Parallel()
	var seen http.Header
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		answers(200, "application/json; charset=utf-8", `{"items":["a"],"next_cursor":"","later":1}`)(w, r)
	})
	got, err := ask(t, c)
	if err != nil || len(got.Items) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	if seen.Get("Authorization") != "Bearer "+testToken || seen.Get("User-Agent") != "test" {
		t.Errorf("asked with %v", seen)
	}
	if _, ok := c.Clock(); !ok {
		t.Error("its clock is not known")
	}
}

// Whatever is no answer of Redrive's is one line that says what it is.
func TestAServerThatIsNotRedrivesIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		passing bool
		words   []string
	}{
		"HTML":                 {answers(200, "text/html; charset=utf-8", "<html>"), false, []string{"200 OK", "text/html"}},
		"a page of a proxy":    {answers(502, "text/html", "<html>"), true, []string{"502 Bad Gateway"}},
		"a proxy's time":       {answers(504, "text/plain", "x"), true, []string{"504 Gateway Timeout"}},
		"a rate limiter":       {answers(429, "application/json", "{}"), true, []string{"429"}},
		"another 404":          {answers(404, "text/plain", "404 page not found"), false, []string{"404 Not Found"}},
		"another problem":      {answers(404, problemType, `{"type":"about:blank","status":404}`), false, []string{"none of Redrive's"}},
		"a problem of no sort": {answers(400, problemType, `[]`), false, []string{"none of Redrive's"}},
		"JSON of another":      {answers(200, jsonType, `{"status":"ok"}`), false, []string{"JSON of another server"}},
		"no object":            {answers(200, jsonType, `[1]`), false, []string{"API: it is a JSON array"}},
		"other types":          {answers(200, jsonType, `{"items":"none"}`), false, []string{"items is a JSON string"}},
		"no JSON":              {answers(200, jsonType, `{"items":<html>`), false, []string{"API: no JSON"}},
		"more than JSON":       {answers(200, jsonType, `{"items":[]}{"items":[]}`), false, []string{"no JSON object"}},
		"no type":              {func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = nil }, false, []string{"no type"}},
		"nothing":              {answers(204, jsonType, ""), false, []string{"204"}},
		"a long type":          {answers(200, "text/"+strings.Repeat("x", 5000), ""), false, []string{"…"}},
	} {
		_, err := ask(t, serve(t, c.handler))
		var strange *StrangeError
		if !errors.As(err, &strange) || strange.Passing() != c.passing || len(err.Error()) > 400 {
			t.Errorf("%s: %T %v, want a StrangeError that passes: %t", name, err, err, c.passing)
			continue
		}
		says(t, err, append(c.words, "server http://127.0.0.1:")...)
	}
}

// A redirect would take the token to wherever it points.
func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		_, err := ask(t, serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/?secret=1", status) }))
		says(t, err, "no redirect is followed", strings.TrimPrefix(other.URL, "http://"))
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("it repeats the address: %s", err)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

func TestAProblemIsTold(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "2")
		answers(429, problemType, `{"type":"urn:redrive:problem:backlog-full","title":"too many","status":429,"detail":"charge/a: 10 wait already","receipt":{"answer":"refused","operation":"charge/a"}}`)(w, r)
	})
	_, err := ask(t, c)
	var p *Problem
	if !errors.As(err, &p) || p.Name() != BacklogFull || p.RetryAfter != 2*time.Second || p.Receipt == nil || p.Receipt.Answer != jobs.Refused {
		t.Fatalf("%+v", err)
	}
	says(t, err, "server "+c.Server(), "charge/a: 10 wait already", "try again in 2s")
	if !Is(err, Conflict, BacklogFull) || Is(err, Conflict) || Is(nil, Conflict) {
		t.Error("it is not told from others")
	}
}

func TestWhatSurelyChangedNothingIsKnown(t *testing.T) {
	t.Parallel()
	problem := func(name string) error { return &Problem{Type: problemURN + name} }
	for _, err := range []error{&UnansweredError{Err: io.EOF}, problem(RedisRefuses), problem(Busy), problem(NotFit), fmt.Errorf("x: %w", &Problem{Type: problemURN + Invalid, Status: 422}),
		&StrangeError{Status: 302}, &StrangeError{Status: 404}, &StrangeError{Status: 429}} {
		if !Undone(err) {
			t.Errorf("%v surely changed nothing", err)
		}
	}
	for _, err := range []error{&UnansweredError{Err: io.EOF, Sent: true}, problem(RedisAway), problem(Unsure), problem(Timeout), problem("internal"), problem(Closing), &StrangeError{Status: 502}, &StrangeError{Status: 200}, &StrangeError{}, errors.New("x"), nil} {
		if Undone(err) {
			t.Errorf("%v may have changed something", err)
		}
	}
}

func TestAnAnswerThatIsCutIsNone(t *testing.T) {
	t.Parallel()
	_, err := ask(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"items":[]`)
		panic(http.ErrAbortHandler)
	}))
	var unanswered *UnansweredError
	if !errors.As(err, &unanswered) || !unanswered.Sent {
		t.Fatalf("%T %v", err, err)
	}
	says(t, err, "the connection was cut")
}

// A proxy that speaks HTTP/1.0 tells no length: only the JSON says that it is not whole.
func TestAnAnswerWithoutALengthThatWasCutWasTakenForAnotherServers(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"", `{"items":["a"`, `{"items":["a"],"next`} {
		for status, media := range map[int]string{200: jsonType, 503: problemType} {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "HTTP/1.0 %d X\r\nContent-Type: %s\r\n\r\n%s", status, media, half)
			})
			_, err := ask(t, c)
			var unanswered *UnansweredError
			if !errors.As(err, &unanswered) || !unanswered.Sent {
				t.Errorf("%d %q: %T %v", status, half, err, err)
				continue
			}
			says(t, err, "the connection was cut")
		}
	}
}

func TestAnAnswerThatDoesNotComeEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}) // closed when the test ends
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	defer close(ended)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Ask(ctx, Request{Method: "GET", Path: []string{"x"}}, &list{})
	says(t, err, "no answer in time")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not the command's time", err)
	}
}

func TestAServerThatIsNotThereWasSentNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = ask(t, client(t, address))
	var unanswered *UnansweredError
	if !errors.As(err, &unanswered) || unanswered.Sent || unanswered.Certificate() {
		t.Fatalf("%T %v", err, err)
	}
	says(t, err, "server "+address, "connection refused")
}

// net/http sends a request again by itself when a connection that was used before dies:
// what must not happen twice would.
func TestARequestIsSentOnceHoweverItsConnectionDies(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var requests atomic.Int32
	go func() { // ends when l is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 64<<10)
			if n, _ := c.Read(buffer); n > 0 {
				if requests.Add(1)%2 == 1 { // a good answer, on a connection that could be used again
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"items\":[]}")
				}
			}
			_ = c.Close()
		}
	}()
	c := client(t, "http://"+l.Addr().String())
	for round := range 5 {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			r := Request{Method: method, Path: []string{"x"}}
			if method == "POST" || method == "PUT" {
				r.Body = map[string]int{"ok": 1}
			}
			before := requests.Load()
			_, _ = c.Ask(t.Context(), r, &list{}) // good or cut
			if sent := requests.Load() - before; sent != 1 {
				t.Fatalf("round %d: %s was sent %d times", round, method, sent)
			}
		}
	}
}

func TestACertificateIsCheckedAgainstTheSystemsAuthorities(t *testing.T) {
	t.Parallel()
	var tokens atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+testToken {
			tokens.Add(1)
		}
		answers(200, jsonType, `{"items":[]}`)(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it is to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := ask(t, client(t, s.URL))
	var unanswered *UnansweredError
	if !errors.As(err, &unanswered) || !unanswered.Certificate() || unanswered.Sent {
		t.Errorf("%T %v", err, err)
	}
	says(t, err, "an authority that is not known here", "SSL_CERT_FILE")
	if tokens.Load() != 0 {
		t.Fatal("a server that could not prove who it is got the token")
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), os.Args[0])
	run.Env = append(os.Environ(), askOnce+"="+s.URL, "SSL_CERT_FILE="+authority, "SSL_CERT_DIR="+t.TempDir())
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "<nil>") || tokens.Load() != 1 {
		t.Errorf("with SSL_CERT_FILE: %s %v, %d tokens", out, err, tokens.Load())
	}
}

func TestASchemeThatIsNotSpokenIsTold(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(answers(200, jsonType, `{"items":[]}`))
	t.Cleanup(s.Close)
	_, err := ask(t, client(t, "https://"+strings.TrimPrefix(s.URL, "http://")))
	says(t, err, "does not speak TLS")
}
