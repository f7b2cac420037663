package torture

import (
	"fmt"
	"slices"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/sandbox"
)

// evidence is everything that the judge looks at.
type evidence struct {
	cases   []*caseFile
	strays  []string        // in an index, and nobody ordered them
	entries []sandbox.Entry // of the gateway's ledger
	counts  []ledger.Count
	kills   []time.Time
	outages []outage
	// Recovery is judged by this bound.
	recoverWithin time.Duration
}

// caseFile is one order with both accounts of it.
type caseFile struct {
	*order
	indexes  []string       // in which it stands
	detail   *ledger.Detail // nil: not in the ledger
	arrivals []*arrival     // in order
	readings []reading
	effects  int
}

// promise is a row of the report.
type promise struct {
	name    string
	checked int
	broken  []string // one text each, with the case's key as its beginning
}

// verdict is what came of it.
type verdict struct {
	promises []*promise
	states   map[string]int // state, or "dead reason"
	surplus  int            // attempts of lost workers that never arrived
	onWire   int            // requests of the workers
	recovery []time.Duration
	// Orders that count as not applied, and took effect in a part of the ledger that
	// was cut off: counted apart, nobody who is left can know it.
	forgotten int
	suspects  map[string]*caseFile // whose account is printed
}

func (v *verdict) promise(name string) *promise {
	for _, p := range v.promises {
		if p.name == name {
			return p
		}
	}
	p := &promise{name: name}
	v.promises = append(v.promises, p)
	return p
}

// check counts one look at a promise, and a breach of it.
func (v *verdict) check(name string, c *caseFile, ok bool, format string, args ...any) {
	p := v.promise(name)
	p.checked++
	if ok {
		return
	}
	text := fmt.Sprintf(format, args...)
	if c != nil {
		text = c.id.String() + ": " + text
		v.suspects[c.id.String()] = c
	}
	p.broken = append(p.broken, text)
}

func (v *verdict) broken() int {
	n := 0
	for _, p := range v.promises {
		n += len(p.broken)
	}
	return n
}

const (
	p1None    = "P1 none: one effect, and no send after one that may have acted"
	p1Cond    = "P1 conditional: one effect, and no send after an unknown one"
	p1Keyed   = "P1 keyed: one effect, one key, the same bytes"
	p2Once    = "P2 each accepted operation is in exactly one state, at rest"
	p2Counts  = "P2 the counts are those of the indexes, and nobody is a stranger"
	p3        = "P3 nothing arrives after the deadline"
	wire      = "requests on the wire = attempts in the ledger"
	word      = "applied yes has an effect, applied no has none"
	recovered = "what a killed worker was sending is closed in time (p99)"
	// notFoundGap is the least time between two answers that prove a request did not
	// act: 5 s by the ledger's clock, less what a busy machine shifts their arrivals.
	notFoundGap = 4500 * time.Millisecond
)

// judge compares. Pure.
func judge(e evidence) *verdict {
	v := &verdict{states: map[string]int{}, suspects: map[string]*caseFile{}}
	for _, name := range []string{p1None, p1Cond, p1Keyed, p2Once, p2Counts, p3, wire, word, recovered} {
		v.promise(name)
	}
	for _, c := range e.cases {
		v.once(c)
		v.never(c)
		if c.detail == nil {
			continue
		}
		v.deadline(c)
		v.wire(c)
		v.word(c)
		v.recoveries(c, e)
	}
	v.totals(e)
	if n := len(v.recovery); n > 0 {
		slices.Sort(v.recovery)
		p99 := percentile(v.recovery, 99)
		v.check(recovered, nil, p99 <= e.recoverWithin, "p99 of %d is %s, at most %s are allowed", n, p99, e.recoverWithin)
	}
	return v
}

// percentile returns the p-th of sorted values.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// once is P2 of one order.
func (v *verdict) once(c *caseFile) {
	if !c.accepted {
		return // handed over without an answer until the end, or answered in the shop
	}
	v.check(p2Once, c, len(c.indexes) == 1 && c.detail != nil, "accepted, and in %d indexes: %v", len(c.indexes), c.indexes)
	if c.detail == nil {
		return
	}
	state := c.detail.State
	v.check(p2Once, c, state.Ended() || state == jobs.Unresolved, "is %s and not at rest", state)
	for _, index := range c.indexes {
		v.check(p2Once, c, slices.Contains(indexesOf[state], index), "is %s and stands in the index %s", state, index)
	}
	name := string(state)
	if c.detail.Reason != nil && state == jobs.Dead {
		name += " (" + string(*c.detail.Reason) + ")"
	}
	v.states[name]++
}

// never is P1 of one order.
func (v *verdict) never(c *caseFile) {
	switch classOf[c.id.Kind] {
	case jobs.IdempotencyNone:
		v.check(p1None, c, c.effects <= 1, "took effect %d times", c.effects)
		for i := 1; i < len(c.arrivals); i++ {
			before, a := c.arrivals[i-1], c.arrivals[i]
			v.check(p1None, c, a.before == 0, "a request arrived when it had taken effect: %s", a)
			v.check(p1None, c, !before.mayHaveActed() || c.provenNot(before, a), "a request arrived after one that may have acted: %s after %s", a, before)
		}
		v.resent(p1None, c)
	case jobs.IdempotencyConditional:
		v.check(p1Cond, c, c.effects <= 1, "took effect %d times", c.effects)
		v.resent(p1Cond, c)
	case jobs.IdempotencyKeyed:
		v.check(p1Keyed, c, c.effects <= 1, "took effect %d times", c.effects)
		for _, a := range c.arrivals {
			first := c.arrivals[0]
			v.check(p1Keyed, c, a.key == c.key() && a.digest == first.digest, "sent under key %q, want %q, and the same bytes as first: %t", a.key, c.key(), a.digest == first.digest)
		}
	}
}

