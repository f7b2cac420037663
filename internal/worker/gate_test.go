package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// One process of several tells of each change, and the dependency gets a few probes, not
// a herd; once it is well everything ends.
func TestAnOutageOpensTheBreakerForTheWholeFleet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.config.Dependencies[dep]
	d.Breaker.Consecutive, d.Breaker.MinCalls, d.Breaker.Window, d.Breaker.Probes = 5, 1_000_000, time.Second, 2
	d.Breaker.Open, d.Breaker.MaxOpen, d.Breaker.Ramp = 500*time.Millisecond, 500*time.Millisecond, 300*time.Millisecond
	var well atomic.Bool
	var downCalls atomic.Int64
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer {
		if well.Load() {
			return answered(200)
		}
		downCalls.Add(1)
		return answered(503)
	})
	const n = 100
	for range 3 {
		b.worker()
	}
	b.submit("charge", n)
	b.until(10*time.Second, "it is open", func() bool { return len(b.log.with("breaker open")) > 0 })
	b.until(10*time.Second, "a probe failed", func() bool { return len(b.log.with("breaker open", "reason", "probe")) > 1 })
	calls, opened := downCalls.Load(), len(b.log.with("breaker open"))
	if most := int64(3*10 + 5 + 2*(opened+1)); calls > most { // what was under way when it opened, and the probes
		t.Errorf("%d calls at a dependency that is down, %d times opened: at most %d", calls, opened, most)
	}
	well.Store(true)
	b.ended(30*time.Second, jobs.Succeeded, n)
	for _, message := range []string{"breaker half open", "breaker closed, ramping up"} {
		if len(b.log.with(message)) == 0 {
			t.Errorf("%q was not logged", message)
		}
	}
	g, err := b.ledger.Gate(t.Context(), dep)
	if err != nil {
		t.Fatal(err)
	}
	told := len(b.log.with("breaker open")) + len(b.log.with("breaker half open")) + len(b.log.with("breaker closed, ramping up"))
	if int64(told) > g.Gate.Generation {
		t.Errorf("%d changes were told, %d happened", told, g.Gate.Generation)
	}
}

// A credential that is refused pauses itself loudly, and costs no operation.
func TestARefusedCredentialCostsNoOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var rotated atomic.Bool
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer {
		if rotated.Load() {
			return answered(200)
		}
		return answered(401)
	})
	const n = 20
	b.submit("charge", n)
	b.worker()
	b.until(15*time.Second, "it is paused", func() bool {
		return len(b.log.with("credential refused several times in a row: paused until somebody mends it and resumes", "credential", jobs.DefaultCredential)) == 1
	})
	rotated.Store(true)
	if err := b.ledger.Resume(t.Context(), dep, ledger.Actor{By: "ann", Note: "rotated"}); err != nil {
		t.Fatal(err)
	}
	b.ended(30*time.Second, jobs.Succeeded, n)
	if m := b.states(); m[jobs.Dead] > 0 {
		t.Errorf("states %v", m)
	}
}
