package redrive

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"

	"redrive/internal/redistest"
)

// endsGoroutine calls Do with a sender that ends its goroutine, as t.FailNow does, and
// returns once that has ended. sent: it has made the call before.
func (b *bundle) endsGoroutine(c *Client, o Operation, sent bool) {
	b.Helper()
	ended := make(chan struct{}) // closed by the goroutine, whatever ends it
	go func() {                  // ends with Do
		defer close(ended)
		_, err := c.Do(b.Context(), o, func(ctx context.Context, a *Attempt) (Reply, error) {
			if sent {
				if _, err := a.Send(ctx); err != nil {
					b.Error(err)
				}
			}
			runtime.Goexit()
			return Reply{}, nil
		})
		b.Errorf("Do returned %v: the end of the goroutine did not go on", err)
	}()
	<-ended
	c.underway.mu.Lock()
	defer c.underway.mu.Unlock()
	if n := c.underway.n; n != 0 {
		b.Errorf("%d calls are still under way", n)
	}
}

// What such a sender may have sent was written down by nobody in light mode, and only once
// its claim's lease was over in durable mode.
func TestASenderThatEndedItsGoroutineLeftNoTrace(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, mode)
			for key, sent := range map[string]bool{"after": true, "before": false} {
				b.endsGoroutine(b.Client, charge("c-"+key), sent)
				b.endsGoroutine(b.Client, payout("p-"+key), sent)
			}
			for id, want := range map[[2]string]State{{"charge", "c-before"}: Waiting, {"payout", "p-before"}: Unresolved, {"charge", "c-after"}: Succeeded, {"payout", "p-after"}: Succeeded} {
				r, err := b.Get(t.Context(), id[0], id[1])
				switch {
				case b.o.Mode == Light && want == Succeeded: // its success is known, and nothing is left to do
					if !errors.Is(err, ErrNotFound) {
						t.Errorf("%v: %+v, %v", id, r, err)
					}
				case err != nil || r.State != want || want != Succeeded && r.Applied != AppliedUnknown:
					t.Errorf("%v: %+v, %v, want it %s", id, r, err, want)
				}
			}
			b.worker()
			b.awaitState("charge", "c-before", Succeeded)
			b.awaitState("payout", "p-before", Succeeded)
			for _, reference := range []string{"c-before", "p-before", "c-after", "p-after"} {
				b.wantEffects(reference, 1)
			}
		})
	}
}

// With Redis away as well it is in the spool; without one at least the log says so, as Do
// returns its error to nobody.
func TestASenderThatEndedItsGoroutineWhileRedisWasAwayIsSpooled(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, nil, srv)
	var told bytes.Buffer
	bare := b.another(func(o *Options) {
		o.Mode, o.Log = Light, slog.New(slog.NewTextHandler(&told, nil))
	})
	spools := b.another(func(o *Options) { o.Mode, o.Spool = Light, b.spoolAt })
	srv.Kill9()
	b.endsGoroutine(spools, payout("p-spooled"), false)
	b.endsGoroutine(bare, payout("p-told"), false)
	if text, err := os.ReadFile(b.spoolAt); err != nil || !strings.Contains(string(text), `"p-spooled"`) || !strings.Contains(string(text), `"unknown"`) {
		t.Errorf("the spool holds %q, %v", text, err)
	}
	bare.Close() // nobody writes to its log any more
	if text := told.String(); !strings.Contains(text, "nobody knows of it") || !strings.Contains(text, "payout/p-told") || strings.Contains(text, "4200") {
		t.Errorf("the log says %q", text)
	}
}