// provenNot: between two requests the gateway said twice that there is nothing, and
// never that there is something.
func (c *caseFile) provenNot(before, after *arrival) bool {
	var first time.Time
	proven := false
	for _, r := range c.readings {
		switch {
		case r.at.Before(before.ended) || r.ended.After(after.at):
		case r.found():
			first, proven = time.Time{}, false
		case !r.notFound():
		case first.IsZero():
			first = r.at
		default:
			proven = proven || r.at.Sub(first) >= notFoundGap
		}
	}
	return proven
}

// resent looks into the ledger: an attempt of a worker that was begun after one with
// an unknown outcome was recorded, with nothing that could have settled it.
func (v *verdict) resent(name string, c *caseFile) {
	if c.detail == nil || exempt(c.order) || c.detail.Inquiries >= 2 {
		return
	}
	unknown := 0 // its number
	for _, a := range attempts(c.detail) {
		if a.By == byWorker {
			v.check(name, c, unknown == 0, "attempt %d was made after attempt %d, whose outcome is unknown", a.N, unknown)
		}
		if a.Outcome == jobs.OutcomeUnknown {
			unknown = a.N
		}
	}
}

const byWorker = "worker"

func attempts(d *ledger.Detail) []jobs.Event {
	var out []jobs.Event
	for _, e := range d.Timeline {
		if e.Event == "attempt" {
			out = append(out, e)
		}
	}
	return out
}

func (v *verdict) deadline(c *caseFile) {
	if c.detail.DeadlineAt == nil {
		return
	}
	for _, a := range c.arrivals {
		if a.attempt != "" {
			v.check(p3, c, !a.at.After(c.detail.DeadlineAt.Time), "attempt %s arrived %s after the deadline", a.attempt, a.at.Sub(c.detail.DeadlineAt.Time))
		}
	}
}

// wire holds the requests of the workers against their attempts.
func (v *verdict) wire(c *caseFile) {
	if exempt(c.order) {
		return
	}
	arrived := map[string]int{}
	for _, a := range c.arrivals {
		if a.attempt != "" {
			arrived[a.attempt]++
			v.onWire++
		}
	}
	for _, a := range attempts(c.detail) {
		if a.By != byWorker {
			continue
		}
		n := fmt.Sprint(a.N)
		switch {
		case arrived[n] == 1:
			v.check(wire, c, a.Outcome != jobs.OutcomeNotSent, "attempt %s is recorded as not sent, and arrived", n)
		case arrived[n] > 1:
			v.check(wire, c, false, "attempt %s arrived %d times", n, arrived[n])
		case a.Class == jobs.ClassWorkerLost:
			v.surplus++
		default:
			v.check(wire, c, a.Outcome == jobs.OutcomeNotSent, "attempt %s (%s, %s) never arrived", n, a.Outcome, a.Class)
		}
		delete(arrived, n)
	}
	for n := range arrived {
		v.check(wire, c, false, "attempt %s arrived and is not in the ledger", n)
	}
}

// word holds what the ledger knows against what the gateway did.
func (v *verdict) word(c *caseFile) {
	switch c.detail.Applied {
	case jobs.AppliedYes:
		v.check(word, c, c.effects > 0, "counts as applied, and took no effect")
	case jobs.AppliedNo:
		if exempt(c.order) {
			if c.effects > 0 {
				v.forgotten++
			}
			return
		}
		// Of a call that the shop forgot nobody told the ledger.
		v.check(word, c, c.effects == 0 || c.way == calledSilent, "counts as not applied, and took effect")
	}
}

// recoveries: an attempt that was closed as worker_lost after a kill. While Redis is
// away nothing can be closed, so those count by themselves.
func (v *verdict) recoveries(c *caseFile, e evidence) {
	for _, a := range attempts(c.detail) {
		if a.By != byWorker || a.Class != jobs.ClassWorkerLost || a.At == nil || a.DurationMS == nil {
			continue
		}
		from := a.At.Time
		to := from.Add(time.Duration(*a.DurationMS) * time.Millisecond)
		away := slices.ContainsFunc(e.outages, func(o outage) bool { return o.from.Before(to) && o.to.After(from) })
		i := slices.IndexFunc(e.kills, func(k time.Time) bool { return k.After(from) && k.Before(to) })
		if i >= 0 && !away {
			v.recovery = append(v.recovery, to.Sub(e.kills[i]))
		}
	}
}

// totals is what belongs to no order.
func (v *verdict) totals(e evidence) {
	listed, known := map[jobs.State]int64{}, map[string]bool{}
	for _, c := range e.cases {
		known[c.ref()] = true
		if c.detail != nil {
			listed[c.detail.State] += int64(len(c.indexes))
		}
	}
	counted := map[jobs.State]int64{}
	for _, n := range e.counts {
		counted[n.State] += n.N
	}
	for _, s := range jobs.States {
		v.check(p2Counts, nil, counted[s] == listed[s], "%s: %d counted, %d listed", s, counted[s], listed[s])
	}
	for _, stray := range e.strays {
		v.check(p2Counts, nil, false, "%s: nobody ordered it", stray)
	}
	for _, entry := range e.entries {
		if !known[entry.Reference] {
			v.check(p2Counts, nil, false, "the gateway acted on %s %s, and nobody ordered it", entry.Route, entry.Reference)
		}
	}
}
