package ledger

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// TestMain bounds the properties to some seconds; run them for longer with
// go test ./internal/ledger -run Walk -rapid.checks=2000. A failure prints its seed.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "50", "rapid.steps": "60"} {
		if err := flag.Set(name, value); err != nil { // before the command line is read, which wins
			panic(err)
		}
	}
	if rule := os.Getenv(withoutRule); rule != "" {
		if err := takeOut(rule); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

const (
	dep    = jobs.Dependency("payrail")
	minute = time.Minute
	hour   = time.Hour
)

// suite collects tests that must hold on miniredis and on a real redis-server.
type suite struct {
	t         *testing.T
	newClient func(testing.TB) redis.UniversalClient
}

// each runs the tests of a suite on both stores, every test in a store of its own.
func each(t *testing.T, tests func(*suite)) {
	t.Helper()
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		tests(&suite{t: t, newClient: newClient})
	})
}

func (s *suite) test(behaviour string, f func(b *bundle)) {
	s.t.Run(behaviour, func(t *testing.T) {
		t.Parallel()
		f(setup(t, s.newClient(t)))
	})
}

// bundle is one ledger with one dependency and one kind, and a short way to say
// each step. Every step is followed by a check of P2 (see invariant_test.go).
type bundle struct {
	tb
	*Ledger
	terms       Terms
	target      Target
	spec        jobs.KindSpec
	maxAttempts int
	maxBacklog  int64
	by          string // who submits
	kinds       []jobs.Kind
	runs        int
	voids       bool // late successes of the kind are undone
	unchecked   bool // for tests with thousands of operations
}

// tb is what steps need of a test, or of one run of a property.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Context() context.Context
}

func setup(t tb, rdb redis.UniversalClient) *bundle {
	b := &bundle{tb: t, Ledger: New(rdb, "test"), maxAttempts: 5, maxBacklog: 1000, kinds: []jobs.Kind{"charge"}}
	b.terms = Terms{Dependency: dep, Gate: budget.Params{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 1000},
		MinResponse: 150 * time.Millisecond,
		Retention:   jobs.Retention{SucceededMS: (168 * hour).Milliseconds(), CancelledMS: (168 * hour).Milliseconds(), KeysMS: (2160 * hour).Milliseconds()}}
	b.class(jobs.IdempotencyKeyed)
	b.fillBucket()
	return b
}

// class sets what the kind is, at submission and as configured.
func (b *bundle) class(c jobs.Idempotency) {
	b.target = Target{BaseURL: "https://pay.example", Idempotency: c, KeyHeader: "Idempotency-Key", KeyWindow: 24 * hour, ClaimLease: 7 * time.Second}
	b.spec = jobs.KindSpec{Kind: "charge", Dependency: dep, Method: "POST", Path: "/v1/charges", ContentType: "application/json",
		BaseURL: "https://pay.example", Idempotency: c, KeyHeader: "Idempotency-Key", KeyWindowMS: (24 * hour).Milliseconds(),
		KeyMaxLength: 255, DeadlineMS: (2 * hour).Milliseconds(), MaxAttempts: 5, TimeoutMS: 3000, MinResponseMS: 150, MaxBacklog: 1000}
}

// fillBucket lets retries go freely where a test is not about the budget.
func (b *bundle) fillBucket() { b.tokens(b.terms.Gate.Cap * 1000) }

func (b *bundle) tokens(milli int64) {
	b.Helper()
	b.must(b.rdb.HSet(b.Context(), b.key(dep, "gate"), "tokens", milli, "filled_at", b.now().UnixMilli()).Err())
}

func (b *bundle) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) now() time.Time {
	b.Helper()
	now, err := b.Now(b.Context())
	b.must(err)
	return now
}

func id(key string) jobs.ID { return jobs.ID{Kind: "charge", Key: jobs.Key(key)} }

type change func(*jobs.Submission)

func body(text string) change  { return func(s *jobs.Submission) { s.Body = []byte(text) } }
func deadline(d string) change { return func(s *jobs.Submission) { s.Deadline = d } }
func kind(k jobs.Kind) change  { return func(s *jobs.Submission) { s.Kind = k } }
func notBefore(t time.Time) change {
	return func(s *jobs.Submission) { s.NotBefore = t.Format(time.RFC3339Nano) }
}

// sent reports a send of the request path, ago before now, under the operation's key.
func (b *bundle) sent(id string, outcome jobs.Outcome, ago time.Duration) change {
	return func(s *jobs.Submission) {
		s.IdempotencyKey = "given-" + string(s.Key)
		s.Attempted = &jobs.Attempted{ID: id, Outcome: outcome, Class: likely[outcome], FirstSentAt: b.now().Add(-ago).UTC().Format(time.RFC3339Nano)}
	}
}

// likely is a class that goes with an outcome.
var likely = map[jobs.Outcome]jobs.Class{jobs.OutcomeUnknown: jobs.ClassTimeout, jobs.OutcomeRefused: jobs.Class503, jobs.OutcomeNotSent: jobs.ClassConnect}

// keyGiven names the key that [bundle.sent] names, so that both are one request.
func keyGiven(s *jobs.Submission) { s.IdempotencyKey = "given-" + string(s.Key) }

func (b *bundle) entry(key string, changes ...change) Entry {
	b.Helper()
	s := jobs.Submission{Kind: "charge", Key: jobs.Key(key), Body: []byte(`{"amount":4200,"currency":"GBP"}`)}
	for _, c := range changes {
		c(&s)
	}
	spec := b.spec
	spec.Kind = s.Kind
	e, err := Prepare(&s, spec)
	b.must(err)
	return e
}

