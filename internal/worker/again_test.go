package worker

import (
	"context"
	"testing"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

func TestADeclineThatForbidsAnotherAttemptIsKeptAsSuch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var err error
	if b.config.Dependencies[dep].Rules, err = policy.CompileRules([]policy.RuleSpec{
		{When: `status == 402 && body.advice == "03"`, Verdict: jobs.VerdictPermanentFailure, Processed: policy.ProcessedYes, Again: jobs.AgainNever},
	}); err != nil {
		t.Fatal(err)
	}
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		if name(call) == "payout:payout-0" {
			return answeredWith(402, `{"advice":"03"}`)
		}
		return answeredWith(402, `{"advice":"02"}`)
	})
	b.submit("payout", 2)
	b.worker()
	b.until(20*time.Second, "both dead", func() bool { return b.states()[jobs.Dead] == 2 })
	if again := b.get("payout", 0).Again; again == nil || *again != jobs.AgainNever {
		t.Errorf("payout-0: again %v, want never", again)
	}
	if again := b.get("payout", 1).Again; again != nil {
		t.Errorf("payout-1: again %v, want nothing", *again)
	}
}
