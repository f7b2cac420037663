package redrive

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/gateway"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/sandbox"
)

// slow is a Redis that takes its time for the first command of a marked context: reply runs
// when the command is done, and what it returns is what the caller gets.
type slow struct {
	asked atomic.Pointer[time.Time] // when that command came: Do had begun by then
	bound atomic.Int64              // how long its caller would wait for it, in ns
	reply func(asked time.Time, err error) error
}

func (h *slow) mark(ctx context.Context) context.Context {
	return context.WithValue(ctx, marked{}, h)
}

// DialHook implements [redis.Hook].
func (h *slow) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (h *slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook].
func (h *slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		now := time.Now()
		err := next(ctx, cmd)
		if ctx.Value(marked{}) == h && h.asked.CompareAndSwap(nil, &now) {
			if by, ok := ctx.Deadline(); ok {
				h.bound.Store(int64(by.Sub(now)))
			}
			err = h.reply(now, err)
			cmd.SetErr(err)
		}
		return err
	}
}

// takes is a reply that comes so long after the command, whoever waits for it.
func takes(d time.Duration) func(time.Time, error) error {
	return func(asked time.Time, err error) error {
		time.Sleep(time.Until(asked.Add(d)))
		return err
	}
}

// lost is a reply that never comes, which its caller finds out after so long.
func lost(d time.Duration) func(time.Time, error) error {
	return func(asked time.Time, _ error) error {
		time.Sleep(time.Until(asked.Add(d)))
		return errors.New("no reply")
	}
}

// slowly makes a client of a Redis that is slow. The calls of its gateway may take long, and
// need at least so much time.
func (b *bundle) slowly(minResponse string, reply func(time.Time, error) error) (*Client, *slow) {
	b.Helper()
	text, err := os.ReadFile(b.config)
	if err != nil {
		b.Fatal(err)
	}
	path := b.config + "." + minResponse + ".yaml"
	patient := strings.NewReplacer("timeout: 500ms, min_response: 20ms", "timeout: 1m, min_response: "+minResponse, "window: 10s", "window: 2m", "settle: 500ms", "settle: 2m")
	if err := os.WriteFile(path, []byte(patient.Replace(string(text))), 0o600); err != nil {
		b.Fatal(err)
	}
	rdb, err := ledger.Connect(b.srv.URL(), ledger.ConnectOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rdb.Close() })
	h := &slow{reply: reply}
	rdb.AddHook(h)
	return b.another(func(o *Options) {
		o.RedisURL, o.Redis, o.ConfigFile = "", rdb, path
	}), h
}

var bothKinds = []func(string) Operation{charge, payout}

// wantNothingKept waits for the end of what may have been written ahead.
func (b *bundle) wantNothingKept(o Operation) {
	b.Helper()
	await(b.T, o.Kind+" to be withdrawn", func() bool {
		_, err := b.Get(b.Context(), o.Kind, o.Key)
		return errors.Is(err, ErrNotFound)
	})
}

// The whole span counted again from the moment that Redis had answered: a sender was called,
// and sent, when the time was up.
// wantTooLate demands that an operation is not sent for its deadline, and leaves nothing.
func (b *bundle) wantTooLate(ctx context.Context, c *Client, o Operation) {
	b.Helper()
	_, err := c.Do(ctx, o, func(context.Context, *Attempt) (Reply, error) {
		b.Error("the sender is called")
		return Reply{Status: http.StatusCreated}, nil
	})
	if !errors.Is(err, ErrDeadline) {
		b.Errorf("%s: got %v", o.Kind, err)
	}
	b.wantNothingKept(o)
}

func TestASlowRedisHadASenderCalledWhenItsTimeWasUp(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, make := range bothKinds {
		c, h := b.slowly("3s", takes(1100*time.Millisecond))
		o := make("slow")
		o.Within = 4 * time.Second
		b.wantTooLate(h.mark(t.Context()), c, o)
	}
}

