package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	s := startFault(t, nil, func(p *peer) { got <- p.readRequest(); p.say(okAnswer) })
	call := testCall(s.url() + "/api/")
	call.Request.Path = "/v1/charges/a%2Fb?reference=x%26y"
	call.Request.IdempotencyKey = "charge:Ünïcode \"quoted\"; \t=1"
	call.Request.CorrelationID = "checkout-77"
	call.Request.Headers = map[string]string{"X-Account": "a1", "X-Both": "theirs"}
	call.Header = http.Header{"Authorization": {"Bearer s3cret"}, "x-both": {"ours"}}
	call.KeyHeader = "Cko-Idempotency-Key"
	call.Request.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	a := New(Options{UserAgent: "redrive/test"}).Send(t.Context(), call)
	if c := checkAnswer(t, a); c.Outcome != jobs.OutcomeSucceeded || a.Err != "" || string(a.Kept) != `{"id":"ch_1"}` || a.KeptCut {
		t.Fatalf("got %+v", a)
	}
	req := <-got
	if req.Method != "POST" || req.RequestURI != "/api/v1/charges/a%2Fb?reference=x%26y" || req.Host != s.ln.Addr().String() {
		t.Errorf("got %s %s on %s", req.Method, req.RequestURI, req.Host)
	}
	for name, want := range map[string]string{
		"Cko-Idempotency-Key": call.Request.IdempotencyKey, "Redrive-Attempt": "2", "X-Correlation-Id": "checkout-77",
		"Traceparent": call.Request.Traceparent, "Content-Type": "application/json", "User-Agent": "redrive/test",
		"Authorization": "Bearer s3cret", "X-Account": "a1", "X-Both": "ours", "Content-Length": "15", "Connection": "close",
	} {
		if values := req.Header.Values(name); len(values) != 1 && name != "Content-Length" && name != "Connection" || name != "Content-Length" && name != "Connection" && values[0] != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	if req.ContentLength != 15 || !req.Close || len(req.TransferEncoding) > 0 || req.Header.Get("Accept-Encoding") != "" {
		t.Errorf("length %d, close %v, encoding %v, accept %q", req.ContentLength, req.Close, req.TransferEncoding, req.Header.Get("Accept-Encoding"))
	}
	if body, _ := io.ReadAll(req.Body); string(body) != string(call.Request.Body) {
		t.Errorf("body %q", body)
	}
	if a.WireBytes <= int64(len(call.Request.Body)) || a.Sample.WireBytes != a.WireBytes {
		t.Errorf("%d bytes on the wire, the sample says %d", a.WireBytes, a.Sample.WireBytes)
	}
}

