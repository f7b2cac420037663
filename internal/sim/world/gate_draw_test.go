package world

import (
	"math/rand/v2"
	"slices"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// credentials that operations may choose, beside the dependency's own.
var credentials = []string{"m1", "m2"}

// gated tells which worlds play with a whole gate. Of six numbers two keep the plain
// bucket of before, so that the seeds kept from then mean what they meant.
func gated(seed uint64) bool { return seed%6 != 1 && seed%6 != 2 }

// drawGate draws parameters so small that a few calls reach every limit.
func drawGate(r *rand.Rand) budget.Params {
	upto := func(from, to int64) int64 { return from + r.Int64N(to-from+1) }
	// or0 is nothing in so many of a hundred cases, else one of a range.
	or0 := func(percent int, from, to int64) int64 {
		if r.IntN(100) < percent {
			return 0
		}
		return upto(from, to)
	}
	p := budget.Params{RatioMilli: or0(20, 50, 500), Cap: upto(1, 15), FloorMilliPerSecond: upto(300, 6000),
		DrainMilliPerSecond: or0(50, 500, 5000), RateMilliPerSecond: or0(65, 800, 8000), RateBurst: or0(50, 1, 3),
		MaxInFlight: or0(55, 1, 4), Slots: slots}
	if r.IntN(100) < 30 {
		p.FloorMilliPerSecond = upto(100, 300) // hardly any token
	}
	b := &p.Breaker
	b.WindowMS, b.OpenMS, b.Probes, b.RampMS = upto(2, 10)*1000, upto(500, 4000), upto(1, 3), or0(25, 1000, 10_000)
	b.MaxOpenMS, b.FailureRateMilli = b.OpenMS+upto(0, 6000), upto(300, 900)
	b.MinCalls, b.Consecutive = or0(30, 3, 6), or0(30, 2, 5) // both 0: it is off
	return p
}

// drawGates gives every process its parameters: mostly the same, as after a roll-out.
func (w *world) drawGates(seed uint64) {
	if !gated(seed) {
		return
	}
	w.gated = true
	r := rand.New(rand.NewPCG(seed, 4))
	p := drawGate(r)
	for _, worker := range w.workers {
		worker.gate = p
	}
	if r.IntN(100) < 20 {
		w.workers[1].gate = drawGate(r)
	}
	w.gates = newGateJudge(w) // without the plain bucket's limits
	w.store.watch = w.gates.saw
	for _, worker := range w.workers {
		w.gates.knows(worker.gate)
		w.logf("the gate of %s is %+v", worker.name, worker.gate)
	}
	// A good spell now and then: without one no breaker ever closes.
	var spell func()
	spell = func() {
		w.gateway.good = !w.gateway.good
		w.gateway.busy = !w.gateway.good && w.chance(40)
		w.after(w.span(5*time.Second, 40*time.Second), "", spell)
	}
	w.after(w.span(5*time.Second, 40*time.Second), "", spell)
}

// said is what the end of a call says of the dependency, as package worker reads it.
func (w *world) said(cl policy.Classification, sample policy.Sample) ledger.Said {
	s := ledger.Said{Sign: sign(cl, sample), Denied: cl.CredentialRefused, Jitter: w.jitter.Int64N(1001)}
	if cl.Class == jobs.Class429 || cl.Class == jobs.Class503 {
		s.Hint = cl.Hint.Wait
	}
	return s
}

func sign(cl policy.Classification, sample policy.Sample) budget.Sign {
	own := []policy.Phase{policy.PhaseTooLate, policy.PhaseWorkerLost}
	switch {
	case slices.Contains(own, sample.Phase):
		return budget.SignNothing
	case cl.Class == jobs.Class429:
		return budget.SignThrottled
	case cl.CredentialRefused:
		return budget.SignDeclined
	case cl.Class == jobs.Class4xx && cl.Outcome != jobs.OutcomeSucceeded:
		return budget.SignDeclined
	case cl.Outcome == jobs.OutcomeSucceeded, cl.Class == jobs.Class2xx, cl.Class == jobs.Class4xx:
		return budget.SignOK
	}
	return budget.SignFailed
}
