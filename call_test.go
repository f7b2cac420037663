package redrive

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/redistest"
)

func TestCallRetriesWithinItsBounds(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	first := errors.New("connection reset")
	for name, tc := range map[string]struct {
		ctx   context.Context
		turn  []func() (Reply, error)
		calls int
		stop  Stop // "": it succeeds
	}{
		"a success":                   {t.Context(), []func() (Reply, error){status(200)}, 1, ""},
		"a success the second time":   {t.Context(), []func() (Reply, error){status(503), status(200)}, 2, ""},
		"what no retry changes":       {t.Context(), []func() (Reply, error){status(404)}, 1, StopPermanent},
		"often enough":                {t.Context(), []func() (Reply, error){func() (Reply, error) { return Reply{}, first }, status(500), status(500)}, 3, StopAttempts},
		"a Retry-After past the time": {short, []func() (Reply, error){status(503, "Retry-After", "60")}, 1, StopDeadline},
	} {
		s := &scripted{turn: tc.turn}
		reply, err := b.Call(tc.ctx, "payrail", s.read)
		var stopped *Stopped
		switch {
		case tc.stop == "" && (err != nil || reply.Status != 200):
			t.Errorf("%s: %+v, %v", name, reply, err)
		case tc.stop != "" && (!errors.As(err, &stopped) || stopped.Reason != tc.stop || stopped.Tries != tc.calls || stopped.First == nil):
			t.Errorf("%s: %v, want %s after %d", name, err, tc.stop, tc.calls)
		case name == "often enough" && !errors.Is(err, first):
			t.Errorf("the first error is lost: %v", err)
		}
		if s.calls != tc.calls {
			t.Errorf("%s: %d calls, want %d", name, s.calls, tc.calls)
		}
	}
}

// A used-up budget is everybody's, and who is refused by it waits for nothing.
func TestCallStopsWhereTheSharedBudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	zero := map[string]int64{"ratio": 0, "floor": 0, "cap": 3}
	if _, err := b.Client.ledger.Override(t.Context(), "payrail", zero, time.Minute, b.who("test")); err != nil {
		t.Fatal(err)
	}
	another := b.another(nil)
	retries, refused := 0, 0
	for i := range 12 {
		c := b.Client
		if i%2 == 1 {
			c = another
		}
		s := &scripted{turn: []func() (Reply, error){status(500)}}
		_, err := c.Call(t.Context(), "payrail", s.read)
		var stopped *Stopped
		if !errors.As(err, &stopped) {
			t.Fatal(err)
		}
		retries += s.calls - 1
		if stopped.Reason == StopBudget {
			refused++
		}
	}
	if retries > 3 || refused < 9 {
		t.Errorf("%d retries for a budget of 3, %d calls stopped by it", retries, refused)
	}
}

func TestCallDoesNotRetryWithoutTheBudget(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, nil, srv)
	srv.Kill9()
	s := &scripted{turn: []func() (Reply, error){status(500)}}
	_, err := b.Call(t.Context(), "payrail", s.read)
	var stopped *Stopped
	if !errors.As(err, &stopped) || stopped.Reason != StopLedger || s.calls != 1 {
		t.Errorf("%d calls, %v", s.calls, err)
	}
}

// net/http sends a GET again when the connection it had kept is dead: here it must not.
// It wrote a header into a map that was not there, and read the context of no request.
func TestATransportPanickedOnARequestThatIsNotWhole(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	target := &url.URL{Scheme: "http", Host: "payrail.test"}
	for missing, req := range map[string]*http.Request{"Request": nil, "Request.URL": {Header: http.Header{}}, "Request.Header": {URL: target}} {
		body := &closing{Reader: strings.NewReader("{}")}
		if req != nil {
			req.Method, req.Body = http.MethodPost, body
		}
		resp, err := b.Transport("payrail", nil).RoundTrip(req)
		if resp != nil || err == nil || !strings.HasSuffix(err.Error(), "nil "+missing) {
			t.Errorf("without %s: %v, %v", missing, resp, err)
		}
		if req != nil && !body.closed {
			t.Errorf("without %s: its body is left open", missing)
		}
	}
}

func TestATransportSendsARequestOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			_, _ = io.WriteString(w, r.Header.Get("Redrive-Attempt"))
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack() // the kept connection dies with the request
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}))
	t.Cleanup(server.Close)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: b.Transport("payrail", base)}
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(text) != "1" {
		t.Errorf("Redrive-Attempt %q", text)
	}
	if resp, err := client.Get(server.URL); err == nil {
		resp.Body.Close()
		t.Error("the second call succeeded")
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests on the wire for 2 calls", n)
	}
	// Both are first attempts of the budget.
	await(t, "the first attempts to be counted", func() bool {
		g, err := b.Client.ledger.Gate(t.Context(), "payrail")
		return err == nil && g.Gate.Window().Firsts == 2
	})
}
