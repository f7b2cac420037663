package analysis

import (
	"errors"
	"fmt"
	"math"
	"time"

	"redrive/internal/config"
)

// Load is what the figures are worked out for. [DefaultLoad] has the defaults.
type Load struct {
	// PerSecond is first attempts per second at each dependency, of all processes. 0,
	// the default: half the dependency's rate.per_second, and 1 where it has none.
	PerSecond float64
	Failing   float64 // share of the calls that run into the timeout, 0 to 1; default 0.4
	Processes int     // workers that share a dependency, at least 1; default 1
	// ResendsInRequest is how often a request path that retries in its own slot sends
	// again; 0, the default: it sends once and hands over.
	ResendsInRequest int
	Outage           time.Duration // how long a dependency is away, its backlog growing; default 10 min; 0: no backlog
}

// Limits of a load, so that no product of it overflows or means nothing.
const (
	maxPerSecond = 1_000_000
	leastPart    = 0.000001 // of a call per second, and of the calls
	maxProcesses = 100_000
	maxResends   = 1000
)

// DefaultLoad returns the load where nobody states one.
func DefaultLoad() Load { return Load{Failing: 0.4, Processes: 1, Outage: 10 * time.Minute} }

// Validate returns every value that is out of its range, in one error.
func (l Load) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if l.PerSecond != 0 && !(l.PerSecond >= leastPart && l.PerSecond <= maxPerSecond) { // NaN is in no range
		bad("load %v: want first attempts per second, %v to %d, or 0 for half of the dependency's rate", l.PerSecond, leastPart, maxPerSecond)
	}
	if l.Failing != 0 && !(l.Failing >= leastPart && l.Failing <= 1) {
		bad("failing %v: want a share from 0 to 1, such as 0.4; not 0, and less than %v, means nothing", l.Failing, leastPart)
	}
	if l.Processes < 1 || l.Processes > maxProcesses {
		bad("processes %d: want 1 to %d", l.Processes, maxProcesses)
	}
	if l.ResendsInRequest < 0 || l.ResendsInRequest > maxResends {
		bad("resends in the request %d: want 0 to %d", l.ResendsInRequest, maxResends)
	}
	if l.Outage < 0 || l.Outage > config.MaxDuration {
		bad("outage %s: want 0 to %s", l.Outage, span(config.MaxDuration))
	}
	return errors.Join(errs...)
}

// at returns the load of one dependency, and where it is from.
func (l Load) at(d *config.Dependency) (perSecond float64, from string) {
	switch {
	case l.PerSecond > 0:
		return l.PerSecond, "stated"
	case d.Rate.MilliPerSecond > 0:
		return float64(d.Rate.MilliPerSecond) / 2000, "half of rate.per_second"
	default:
		return 1, "assumed"
	}
}

// Pool is slots that calls are made in, and what the calls that time out do to it.
type Pool struct {
	Slots     int           // calls that may run at once
	Hold      time.Duration // how long a call that times out holds its slot, resends included
	PerSecond float64       // calls that arrive per second
	Failing   float64       // share of them that times out
}

// Hold is how long an operation holds its slot when each of its sends times out.
func Hold(timeout time.Duration, resends int) time.Duration {
	return timeout * time.Duration(resends+1)
}

// Wanted is how many slots the calls that time out hold at once, on average.
func (p Pool) Wanted() float64 { return p.PerSecond * p.Failing * p.Hold.Seconds() }

// Exhaustion is the exhaustion figure in seconds, see the package comment; +Inf if no
// call times out.
func (p Pool) Exhaustion() float64 {
	if p.Wanted() == 0 {
		return math.Inf(1)
	}
	return float64(p.Slots) / p.Wanted()
}

// Exhausted reports whether calls that time out alone want more slots than there are.
func (p Pool) Exhausted() bool { return p.Wanted() > float64(p.Slots) }

// FillsIn is the time from the first call that times out until none of the slots is
// free; ok is false if that never comes.
func (p Pool) FillsIn() (d time.Duration, ok bool) {
	if !p.Exhausted() {
		return 0, false
	}
	return seconds(float64(p.Slots) / (p.PerSecond * p.Failing)), true
}

// Bears is how many calls per second the slots bear while such a share times out; +Inf
// if none does.
func (p Pool) Bears() float64 {
	if p.Failing == 0 {
		return math.Inf(1)
	}
	return float64(p.Slots) / (p.Failing * p.Hold.Seconds())
}

// Needs is the smallest number of slots that is not exhausted.
func (p Pool) Needs() int { return int(math.Ceil(p.Wanted())) }

// workerPool is the slots of Redrive for d: one attempt each, whatever is retried.
func (l Load) workerPool(d *config.Dependency) Pool {
	slots := d.Slots * l.Processes
	if d.MaxInFlight > 0 {
		slots = min(slots, d.MaxInFlight)
	}
	perSecond, _ := l.at(d)
	return Pool{Slots: slots, Hold: d.Timeout, PerSecond: perSecond, Failing: l.Failing}
}

// requestPool is the slots of a request path that has as many as the workers may use,
// and sends again in them.
func (l Load) requestPool(d *config.Dependency) Pool {
	perSecond, _ := l.at(d)
	return Pool{Slots: d.Slots * l.Processes, Hold: Hold(d.Timeout, l.ResendsInRequest), PerSecond: perSecond, Failing: l.Failing}
}

func seconds(s float64) time.Duration {
	if s >= config.MaxDuration.Seconds() {
		return config.MaxDuration
	}
	return time.Duration(s * float64(time.Second))
}
