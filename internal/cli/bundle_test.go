package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/redistest"
	"redrive/internal/terms"
)

// testBundle is a namespace with published kinds, as workers leave it, and the
// program in front of it.
type testBundle struct {
	t      testing.TB
	client redis.UniversalClient
	ledger *ledger.Ledger
	specs  map[jobs.Kind]jobs.KindSpec
	env    map[string]string
	where  string // where things are known, as messages say it
	runs   int    // workers' runs so far: each has an id of its own

	released map[jobs.ID]ledger.Delivery // let go by the gate and not begun yet
}

// testSpecs are a keyed, a natural and a careful kind of one dependency, and one of
// another.
func testSpecs() []jobs.KindSpec {
	base := jobs.KindSpec{Dependency: "payrail", Method: "POST", ContentType: "application/json", BaseURL: "https://payrail.example",
		DeadlineMS: 2 * 3600 * 1000, MaxAttempts: 5, TimeoutMS: 3000, MinResponseMS: 150, MaxBacklog: 1_000_000,
		BackoffBaseMS: 1000, BackoffCapMS: 600_000, BudgetRatioMilli: 100, BudgetCap: 100_000, BudgetFloorMilliPerSecond: 1_000_000,
		Columns: map[string]string{"amount": "/amount", "currency": "/currency"}, Credentials: []string{"default", "m1"},
		Retention: jobs.Retention{SucceededMS: 3600_000, CancelledMS: 3600_000, KeysMS: 90 * 24 * 3600_000}}
	charge, void, payout, refund := base, base, base, base
	charge.Kind, charge.Path, charge.Idempotency = "charge", "/v1/charges", jobs.IdempotencyKeyed
	charge.KeyHeader, charge.KeyWindowMS, charge.KeyMaxLength = "Idempotency-Key", 24*3600*1000, 255
	void.Kind, void.Path, void.Idempotency = "void", "/v1/voids/{params.id}", jobs.IdempotencyNatural
	payout.Kind, payout.Path, payout.Idempotency = "payout", "/v1/payouts", jobs.IdempotencyNone
	refund.Kind, refund.Path, refund.Idempotency, refund.Dependency, refund.BaseURL = "refund", "/v1/refunds", jobs.IdempotencyNone, "bank", "https://bank.example"
	return []jobs.KindSpec{charge, void, payout, refund}
}

func setup(t testing.TB, client redis.UniversalClient) *testBundle {
	t.Helper()
	b := &testBundle{t: t, client: client, ledger: ledger.New(client, "rd"), specs: map[jobs.Kind]jobs.KindSpec{}, released: map[jobs.ID]ledger.Delivery{}}
	b.env = map[string]string{"REDRIVE_REDIS_URL": addressOf(t, client), "REDRIVE_NAMESPACE": "rd", "REDRIVE_BY": "ann@desk"}
	b.where = "in namespace rd"
	for _, s := range testSpecs() {
		b.specs[s.Kind] = s
	}
	if err := b.ledger.PublishKinds(t.Context(), testSpecs()); err != nil {
		t.Fatal(err)
	}
	return b
}

// onEach runs a test on miniredis, on a real redis-server, and through the API of a
// worker.
func onEach(t *testing.T, test func(t *testing.T, b *testBundle)) {
	t.Helper()
	onRedis(t, test)
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		_, client := redistest.Mini(t)
		b := setup(t, client)
		b.serve(nil)
		test(t, b)
	})
}

// onRedis runs a test that is about Redis itself.
func onRedis(t *testing.T, test func(t *testing.T, b *testBundle)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		test(t, setup(t, newClient(t)))
	})
}

// addressOf is the URL of the store behind client.
func addressOf(t testing.TB, client redis.UniversalClient) string {
	t.Helper()
	c, ok := client.(*redis.Client)
	if !ok {
		t.Fatalf("a %T has no single address", client)
	}
	o := c.Options()
	if o.Network == "unix" {
		return (&url.URL{Scheme: "unix", Path: o.Addr, RawQuery: fmt.Sprintf("db=%d", o.DB)}).String()
	}
	return (&url.URL{Scheme: "redis", Host: o.Addr, Path: fmt.Sprintf("/%d", o.DB)}).String()
}

// printed is what a command line came to.
type printed struct {
	code           int
	stdout, stderr string
}

func (b *testBundle) getenv(name string) string { return b.env[name] }

// run runs one command line without input.
func (b *testBundle) run(args ...string) printed {
	b.t.Helper()
	return b.runWith("", args...)
}

func (b *testBundle) runWith(stdin string, args ...string) printed {
	b.t.Helper()
	return runProgram(b.t.Context(), b.getenv, stdin, args...)
}

func runProgram(ctx context.Context, getenv func(string) string, stdin string, args ...string) printed {
	var stdout, stderr bytes.Buffer
	code := Run(ctx, args, strings.NewReader(stdin), &stdout, &stderr, getenv)
	return printed{code, stdout.String(), stderr.String()}
}

// must runs one command line that has to end with code.
func (b *testBundle) must(code int, args ...string) printed {
	b.t.Helper()
	return b.mustWith(code, "", args...)
}

