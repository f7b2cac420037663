package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// walk is one random history: every script with random parameters, calls repeated,
// late, and with lost replies, the clock stepping both ways.
type walk struct {
	*bundle
	store      *miniredis.Miniredis
	clock      time.Time
	passed     time.Duration // sum of all steps forward
	ops        map[string]*modelOp
	resolved   map[string]bool // a person said that it took effect
	writtenOff map[string]bool
	config     map[jobs.Kind]conditions

	deliveries []Delivery // may be begun at any time, also long after
	runs       []*walkRun
	lists      []Lost
	questions  []*walkQuestion
	begins     int
	firsts     int
	extra      int
	reports    int
}

// walkRun is one handler run.
type walkRun struct {
	delivery  Delivery
	run       string
	with      conditions
	grant     *Grant  // of a begin whose reply arrived
	result    *Result // drawn once: a worker has one result, however often it says it
	said      bool    // its result was handed in
	abandoned bool
}

var walkKinds = []jobs.Idempotency{jobs.IdempotencyNone, jobs.IdempotencyConditional, jobs.IdempotencyKeyed, jobs.IdempotencyNatural}

func TestWalk(t *testing.T) {
	store, rdb := redistest.Mini(t)
	rapid.Check(t, func(rt *rapid.T) {
		store.FlushAll()
		w := newWalk(rt, store, setup(rt, rdb))
		rt.Repeat(w.actions())
		w.everyStateCanEnd()
	})
}

func newWalk(rt *rapid.T, store *miniredis.Miniredis, b *bundle) *walk {
	w := &walk{bundle: b, store: store, ops: map[string]*modelOp{}, resolved: map[string]bool{}, writtenOff: map[string]bool{}, config: map[jobs.Kind]conditions{}}
	b.unchecked = true // verify checks P2 too, after every action
	c := rapid.SampledFrom(walkKinds).Draw(rt, "class")
	b.kinds = []jobs.Kind{jobs.Kind(c)}
	w.config[b.kinds[0]] = conditions{class: c, base: "https://pay.example", header: "Idempotency-Key"}
	b.terms.Gate.Cap = 3
	b.terms.Gate.FloorMilliPerSecond = 200
	b.terms.Gate.MaxInFlight = rapid.SampledFrom([]int64{0, 2}).Draw(rt, "max in flight")
	b.terms.Retention = jobs.Retention{SucceededMS: 3600_000, CancelledMS: 3600_000, DeadMS: 7200_000, KeysMS: (10000 * hour).Milliseconds()}
	b.maxAttempts = 4
	b.spec.Kind = b.kinds[0]
	w.to(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))
	b.must(b.rdb.Del(b.Context(), b.key(dep, "gate")).Err())
	if rapid.Bool().Draw(rt, "can be asked about") {
		b.asks()
	}
	return w
}

func (w *walk) to(t time.Time) {
	if !w.clock.IsZero() && t.After(w.clock) {
		w.passed += t.Sub(w.clock)
	}
	w.clock = t
	w.store.SetTime(t)
}

func (w *walk) conditionsOf(id jobs.ID) conditions { return w.config[id.Kind] }

// as returns the target that a process with these conditions would send to.
func (w *walk) as(c conditions) Target {
	t := w.target
	t.Idempotency, t.BaseURL, t.KeyHeader = c.class, c.base, c.header
	return t
}

func (w *walk) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": func(*rapid.T) { w.verify() },

		// The ordinary way, taken often enough to get far.
		"submit": w.submitSome, "go": w.goOn, "go on": w.goOn, "finish": w.finishSome, "finish more": w.finishSome,
		// What may happen beside it.
		"report": w.reportSome, "release": w.releaseSome, "begin": w.beginSome, "begin again": w.beginAgain, "abandon": w.abandonSome,
		"recover": w.listLost, "finish lost": w.finishLost, "lose": w.lose, "people": w.people, "requeue": w.requeueSome,
		"inquire": w.inquireSome, "answer": w.answerSome, "answer again": w.answerSome, "inquire and answer": w.inquireAndAnswer,
		"seen": func(*rapid.T) { w.must(w.SeenKinds(w.Context(), []jobs.KindSpec{w.spec})) },
		"sweep": func(*rapid.T) {
			_, _, err := w.Sweep(w.Context(), w.terms, w.kinds)
			w.must(err)
		},
		"retire": func(*rapid.T) { w.retireSome() },
		"time": func(t *rapid.T) {
			w.to(w.clock.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 8 * time.Second, 31 * time.Second,
				10 * minute, hour, 18 * hour}).Draw(t, "passes")))
		},
		"step back": func(t *rapid.T) {
			w.to(w.clock.Add(-rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, 2 * minute}).Draw(t, "back")))
		},
		"reconfigure": w.reconfigure, "reconfigure again": w.reconfigure,
	}
}

