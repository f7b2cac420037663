package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// What a call's end says of the dependency, for every phase and every status.
func TestSigns(t *testing.T) {
	t.Parallel()
	want := map[policy.Phase]budget.Sign{policy.PhaseInvalidRequest: budget.SignNothing, policy.PhaseCancelledUnsent: budget.SignNothing,
		policy.PhaseCancelledSent: budget.SignNothing, policy.PhaseTooLate: budget.SignNothing, policy.PhaseHiddenResend: budget.SignNothing,
		policy.PhaseWorkerLost: budget.SignNothing, policy.PhaseCertificate: budget.SignDeclined, policy.PhaseClientCertificate: budget.SignDeclined}
	for _, phase := range policy.Phases {
		if phase == policy.PhaseAnswered {
			continue
		}
		sample := policy.Sample{Phase: phase}
		if phase == policy.PhaseBodyCut || phase == policy.PhaseTruncatedUndetected {
			sample.Status = 200
		}
		expected, ok := want[phase]
		if !ok {
			expected = budget.SignFailed
		}
		for _, class := range jobs.Idempotencies {
			if phase == policy.PhaseBodyCut && class == jobs.IdempotencyNatural {
				expected = budget.SignOK // the status is all that such a kind needs
			}
			if got := sign(policy.Classify(sample, class), sample, time.Second, 2*time.Second); got != expected {
				t.Errorf("%s of a %s kind: %s, want %s", phase, class, got, expected)
			}
		}
	}
	for status := 100; status < 600; status++ {
		sample := policy.Sample{Phase: policy.PhaseAnswered, Status: status}
		for _, class := range jobs.Idempotencies {
			cl := policy.Classify(sample, class)
			got, slow := sign(cl, sample, time.Second, 2*time.Second), sign(cl, sample, 3*time.Second, 2*time.Second)
			var expected, late budget.Sign
			switch {
			case status == 429:
				expected, late = budget.SignThrottled, budget.SignThrottled
			case status == 401 || status == 403 || status == 407:
				expected, late = budget.SignDeclined, budget.SignDeclined
			case cl.Outcome == jobs.OutcomeSucceeded:
				expected, late = budget.SignOK, budget.SignSlow
			case status == 408 || status >= 500 || status < 200 || status >= 300 && status < 400:
				expected, late = budget.SignFailed, budget.SignFailed
			case status < 300:
				expected, late = budget.SignOK, budget.SignSlow
			default:
				expected, late = budget.SignDeclined, budget.SignSlow
			}
			if got != expected || slow != late {
				t.Errorf("%d of a %s kind: %s and, slow, %s; want %s and %s", status, class, got, slow, expected, late)
			}
		}
	}
}

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
