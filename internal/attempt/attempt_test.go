package attempt

import (
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
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
