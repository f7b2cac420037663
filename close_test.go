package redrive

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// A Do after Close charged, and nobody wrote it down: its ledger connection was gone.
func TestNothingIsSentByAClientThatIsClosed(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil)
			c := b.another(mode)
			c.Close()
			ctx := t.Context()
			s := &scripted{turn: []func() (Reply, error){status(200)}}
			var events error
			for _, events = range c.Events(ctx, "") {
			}
			_, do := c.Do(ctx, charge("c-1"), nil)
			_, call := c.Call(ctx, "payrail", s.read)
			_, submit := c.Submit(ctx, charge("c-2"))
			many, submitMany := c.SubmitMany(ctx, []Operation{charge("c-3"), charge("c-4")})
			_, get := c.Get(ctx, "charge", "c-1")
			_, cancel := c.Cancel(ctx, "charge", "c-1", "")
			_, reconcile := c.Reconcile(ctx, "charge", "c-1", time.Time{}, "")
			_, wait := c.Wait(ctx, "charge", "c-1")
			for method, err := range map[string]error{"Do": do, "Call": call, "Submit": submit, "SubmitMany": submitMany, "Get": get, "Cancel": cancel,
				"Reconcile": reconcile, "Wait": wait, "Events": events} {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("%s: %v", method, err)
				}
			}
			if n := b.gateway.Stats().Requests; n != 0 || s.calls != 0 || len(many) != 2 {
				t.Errorf("%d requests and %d reads were sent; %d receipts of 2", n, s.calls, len(many))
			}
		})
	}
}

// What had begun before Close could neither write its result nor spool it.
func TestWhatIsUnderWayWhenTheClientClosesIsWritten(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"Close waits for it": time.Minute, "Close has returned": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil)
			c := b.another(nil)
			c.closeWait = wait
			begun, closing, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() { // ends with its sender
				_, err := c.Do(context.WithoutCancel(t.Context()), charge("c-1"), func(ctx context.Context, a *Attempt) (Reply, error) {
					close(begun)
					<-closing
					return a.Send(ctx)
				})
				done <- err
			}()
			<-begun
			closed := make(chan struct{})
			go func() { // ends when the client has
				defer close(closed)
				c.Close()
			}()
			await(t, "Close to begin", c.underway.isClosed)
			if wait < time.Second {
				<-closed
			}
			if _, err := c.Do(t.Context(), charge("c-2"), nil); !errors.Is(err, ErrClosed) {
				t.Errorf("a Do beside it: %v", err)
			}
			close(closing)
			if err := <-done; err != nil {
				t.Errorf("what was under way: %v", err)
			}
			<-closed
			if r, err := b.Get(t.Context(), "charge", "c-1"); err != nil || r.State != Succeeded {
				t.Errorf("the ledger has %+v, %v", r, err)
			}
			if err := c.rdb.Ping(t.Context()).Err(); err == nil {
				t.Error("the connections are open still: nobody ended the client")
			}
			b.wantEffects("c-1", 1)
			b.wantEffects("c-2", 0)
		})
	}
}

func TestAHandOverThatEndsAfterCloseIsSpooled(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, nil, srv)
	c := b.another(func(o *Options) { o.Mode, o.Spool = Light, b.spoolAt })
	c.closeWait = time.Millisecond
	var failed *HandoverError
	_, err := c.Do(t.Context(), payout("p-1"), func(context.Context, *Attempt) (Reply, error) {
		srv.Kill9()
		c.Close() // a sender that closes its own client must not wait for itself
		return Reply{}, errors.New("connection reset")
	})
	text, readErr := os.ReadFile(b.spoolAt)
	if !errors.As(err, &failed) || !failed.Spooled || readErr != nil || !strings.Contains(string(text), `"key":"p-1"`) {
		t.Fatalf("got %v; the spool has %q, %v", err, text, readErr)
	}
	if next, err := openSpool(b.spoolAt, c.o.Log); err != nil {
		t.Errorf("the spool was not given back: %v", err)
	} else if err := next.close(); err != nil {
		t.Error(err)
	}
}

// Events with a Redis of one's own went on for ever after Close.
func TestEventsOverARedisOfOnesOwnEndWithTheClient(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c, _ := b.counted(Durable)
	go func() { // ends with the test's submissions
		for ; !c.underway.isClosed(); pause(t.Context(), 10*time.Millisecond) {
			_, _ = b.Submit(t.Context(), charge("c-"+time.Now().Format("150405.000000")))
		}
	}()
	var last error
	for _, err := range c.Events(t.Context(), "") {
		c.Close()
		last = err
	}
	if !errors.Is(last, ErrClosed) {
		t.Errorf("got %v", last)
	}
}

func TestCallDoesNotTryAgainOnceTheClientIsClosed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c := b.another(nil)
	c.closeWait = time.Millisecond
	calls := 0
	_, err := c.Call(t.Context(), "payrail", func(context.Context) (Reply, error) {
		calls++
		c.Close()
		return Reply{Status: http.StatusServiceUnavailable}, nil
	})
	var stopped *Stopped
	if !errors.As(err, &stopped) || stopped.Reason != StopClosed || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestATransportGoesOnUncountedAfterClose(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c := b.another(nil)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: c.Transport("payrail", base)}
	c.Close()
	resp, err := client.Get(b.url + "/v1/charges?reference=x")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	g, err := b.Client.ledger.Gate(t.Context(), "payrail")
	if err != nil || g.Gate.Window().Firsts != 0 {
		t.Errorf("%d first attempts counted, %v", g.Gate.Window().Firsts, err)
	}
}
