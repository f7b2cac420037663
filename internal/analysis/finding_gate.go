package analysis

import (
	"fmt"
	"math"
	"time"

	"redrive/internal/config"
)

// demand writes the arithmetic of a pool that wants more slots than it has.
func demand(p Pool) string {
	return fmt.Sprintf("%s calls/s x %s failing x %s hold = %s slots wanted, of %d", number(p.PerSecond), number(p.Failing), span(p.Hold), number(p.Wanted()), p.Slots)
}

// remedy says what a pool that is exhausted would bear.
func remedy(p Pool) string {
	return fmt.Sprintf("at least %d slots, or a hold time of at most %s; the slots there are bear %s calls/s",
		p.Needs(), span(seconds(float64(p.Slots)/(p.PerSecond*p.Failing))), number(p.Bears()))
}

// slotsExhausted: calls that time out alone want more slots than the workers have. No
// breaker prevents that: its first result is there after a timeout, and by then slots
// that run out have run out. Where it opens it ends it.
func slotsExhausted(r *report, path string, d *config.Dependency) {
	p := r.load.workerPool(d)
	fills, exhausted := p.FillsIn()
	if !exhausted {
		return
	}
	at := path + ".slots"
	if d.MaxInFlight > 0 && d.MaxInFlight < d.Slots*r.load.Processes {
		at = path + ".max_in_flight"
	}
	severity, ends := Warning, "the breaker does not end it but by chance"
	if opens, ok := opensAfter(d, p.PerSecond, p.Failing); ok {
		severity, ends = Note, fmt.Sprintf("the breaker ends it %s after it began", span(opens))
	}
	r.add("slots-exhausted", severity, at, fmt.Sprintf("all are held after %s, and due operations of this dependency wait for slots; %s", span(fills), ends), remedy(p), "%s", demand(p))
}

// requestPathExhausted: a request path that sends again in its slot runs out of slots.
func requestPathExhausted(r *report, path string, d *config.Dependency) {
	p := r.load.requestPool(d)
	if r.load.ResendsInRequest == 0 || !p.Exhausted() {
		return
	}
	fills, _ := p.FillsIn()
	r.add("request-path-exhausted", Error, path+".timeout",
		fmt.Sprintf("exhaustion %s s (below 1): all slots are held after %s, and the path serves nobody, not even those who need nothing of this dependency", number(p.Exhaustion()), span(fills)),
		fmt.Sprintf("no resend in the slot: hold %s, %s slots wanted; or %s", span(d.Timeout), number(p.Wanted()/float64(r.load.ResendsInRequest+1)), remedy(p)),
		"a request path that sends %d times in its slot: %s", r.load.ResendsInRequest+1, demand(p))
}

// breakerNeverOpens: the window never holds min_calls results, and no run opens it.
func breakerNeverOpens(r *report, path string, d *config.Dependency) {
	perSecond, from := r.load.at(d)
	results := resultsInWindow(d, perSecond)
	if d.Breaker.Consecutive > 0 || results >= float64(d.Breaker.MinCalls) {
		return
	}
	r.add("breaker-never-opens", Warning, path+".breaker.min_calls", "the breaker never opens: a dependency that is down is called on as if it were well",
		fmt.Sprintf("min_calls of at most %d, a longer window, or consecutive: 5", max(1, int(results))),
		"%d results are asked for, but at %s calls/s (%s) the window of %s holds %s, and consecutive is 0", d.Breaker.MinCalls, number(perSecond), from, span(d.Breaker.Window), number(results))
}

// budgetWithoutFloor: retries live on first attempts alone.
func budgetWithoutFloor(r *report, path string, d *config.Dependency) {
	if d.Budget.FloorMilliPerSecond > 0 {
		return
	}
	r.add("budget-without-floor", Warning, path+".budget.floor_per_second", "where no first attempts are sent, at night or in an outage, nothing is retried and no inquiry is made",
		"1, which is 3600 calls an hour at most", "0: only first attempts fill the budget")
}

// floorAboveLoad: the floor alone lets through as much again as a dependency gets. At a
// load that nobody stated it is measured against the rate.
func floorAboveLoad(r *report, path string, d *config.Dependency) {
	perSecond, from := r.load.at(d)
	floor := float64(d.Budget.FloorMilliPerSecond) / 1000
	if from == "assumed" || floor <= perSecond {
		return
	}
	r.add("budget-floor-above-load", Warning, path+".budget.floor_per_second", "in an outage the dependency gets more than twice its usual calls, which is what a budget is there to prevent",
		fmt.Sprintf("at most %s", number(math.Max(0.001, perSecond/10))), "%s a second are let through without any first attempt, and the load is %s (%s)", number(floor), number(perSecond), from)
}

// capBelowSlots: not even one process can retry with all its slots at once.
func capBelowSlots(r *report, path string, d *config.Dependency) {
	if d.Budget.Cap >= int64(d.Slots) {
		return
	}
	r.add("budget-cap-below-slots", Note, path+".budget.cap", "after a short failure retries leave in smaller groups than the slots could take; that is careful, and slow",
		fmt.Sprintf("%d or more, unless it is meant", d.Slots), "%d is less than the slots of one process (%d)", d.Budget.Cap, d.Slots)
}

// backlogSmall: an outage leaves more behind than the ledger takes.
func backlogSmall(r *report, path string, d *config.Dependency) {
	perSecond, _ := r.load.at(d)
	backlog := perSecond * r.load.Outage.Seconds()
	if backlog <= float64(d.MaxBacklog) {
		return
	}
	full := time.Duration(float64(d.MaxBacklog) / perSecond * float64(time.Second))
	r.add("backlog-too-small", Warning, path+".max_backlog", "from then on submissions are refused, and only their request path knows of them",
		"at least "+number(math.Ceil(backlog)),
		"%d operations: full after %s of an outage at %s calls/s", d.MaxBacklog, span(full), number(perSecond))
}

// rateBelowLoad: what comes in does not fit through.
func rateBelowLoad(r *report, path string, d *config.Dependency) {
	perSecond, _ := r.load.at(d)
	rate := float64(d.Rate.MilliPerSecond) / 1000
	if rate == 0 || rate >= perSecond {
		return
	}
	r.add("rate-below-load", Error, path+".rate.per_second", fmt.Sprintf("the backlog grows by %s operations an hour until they miss their deadlines", number((perSecond-rate)*3600)),
		fmt.Sprintf("at least %s: the load and what budget.ratio adds", number(perSecond*(1+float64(d.Budget.RatioMilli)/1000))), "%s calls/s are let through, and %s first attempts come in", number(rate), number(perSecond))
}