func TestAnAttemptOutlivedTheDeadlineByWhatTheWriteAheadTook(t *testing.T) {
	t.Parallel()
	const within = 30 * time.Second
	b := setup(t, nil)
	for name, tc := range map[string]struct {
		kinds []func(string) Operation
		reply func(time.Time, error) error
	}{
		"slow":     {bothKinds, takes(200 * time.Millisecond)},
		"fallback": {bothKinds[:1], lost(200 * time.Millisecond)},
	} {
		for _, make := range tc.kinds {
			c, h := b.slowly("20ms", tc.reply)
			o := make("outlives-" + name)
			o.Key += "-" + o.Kind
			o.Body = charge(o.Key).Body
			o.Within = within
			_, err := c.Do(h.mark(t.Context()), o, func(ctx context.Context, a *Attempt) (Reply, error) {
				by, ok := ctx.Deadline()
				if deadline := h.asked.Load().Add(within); !ok || by.After(deadline) {
					t.Errorf("%s, %s: its context ends %s after the deadline", name, o.Kind, by.Sub(deadline))
				}
				return a.Send(context.Background())
			})
			if err != nil {
				t.Errorf("%s, %s: %v", name, o.Kind, err)
			}
			b.wantEffects(o.Key, 1)
		}
	}
}

// A send after a failed write-ahead had the whole span anew, so that a gateway which took a
// while to accept it got it after the deadline.
func TestAGatewayThatAcceptedSlowlyGotItPastTheDeadline(t *testing.T) {
	t.Parallel()
	const within = time.Second
	b := setup(t, nil)
	c, h := b.slowly("20ms", lost(within/2))
	var arrived atomic.Pointer[time.Time]
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		arrived.Store(&now)
		w.WriteHeader(http.StatusCreated)
	}))
	srv.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		time.Sleep(time.Until(h.asked.Load().Add(within + 100*time.Millisecond)))
		return nil, nil
	}}
	srv.Config.ErrorLog = log.New(t.Output(), "", 0)
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	c.send = gateway.New(gateway.Options{TLS: &tls.Config{RootCAs: roots}})
	c.mu.Lock()
	spec := c.specs["charge"]
	spec.BaseURL = srv.URL
	c.specs["charge"] = spec
	c.mu.Unlock()
	o := charge("accepted-late")
	o.Within = within
	_, err := c.Do(h.mark(t.Context()), o, nil)
	if !errors.Is(err, ErrDeadline) {
		t.Errorf("got %v", err)
	}
	srv.Close() // nothing arrives any more
	if at := arrived.Load(); at != nil {
		t.Errorf("it arrived %s after the deadline", at.Sub(h.asked.Load().Add(within)))
	}
	b.wantNothingKept(o)
}

// Nothing was left for the send, though it needs no Redis.
func TestARedisThatHungTookAllTheTimeOfAKeyedOperation(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c, h := b.slowly("20ms", takes(0))
	o := charge("c-1")
	o.Within = 2800 * time.Millisecond
	_, _ = c.Do(h.mark(t.Context()), o, nil)
	if bound := time.Duration(h.bound.Load()); bound == 0 || bound > o.Within/2 {
		t.Errorf("the write-ahead may take %s of %s", bound, o.Within)
	}
}

// The monotonic clock stands still while a machine sleeps.
func TestAMachineThatSleptBetweenWriteAheadAndSend(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, make := range bothKinds {
		var slept atomic.Bool
		c, h := b.slowly("20ms", func(_ time.Time, err error) error { slept.Store(true); return err })
		c.goneFunc = func(since time.Time) time.Duration {
			if slept.Load() {
				return gateway.Gone(since) + time.Hour
			}
			return gateway.Gone(since)
		}
		o := make("slept")
		o.Within = time.Hour
		b.wantTooLate(h.mark(t.Context()), c, o)
	}
}