func (b *testBundle) mustWith(code int, stdin string, args ...string) printed {
	b.t.Helper()
	got := b.runWith(stdin, args...)
	if got.code != code {
		b.t.Fatalf("enqueue %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got.code, code, got.stdout, got.stderr)
	}
	return got
}

// into decodes JSON that a command wrote.
func into[T any](t testing.TB, p printed) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(p.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("stdout is not the JSON expected: %v\n%s", err, p.stdout)
	}
	return v
}

// says fails unless text contains every word.
func says(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

// hides fails if text contains a word.
func hides(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(text, w) {
			t.Errorf("%q stands in:\n%s", w, text)
		}
	}
}

// operation reads one operation as show tells it.
func (b *testBundle) operation(id string) jobs.Operation {
	b.t.Helper()
	parsed, err := jobs.ParseID(id)
	if err != nil {
		b.t.Fatal(err)
	}
	spec := b.specs[parsed.Kind]
	d, err := b.ledger.Get(b.t.Context(), spec.Dependency, parsed, &spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return d.Operation
}

func (b *testBundle) wantState(id string, want jobs.State) jobs.Operation {
	b.t.Helper()
	o := b.operation(id)
	if o.State != want {
		b.t.Fatalf("%s is %s, want %s", id, operator.StateText(&o), want)
	}
	return o
}

// submit hands in an operation behind the program's back.
func (b *testBundle) submit(subs ...jobs.Submission) {
	b.t.Helper()
	for from := 0; from < len(subs); from += ledger.MaxBatch {
		var entries []ledger.Entry
		spec := b.specs[subs[from].Kind]
		for _, s := range subs[from:min(from+ledger.MaxBatch, len(subs))] {
			e, err := ledger.Prepare(&s, b.specs[s.Kind])
			if err != nil {
				b.t.Fatal(err)
			}
			entries = append(entries, e)
		}
		receipts, err := b.ledger.Submit(b.t.Context(), terms.Submit(spec, "shop"), entries)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range receipts {
			if r.Answer != jobs.Accepted {
				b.t.Fatalf("%s: %s", r.Operation, receiptText(r))
			}
		}
	}
}

// body is a request body with an amount.
func body(amount int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"amount":%d,"currency":"GBP"}`, amount))
}

// submission is one of kind/key with a body.
func submission(kind jobs.Kind, key string, amount int) jobs.Submission {
	s := jobs.Submission{Kind: kind, Key: jobs.Key(key), Body: body(amount)}
	if kind == "void" {
		s.Params = map[string]string{"id": key}
	}
	return s
}

// attempt lets a worker make the next attempt of an operation that is due, with a
// result.
func (b *testBundle) attempt(id string, res ledger.Result) ledger.Finish {
	b.t.Helper()
	ctx := b.t.Context()
	parsed, err := jobs.ParseID(id)
	if err != nil {
		b.t.Fatal(err)
	}
	spec := b.specs[parsed.Kind]
	grant := b.begin(ctx, parsed, spec)
	f, err := b.ledger.Finish(ctx, terms.Of(spec), terms.Target(spec), grant, res)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
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
			b.released[d.ID] = d
		}
		d, ok := b.released[id]
		if !ok {
			continue
		}
		delete(b.released, id)
		b.runs++
		begun, err := b.ledger.Begin(ctx, terms.Of(spec), terms.Target(spec), spec.MaxAttempts, d, fmt.Sprintf("run-%d", b.runs))
		if err != nil {
			b.t.Fatal(err)
		}
		if begun.Status != ledger.BeginGranted {
			b.t.Fatalf("begin of %s: %s %s", id, begun.Status, begun.Hold)
		}
		return begun.Grant
	}
	b.t.Fatalf("%s was not released within 10 s", id)
	return nil
}

// results that attempts can bring.
func decline(status int, text string) ledger.Result {
	return ledger.Result{Outcome: jobs.OutcomeRefused, Class: jobs.Class4xx, Status: status, Verdict: jobs.VerdictPermanentFailure,
		Step: ledger.StepEnd, Reason: jobs.ReasonPermanent, Duration: 40 * time.Millisecond, Counted: true, Error: text}
}

func timedOut(step ledger.Step) ledger.Result {
	return ledger.Result{Outcome: jobs.OutcomeUnknown, Class: jobs.ClassTimeout, Verdict: jobs.VerdictRetrySameKey, Step: step,
		Duration: 3 * time.Second, Counted: true, Error: "no answer within 3s"}
}

func succeeded() ledger.Result {
	return ledger.Result{Outcome: jobs.OutcomeSucceeded, Class: jobs.Class2xx, Status: 200, Verdict: jobs.VerdictSucceeded,
		Step: ledger.StepSucceed, Duration: 30 * time.Millisecond, Counted: true, Body: []byte(`{"id":"ch_1"}`)}
}

func ended(reason jobs.Reason, class jobs.Class, text string) ledger.Result {
	return ledger.Result{Outcome: jobs.OutcomeRefused, Class: class, Verdict: jobs.VerdictRetrySafe, Step: ledger.StepEnd, Reason: reason,
		Duration: 10 * time.Millisecond, Counted: true, Error: text}
}
