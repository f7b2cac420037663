package operator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/terms"
)

// testBundle is a ledger, the worker that a test plays, and who acts on it.
type testBundle struct {
	t      testing.TB
	ledger *ledger.Ledger
	specs  map[jobs.Kind]jobs.KindSpec
	op     *Operator
	runs   int
	held   map[jobs.ID]ledger.Delivery // released and not begun yet
}

func testSpecs() []jobs.KindSpec {
	charge := jobs.KindSpec{Kind: "charge", Dependency: "payrail", Method: "POST", Path: "/v1/charges", ContentType: "application/json", BaseURL: "https://payrail.example",
		Idempotency: jobs.IdempotencyKeyed, KeyHeader: "Idempotency-Key", KeyWindowMS: 24 * 3600_000, KeyMaxLength: 255,
		DeadlineMS: 2 * 3600_000, MaxAttempts: 5, TimeoutMS: 3000, MinResponseMS: 150, MaxBacklog: 1_000_000,
		BackoffBaseMS: 1000, BackoffCapMS: 600_000, BudgetRatioMilli: 100, BudgetCap: 100_000, BudgetFloorMilliPerSecond: 1_000_000,
		Columns: map[string]string{"amount": "/amount", "currency": "/currency"}, Credentials: []string{"default"},
		Retention: jobs.Retention{SucceededMS: 3600_000, CancelledMS: 3600_000, KeysMS: 90 * 24 * 3600_000}}
	payout, refund := charge, charge
	payout.Kind, payout.Path, payout.Idempotency, payout.KeyHeader = "payout", "/v1/payouts", jobs.IdempotencyNone, ""
	refund.Kind, refund.Path, refund.Dependency, refund.BaseURL = "refund", "/v1/refunds", "bank", "https://bank.example"
	return []jobs.KindSpec{charge, payout, refund}
}

// onEach runs a test on miniredis and on a real redis-server.
func onEach(t *testing.T, test func(t *testing.T, b *testBundle)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		b := &testBundle{t: t, ledger: ledger.New(newClient(t), "rd"), specs: map[jobs.Kind]jobs.KindSpec{}, held: map[jobs.ID]ledger.Delivery{}}
		for _, s := range testSpecs() {
			b.specs[s.Kind] = s
		}
		if err := b.ledger.PublishKinds(t.Context(), testSpecs()); err != nil {
			t.Fatal(err)
		}
		b.op = b.operator(Options{})
		test(t, b)
	})
}

