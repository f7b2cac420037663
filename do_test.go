package redrive

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"redrive/internal/redistest"
	"redrive/internal/sandbox"
)

var modes = map[string]func(*Options){"durable": nil, "light": func(o *Options) { o.Mode = Light }}

func TestDoReturnsWhatTheGatewayAnswered(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, mode)
			reply, err := b.Do(t.Context(), charge("order-1"), nil)
			if err != nil || reply.Status != 201 || reply.Result["id"] == "" || !strings.Contains(string(reply.Body), "succeeded") {
				t.Fatalf("got %+v, %v", reply, err)
			}
			b.wantEffects("order-1", 1)
			b.fault(sandbox.Decline)
			var declined *Permanent
			if _, err := b.Do(t.Context(), charge("order-2"), nil); !errors.As(err, &declined) || declined.Class != "4xx" {
				t.Fatalf("declined: %v", err)
			}
			b.wantEffects("order-2", 0)
			record, err := b.Get(t.Context(), "charge", "order-2")
			switch {
			case mode != nil && !errors.Is(err, ErrNotFound):
				t.Errorf("light mode kept a decline: %+v, %v", record, err)
			case mode == nil && (err != nil || record.State != Cancelled):
				t.Errorf("a decline that the customer knows of is %+v, %v: want it cancelled, no dead letter", record, err)
			}
		})
	}
}

func TestDoHandsOverWhatFailed(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		for fault, want := range map[sandbox.Mode]Outcome{sandbox.Down: Refused, sandbox.LostReplies: Unknown} {
			t.Run(name+" "+string(fault), func(t *testing.T) {
				t.Parallel()
				b := setup(t, mode)
				b.fault(fault)
				for _, o := range []Operation{charge("c-1"), payout("p-1")} {
					var deferred *Deferred
					_, err := b.Do(t.Context(), o, nil)
					if !errors.As(err, &deferred) {
						t.Fatalf("%s: %v", o.Kind, err)
					}
					if deferred.Outcome != want && fault != sandbox.Down || deferred.Cause == nil || deferred.Receipt.State.Ended() {
						t.Errorf("%s: %+v, want %s", o.Kind, deferred, want)
					}
				}
				b.fault(sandbox.None)
				b.worker()
				b.awaitState("charge", "c-1", Succeeded)
				b.awaitState("payout", "p-1", Succeeded)
				b.wantEffects("c-1", 1)
				b.wantEffects("p-1", 1)
			})
		}
	}
}

// A sender that panics has perhaps sent: the panic goes on, and the operation too.
func TestWhatAPanickingSenderSentIsWrittenDown(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	type dead struct{}
	for key, send := range map[string]SendFunc{
		"after": func(ctx context.Context, a *Attempt) (Reply, error) {
			if _, err := a.Send(ctx); err != nil {
				t.Error(err)
			}
			panic(dead{})
		},
		"before": func(context.Context, *Attempt) (Reply, error) { panic(dead{}) },
	} {
		for _, o := range []Operation{charge("c-" + key), payout("p-" + key)} {
			func() {
				defer func() {
					if p := recover(); p != (dead{}) {
						t.Errorf("%s: the panic of the sender became %v", o.Kind, p)
					}
				}()
				_, _ = b.Do(t.Context(), o, send)
			}()
		}
	}
	b.worker()
	for _, key := range []string{"after", "before"} {
		b.awaitState("charge", "c-"+key, Succeeded)
		b.awaitState("payout", "p-"+key, Succeeded)
		b.wantEffects("c-"+key, 1)
		b.wantEffects("p-"+key, 1)
	}
}

func TestDoDoesNotSendWhatIsKnown(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ctx := t.Context()
	if _, err := b.Do(ctx, charge("done"), nil); err != nil {
		t.Fatal(err)
	}
	reply, err := b.Do(ctx, charge("done"), nil)
	if err != nil || reply.Result["id"] == "" {
		t.Fatalf("the second time: %+v, %v", reply, err)
	}
	other := charge("done")
	other.Body = []byte(`{"amount":1,"currency":"GBP","reference":"done"}`)
	var clash *Clash
	if _, err := b.Do(ctx, other, nil); !errors.As(err, &clash) || len(clash.Receipt.Differs) == 0 {
		t.Errorf("another amount: %v", err)
	}
	b.fault(sandbox.LostReplies)
	_, _ = b.Do(ctx, payout("lost"), nil)
	requests := b.gateway.Stats().Requests
	var deferred *Deferred
	if _, err := b.Do(ctx, payout("lost"), nil); !errors.As(err, &deferred) {
		t.Errorf("what is under way: %v", err)
	}
	if now := b.gateway.Stats().Requests; now != requests {
		t.Errorf("it was sent %d times more", now-requests)
	}
	b.wantEffects("done", 1)
}

func TestWhatMustNotBeIsSaidBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	past, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // less than the reserve
	defer cancel()
	late := charge("late")
	late.Deadline = time.Now().Add(-time.Minute)
	for name, tc := range map[string]struct {
		ctx context.Context
		o   Operation
		is  error
	}{
		"no time for an honest answer": {past, charge("a"), ErrDeadline},
		"past its deadline":            {t.Context(), late, ErrDeadline},
	} {
		if _, err := b.Do(tc.ctx, tc.o, nil); !errors.Is(err, tc.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]Operation{
		"unknown kind": {Kind: "transfer", Key: "a"}, "no key": {Kind: "charge", Body: []byte("{}")}, "no body": {Kind: "charge", Key: "a"},
		"not before": {Kind: "charge", Key: "a", Body: []byte("{}"), NotBefore: time.Now()}, "attempted": {Kind: "charge", Key: "a", Attempted: &Attempted{Outcome: Refused}},
		"a bad traceparent": {Kind: "charge", Key: "a", Body: []byte("{}"), Traceparent: "x"},
	} {
		var wrong *Invalid
		if _, err := b.Do(t.Context(), o, nil); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.gateway.Stats().Requests; n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestWithoutTheLedgerOnlyWhatMayBeRepeatedIsSent(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, func(o *Options) { o.Reserve = 300 * time.Millisecond }, srv)
	light := b.another(func(o *Options) { o.Mode, o.Spool = Light, b.spoolAt })
	srv.Kill9()
	ctx := t.Context()
	if _, err := b.Do(ctx, payout("p-1"), nil); !errors.Is(err, ErrNoLedger) {
		t.Errorf("class none: %v", err)
	}
	if n := b.gateway.Stats().Requests; n != 0 {
		t.Fatalf("%d requests of a kind that must not be sent", n)
	}
	if reply, err := b.Do(ctx, charge("c-1"), nil); err != nil || reply.Status != 201 {
		t.Errorf("class keyed: %v", err)
	}
	if reply, err := light.Do(ctx, payout("p-2"), nil); err != nil || reply.Status != 201 {
		t.Errorf("class none, light: %v", err)
	}
	b.fault(sandbox.LostReplies)
	var failed *HandoverError
	if _, err := b.Do(ctx, charge("c-2"), nil); !errors.As(err, &failed) || failed.Spooled || !json.Valid(failed.Submission) || failed.Outcome != Unknown {
		t.Fatalf("a hand-over without Redis: %v", err)
	}
	if _, err := light.Do(ctx, payout("p-3"), nil); !errors.As(err, &failed) || !failed.Spooled {
		t.Fatalf("a hand-over without Redis, with a spool: %v", err)
	}
	text, err := os.ReadFile(b.spoolAt)
	if err != nil || !strings.Contains(string(text), `"key":"p-3"`) || strings.Count(string(text), "\n") != 1 {
		t.Fatalf("spool: %q, %v", text, err)
	}
	b.fault(sandbox.None)
	srv.Restart()
	b.worker()
	await(t, "the spool to be delivered", func() bool {
		text, err := os.ReadFile(b.spoolAt)
		return err == nil && len(text) == 0
	})
	b.awaitState("payout", "p-3", Succeeded)
	b.wantEffects("p-3", 1)
}

// The first operations of a service that had just started had to wait for all that a client
// asks Redis once, and were sent without being written ahead.
func TestAServiceThatHasJustStartedWritesAhead(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	if !b.isReady() {
		t.Error("New has not asked Redis what it needs to know before the first operation")
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func TestAPausedDependencyIsNotCalled(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	fast := b.another(func(o *Options) { o.WhenOpen = FailFast })
	if _, err := b.Client.ledger.Pause(t.Context(), "payrail", 0, b.who("maintenance")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{b.Client, fast} {
		await(t, "the gate's word", func() bool {
			state, ok := c.path.State("payrail")
			return ok && state.Hold != ""
		})
	}
	var deferred *Deferred
	if _, err := b.Do(t.Context(), charge("a"), nil); !errors.As(err, &deferred) || deferred.Cause != nil || deferred.Receipt.State != Waiting {
		t.Errorf("defer: %v", err)
	}
	if _, err := fast.Do(t.Context(), charge("b"), nil); !errors.Is(err, ErrOpen) {
		t.Errorf("fail fast: %v", err)
	}
	if _, err := fast.Get(t.Context(), "charge", "b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("fail fast kept it: %v", err)
	}
	if n := b.gateway.Stats().Requests; n != 0 {
		t.Errorf("%d requests", n)
	}
}

// What one's own sender saw is judged like a worker's answer.
func TestTheOutcomeOfOnesOwnSender(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Mode = Light })
	for name, tc := range map[string]struct {
		reply Reply
		err   error
		want  Outcome
	}{
		"an error":             {Reply{}, errors.New("connection reset"), Unknown},
		"an error that proves": {Reply{}, errors.Join(ErrNotSent, errors.New("no route")), NotSent},
		"nothing":              {Reply{}, nil, Unknown},
		"429, undocumented":    {Reply{Status: 429}, nil, Unknown},
		"500":                  {Reply{Status: 500}, nil, Unknown},
		"half a body":          {Reply{Status: 201}, errors.New("unexpected EOF"), Unknown},
	} {
		var deferred *Deferred
		_, err := b.Do(t.Context(), payout(strings.ReplaceAll(name, " ", "-")), func(context.Context, *Attempt) (Reply, error) { return tc.reply, tc.err })
		if !errors.As(err, &deferred) || deferred.Outcome != tc.want {
			t.Errorf("%s: %v, want it deferred as %s", name, err, tc.want)
		}
	}
	var sent http.Header
	if _, err := b.Do(t.Context(), charge("h"), func(_ context.Context, a *Attempt) (Reply, error) {
		sent = a.Header
		return Reply{Status: 201, Body: []byte(`{"id":"ch_1"}`)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if sent.Get("Idempotency-Key") != "charge:h" || sent.Get("Redrive-Attempt") != "1" {
		t.Errorf("headers of the attempt: %v", sent)
	}
}
