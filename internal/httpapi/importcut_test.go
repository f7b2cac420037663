package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// lockedText is a log that a server writes and a test reads.
type lockedText struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logged is a second server before a bundle's store; end stops it and returns its log.
func (b *apiBundle) logged(c *tls.Config) (url string, end func() string) {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	log := &lockedText{}
	a := API{Ledger: b.ledger, Kinds: testKinds(), Tokens: testTokens(), Limits: testLimits(), FitFunc: func() []string { return nil }, Version: "test"}
	s := Serve(l, Options{AliveFunc: func() error { return nil }, ReadyFunc: func() []string { return nil }, Metrics: http.NotFoundHandler(), API: &a, TLS: c,
		Log: slog.New(slog.NewTextHandler(log, nil))})
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(stop)
	url = "http://" + l.Addr().String()
	if c != nil {
		url = "https://" + l.Addr().String()
	}
	return url, func() string { stop(); return log.String() }
}

// net/http met its own read when an import had ended before its body did, and panicked.
func TestAnImportThatEndsBeforeItsBodyDoesNotPanic(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	certificate := loopbackTLS(t)
	good := `{"kind":"payout","key":"i1","body":{}}` + "\n"
	long := `{"kind":"payout","key":"i5","body":"` + strings.Repeat("x", maxSubmission+70_000) + "\"}\n"
	for name, c := range map[string]struct {
		tls  *tls.Config
		body io.Reader
	}{
		"a long line, its length known":     {nil, strings.NewReader(long)},
		"a long line, in chunks":            {nil, io.MultiReader(strings.NewReader(long))},
		"a long line that is not the first": {nil, io.MultiReader(strings.NewReader(good), strings.NewReader(long))},
		"a long line, HTTP/2":               {certificate, strings.NewReader(good + long)},
		"an endless line":                   {nil, io.MultiReader(strings.NewReader(good), &endless{letter: 'x'})},
		"an endless line, HTTP/2":           {certificate, &endless{letter: 'x'}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, end := b.logged(c.tls)
			transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // it is our own
			defer transport.CloseIdleConnections()
			r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/operations:import", c.body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+submitter)
			r.Header.Set("Content-Type", ndjsonType)
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(text), problemURN+tooLarge.name) {
				t.Errorf("%d %s, %v", resp.StatusCode, text, err)
			}
			transport.CloseIdleConnections()
			if log := end(); log != "" {
				t.Errorf("the server has something to say:\n%s", log)
			}
		})
	}
}

// After an import that ended early the rest of its body must never be read as a request.
func TestTheRestOfAnImportIsNoRequest(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	long := strings.Repeat("x", maxSubmission+10)
	smuggled := fmt.Sprintf("\nPOST /v1/operations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 42\r\n\r\n{\"kind\":\"charge\",\"key\":\"smuggled\",\"body\":1}", submitter, jsonType)
	if _, err := fmt.Fprintf(conn, "POST /v1/operations:import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 10000000\r\n\r\n%s%s", submitter, ndjsonType, long, smuggled); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // the server closes
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(answer, []byte("HTTP/1.1 ")); n != 1 || !bytes.Contains(answer, []byte(tooLarge.name)) || !bytes.Contains(answer, []byte("Connection: close")) {
		t.Errorf("%d answers:\n%s", n, answer)
	}
}

func TestEachLineThatIsNotTakenNamesItsProblem(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	kinds := testKinds()
	kinds[2].MaxBacklog = 1
	b := startAPI(t, client, func(a *API) { a.Kinds = kinds })
	if err := b.ledger.PublishKinds(t.Context(), kinds); err != nil {
		t.Fatal(err)
	}
	b.submit(`{"kind":"refund","key":"r-1","body":{}}`)
	lines := []struct{ text, problem string }{
		{`{"kind":"charge","key":"o-1","body":{}}`, ""},
		{`{"kind":"charge","key":"o-1","body":{"amount":2}}`, conflict.name},
		{`{"kind":"charge","key":"o-2"`, malformed.name},
		{`{"kind":"charge","key":"o-2","bdy":{}}`, invalid.name},
		{`{"kind":"nothing","key":"o-2","body":{}}`, invalid.name},
		{`{"kind":"charge","key":"o-3","body":{},"new_attempt_of":"charge/o-1"}`, notInState.name},
		{`{"kind":"refund","key":"r-2","body":{}}`, backlogFull.name},
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.text + "\n")
	}
	a := answersOf(t, b.importText(text.String()).body)
	if len(a.lines) != len(lines) {
		t.Fatalf("%+v", a)
	}
	for i, l := range lines {
		want := ""
		if l.problem != "" {
			want = problemURN + l.problem
		}
		if got := a.lines[i]; got.Type != want {
			t.Errorf("%s: %q (%+v), want %q", l.text, got.Type, got.Receipt, want)
		}
		if want == "" || a.lines[i].Answer == jobs.Duplicate {
			continue
		}
		g := b.ask(ask{method: "POST", path: "/v1/operations", token: submitter, body: l.text})
		if p := into[Problem](t, g); p.Type != want {
			t.Errorf("%s by itself: %s", l.text, g.body)
		}
	}
}

// Four clients with a newline a second held all places of imports for ever.
func TestBlankLinesBuyAnImportNoTime(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.lineTime = 300 * time.Millisecond })
	body, feed := io.Pipe()
	defer feed.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/operations:import", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+submitter)
	r.Header.Set("Content-Type", ndjsonType)
	fed := make(chan struct{})
	go func() { // ends with the pipe, which the transport closes when it is answered, or the test
		defer close(fed)
		_, err := io.WriteString(feed, `{"kind":"charge","key":"o-1","body":{}}`+"\n")
		for err == nil {
			time.Sleep(10 * time.Millisecond)
			_, err = io.WriteString(feed, "\n")
		}
	}()
	resp, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	var last string
	for in.Scan() {
		last = in.Text()
	}
	if l := into[LastLine](t, got{body: last}); l.Lines != 1 || l.Problem == nil || l.Problem.Type != problemURN+tooSlow.name {
		t.Errorf("%+v", l)
	}
	body.Close()
	<-fed
}