func TestWhatCannotBeSentIsRefusedBeforeAConnection(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Call){
		"no timeout":                 func(c *Call) { c.Timeout = 0 },
		"method":                     func(c *Call) { c.Request.Method = "PO ST" },
		"base URL":                   func(c *Call) { c.BaseURL = "http://user:s3cret@[::1" },
		"base URL with userinfo":     func(c *Call) { c.BaseURL = strings.Replace(c.BaseURL, "//", "//user:s3cret@", 1) },
		"base URL with query":        func(c *Call) { c.BaseURL += "?token=s3cret" },
		"base URL without host":      func(c *Call) { c.BaseURL = "http:///v1" },
		"another scheme":             func(c *Call) { c.BaseURL = "ftp://127.0.0.1" },
		"path without slash":         func(c *Call) { c.Request.Path = "@elsewhere.example/s3cret" },
		"path with fragment":         func(c *Call) { c.Request.Path = "/v1#s3cret" },
		"path with a bad escape":     func(c *Call) { c.Request.Path = "/v1/%zz?token=s3cret" },
		"header on the deny list":    func(c *Call) { c.Request.Headers = map[string]string{"authorization": "Bearer s3cret"} },
		"the idempotency header":     func(c *Call) { c.Request.Headers = map[string]string{"idempotency-key": "s3cret"} },
		"header value":               func(c *Call) { c.Request.Headers = map[string]string{"X-A": "s3cret\r\nX-B: 1"} },
		"configured header value":    func(c *Call) { c.Header = http.Header{"X-A": {"s3cret\n"}} },
		"configured header name":     func(c *Call) { c.Header = http.Header{"X A": {"s3cret"}} },
		"no key for the key header":  func(c *Call) { c.Request.IdempotencyKey = "" },
		"key with white space at it": func(c *Call) { c.Request.IdempotencyKey = "key " },
		"key with a line break":      func(c *Call) { c.Request.IdempotencyKey = "key\nX: 1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, afterRequest(func(p *peer) { p.say(okAnswer) }))
			call := testCall(s.url())
			change(&call)
			a := New(Options{}).Send(t.Context(), call)
			c := checkAnswer(t, a)
			if c.Row != "N01" || a.WireBytes != 0 || s.seen("\r\n") != 0 {
				t.Errorf("row %s (%s), %d bytes, want N01 and none", c.Row, a.Err, a.WireBytes)
			}
			if a.Err == "" || strings.Contains(a.Err, "s3cret") {
				t.Errorf("error %q", a.Err)
			}
		})
	}
}

// T11: a gateway that closes after it has read the request sees one request per
// attempt, whatever a client library may try by itself.
func TestT11NoHiddenRetryWhenTheGatewayCloses(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", "Cko-Idempotency-Key", ""} {
		s := startFault(t, nil, afterRequest(func(*peer) {}))
		client := New(Options{})
		const attempts = 10
		for n := range attempts {
			call := testCall(s.url())
			call.KeyHeader, call.Attempt = header, n+1
			c := checkAnswer(t, client.Send(t.Context(), call))
			if c.Outcome != jobs.OutcomeUnknown || c.Row != "N11" {
				t.Errorf("header %q: outcome %s, row %s, want unknown, N11", header, c.Outcome, c.Row)
			}
		}
		s.wantRequests(attempts)
	}
}

// T12: net/http sends a request with an idempotency key again when a warm
// connection dies. Here no connection is ever warm.
func TestT12NoReplayOnAWarmConnection(t *testing.T) {
	t.Parallel()
	s := startFault(t, nil, func(p *peer) {
		for n := 0; p.readRequest() != nil && n == 0; n++ {
			p.say(okAnswer) // keep-alive is offered; a second request here is read and dropped
		}
	})
	client := New(Options{})
	for n := range 10 {
		a := client.Send(t.Context(), testCall(s.url()))
		if c := checkAnswer(t, a); c.Row != "H200" {
			t.Errorf("attempt %d: row %s (%s), want H200", n+1, c.Row, a.Err)
		}
	}
	s.wantRequests(10)
	if len(s.received) != 10 {
		t.Errorf("%d connections for 10 attempts", len(s.received))
	}
}

func TestTooLateToSend(t *testing.T) {
	t.Parallel()
	slowClocks := func(mono, wall time.Duration) func(time.Time) (time.Duration, time.Duration) {
		calls := 0
		return func(time.Time) (time.Duration, time.Duration) {
			calls++
			if calls == 1 {
				return 0, 0 // when Send begins there is time; it passes while the connection opens
			}
			return mono, wall
		}
	}
	for name, tc := range map[string]struct {
		clocks func(time.Time) (time.Duration, time.Duration)
		change func(*Call)
	}{
		"the window was over before":    {elapsed, func(c *Call) { c.StartedAt = c.StartedAt.Add(-time.Minute) }},
		"there was no window":           {elapsed, func(c *Call) { c.SendBy = -time.Millisecond }},
		"the monotonic clock went on":   {slowClocks(2*patience, 0), nil},
		"the wall clock went on":        {slowClocks(0, 2*patience), nil},
		"a time without monotonic part": {elapsed, func(c *Call) { c.StartedAt = c.StartedAt.Round(0).Add(-time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, func(p *peer) { _ = p.untilGone() })
			client := New(Options{})
			client.elapsedFunc = tc.clocks
			call := testCall(s.url())
			if tc.change != nil {
				tc.change(&call)
			}
			a := client.Send(t.Context(), call)
			c := checkAnswer(t, a)
			if a.Sample.Phase != policy.PhaseTooLate || c.Outcome != jobs.OutcomeNotSent || c.Class != jobs.ClassOther {
				t.Errorf("phase %s (%s), outcome %s, want too late and not sent", a.Sample.Phase, a.Err, c.Outcome)
			}
			if s.seen("POST") != 0 {
				t.Error("the request was sent")
			}
		})
	}
}

