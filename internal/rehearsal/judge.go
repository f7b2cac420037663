package rehearsal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/sandbox"
)

// Evidence is everything that the judge looks at.
type Evidence struct {
	Orders  []Order // what was handed over and accepted
	Settled []Order // what was answered on the request path, and so never handed over

	// The gateway's account.
	Ledger   []sandbox.Entry
	Arrivals []Arrival // in order

	// The system's word, as often as it lists an operation.
	Operations []jobs.Operation

	Limits Limits
	Took   time.Duration
}

// Limits are what the system was told to keep to.
type Limits struct {
	// Of the budget (P4).
	Cap            int64   // calls beyond the first that may be saved up
	Ratio          float64 // of them per first attempt
	FloorPerSecond float64
	LanePerSecond  float64 // of the drain lane, while the dependency is healthy
	Probes         int64   // of all half-open periods together
	// Of the slots (P5).
	Slots        int           // attempts at once, of all workers
	InquirySlots int           // the same of inquiries, which have slots of their own
	Timeout      time.Duration // of one call
}

const (
	// holdGrace is what a busy machine may take to notice that a call is over.
	holdGrace = 2 * time.Second
	// endGrace: the gateway may see a client leave later than its slot was free.
	endGrace = 20 * time.Millisecond
	// drawnEarly: a token is drawn, and a first attempt fills, before the request
	// arrives here. Two that were drawn this far apart may arrive together.
	drawnEarly = time.Second
)

// Judge says what came of a rehearsal. Pure.
func Judge(e Evidence) Report {
	j := judgement{Evidence: e, entries: map[refKey]sandbox.Entry{}, words: map[jobs.ID][]jobs.Operation{},
		sends: map[string][]Arrival{}, inquiries: map[string]int{}}
	for _, entry := range e.Ledger {
		j.entries[refKey{entry.Route, entry.Reference}] = entry
	}
	for _, o := range e.Operations {
		j.words[o.ID()] = append(j.words[o.ID()], o)
	}
	for _, a := range e.Arrivals {
		if a.Inquiry {
			j.inquiries[a.Correlation]++
			continue
		}
		j.sends[a.Correlation] = append(j.sends[a.Correlation], a)
	}
	j.report = Report{Operations: len(e.Orders), Dead: map[jobs.Reason]int{}, Seconds: seconds(e.Took),
		Settled: len(e.Settled), Promises: map[string]bool{}}
	for i := range e.Orders {
		j.order(&e.Orders[i])
	}
	j.strangers()
	j.storm()
	j.slots()
	for _, p := range Promises {
		j.report.Promises[p] = !slices.ContainsFunc(j.report.Broken, func(b Breach) bool { return b.Promise == p })
	}
	return j.report
}

// seconds rounds to what a person reads.
func seconds(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }

type refKey struct{ route, reference string }

type judgement struct {
	Evidence
	entries   map[refKey]sandbox.Entry
	words     map[jobs.ID][]jobs.Operation
	sends     map[string][]Arrival // by correlation, in order
	inquiries map[string]int       // by correlation
	report    Report
}

func (j *judgement) broken(promise, format string, args ...any) {
	j.report.Broken = append(j.report.Broken, Breach{Promise: promise, What: fmt.Sprintf(format, args...)})
}

// order holds the two accounts of one order against each other.
func (j *judgement) order(order *Order) {
	entry := j.entries[refKey{order.Route, order.Reference}]
	sends := j.sends[order.Correlation]
	if len(sends) > 0 {
		j.report.FirstAttempts++
		j.report.Retries += len(sends) - 1
	}
	asked := j.inquiries[order.Correlation]
	if asked > 0 {
		j.report.Inquiries += asked
		j.report.Asked++
	}
	switch {
	case entry.SideEffects == 1:
		j.report.ChargedOnce++
	case entry.SideEffects > 1:
		j.report.ChargedTwice++
		j.broken("P1", "%s took effect %d times", order.ID, entry.SideEffects)
	}
	if order.Keyed {
		j.sameKey(order, sends)
	}

	words := j.words[order.ID]
	if len(words) != 1 {
		j.report.Lost++
		j.broken("P2", "%s is listed %d times, not once", order.ID, len(words))
		return
	}
	j.state(order, &words[0], entry.SideEffects)
	j.deadline(order, &words[0], sends)
	if asked > 0 && words[0].State == jobs.Succeeded {
		j.report.AskedSucceeded++
	}
}

// sameKey: under a key that changes, the gateway cannot tell a resend from
// a second operation, whether it happened to act on both or not.
func (j *judgement) sameKey(order *Order, sends []Arrival) {
	for _, c := range sends {
		if c.Key == "" || c.Key != sends[0].Key {
			j.broken("P1", "%s was sent under the keys %q and %q", order.ID, sends[0].Key, c.Key)
			return
		}
	}
}

// state: every operation ends, and its end is true.
func (j *judgement) state(order *Order, o *jobs.Operation, effects int) {
	switch {
	case !o.State.Ended():
		j.lost("%s never ended: it is %s", order.ID, o.State)
	case o.State == jobs.Succeeded && effects == 0:
		j.lost("%s counts as succeeded, and the gateway knows of no effect", order.ID)
	case o.Applied == jobs.AppliedNo && effects > 0:
		j.lost("%s counts as not applied, and the gateway acted on it", order.ID)
	}
	switch o.State {
	case jobs.Succeeded:
		j.report.Succeeded++
	case jobs.Dead:
		j.report.Dead[reasonOf(o)]++
	}
}

