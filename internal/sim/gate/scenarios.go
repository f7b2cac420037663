package gate

import "redrive/internal/budget"

// Strategy is what stands between the operations and the dependency.
type Strategy func(w *world, d dependency, timeoutUS int64, instances int) client

func byRule(r func(instances int) rule) Strategy {
	return func(w *world, d dependency, timeoutUS int64, instances int) client {
		return &rival{w: w, d: d, timeoutUS: timeoutUS, rule: r(instances)}
	}
}

// Retries tries at most n times more, at once.
func Retries(n int) Strategy { return byRule(func(int) rule { return retries(n) }) }

// Buckets gives every instance a token bucket of its own: a tenth of a token per first
// attempt, one per retry, full at the start.
func Buckets(size int) Strategy {
	return byRule(func(instances int) rule { return newBuckets(instances, size) })
}

// FullJitter tries for ever, after a wait drawn between 0 and a second that doubles with
// each failure up to capSeconds.
func FullJitter(capSeconds int64) Strategy {
	return byRule(func(int) rule { return jittered{capUS: capSeconds * second} })
}

// Redrive is the fleet; the scenario says how many instances it has.
func Redrive(f Fleet) Strategy {
	return func(w *world, d dependency, timeoutUS int64, instances int) client {
		f.Instances = instances
		return newFleet(w, d, timeoutUS, f)
	}
}

// Defaults are the gate's parameters as docs/config.md has them where nothing is written.
func Defaults() budget.Params {
	return budget.Params{
		RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 1000, DrainMilliPerSecond: 10_000, MaxInFlight: 40, Slots: 10,
		Breaker: budget.Breaker{WindowMS: 10_000, MinCalls: 20, FailureRateMilli: 500, Consecutive: 5, OpenMS: 5000, MaxOpenMS: 60_000,
			Probes: 3, RampMS: 60_000},
	}
}

// BrookerTailSeconds is how long what is under way may go on once nothing arrives.
const BrookerTailSeconds = 2

// Brooker is the generator of Marc Brooker's retry simulator (2022): instances that make
// perSecond operations a second together, each at random distances with a first one at
// once, against a dependency that fails a share of calls whatever the load.
func Brooker(seed uint64, s Strategy, instances int, perSecond float64, seconds int64, failureRate float64) Result {
	w := newWorld(seed)
	d := flaky{failureRate: failureRate, legUS: float64(10 * millisecond)}
	c := s(w, d, 0, instances)
	for i := range instances {
		w.after(w.exponential(float64(10*millisecond)), func() {
			c.arrive(i)
			w.poisson(perSecond/float64(instances), seconds*second, func() { c.arrive(i) })
		})
	}
	return w.run((seconds + BrookerTailSeconds) * second)
}

// The metastable case: when one of two servers is out, and how long it is watched.
const (
	ServerOutFrom     = 5
	ServerOutTo       = 10
	MetastableSeconds = 60
)

// Metastable is the case "metastable-retry" of Marc Brooker's stability-sim: two servers
// of 5 slots and 100 ms each, at random, in turn; callers give up after a second and the
// servers work on; one of them refuses from second 5 to 10.
func Metastable(seed uint64, s Strategy, perSecond float64) Result {
	w := newWorld(seed)
	d := &servers{meanUS: float64(100 * millisecond), outFrom: ServerOutFrom * second, outTo: ServerOutTo * second,
		all: []*server{{slots: 5}, {slots: 5}}}
	const instances = 5
	c := s(w, d, second, instances)
	n := 0
	w.poisson(perSecond, MetastableSeconds*second, func() {
		c.arrive(n % instances)
		n++
	})
	return w.run(MetastableSeconds*second - 1)
}

// The night after an outage: NightOutFrom seconds of normal load, the outage, the night.
const (
	NightOutFrom = 60
	NightSeconds = 8 * 3600
	NightLoad    = 100 // operations a second until the outage is over
)

// Night lets 100 operations a second arrive evenly until an outage is over, and then 2 a
// second at random distances for a night of eight hours; the dependency bears anything.
// The run ends when nothing of the outage is left.
func Night(seed uint64, s Strategy, outageSeconds int64) Result {
	w := newWorld(seed)
	outTo := (NightOutFrom + outageSeconds) * second
	d := &loaded{latencyUS: 50 * millisecond, outFrom: NightOutFrom * second, outTo: outTo}
	const instances = 5
	c := s(w, d, 0, instances)
	n := 0
	arrive := func() {
		c.arrive(n % instances)
		n++
	}
	end := outTo + NightSeconds*second
	w.evenly(NightLoad, outTo, arrive)
	w.after(outTo, func() { w.poisson(2, end, arrive) })
	w.endWhenDrained(outTo)
	return w.run(end - 1)
}

// The recovery of a dependency that suffers from load, in seconds.
const (
	RecoveryOutFrom  = 120
	RecoveryOutTo    = RecoveryOutFrom + 600
	RecoveryCapacity = 100
	RecoveryLoad     = 70
)

// Recovery lets 70 operations a second arrive evenly at a dependency that bears 100 and
// fails everything for 600 s. The run ends when nothing of the outage is left, or so
// many seconds after it.
func Recovery(seed uint64, s Strategy, limitSeconds int64) Result {
	w := newWorld(seed)
	d := &loaded{capacity: RecoveryCapacity, latencyUS: 50 * millisecond, outFrom: RecoveryOutFrom * second, outTo: RecoveryOutTo * second}
	const instances = 5
	c := s(w, d, 0, instances)
	n := 0
	end := (RecoveryOutTo + limitSeconds) * second
	w.evenly(RecoveryLoad, end, func() {
		c.arrive(n % instances)
		n++
	})
	w.endWhenDrained(RecoveryOutTo * second)
	return w.run(end - 1)
}

// endWhenDrained ends the run at the first second after an instant that begins with an
// empty backlog.
func (w *world) endWhenDrained(fromUS int64) {
	var look func()
	look = func() {
		if w.result.Backlog == 0 {
			w.end()
			return
		}
		w.after(second, look)
	}
	w.after(fromUS+second-w.nowUS, look)
}