func TestASetBackWallClockDoesNotOpenTheWindowAgain(t *testing.T) {
	t.Parallel()
	client := New(Options{})
	client.elapsedFunc = func(time.Time) (time.Duration, time.Duration) { return 3 * time.Second, -time.Hour }
	if x := client.newExchange(t.Context(), Call{SendBy: 2 * time.Second}); !x.late() {
		t.Error("three seconds by the monotonic clock are not late for a window of two")
	}
}

// The first byte is checked when it is written, not when the call begins; once it
// is out, the rest may follow.
func TestTheFirstByteIsCheckedWhenItIsWritten(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]error{policy.SendWindow: nil, policy.SendWindow + 1: errTooLate} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }() // ended by closing ours
			started := time.Now()
			tcp := &counted{Conn: ours}
			c := &conn{Conn: tcp, tcp: tcp, begun: make(chan struct{}),
				late:     func() bool { return time.Since(started) > policy.SendWindow },
				timeLeft: func() time.Duration { return time.Second },
				given:    func() bool { return false }}
			time.Sleep(wait)
			_, err := c.Write([]byte("POST"))
			if !errors.Is(err, want) {
				t.Errorf("after %v: %v, want %v", wait, err, want)
			}
			time.Sleep(time.Minute)
			_, err = c.Write([]byte(" /v1"))
			if !errors.Is(err, want) {
				t.Errorf("second write: %v, want %v", err, want)
			}
			if _, sent := c.snapshot(); (sent == 8) != (want == nil) || (sent == 0) != (want != nil) {
				t.Errorf("%d bytes were sent", sent)
			}
			_ = c.end(false)
			if _, err := c.Write([]byte("x")); want == nil && err != nil {
				t.Errorf("a write after the end fails the transport: %v", err)
			}
		})
	}
}

// A gateway that refuses a large request early closes while we still write. Its
// answer came first, and must not be lost to the write error.
func TestAnEarlyAnswerIsNotLostToTheWriteError(t *testing.T) {
	t.Parallel()
	s := startFault(t, nil, func(p *peer) { early413(p); p.reset() })
	client, rows := New(Options{}), map[string]int{}
	const calls = 50
	for range calls {
		call := testCall(s.url())
		call.Request.Body = bigBody(8 << 20)
		rows[checkAnswer(t, client.Send(t.Context(), call)).Row]++
	}
	if rows["H413"] < calls {
		t.Errorf("%v, want H413 in each of %d calls", rows, calls)
	}
}

// A 2xx that comes while most of the request is still here speaks of another one.
func TestASuccessBeforeTheWholeRequestIsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no body":       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"a body":        okAnswer,
		"a body, cut":   "HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{\"id\":",
		"no end marked": "HTTP/1.1 200 OK\r\n\r\n{\"id\":1}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, func(p *peer) {
				if _, err := p.in.ReadString('\n'); err != nil {
					return
				}
				p.say(answer)
				if name == "no end marked" || name == "a body, cut" {
					_ = p.raw.CloseWrite()
				}
				<-t.Context().Done() // nothing more is read
			})
			call := testCall(s.url())
			call.Request.Body = bigBody(16 << 20) // more than both kernels hold
			a := New(Options{}).Send(t.Context(), call)
			if c := checkAnswer(t, a); c.Row != "N10" || c.Outcome != jobs.OutcomeUnknown || a.WireBytes == 0 {
				t.Errorf("row %s, outcome %s, %d bytes sent (%s), want N10 and unknown", c.Row, c.Outcome, a.WireBytes, a.Err)
			}
		})
	}
}

