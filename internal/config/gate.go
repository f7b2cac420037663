package config

import "time"

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
	Consecutive      int           // failures in a row that open it while the window has fewer than MinCalls results, at most 1000; 0: none do; default 5
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
		Window:           min(max(10*time.Second, (timeout+time.Second-1).Truncate(time.Second)), maxBreakerWindow),
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

// gate checks what the gate is told beside the budget.
func (v *validator) gate(path string, d *Dependency) {
	v.milliUpTo(path+".rate.per_second", d.Rate.MilliPerSecond, maxRate)
	v.between(path+".rate.burst", d.Rate.Burst, 0, maxRate, "")
	if d.Rate.MilliPerSecond == 0 && d.Rate.Burst > 0 {
		v.fail(path+".rate.burst", "a burst of %d without per_second bounds nothing: write per_second too, or remove it", d.Rate.Burst)
	}
	v.milliUpTo(path+".drain.max_per_second", d.Drain.MaxMilliPerSecond, maxDrain)
	v.breaker(path+".breaker", d)
}

func (v *validator) breaker(path string, d *Dependency) {
	b := d.Breaker
	switch w := b.Window; {
	case w < minBreakerWindow || w > maxBreakerWindow || w%time.Second != 0:
		v.fail(path+".window", "%s is not from %s to %s in whole seconds", spanText(w), spanText(minBreakerWindow), spanText(maxBreakerWindow))
	case w < d.Timeout && d.Timeout <= maxBreakerWindow: // a longer timeout is refused itself
		v.fail(path+".window", "%s is less than the timeout of %s: a call begun before the breaker opened must be over before results count again",
			spanText(w), spanText(d.Timeout))
	}
	v.between(path+".min_calls", int64(b.MinCalls), 1, maxMinCalls, "of no calls none can have failed")
	if b.FailureRateMilli <= 0 || b.FailureRateMilli > 1000 {
		v.fail(path+".failure_rate", "%s is not above 0 and at most 1: half of all calls is 0.5", milliText(b.FailureRateMilli))
	}
	v.between(path+".consecutive", int64(b.Consecutive), 0, maxConsecutive, "")
	v.span(path+".slow_call", b.SlowCall)
	if v.positive(path+".open", b.Open, "probes would leave at the instant the breaker opened") && v.spanUpTo(path+".open", b.Open, maxOpen) &&
		v.spanUpTo(path+".max_open", b.MaxOpen, maxOpen) && b.MaxOpen < b.Open {
		v.fail(path+".max_open", "%s is less than open (%s), which it bounds", spanText(b.MaxOpen), spanText(b.Open))
	}
	v.between(path+".probes", int64(b.Probes), 1, maxProbes, "a breaker without probes could never close again")
	v.spanUpTo(path+".ramp", b.Ramp, maxRamp)
}

// slowCall warns of a slow_call that no call can reach. The default may be such a one:
// nobody meant anything by it.
func (w *warnings) slowCall(c *Config, path string, d *Dependency) {
	if at := path + ".breaker.slow_call"; d.Breaker.SlowCall >= d.Timeout && c.source.wrote(at) {
		w.add("slow-call-unreachable", at, "less than "+spanText(d.Timeout)+", or 0s", "%s is not less than the timeout of %s: a call is cut before it counts as slow (0s says so openly)", spanText(d.Breaker.SlowCall), spanText(d.Timeout))
	}
}
