package policy

import (
	"errors"
	"testing"

	"redrive/internal/jobs"
)

func TestADeclineSaysWhetherItMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	rules, err := CompileRules([]RuleSpec{
		{When: `status == 402 && body.advice == "03"`, Verdict: jobs.VerdictPermanentFailure, Processed: ProcessedYes, Again: jobs.AgainNever},
		{When: `status == 402`, Verdict: jobs.VerdictPermanentFailure, Processed: ProcessedYes},
	})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]jobs.Again{`{"advice":"03"}`: jobs.AgainNever, `{"advice":"02"}`: "", `{}`: ""} {
		for _, class := range jobs.Idempotencies {
			c, _, ok, _ := rules.Classify(Sample{Phase: PhaseAnswered, Status: 402, Body: []byte(body)}, class)
			if !ok || c.Again != want {
				t.Errorf("%s, %s: again %q, want %q", body, class, c.Again, want)
			}
			d := Decide(DecideInput{C: c, Idempotency: class, Attempt: 1, Used: 1, MaxAttempts: 5})
			if d.Next != NextEnd || d.Reason != jobs.ReasonPermanent || d.Again != want {
				t.Errorf("%s, %s: %s %s, again %q", body, class, d.Next, d.Reason, d.Again)
			}
		}
	}
}

func TestOnlyADeclineForbidsAnotherAttempt(t *testing.T) {
	t.Parallel()
	for _, spec := range []RuleSpec{
		{When: "status == 402", Verdict: jobs.VerdictRetryAfter, Processed: ProcessedNo, Again: jobs.AgainNever},
		{When: "status == 200", Verdict: jobs.VerdictSucceeded, Again: jobs.AgainNever},
		{When: "status == 402", Verdict: jobs.VerdictPermanentFailure, Again: "later"},
	} {
		_, err := CompileRules([]RuleSpec{spec})
		var re *RuleError
		if !errors.As(err, &re) || re.Field != "again" || re.Index != 0 {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
