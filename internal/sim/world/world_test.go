package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

var epoch = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// operation is one business intent, as the world outside knows it.
type operation struct {
	id       jobs.ID
	class    jobs.Idempotency
	kind     *kind
	deadline time.Duration
	key      string // under which it is sent
	body     string
	sends    []*send
	acted    bool // it is on record that the gateway took it
	accepted bool // it is in the ledger

	staysDead bool // after_not_found: dead
	goesOn    bool // failed_means: not_applied

	credential string // that it chose; "": none
	succeeded  bool   // was so once
	resolved   bool   // a person said that it took effect
}

// event is something that happens at an instant.
type event struct {
	at   time.Time
	what string
	do   func()
}

// world is one seeded play.
type world struct {
	*setup
	rng     *rand.Rand
	store   *store
	ledger  *ledger.Ledger
	gateway *gateway
	ops     []*operation
	workers []*process
	queue   []ledger.Delivery // asynq's

	now    time.Time     // true time, which monotonic clocks follow
	offset time.Duration // of Redis' clock
	events []event       // to come
	step   int           // events so far
	runs   int

	faults  int  // that may still happen
	slow    bool // long pauses are frequent
	script  *script
	log     []string
	harm    []string // promises that are broken; the world ends
	history map[string]int

	gated     bool // the gate is more than a bucket, and people meddle with it
	gates     *gateJudge
	jitter    *rand.Rand // of what is said to the gate: apart, so that it moves nothing else
	reporters []*reporter
	canaries  []*operation
	healedAt  time.Time
}

func newWorld(c *setup, s *store, seed uint64) *world {
	s.empty()
	w := &world{setup: c, store: s, rng: rand.New(rand.NewPCG(seed, 3)), now: epoch, history: map[string]int{}}
	w.ledger = ledger.New(s, namespace)
	w.gateway = &gateway{w: w, refused: map[string]time.Time{}}
	w.jitter = rand.New(rand.NewPCG(seed, 5))
	s.fate = arrives
	s.later = func(apply func()) { w.after(w.span(0, 8*time.Second), "a delayed call is applied", apply) }
	s.set(w.now)
	w.gates = newGateJudge(w)
	s.watch = w.gates.saw
	w.gates.knows(w.terms.Gate)
	w.seeKinds()
	for n := range 2 {
		p := &process{w: w, name: fmt.Sprintf("worker%d", n+1), gate: w.terms.Gate}
		p.start()
		w.workers = append(w.workers, p)
	}
	return w
}

// seeKinds is what workers say now and then: which kinds can be asked about.
func (w *world) seeKinds() {
	for _, name := range w.asking {
		q := w.kinds[name].spec.Inquiry
		w.store.m.HSet(w.key("kinds"), string(name), fmt.Sprintf("%d %d 0 %d", q.SettleMS, q.GiveUpAfterMS, w.redisNow().UnixMilli()))
	}
}

func (w *world) key(name string) string { return namespace + ":{" + string(dep) + "}:" + name }

func (w *world) redisNow() time.Time { return w.now.Add(w.offset) }

func (w *world) ctx() context.Context { return context.Background() }

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8.3f ", w.now.Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) broken(format string, args ...any) {
	w.harm = append(w.harm, fmt.Sprintf(format, args...))
	w.logf("BROKEN: %s", w.harm[len(w.harm)-1])
}

// chance is true in so many of a hundred cases.
func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// span is uniform between two durations, in whole ms.
func (w *world) span(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(w.rng.Int64N(int64((to-from)/time.Millisecond)+1))*time.Millisecond
}

func (w *world) random() float64 { return w.rng.Float64() }

// fault uses up one of the faults that may still happen, in so many of a hundred cases.
func (w *world) fault(percent int) bool {
	if w.faults == 0 || !w.chance(percent) {
		return false
	}
	w.faults--
	return true
}

func (w *world) runID() string {
	w.runs++
	return fmt.Sprintf("%016x%016x", w.runs, w.runs)
}

// after has something happen later. what is logged; "" if do says it.
func (w *world) after(d time.Duration, what string, do func()) {
	w.events = append(w.events, event{w.now.Add(d), what, do})
}

// next takes the earliest event that is due by an instant; of equal ones the oldest.
func (w *world) next(by time.Time) (event, bool) {
	first := -1
	for i, e := range w.events {
		if !e.at.After(by) && (first < 0 || e.at.Before(w.events[first].at)) {
			first = i
		}
	}
	if first < 0 {
		return event{}, false
	}
	e := w.events[first]
	w.events = append(w.events[:first], w.events[first+1:]...)
	return e, true
}

func (w *world) to(at time.Time) {
	w.now = at
	w.store.set(w.redisNow())
}

// pass lets time go by, with all that happens meanwhile.
func (w *world) pass(d time.Duration) {
	until := w.now.Add(d)
	for len(w.harm) == 0 {
		e, ok := w.next(until)
		if !ok {
			w.to(until)
			return
		}
		w.to(e.at)
		w.happen(e.what, e.do)
	}
}

// happen does one event and judges what it led to.
func (w *world) happen(what string, do func()) {
	w.step++
	if what != "" {
		w.logf("%s", what)
	}
	do()
	if w.store.wrote {
		w.store.wrote = false
		w.judge()
	}
}

// text is the log of a world, for people.
func (w *world) text() string { return strings.Join(w.log, "\n") + "\n" }

func (w *world) operation(id jobs.ID) *operation {
	for _, o := range w.ops {
		if o.id == id {
			return o
		}
	}
	return nil
}

// add makes an operation of a class, not yet submitted.
func (w *world) add(class jobs.Idempotency, asked bool, deadline time.Duration) *operation {
	name := kindName(class, asked)
	n := len(w.ops) + 1
	o := &operation{id: jobs.ID{Kind: name, Key: jobs.Key(fmt.Sprintf("o%d", n))}, class: class, kind: w.kinds[name], deadline: deadline,
		key: fmt.Sprintf("given-o%d", n), body: fmt.Sprintf(`{"amount":%d}`, n)}
	o.staysDead, o.goesOn = w.chance(30), w.chance(50)
	w.ops = append(w.ops, o)
	return o
}