// An answer that lay there before the request was taken for the answer when the
// first write had been let through and not yet made: the write was cut, and the
// gateway saw nothing of what it had "answered".
func TestAnAnswerIsNotReadBeforeTheFirstWriteHasReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe() // a write returns when the other side has read it
		tcp := &counted{Conn: ours}
		c := &conn{Conn: tcp, tcp: tcp, begun: make(chan struct{}), late: func() bool { return false },
			timeLeft: func() time.Duration { return time.Second }, given: func() bool { return false }}
		var wrote, read atomic.Bool
		go func() { _, _ = theirs.Write([]byte("HTTP/1.1 503 Busy")) }() // ended by the read below
		go func() { _, _ = c.Read(make([]byte, 64)); read.Store(true) }()
		go func() { _, _ = c.Write([]byte("POST")); wrote.Store(true) }()
		synctest.Wait()
		if wrote.Load() || read.Load() {
			t.Errorf("with nothing taken: written %v, answer read %v, want neither", wrote.Load(), read.Load())
		}
		if _, err := io.ReadFull(theirs, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !wrote.Load() || !read.Load() {
			t.Errorf("with all taken: written %v, answer read %v, want both", wrote.Load(), read.Load())
		}
		_ = c.end(false)
	})
}

// halfRecord is a TLS session whose first record breaks off on its way out.
type halfRecord struct{ net.Conn }

func (h halfRecord) Write(p []byte) (int, error) {
	_, _ = h.Conn.Write(p[:1])
	return 0, syscall.EPIPE
}

func TestPartOfARecordCountsAsSent(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(io.Discard, theirs) }() // ended by closing ours, waited for below
	tcp := &counted{Conn: ours}
	c := &conn{Conn: halfRecord{tcp}, tcp: tcp, begun: make(chan struct{}), late: func() bool { return false },
		timeLeft: func() time.Duration { return time.Second }, given: func() bool { return false }}
	if n, err := c.Write([]byte("POST")); n != 4 || err != nil {
		t.Errorf("the transport is told %d, %v, want it to look for an answer", n, err)
	}
	if _, sent := c.snapshot(); sent != 1 {
		t.Errorf("%d bytes were sent, want 1", sent)
	}
	_ = c.end(true)
	<-read
}

// What was not delivered when an attempt ends must not be delivered later: the
// connection is reset, and the other side sees that.
func TestAnAttemptWithoutItsWholeAnswerIsReset(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer string
		reset  bool
	}{
		"timeout":             {"", true},
		"timeout in the body": {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", true},
		"whole answer":        {okAnswer, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			s := startFault(t, nil, afterRequest(func(p *peer) {
				p.say(tc.answer)
				ended <- p.untilGone()
			}))
			call := testCall(s.url())
			if tc.reset {
				call.Timeout = time.Second
			}
			New(Options{}).Send(t.Context(), call)
			if err := <-ended; errors.Is(err, syscall.ECONNRESET) != tc.reset {
				t.Errorf("the connection ended with %v, want a reset: %v", err, tc.reset)
			}
		})
	}
}

func TestASlotIsHeldNoLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	s := startFault(t, nil, afterRequest(drip))
	call := testCall(s.url())
	call.Timeout = 150 * time.Millisecond
	if a := New(Options{}).Send(t.Context(), call); a.Duration < 150*time.Millisecond || a.Duration > 10*time.Second {
		t.Errorf("the call took %v, want about 150ms", a.Duration)
	}
}