func (b *testBundle) operator(o Options) *Operator {
	b.t.Helper()
	op, err := New(b.t.Context(), b.ledger, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return op
}

func parsed(t testing.TB, names ...string) []jobs.ID {
	t.Helper()
	ids := make([]jobs.ID, len(names))
	for i, name := range names {
		var err error
		if ids[i], err = jobs.ParseID(name); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// submit hands in operations, the first with the earliest deadline.
func (b *testBundle) submit(names ...string) {
	b.t.Helper()
	for i, id := range parsed(b.t, names...) {
		s := jobs.Submission{Kind: id.Kind, Key: id.Key, Body: []byte(`{"amount":10,"currency":"GBP"}`), Deadline: fmt.Sprintf("%dm", 60+i)}
		e, err := ledger.Prepare(&s, b.specs[id.Kind])
		if err != nil {
			b.t.Fatal(err)
		}
		r, err := b.ledger.Submit(b.t.Context(), terms.Submit(b.specs[id.Kind], "shop"), []ledger.Entry{e})
		if err != nil || r[0].Answer != jobs.Accepted {
			b.t.Fatalf("%s: %+v %v", id, r, err)
		}
	}
}

// attempt makes the next attempt of each operation, with a result.
func (b *testBundle) attempt(res ledger.Result, names ...string) {
	b.t.Helper()
	for _, id := range parsed(b.t, names...) {
		spec := b.specs[id.Kind]
		if _, err := b.ledger.Finish(b.t.Context(), terms.Of(spec), terms.Target(spec), b.begin(b.t.Context(), id, spec), res); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *testBundle) begin(ctx context.Context, id jobs.ID, spec jobs.KindSpec) *ledger.Grant {
	b.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, _, err := b.ledger.Sweep(ctx, terms.Of(spec), []jobs.Kind{id.Kind}); err != nil {
			b.t.Fatal(err)
		}
		released, err := b.ledger.Release(ctx, terms.Of(spec), []jobs.Kind{id.Kind}, 100)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, d := range released.Deliveries {
			b.held[d.ID] = d
		}
		d, ok := b.held[id]
		if !ok {
			continue
		}
		delete(b.held, id)
		b.runs++
		begun, err := b.ledger.Begin(ctx, terms.Of(spec), terms.Target(spec), spec.MaxAttempts, d, fmt.Sprintf("run-%d", b.runs))
		if err != nil || begun.Status != ledger.BeginGranted {
			b.t.Fatalf("begin of %s: %+v %v", id, begun, err)
		}
		return begun.Grant
	}
	b.t.Fatalf("%s was not released within 10 s", id)
	return nil
}

// results that attempts can bring.
var (
	declined = ledger.Result{Outcome: jobs.OutcomeRefused, Class: jobs.Class4xx, Status: 402, Verdict: jobs.VerdictPermanentFailure,
		Step: ledger.StepEnd, Reason: jobs.ReasonPermanent, Duration: 40 * time.Millisecond, Counted: true, Error: "no"}
	timedOut = ledger.Result{Outcome: jobs.OutcomeUnknown, Class: jobs.ClassTimeout, Verdict: jobs.VerdictRetrySameKey, Step: ledger.StepAsk,
		Duration: 3 * time.Second, Counted: true, Error: "no answer within 3s"}
	succeeded = ledger.Result{Outcome: jobs.OutcomeSucceeded, Class: jobs.Class2xx, Status: 200, Verdict: jobs.VerdictSucceeded,
		Step: ledger.StepSucceed, Duration: 30 * time.Millisecond, Counted: true, Body: []byte(`{"id":"ch_1"}`)}
)

// dead makes dead letters, the first with the earliest deadline.
func (b *testBundle) dead(names ...string) {
	b.t.Helper()
	b.submit(names...)
	b.attempt(declined, names...)
}

// named is the set of operations by name.
func (b *testBundle) named(names ...string) Set {
	b.t.Helper()
	set, err := b.op.Named(b.t.Context(), parsed(b.t, names...))
	if err != nil {
		b.t.Fatal(err)
	}
	return set
}

// matching is the set of what the words choose among states.
func (b *testBundle) matching(w FilterWords, states []jobs.State) Set {
	b.t.Helper()
	filter, err := w.Filter(time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	set, err := b.op.Matching(b.t.Context(), filter, states, w.String())
	if err != nil {
		b.t.Fatal(err)
	}
	return set
}

// wantStates checks where operations are: charge/a=dead.
func (b *testBundle) wantStates(want map[string]jobs.State) {
	b.t.Helper()
	for name, state := range want {
		for _, c := range b.named(name).Operations {
			if c.Op == nil || c.Op.State != state {
				b.t.Errorf("%s: %+v, want %s", name, c.Op, state)
			}
		}
	}
}

// codes are the results by operation.
func codes(r Report) map[string]ResultCode {
	out := map[string]ResultCode{}
	for _, item := range r.Results {
		out[item.Operation.String()] = item.Result
	}
	return out
}

func ann(note string) Order { return Order{By: "ann", Note: note} }

// audit are the actions that the audit tells of a dependency as a whole.
func (b *testBundle) audit(dep jobs.Dependency) []string {
	b.t.Helper()
	entries, err := b.ledger.Audit(b.t.Context(), dep, time.Time{}, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Operation == "-" {
			out = append(out, e.Action+" by "+e.By)
		}
	}
	return out
}
