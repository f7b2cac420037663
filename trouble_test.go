package redrive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/redistest"
	"redrive/internal/sandbox"
)

// warm makes the client's connections and scripts ready, so that a write-ahead is on its
// way to Redis when that stops.
func (b *bundle) warm() {
	b.Helper()
	for i := range 5 {
		if _, err := b.Do(b.Context(), charge(fmt.Sprint("warm-", i)), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// A write-ahead that Redis runs after its caller has given up: what the caller was told
// must stay true.
func TestAWriteAheadWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, func(o *Options) { o.Reserve = 100 * time.Millisecond }, srv)
	b.warm()
	srv.Freeze()
	_, none := b.Do(t.Context(), payout("p-1"), nil)
	reply, keyed := b.Do(t.Context(), charge("c-1"), nil)
	b.fault(sandbox.Decline)
	var declined *Permanent
	_, told := b.Do(t.Context(), charge("c-2"), nil)
	srv.Thaw()
	if !errors.Is(none, ErrNoLedger) || keyed != nil || reply.Status != 201 || !errors.As(told, &declined) {
		t.Fatalf("class none: %v; keyed: %v; declined: %v", none, keyed, told)
	}
	b.fault(sandbox.None)
	before := b.gateway.Stats().Requests
	b.worker()
	await(t, "what was on its way to be settled", func() bool {
		for _, name := range [][2]string{{"payout", "p-1"}, {"charge", "c-1"}, {"charge", "c-2"}} {
			if r, err := b.Get(t.Context(), name[0], name[1]); !errors.Is(err, ErrNotFound) && (err != nil || !r.State.Ended()) {
				return false
			}
		}
		return true
	})
	if r, err := b.Get(t.Context(), "payout", "p-1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("nothing was to be kept of p-1: %+v, %v", r, err)
	}
	if r, err := b.Get(t.Context(), "charge", "c-2"); err == nil && r.State != Cancelled {
		t.Errorf("its customer was told of a decline: %+v", r)
	}
	if now := b.gateway.Stats().Requests; now != before {
		t.Errorf("%d calls more than the customers' own", now-before)
	}
	b.wantEffects("p-1", 0)
	b.wantEffects("c-1", 1)
	b.wantEffects("c-2", 0)
}

// A decline that the ledger was not told of may be tried again: the customer must not
// hear that it is the end.
func TestADeclineThatIsNotRecordedIsNoEnd(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, func(o *Options) { o.Reserve = 100 * time.Millisecond }, srv)
	b.warm()
	_, err := b.Do(t.Context(), charge("c-1"), func(context.Context, *Attempt) (Reply, error) {
		srv.Freeze()
		return Reply{Status: http.StatusPaymentRequired, Body: []byte(`{}`)}, nil
	})
	srv.Thaw()
	var deferred *Deferred
	var declined *Permanent
	if !errors.As(err, &deferred) || !errors.As(deferred.Cause, &declined) {
		t.Fatalf("got %v", err)
	}
	b.awaitState("charge", "c-1", Cancelled) // as soon as Redis is back
}

// A sender that comes back after its claim's lease finds that others went on.
func TestASenderThatComesBackTooLate(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.worker()
	_, err := b.Do(t.Context(), charge("c-1"), func(context.Context, *Attempt) (Reply, error) {
		r := b.awaitState("charge", "c-1", Succeeded) // by the worker, once the lease is over
		return Reply{Status: http.StatusPaymentRequired, Body: r.Answer}, nil
	})
	if err != nil {
		t.Errorf("the ledger knows of a success, and the customer hears %v", err)
	}
	b.wantEffects("c-1", 1)
}

func TestASenderThatSendsElsewhereIsBelieved(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	down := b.another(func(o *Options) {
		o.ConfigFile, o.Namespace = "", b.o.Namespace+"down"
		o.Dependencies = []Dependency{{Name: "payrail", BaseURL: "http://127.0.0.1:1"}}
		o.Kinds = []Kind{{Name: "payout", Dependency: "payrail", Path: "/v1/charges"}}
	})
	reply, err := down.Do(t.Context(), payout("p-1"), func(ctx context.Context, a *Attempt) (Reply, error) {
		_, err := a.Send(ctx)
		if !errors.Is(err, ErrNotSent) {
			t.Errorf("nobody listens there: %v", err)
		}
		return Reply{Status: 201, Body: []byte(`{"id":"x"}`)}, nil
	})
	if err != nil || reply.Status != 201 {
		t.Errorf("got %v", err)
	}
}

func TestADeadLetterOfUnknownOutcomeIsNoDecline(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	bare := b.another(func(o *Options) {
		o.ConfigFile, o.Namespace = "", b.o.Namespace+"bare"
		o.Dependencies = []Dependency{{Name: "payrail", BaseURL: b.url, Timeout: 500 * time.Millisecond}}
		o.Kinds = []Kind{{Name: "payout", Dependency: "payrail", Path: "/v1/charges"}} // class none, and nobody can be asked
	})
	b.fault(sandbox.LostReplies)
	for range 2 {
		var deferred *Deferred
		if _, err := bare.Do(t.Context(), payout("p-1"), nil); !errors.As(err, &deferred) || deferred.Receipt.State != Dead {
			t.Errorf("got %v, want it deferred to a person", err)
		}
	}
	b.wantEffects("p-1", 1)
}

func TestAMissingSecretDeclinesNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	text, err := os.ReadFile(b.config)
	if err != nil {
		t.Fatal(err)
	}
	path := b.config + ".secret.yaml"
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "timeout: 500ms", "headers: {Authorization: 'Bearer ${REDRIVE_TEST_NOT_SET}'}, timeout: 500ms", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := b.another(func(o *Options) { o.ConfigFile = path })
	var wrong *Invalid
	if _, err := c.Do(t.Context(), charge("c-1"), nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "REDRIVE_TEST_NOT_SET") {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Get(t.Context(), "charge", "c-1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is kept: %v", err)
	}
}

func TestWhoWaitsForRedisWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, nil, srv)
	srv.Freeze()
	defer srv.Thaw()
	var asked atomic.Bool
	go func() { // ends with Redis
		asked.Store(true)
		_, _ = b.Get(context.WithoutCancel(t.Context()), "charge", "c-1")
	}()
	await(t, "the other call", asked.Load)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, _ = b.Do(ctx, charge("c-2"), nil)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a Do that had 400ms took %s", took)
	}
}

func TestTheSpool(t *testing.T) {
	t.Parallel()
	line := func(kind, key, body string) []byte {
		return fmt.Appendf(nil, `{"kind":%q,"key":%q,"body_text":%q,"deadline":"2h"}`, kind, key, body)
	}
	t.Run("a line of any length is delivered", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		c := b.another(func(o *Options) { o.Spool = b.spoolAt })
		big := line("charge", "big", strings.Repeat("x", 200_000))
		big = append(append([]byte("{"), bytes.Repeat([]byte(" "), 2<<20)...), big[1:]...)
		for _, l := range [][]byte{big, line("charge", "small", `{"a":1}`)} {
			if err := c.spool.add(l); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"big", "small"} {
			await(t, key, func() bool { _, err := c.Get(t.Context(), "charge", key); return err == nil })
		}
	})
	t.Run("what is refused for now holds nobody up", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		text, err := os.ReadFile(b.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.config, []byte(strings.Replace(string(text), "operations:\n", fmt.Sprintf("  full: {base_url: '%s', max_backlog: 1}\noperations:\n  refund: {dependency: full, request: {method: POST, path: /v1/refunds}}\n", b.url), 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		c := b.another(func(o *Options) { o.Spool = b.spoolAt })
		for _, l := range [][]byte{line("refund", "r-1", "{}"), line("refund", "r-2", "{}"), line("charge", "c-1", "{}"), []byte("garbage"), line("transfer", "t-1", "{}")} {
			if err := c.spool.add(l); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "the other dependency's", func() bool { _, err := c.Get(t.Context(), "charge", "c-1"); return err == nil })
		await(t, "one line to be left", func() bool {
			text, err := os.ReadFile(b.spoolAt)
			return err == nil && strings.Count(string(text), "\n") == 1 && strings.Contains(string(text), "r-2")
		})
		await(t, "the rejected", func() bool {
			text, err := os.ReadFile(b.spoolAt + ".rejected")
			return err == nil && strings.Contains(string(text), "garbage") && strings.Contains(string(text), "t-1")
		})
	})
	t.Run("a line that was cut is apart", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		if err := os.WriteFile(b.spoolAt, []byte(`{"kind":"charge","key":"cut`), 0o600); err != nil {
			t.Fatal(err)
		}
		c := b.another(func(o *Options) { o.Spool = b.spoolAt })
		if err := c.spool.add(line("charge", "whole", "{}")); err != nil {
			t.Fatal(err)
		}
		await(t, "the whole one", func() bool { _, err := c.Get(t.Context(), "charge", "whole"); return err == nil })
		if _, err := New(t.Context(), Options{RedisURL: b.srv.URL(), ConfigFile: b.config, Spool: b.spoolAt}); err == nil {
			t.Error("two clients have one spool")
		}
	})
	t.Run("a deadline does not begin anew", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Server(t)
		b := setup(t, func(o *Options) { o.Spool = "" }, srv)
		c := b.another(func(o *Options) { o.Spool = b.spoolAt })
		if _, err := c.ledger.Pause(t.Context(), "payrail", 0, c.who("test")); err != nil {
			t.Fatal(err)
		}
		if err := c.ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, "the gate's word", func() bool { state, ok := c.path.State("payrail"); return ok && state.Hold != "" })
		srv.Kill9()
		o := charge("c-1")
		o.Within = time.Minute
		var failed *HandoverError
		if _, err := c.Do(t.Context(), o, nil); !errors.As(err, &failed) || !failed.Spooled || strings.Contains(string(failed.Submission), `"deadline":"1m0s"`) {
			t.Errorf("got %v, %s", err, failed.Submission)
		}
	})
}

// A Redis that refused connections cost every request half a second before it heard so.
func TestARefusedConnectionIsNotTriedAgainByEachRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	rdb, ok := b.rdb.(*redis.Client)
	if !ok || rdb.Options().DialerRetries != 1 || rdb.Options().MaxRetries != 0 {
		t.Errorf("%T dials %d times and repeats a command %d times, want once and never", b.rdb, rdb.Options().DialerRetries, rdb.Options().MaxRetries)
	}
}
