package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// checkAnswer holds what every answer must keep, whatever happened.
func checkAnswer(t *testing.T, a Answer) policy.Classification {
	t.Helper()
	c := policy.Classify(a.Sample, jobs.IdempotencyNone)
	if !slices.Contains(policy.Phases, a.Sample.Phase) {
		t.Errorf("phase %q is not in the closed list", a.Sample.Phase)
	}
	if c.Outcome == jobs.OutcomeNotSent && a.WireBytes > 0 {
		t.Errorf("not sent, with %d bytes on the wire", a.WireBytes)
	}
	if c.Row == policy.RowUnlisted {
		t.Errorf("%+v is not listed", a.Sample)
	}
	if len(a.Err) > MaxErrBytes || !utf8.ValidString(a.Err) || strings.ContainsAny(a.Err, "\x00\n\r") {
		t.Errorf("error text %q", a.Err)
	}
	if len(a.Kept) > MaxKeptBytes || !utf8.Valid(a.Kept) {
		t.Errorf("kept %d bytes, valid UTF-8 %v", len(a.Kept), utf8.Valid(a.Kept))
	}
	return c
}

func TestEveryPhaseOfAPlainConnection(t *testing.T) {
	t.Parallel()
	hang := func(p *peer) { _ = p.untilGone() }
	for name, tc := range map[string]struct {
		handler func(*peer)
		body    []byte // nil: that of testCall
		rows    []string
		status  int
		onWire  int // -1: the server cannot know
	}{
		"a good answer":                  {afterRequest(func(p *peer) { p.say(okAnswer) }), nil, []string{"H200"}, 200, 1},
		"closed after the request":       {afterRequest(func(*peer) {}), nil, []string{"N11"}, 0, 1},
		"reset after the request":        {afterRequest(func(p *peer) { p.reset() }), nil, []string{"N11"}, 0, 1},
		"reset before the request":       {func(p *peer) { p.reset() }, nil, []string{"N05", "N09", "N10", "N11"}, 0, 0},
		"closed before the request":      {func(p *peer) {}, nil, []string{"N09", "N10", "N11"}, 0, 0},
		"reset while the body is coming": {func(p *peer) { _, _ = p.in.ReadByte(); time.Sleep(20 * time.Millisecond); p.reset() }, bigBody(32 << 20), []string{"N10"}, 0, -1},
		"no answer":                      {afterRequest(hang), nil, []string{"N12"}, 0, 1},
		"header byte by byte":            {afterRequest(drip), nil, []string{"N12"}, 0, 1},
		"not HTTP":                       {afterRequest(func(p *peer) { p.say("hello\r\n\r\n") }), nil, []string{"N14"}, 0, 1},
		"half a status line":             {afterRequest(func(p *peer) { p.say("HTTP/1.1 2") }), nil, []string{"N14"}, 0, 1},
		"a malformed header":             {afterRequest(func(p *peer) { p.say("HTTP/1.1 200 OK\r\nno colon\r\n\r\n") }), nil, []string{"N14"}, 0, 1},
		"1xx and then nothing":           {afterRequest(func(p *peer) { p.say("HTTP/1.1 103 Early Hints\r\n\r\n") }), nil, []string{"N14"}, 0, 1},
		"header too large":               {afterRequest(func(p *peer) { p.say("HTTP/1.1 200 OK\r\nA: " + string(bigBody(MaxHeaderBytes)) + "\r\n\r\n") }), nil, []string{"N14"}, 0, 1},
		"1xx without end":                {afterRequest(endless1xx), nil, []string{"N14"}, 0, 1},
		"1xx and then the answer":        {afterRequest(func(p *peer) { p.say("HTTP/1.1 102 Processing\r\n\r\n" + okAnswer) }), nil, []string{"H200"}, 200, 1},
		"body shorter than its length":   {afterRequest(func(p *peer) { p.say("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"id\":") }), nil, []string{"N19"}, 200, 1},
		"chunks without end":             {afterRequest(func(p *peer) { p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{\"id\":\r\n") }), nil, []string{"N19"}, 200, 1},
		"body slower than the timeout":   {afterRequest(func(p *peer) { p.say("HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{"); hang(p) }), nil, []string{"N19"}, 201, 1},
		"body larger than we read":       {afterRequest(func(p *peer) { p.say("HTTP/1.1 200 OK\r\n\r\n{\"a\":\"" + string(bigBody(MaxAnswerBytes))) }), nil, []string{"N19"}, 200, 1},
		"JSON cut by a close":            {afterRequest(func(p *peer) { p.say("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"id\":") }), nil, []string{"N20"}, 200, 1},
		"JSON ended by a close":          {afterRequest(func(p *peer) { p.say("HTTP/1.0 200 OK\r\n\r\n{\"id\":1}") }), nil, []string{"H200"}, 200, 1},
		"empty success":                  {afterRequest(func(p *peer) { p.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") }), nil, []string{"H200G"}, 200, 1},
		"no content":                     {afterRequest(func(p *peer) { p.say("HTTP/1.1 204 No Content\r\n\r\n") }), nil, []string{"H204"}, 204, 1},
		"early 413":                      {early413, bigBody(8 << 20), []string{"H413"}, 413, -1},
		"early 413 and reset":            {func(p *peer) { early413(p); p.reset() }, bigBody(8 << 20), []string{"H413", "N10", "N14"}, -1, -1},
		"answer before the request":      {func(p *peer) { p.say("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); hang(p) }, nil, []string{"H503"}, 503, 1},
		"another protocol":               {afterRequest(func(p *peer) { p.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"); hang(p) }), nil, []string{"H101"}, 101, 1},
		"status 999":                     {afterRequest(func(p *peer) { p.say("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n") }), nil, []string{"HXXX"}, 999, 1},
		"status 099":                     {afterRequest(func(p *peer) { p.say("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n") }), nil, []string{"HXXX"}, 99, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, tc.handler)
			call := testCall(s.url())
			if slices.Contains(tc.rows, "N12") || name == "body slower than the timeout" {
				call.Timeout = time.Second
			}
			if tc.body != nil {
				call.Request.Body = tc.body
			}
			a := New(Options{}).Send(t.Context(), call)
			c := checkAnswer(t, a)
			if !slices.Contains(tc.rows, c.Row) {
				t.Errorf("row %s (phase %s, %d bytes, %s), want one of %v", c.Row, a.Sample.Phase, a.WireBytes, a.Err, tc.rows)
			}
			if a.Sample.Status != tc.status && tc.status != -1 {
				t.Errorf("status %d, want %d", a.Sample.Status, tc.status)
			}
			if (a.Err == "") != (c.Class == jobs.Class2xx) {
				t.Errorf("class %s with error %q", c.Class, a.Err)
			}
			if tc.onWire >= 0 {
				s.wantRequests(tc.onWire)
			}
			if a.Duration <= 0 || a.Duration > patience+5*time.Second {
				t.Errorf("duration %v", a.Duration)
			}
		})
	}
}

// drip sends a header so slowly that it never ends in time.
func drip(p *peer) {
	for _, b := range []byte("HTTP/1.1 200 OK\r\nX-Slow: " + strings.Repeat("a", 200)) {
		if _, err := p.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func endless1xx(p *peer) {
	hint := []byte("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
	for {
		if _, err := p.Write(hint); err != nil {
			return
		}
	}
}

// early413 refuses on the header and never reads the body.
func early413(p *peer) {
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return
		}
		if line == "\r\n" {
			break
		}
	}
	p.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := startFault(t, nil, afterRequest(func(p *peer) { p.say(okAnswer) }))
	for status, row := range map[int]string{301: "H301", 302: "H301", 303: "H303", 307: "H307", 308: "H307"} {
		for name, location := range map[string]string{"elsewhere": other.url() + "/v1/charges", "unreadable": "http://[::1", "none": ""} {
			t.Run(fmt.Sprintf("%d/%s", status, name), func(t *testing.T) {
				t.Parallel()
				s := startFault(t, nil, afterRequest(func(p *peer) {
					header := ""
					if location != "" {
						header = "Location: " + location + "\r\n"
					}
					p.say(fmt.Sprintf("HTTP/1.1 %d Moved\r\n%sContent-Length: 0\r\n\r\n", status, header))
				}))
				a := New(Options{}).Send(t.Context(), testCall(s.url()))
				if c := checkAnswer(t, a); c.Row != row || a.Sample.Status != status {
					t.Errorf("row %s, status %d (%s), want %s", c.Row, a.Sample.Status, a.Err, row)
				}
				if s.seen(wire) != 1 || other.seen(wire) != 0 {
					t.Errorf("requests: %d here, %d elsewhere, want 1 and 0", s.seen(wire), other.seen(wire))
				}
			})
		}
	}
}

func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + closed.Addr().String()
	closed.Close()
	for name, tc := range map[string]struct {
		base     string
		resolver *net.Resolver
		row      string
	}{
		"refused":               {refused, nil, "N05"},
		"no such name":          {"http://gateway.invalid.", fakeDNS(t, 3), "N03"},
		"resolver fails":        {"http://gateway.invalid.", fakeDNS(t, 2), "N04"},
		"resolver says nothing": {"https://gateway.invalid.", fakeDNS(t, -1), "N04"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := testCall(tc.base)
			if name == "resolver says nothing" {
				call.SendBy = 300 * time.Millisecond
			}
			a := New(Options{Resolver: tc.resolver}).Send(t.Context(), call)
			c := checkAnswer(t, a)
			if c.Row != tc.row || c.Outcome != jobs.OutcomeNotSent || a.WireBytes != 0 || a.Err == "" {
				t.Errorf("got %+v, row %s, want %s and not sent", a, c.Row, tc.row)
			}
		})
	}
}

// fakeDNS is a resolver whose server answers every question with the code; below
// 0 it does not answer.
func fakeDNS(t *testing.T, rcode int) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ended by closing pc; the cleanup waits for it
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if rcode < 0 || n < 12 {
				continue
			}
			end := 12
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			end += 5 // the root label, type and class
			reply := append([]byte{}, buf[:end]...)
			reply[2], reply[3] = 0x81, 0x80|byte(rcode)
			copy(reply[6:12], make([]byte, 6)) // no records
			_, _ = pc.WriteTo(reply, from)
		}
	}()
	// The resolver goes on reading after its caller has given up, until its own
	// timeout: its sockets are closed with the test, and it gets no new ones.
	var mu sync.Mutex // guards sockets and over
	var sockets []net.Conn
	over := false
	t.Cleanup(func() {
		pc.Close()
		<-done
		mu.Lock()
		defer mu.Unlock()
		over = true
		for _, c := range sockets {
			c.Close()
		}
	})
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return nil, net.ErrClosed
		}
		c, err := net.Dial("udp", pc.LocalAddr().String())
		if err == nil {
			sockets = append(sockets, c)
		}
		return c, err
	}}
}

