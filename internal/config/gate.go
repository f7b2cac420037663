package config

import (
	"time"
)

// Limits of what the gate is told.
const (
	minBreakerWindow = time.Second
	maxBreakerWindow = 10 * time.Minute // longer, and a dependency would be judged by what it was long ago
	maxMinCalls      = 1_000_000
	maxConsecutive   = 1000
	maxOpen          = time.Hour // longer, and a dependency that is well again stays unused
	maxProbes        = 100       // more at once would no longer be a careful question
	maxRamp          = time.Hour
	maxDrain         = 10_000    // calls a second: beyond it, there is no lane
	maxRate          = 1_000_000 // calls a second, and tokens of a burst: thousandths of it stay exact in Lua
)

// Breaker says when a dependency counts as down, shared by all processes, and how it
// is tried again. Timeouts, resets, 5xx, 429 and slow calls are its failures.
type Breaker struct {
	// Window is how far back results count: 1 s to 10 min in whole seconds, and at least
	// the dependency's Timeout. Default 10 s, or the Timeout rounded up to whole seconds
	// where that is more.
	Window           time.Duration
	MinCalls         int           // so many results in the window before FailureRateMilli opens it, 1 to 1,000,000; default 20
	FailureRateMilli int64         // thousandths of the results in the window that are failures: it opens; 1 to 1000; default 500 (0.5)
	Consecutive      int           // failures in a row that open it whatever MinCalls says, at most 1000; 0: none do; default 5
	SlowCall         time.Duration // a call that takes longer is a failure, whatever it brought; 0: no call is slow; default 2 s
	Open             time.Duration // how long nothing leaves once it opened; doubled each time a probe fails; above 0; default 5 s
	MaxOpen          time.Duration // Open at most, however often it doubled; Open to 1 h; default 60 s, or Open where that is more
	Probes           int           // calls that may try a dependency after Open, of all processes together, 1 to 100; default 3
	Ramp             time.Duration // over which the dependency gets its full share again after the breaker closed; 0: at once; at most 1 h; default 60 s
}

// Drain bounds the drain lane, which empties a backlog while the dependency is
// healthy, on top of what the budget allows.
type Drain struct {
	MaxMilliPerSecond int64 // thousandths of a call per second, up to 10,000 a second; 0: the lane is shut; default 10,000 (10/s)
}

// Rate bounds the calls of all processes, first attempts included.
type Rate struct {
	MilliPerSecond int64 // thousandths of a call per second, up to 1,000,000 a second; 0: no limit, the default
	Burst          int64 // calls at one instant, up to 1,000,000; 0, the default: a tenth of a second's worth, at least 1; refused without a limit
}

// NewBreaker returns the defaults for a dependency with such a timeout.
func NewBreaker(timeout time.Duration) Breaker {
	return Breaker{
		Window:           max(10*time.Second, (timeout + time.Second - 1).Truncate(time.Second)),
		MinCalls:         20,
		FailureRateMilli: 500,
		Consecutive:      5,
		SlowCall:         2 * time.Second,
		Open:             5 * time.Second,
		MaxOpen:          60 * time.Second,
		Probes:           3,
		Ramp:             60 * time.Second,
	}
}

// gate reads what dep's calls are bound to beside the budget; its timeout is known.
func (d *decoder) gate(o *object, dep *Dependency) {
	if v, ok := o.take("rate"); ok {
		r := v.object("per_second: 50, burst: 5")
		r.milli("per_second", &dep.Rate.MilliPerSecond)
		integer(r, "burst", &dep.Rate.Burst)
		r.done()
	}
	if v, ok := o.take("drain"); ok {
		l := v.object("max_per_second: 10")
		l.milli("max_per_second", &dep.Drain.MaxMilliPerSecond)
		l.done()
	}
	dep.Breaker = NewBreaker(dep.Timeout)
	if v, ok := o.take("breaker"); ok {
		d.breaker(v, &dep.Breaker)
	}
}

// breaker reads what is written into b, which holds the defaults.
func (d *decoder) breaker(v value, b *Breaker) {
	o := v.object("window: 10s, failure_rate: 0.5")
	o.span("window", &b.Window)
	integer(o, "min_calls", &b.MinCalls)
	o.milli("failure_rate", &b.FailureRateMilli)
	integer(o, "consecutive", &b.Consecutive)
	o.span("slow_call", &b.SlowCall)
	o.span("open", &b.Open)
	b.MaxOpen = max(b.MaxOpen, b.Open)
	o.span("max_open", &b.MaxOpen)
	integer(o, "probes", &b.Probes)
	o.span("ramp", &b.Ramp)
	o.done()
}