func (w *walk) reconfigure(t *rapid.T) {
	kind := w.kinds[0]
	own := jobs.Idempotency(kind)
	w.config[kind] = conditions{class: rapid.SampledFrom([]jobs.Idempotency{own, own, jobs.IdempotencyNone, jobs.IdempotencyConditional,
		jobs.IdempotencyKeyed, jobs.IdempotencyNatural}).Draw(t, "class"),
		base:   rapid.SampledFrom([]string{"https://pay.example", "https://pay.example", "https://other.example"}).Draw(t, "base"),
		header: rapid.SampledFrom([]string{"Idempotency-Key", "Idempotency-Key", "X-Key"}).Draw(t, "header")}
}

// goOn lets time pass until something is due, releases it and begins it.
func (w *walk) goOn(t *rapid.T) {
	w.to(w.clock.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Second, hour}).Draw(t, "passes")))
	r, err := w.Release(w.Context(), w.terms, w.kinds, 4)
	w.must(err)
	w.deliveries = append(w.deliveries, r.Deliveries...)
	for _, d := range r.Deliveries {
		run := &walkRun{delivery: d, run: fmt.Sprintf("run%d", len(w.runs)), with: w.conditionsOf(d.ID)}
		w.runs = append(w.runs, run)
		w.askToBegin(t, run)
	}
}

// lose lets every claim run out and closes what it held.
func (w *walk) lose(t *rapid.T) {
	w.to(w.clock.Add(w.target.ClaimLease + time.Second))
	before := len(w.lists)
	w.listLost(t)
	for _, l := range slices.Clone(w.lists[before:]) {
		w.closeLost(t, l)
	}
}

func (w *walk) submitSome(t *rapid.T) {
	w.submitWith(t, rapid.SampledFrom([]jobs.Outcome{"", "", jobs.OutcomeUnknown, jobs.OutcomeRefused, jobs.OutcomeNotSent}).Draw(t, "attempted"))
}

// reportSome is a submission, most often of what is known, that reports an unknown send.
func (w *walk) reportSome(t *rapid.T) { w.submitWith(t, jobs.OutcomeUnknown) }

func (w *walk) submitWith(t *rapid.T, outcome jobs.Outcome) {
	c := jobs.Idempotency(w.kinds[0])
	key := fmt.Sprint("o", rapid.IntRange(1, 2).Draw(t, "key"))
	spec := w.spec
	spec.Kind, spec.Idempotency = jobs.Kind(c), c
	s := jobs.Submission{Kind: spec.Kind, Key: jobs.Key(key), Body: []byte(`{"amount":1}`), IdempotencyKey: "k-" + key,
		Deadline: rapid.SampledFrom([]string{"10s", "3h", "40h", "40h"}).Draw(t, "deadline")}
	sends, keyed, ago := 0, true, time.Duration(0)
	if outcome != "" {
		sends = rapid.IntRange(1, 3).Draw(t, "sends")
		ago = rapid.SampledFrom([]time.Duration{0, time.Second, hour, 19 * hour}).Draw(t, "sent ago")
		w.reports++
		req := fmt.Sprint("req-", rapid.IntRange(max(1, w.reports-1), w.reports).Draw(t, "request"))
		s.Attempted = &jobs.Attempted{ID: req, Outcome: outcome, Attempts: sends}
		if keyed = rapid.Bool().Draw(t, "first send told"); keyed {
			s.Attempted.FirstSentAt = w.clock.Add(-ago).Format(time.RFC3339Nano)
		}
	}
	e, err := Prepare(&s, spec)
	w.must(err)
	at := w.ledgerNow()
	receipts, err := w.Submit(w.Context(), w.submitTerms(), []Entry{e})
	w.must(err)
	r := receipts[0]
	name := e.ID.String()
	if r.Answer == jobs.Accepted {
		span, _ := time.ParseDuration(s.Deadline)
		w.ops[name] = &modelOp{kind: spec.Kind, idem: c, deadline: at.Add(span)}
	} else if r.Answer != jobs.Duplicate {
		t.Fatalf("submit %s: %s %s", name, r.Answer, text(r.Error))
	}
	if s.Attempted == nil || r.Answer == jobs.Duplicate && !r.Merged {
		return
	}
	o := w.ops[name]
	o.count += sends
	send := &modelSend{n: o.count, at: at, target: "no key", base: spec.BaseURL, settled: outcome != jobs.OutcomeUnknown}
	if keyed {
		send.at = w.clock.Add(-ago)
	}
	if keyed || c == jobs.IdempotencyNatural {
		send.target = conditions{class: c, base: spec.BaseURL, header: spec.KeyHeader}.target(o)
	}
	send.over = later(at, send.at)
	o.notFound = time.Time{} // news of it
	o.sends = append(o.sends, send)
	if r.Answer == jobs.Accepted && outcome != jobs.OutcomeNotSent {
		w.firsts++
	}
}