func (j *judgement) lost(format string, args ...any) {
	j.report.Lost++
	j.broken("P2", format, args...)
}

func reasonOf(o *jobs.Operation) jobs.Reason {
	if o.Reason == nil {
		return ""
	}
	return *o.Reason
}

// deadline looks at the workers' sends: the request path's own came before there was
// an operation, and an inquiry has no deadline.
func (j *judgement) deadline(order *Order, o *jobs.Operation, sends []Arrival) {
	if o.DeadlineAt == nil {
		return
	}
	for _, c := range sends {
		if c.Attempt != "" && c.At.After(o.DeadlineAt.Time) {
			j.report.Late++
			j.broken("P3", "%s: attempt %s arrived %s after the deadline", order.ID, c.Attempt, c.At.Sub(o.DeadlineAt.Time).Round(time.Millisecond))
		}
	}
}

// strangers: money that moved for something nobody asked for.
func (j *judgement) strangers() {
	known := make(map[refKey]bool, len(j.Orders))
	for _, order := range slices.Concat(j.Orders, j.Settled) {
		known[refKey{order.Route, order.Reference}] = true
	}
	for _, e := range j.Ledger {
		if !known[refKey{e.Route, e.Reference}] && e.SideEffects > 0 {
			j.broken("P1", "the gateway acted on %s/%s, which nobody asked for", e.Route, e.Reference)
		}
	}
}

// storm looks at every window between two requests: the extra calls in [a,b] must
// not exceed cap + probes + ratio x first attempts in [a-1s,b] + floor x (b-a+1s), where
// floor is that of the bucket and the most of the drain lane. With the running sums E (extra), F (first) and time t that is, for all a <= b,
//
//	E(b) - ratio F(b) - floor b  -  (E(before a) - ratio F(before a-1s) - floor (a-1s))  <=  cap
//
// so one pass with the least second half so far looks at all of them.
func (j *judgement) storm() {
	if len(j.Arrivals) == 0 {
		return
	}
	arrivals := slices.Clone(j.Arrivals)
	slices.SortStableFunc(arrivals, func(a, b Arrival) int { return a.At.Compare(b.At) })
	start := arrivals[0].At
	most, floor := j.Limits.Cap+j.Limits.Probes, j.Limits.FloorPerSecond+j.Limits.LanePerSecond
	seen := map[string]bool{}
	var extra, first float64
	var firstsAt []time.Time // in order
	early := 0               // how many of them lie before a-1s
	least, worst, worstAt := math.Inf(1), 0.0, start
	for _, a := range arrivals {
		t := a.At.Sub(start).Seconds()
		for early < len(firstsAt) && firstsAt[early].Before(a.At.Add(-drawnEarly)) {
			early++
		}
		least = min(least, extra-j.Limits.Ratio*float64(early)-floor*(t-drawnEarly.Seconds()))
		if a.Inquiry || seen[a.Correlation] {
			extra++
		} else {
			seen[a.Correlation] = true
			first++
			firstsAt = append(firstsAt, a.At)
		}
		if over := extra - j.Limits.Ratio*first - floor*t - least; over > worst {
			worst, worstAt = over, a.At
		}
	}
	const rounding = 1e-6
	if worst > float64(most)+rounding {
		j.broken("P4", "%.0f calls beyond the first were made on top of what ratio and floor give, %d may be (until second %.1f)",
			worst, most, worstAt.Sub(start).Seconds())
	}
}

// slots: a worker's call ends within its timeout, and no more of them are open at
// once than there are slots. The request path has none.
func (j *judgement) slots() {
	var attempts, inquiries []Arrival
	for _, a := range j.Arrivals {
		switch {
		case a.Inquiry:
			inquiries = append(inquiries, a)
		case a.Attempt != "":
			attempts = append(attempts, a)
		}
	}
	for _, a := range slices.Concat(attempts, inquiries) {
		if held := a.Ended.Sub(a.At); a.Ended.IsZero() || held > j.Limits.Timeout+holdGrace {
			j.broken("P5", "a call of %s was open for %s, %s are allowed", a.Correlation, held.Round(time.Millisecond), j.Limits.Timeout)
		}
	}
	if most := j.atOnce(attempts); most > j.Limits.Slots {
		j.broken("P5", "%d attempts were open at once, there are %d slots", most, j.Limits.Slots)
	}
	if most := j.atOnce(inquiries); most > j.Limits.InquirySlots {
		j.broken("P5", "%d inquiries were open at once, there are %d slots for them", most, j.Limits.InquirySlots)
	}
}

// atOnce is how many of the calls were open at once.
func (j *judgement) atOnce(calls []Arrival) int {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, a := range calls {
		end := a.At.Add(j.Limits.Timeout - endGrace)
		if a.Ended.Before(end) {
			end = a.Ended
		}
		changes = append(changes, change{a.At, 1}, change{end, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	open, most := 0, 0
	for _, c := range changes {
		open += c.by
		most = max(most, open)
	}
	return most
}