// Its caller heard that it was under way, and all that came of it was a dead letter.
func TestWhatWasNotSentInTimeWasHandedOver(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, mode)
			for _, make := range bothKinds {
				o := make("not-sent")
				o.Within = 300 * time.Millisecond
				_, err := b.Do(t.Context(), o, func(ctx context.Context, _ *Attempt) (Reply, error) {
					<-ctx.Done()
					return Reply{}, ErrNotSent
				})
				if !errors.Is(err, ErrDeadline) {
					t.Errorf("%s: got %v", o.Kind, err)
				}
				b.wantNothingKept(o)
			}
		})
	}
}

// A withdrawal left it waiting: a worker sent it after its caller had heard that nothing is kept.
func TestANewAttemptThatIsWithdrawnIsCancelled(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.fault(sandbox.Decline)
	var declined *Permanent
	if _, err := b.Do(t.Context(), charge("c-1"), nil); !errors.As(err, &declined) {
		t.Fatal(err)
	}
	c, _ := b.slowly("20ms", nil) // its calls may take as long as the deadline
	o := charge("c-2")
	o.Within, o.NewAttemptOf = 3*time.Second, "charge/c-1"
	_, err := c.Do(t.Context(), o, func(ctx context.Context, _ *Attempt) (Reply, error) {
		<-ctx.Done()
		return Reply{}, ErrNotSent
	})
	if !errors.Is(err, ErrDeadline) {
		t.Fatalf("got %v", err)
	}
	if r := b.awaitState("charge", "c-2", Cancelled); r.Applied != AppliedNo {
		t.Errorf("%+v", r)
	}
	if _, err := c.Do(t.Context(), o, nil); !errors.As(err, &declined) || declined.Reason != "it is cancelled" {
		t.Errorf("again: %v", err)
	}
	b.fault(sandbox.None)
	next := charge("c-3")
	next.NewAttemptOf = "charge/c-1"
	if _, err := b.Do(t.Context(), next, nil); err != nil {
		t.Errorf("another attempt: %v", err)
	}
	b.wantEffects("c-2", 0)
}

// The ledger refused it for its deadline once Redis was back: it stood in <spool>.rejected,
// and its status link led nowhere.
func TestASpooledOperationWhoseDeadlineHadPassedVanished(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, nil, srv)
	light := b.another(func(o *Options) { o.Namespace, o.Mode, o.Spool = b.o.Namespace+"light", Light, b.spoolAt+".light" })
	durable := b.another(func(o *Options) { o.Spool = b.spoolAt })
	if _, err := durable.ledger.Pause(t.Context(), "payrail", 0, durable.who("test")); err != nil {
		t.Fatal(err)
	}
	await(t, "the gate's word", func() bool { state, ok := durable.path.State("payrail"); return ok && state.Hold != "" })
	srv.Kill9()
	const within = time.Second
	tooEarly := func(context.Context, *Attempt) (Reply, error) { return Reply{Status: http.StatusTooEarly}, nil }
	for _, tc := range []struct {
		c    *Client
		o    Operation
		want Outcome
	}{{durable, payout("p-unsent"), NotSent}, {light, charge("c-refused"), Refused}} {
		tc.o.Within = within
		var failed *HandoverError
		if _, err := tc.c.Do(t.Context(), tc.o, tooEarly); !errors.As(err, &failed) || !failed.Spooled || failed.Outcome != tc.want {
			t.Errorf("%s: %v, want it spooled as %s", tc.o.Key, err, tc.want)
		}
	}
	time.Sleep(within) // both deadlines are over
	srv.Restart()
	for c, key := range map[*Client]string{durable: "payout/p-unsent", light: "charge/c-refused"} {
		kind, key, _ := strings.Cut(key, "/")
		var r *Record
		await(t, key, func() bool {
			var err error
			r, err = c.Get(t.Context(), kind, key)
			return err == nil
		})
		if r == nil {
			continue
		}
		if r.State != Dead || r.Reason != "deadline" || r.Applied != AppliedNo {
			t.Errorf("%s: %+v", key, r)
		}
		if text, err := os.ReadFile(c.spool.path + ".rejected"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("rejected: %s, %v", text, err)
		}
	}
}