func TestCancelledByTheCaller(t *testing.T) {
	t.Parallel()
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		s := startFault(t, nil, afterRequest(func(p *peer) { p.say(okAnswer) }))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("shutting down"))
		a := New(Options{}).Send(ctx, testCall(s.url()))
		if c := checkAnswer(t, a); c.Row != "N02" || s.seen(wire) != 0 {
			t.Errorf("row %s (%s), %d requests, want N02 and 0", c.Row, a.Err, s.seen(wire))
		}
	})
	t.Run("while resolving", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("shutting down"))
		stop := time.AfterFunc(50*time.Millisecond, cancel)
		defer stop.Stop()
		a := New(Options{Resolver: fakeDNS(t, -1)}).Send(ctx, testCall("http://gateway.invalid."))
		if c := checkAnswer(t, a); c.Row != "N02" {
			t.Errorf("row %s (%s), want N02", c.Row, a.Err)
		}
	})
	t.Run("while waiting for the answer", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		s := startFault(t, nil, afterRequest(func(p *peer) { cancel(errors.New("shutting down")); _ = p.untilGone() }))
		a := New(Options{}).Send(ctx, testCall(s.url()))
		if c := checkAnswer(t, a); c.Row != "N13" || c.Outcome != jobs.OutcomeUnknown || s.seen(wire) != 1 {
			t.Errorf("row %s (%s), %d requests, want N13 and 1", c.Row, a.Err, s.seen(wire))
		}
	})
}

func TestASecondConnectionOfACallIsRefused(t *testing.T) {
	t.Parallel()
	s := startFault(t, nil, func(p *peer) { _ = p.untilGone() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	call := testCall(s.url())
	x := New(Options{}).newExchange(ctx, call)
	first, err := x.dial(ctx, s.ln.Addr().String(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write([]byte("POST")); err != nil {
		t.Fatal(err)
	}
	if _, err := x.dial(ctx, s.ln.Addr().String(), false); !errors.Is(err, errEnded) {
		t.Errorf("second dial: %v, want %v", err, errEnded)
	}
	if a := x.failure(ending{err: errEnded}); a.Sample.Phase != policy.PhaseHiddenResend {
		t.Errorf("phase %s, want %s", a.Sample.Phase, policy.PhaseHiddenResend)
	}
	if sent := x.end(false); sent != 4 {
		t.Errorf("sent %d bytes, want 4", sent)
	}
}