func (w *walk) releaseSome(t *rapid.T) {
	r, err := w.Release(w.Context(), w.terms, w.kinds, rapid.IntRange(0, 4).Draw(t, "want"))
	w.must(err)
	w.deliveries = append(w.deliveries, r.Deliveries...)
	if r.Next < 0 || r.Next > time.Second {
		t.Fatalf("next in %v", r.Next)
	}
}

// beginSome begins a delivery, current or long stale; the reply may be lost.
func (w *walk) beginSome(t *rapid.T) {
	if len(w.deliveries) == 0 {
		return
	}
	d := w.deliveries[len(w.deliveries)-1-rapid.IntRange(0, min(3, len(w.deliveries)-1)).Draw(t, "which")]
	r := &walkRun{delivery: d, run: fmt.Sprintf("run%d", len(w.runs)), with: w.conditionsOf(d.ID)}
	w.runs = append(w.runs, r)
	w.askToBegin(t, r)
}

func (w *walk) beginAgain(t *rapid.T) {
	if r := w.someRun(t); r != nil {
		w.askToBegin(t, r)
	}
}

func (w *walk) someRun(t *rapid.T) *walkRun {
	if len(w.runs) == 0 {
		return nil
	}
	return w.runs[len(w.runs)-1-rapid.IntRange(0, min(5, len(w.runs)-1)).Draw(t, "run")]
}

func (w *walk) askToBegin(t *rapid.T, r *walkRun) {
	at := w.ledgerNow()
	answer, err := w.Begin(w.Context(), w.terms, w.as(r.with), w.maxAttempts, r.delivery, r.run)
	w.must(err)
	if answer.Status != BeginGranted {
		if o := w.ops[r.delivery.ID.String()]; o != nil {
			if s := o.byRun(r.run); s != nil && !s.closed && answer.Status == BeginEnded && len(o.unknown()) > 1 {
				s.closed, s.settled, r.abandoned = true, true, true // a send was reported that makes this one unsafe
				r.grant = nil                                       // the last answer counts: it sends nothing, and has no result
			} else if s != nil && !s.closed {
				t.Fatalf("%s: run %s asked again while it held the claim, and was answered %s", r.delivery.ID, r.run, answer.Status)
			}
		}
		return
	}
	if r.abandoned {
		t.Fatalf("%s: run %s was granted delivery %d after it had given it back", r.delivery.ID, r.run, r.delivery.Number)
	}
	o := w.ops[r.delivery.ID.String()]
	if known := o.byRun(r.run); known != nil {
		if answer.Grant.Attempt != known.n || known.closed {
			t.Fatalf("%s: run %s was granted attempt %d again, it had %d (closed %v)", r.delivery.ID, r.run, answer.Grant.Attempt, known.n, known.closed)
		}
	} else {
		if why := w.mayBegin(o, r.with, answer.Grant); why != "" {
			t.Fatalf("%s: attempt %d was granted, and %s", r.delivery.ID, answer.Grant.Attempt, why)
		}
		o.count++
		o.sends = append(o.sends, &modelSend{n: o.count, run: r.run, at: at, target: r.with.target(o), base: r.with.base})
		w.begins++
		if o.count == 1 {
			w.firsts++
		} else {
			w.extra++
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "reply lost") != 0 {
		r.grant = answer.Grant
	}
}

// abandonSome: only a run that sent nothing may say so, and it never sends after.
func (w *walk) abandonSome(t *rapid.T) {
	r := w.someRun(t)
	if r == nil || r.result != nil {
		return
	}
	r.abandoned, r.grant = true, nil
	wait := rapid.SampledFrom([]time.Duration{0, 3 * time.Second, 50 * hour}).Draw(t, "wait")
	_, err := w.Abandon(w.Context(), w.terms, r.delivery, r.run, wait, rapid.IntRange(0, 9).Draw(t, "orphan") == 0)
	w.must(err)
	if o := w.ops[r.delivery.ID.String()]; o != nil {
		if s := o.byRun(r.run); s != nil && !s.closed {
			s.closed, s.settled = true, true
		}
	}
}
