package gate

import (
	"sync"

	"redrive/internal/budget"
)

// Seeds of the metastable case: those of the runs that we compare with.
var seeds = []uint64{42, 7, 99}

const (
	seed          = 1
	fullOutage    = 3600 // seconds, of the night
	recoveryLimit = 6000
	// naiveLimit is for how many seconds after the outage a design is watched that will
	// not recover: each of its calls costs us time.
	naiveLimit = 200
)

var failureRates = []float64{0.05, 0.10, 0.20, 0.50, 1.0}

// played runs each scenario once for all tests.
var played sync.Map // of func() Result, by its key

type play struct {
	scenario, strategy string
	n                  int // instances, or seconds: of the outage, to the limit
	x                  float64
	seed               uint64
}

func (p play) result() Result {
	once, _ := played.LoadOrStore(p, sync.OnceValue(p.run))
	return once.(func() Result)()
}

func (p play) run() Result {
	s := strategies[p.strategy]
	switch p.scenario {
	case "rates": // 1000 operations a second for 10 s
		return Brooker(p.seed, s(p.n), p.n, 1000, 10, p.x)
	case "instances": // 100 a second for 60 s, everything fails
		return Brooker(p.seed, s(p.n), p.n, 100, 60, 1)
	case "metastable":
		return Metastable(p.seed, s(p.n), p.x)
	case "night":
		return Night(p.seed, s(0), int64(p.n))
	default:
		return Recovery(p.seed, s(p.n), int64(p.n))
	}
}

// strategies by name; workers is how many processes redeliver where there is a fleet
// that shall have as many as there are instances.
var strategies = map[string]func(workers int) Strategy{
	"none":           always(Retries(0)),
	"3 retries":      always(Retries(3)),
	"own buckets":    always(Buckets(5)),
	"own buckets 10": always(Buckets(10)),
	"budget":         func(n int) Strategy { return Redrive(Fleet{Workers: n, Slots: 10, Params: budgetAlone()}) },
	"gate":           always(Redrive(Fleet{Workers: 5, Slots: 10, Params: Defaults()})),

	"night: no budget": always(Redrive(Fleet{Workers: 2, Slots: 1 << 30, NoBudget: true, Params: with(func(p *budget.Params) {
		p.MaxInFlight, p.Breaker.RampMS = 0, 0
	})})),
	"night: ratio":    always(nightFleet(0, 0)),
	"night: floor 1":  always(nightFleet(1000, 0)),
	"night: floor 10": always(nightFleet(10_000, 0)),
	"night: gate":     always(nightFleet(1000, 85_000)),

	"full jitter 60 s":  always(FullJitter(60)),
	"full jitter 1200s": always(FullJitter(1200)),
	"recovery: budget": always(Redrive(Fleet{Workers: 5, Slots: 10, Params: with(func(p *budget.Params) {
		p.Cap, p.DrainMilliPerSecond, p.Breaker = 80, 0, budget.Breaker{}
	})})),
	"recovery: breaker":     always(recoveryFleet(80, 0, 0)),
	"recovery: breaker 700": always(recoveryFleet(700, 0, 0)),
	"recovery: ramp":        always(recoveryFleet(80, 60_000, 0)),
	"recovery: gate":        always(recoveryFleet(80, 60_000, 16_000)),
	"recovery: wrong lane":  always(recoveryFleet(80, 60_000, 60_000)),
}

func always(s Strategy) func(int) Strategy { return func(int) Strategy { return s } }

func with(change func(*budget.Params)) budget.Params {
	p := Defaults()
	change(&p)
	return p
}

// budgetAlone has no breaker and no lane, so that the bucket is seen by itself.
func budgetAlone() budget.Params {
	return with(func(p *budget.Params) { p.DrainMilliPerSecond, p.Breaker = 0, budget.Breaker{} })
}

func nightFleet(floorMilli, drainMilli int64) Strategy {
	return Redrive(Fleet{Workers: 2, Slots: 20, Params: with(func(p *budget.Params) {
		p.FloorMilliPerSecond, p.DrainMilliPerSecond = floorMilli, drainMilli
	})})
}

// recoveryFleet has a breaker. Without a ramp its tokens survive the outage, too.
func recoveryFleet(tokens, rampMS, drainMilli int64) Strategy {
	return Redrive(Fleet{Workers: 5, Slots: 10, KeepTokens: rampMS == 0, Params: with(func(p *budget.Params) {
		p.Cap, p.Breaker.RampMS, p.DrainMilliPerSecond = tokens, rampMS, drainMilli
	})})
}

func rates(strategy string, instances int, failureRate float64) Result {
	return play{"rates", strategy, instances, failureRate, seed}.result()
}

func instances(strategy string, n int) Result {
	return play{"instances", strategy, n, 1, seed}.result()
}

func metastable(strategy string, load float64, seed uint64) Result {
	return play{"metastable", strategy, 5, load, seed}.result()
}

func night(strategy string, outage int) Result {
	return play{"night", strategy, outage, 0, seed}.result()
}

func recovery(strategy string, limit int) Result {
	return play{"recovery", strategy, limit, 0, seed}.result()
}