func (b *bundle) submitTerms() SubmitTerms {
	return SubmitTerms{Terms: b.terms, By: b.by, MaxBacklog: b.maxBacklog, ClaimLease: b.target.ClaimLease}
}

// submit hands one operation in and returns the receipt.
func (b *bundle) submit(key string, changes ...change) jobs.Receipt {
	b.Helper()
	receipts, err := b.Submit(b.Context(), b.submitTerms(), []Entry{b.entry(key, changes...)})
	b.must(err)
	b.check()
	return receipts[0]
}

// add is submit for what must be accepted.
func (b *bundle) add(key string, changes ...change) {
	b.Helper()
	if r := b.submit(key, changes...); r.Answer != jobs.Accepted {
		b.Fatalf("submit %s: %s (%v), want accepted", key, r.Answer, text(r.Error))
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// releaseUpTo asks the gate for want deliveries.
func (b *bundle) releaseUpTo(want int) Release {
	b.Helper()
	r, err := b.Release(b.Context(), b.terms, b.kinds, want)
	b.must(err)
	b.check()
	return r
}

// release lets one operation go, which must be key.
func (b *bundle) release(key string) Delivery {
	b.Helper()
	r := b.releaseUpTo(1 + b.promised())
	if len(r.Deliveries) != 1 || r.Deliveries[0].ID != id(key) {
		b.Fatalf("release gave %v (hold %q, ended %v), want %s", r.Deliveries, r.Hold, r.Ended, key)
	}
	return r.Deliveries[0]
}

func (b *bundle) promised() int {
	return len(b.index("released:first")) + len(b.index("released:retry"))
}

func (b *bundle) beginAs(d Delivery, run string) Begin {
	b.Helper()
	answer, err := b.Begin(b.Context(), b.terms, b.target, b.maxAttempts, d, run)
	b.must(err)
	b.check()
	return answer
}

// begin begins under a new run id and must be granted.
func (b *bundle) begin(d Delivery) *Grant {
	b.Helper()
	b.runs++
	answer := b.beginAs(d, fmt.Sprintf("%016x%016x", b.runs, 0))
	if answer.Status != BeginGranted {
		b.Fatalf("begin of %s: %s (hold %q, ended %v), want granted", d.ID, answer.Status, answer.Hold, answer.Ended)
	}
	return answer.Grant
}

// start releases and begins an operation.
func (b *bundle) start(key string) *Grant { b.Helper(); return b.begin(b.release(key)) }

func (b *bundle) finish(g *Grant, res Result) Finish {
	b.Helper()
	f, err := b.Finish(b.Context(), b.terms, b.target, g, res)
	b.must(err)
	b.check()
	return f
}

// attempt brings one operation through a whole attempt.
func (b *bundle) attempt(key string, res Result) Finish {
	b.Helper()
	return b.finish(b.start(key), res)
}

// lose lets the claim's lease of a granted attempt run out and recovers it.
func (b *bundle) lose(g *Grant, res Result) Finish {
	b.Helper()
	b.pass(b.target.ClaimLease + time.Second)
	return b.recover(g, res)
}

func (b *bundle) recover(g *Grant, res Result) Finish {
	b.Helper()
	for _, l := range b.lostAttempts() {
		if l.ID == g.ID {
			f, err := b.FinishLost(b.Context(), b.terms, b.target, l, res, false)
			b.must(err)
			b.check()
			return f
		}
	}
	b.Fatalf("recover does not list %s", g.ID)
	return Finish{}
}

func (b *bundle) lostAttempts() []Lost {
	b.Helper()
	list, err := b.LostAttempts(b.Context(), dep, 0, time.Time{})
	b.must(err)
	b.check()
	return list
}

func (b *bundle) abandon(d Delivery, run string, wait time.Duration) {
	b.Helper()
	_, err := b.Abandon(b.Context(), b.terms, d, run, wait, false)
	b.must(err)
	b.check()
}

func (b *bundle) sweep() []Ended {
	b.Helper()
	done, _, err := b.Sweep(b.Context(), b.terms, b.kinds)
	b.must(err)
	b.check()
	return done
}

func (b *bundle) retire() Retired {
	b.Helper()
	r, err := b.Retire(b.Context(), dep, b.terms.Retention)
	b.must(err)
	b.check()
	return r
}

var ann = Actor{By: "ann@desk", Note: "called the bank"}

func (b *bundle) cancel(key string) Done {
	b.Helper()
	d, err := b.Cancel(b.Context(), dep, id(key), b.terms.Retention, ann)
	b.must(err)
	b.check()
	return d
}

func (b *bundle) discard(key string) Done {
	b.Helper()
	d, err := b.Discard(b.Context(), dep, id(key), b.terms.Retention, ann)
	b.must(err)
	b.check()
	return d
}

func (b *bundle) resolve(key string, verdict Resolution) Done {
	b.Helper()
	d, err := b.Resolve(b.Context(), dep, id(key), verdict, "ch_77", b.terms.Retention, ann)
	b.must(err)
	b.check()
	return d
}

func (b *bundle) requeue(key string, q Requeue) Requeued {
	b.Helper()
	if q.MaxAttempts == 0 {
		q.MaxAttempts = b.maxAttempts
	}
	if q.RequestID == "" {
		b.runs++
		q.RequestID = fmt.Sprintf("request-%d", b.runs)
	}
	r, err := b.Requeue(b.Context(), b.terms, b.target, id(key), q, ann)
	b.must(err)
	b.check()
	return r
}
