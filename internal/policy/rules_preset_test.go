package policy

import (
	"strings"
	"testing"

	"redrive/internal/jobs"
)

var presetRules = []RuleSpec{
	{When: "body.code == 1", Verdict: jobs.VerdictRetrySameKey, Processed: ProcessedMaybe, Preset: "acme", Name: "busy", Reason: "it is busy"},
	{When: "status == 503", Verdict: jobs.VerdictPermanentFailure, Processed: ProcessedYes, Preset: "acme", Name: "declined", Reason: "it says no"},
}

func TestRulesOfAPresetAreNamedAndAskedLast(t *testing.T) {
	t.Parallel()
	own := mustRules(t, RuleSpec{When: "status == 503", Verdict: jobs.VerdictHoldOperator}, RuleSpec{When: "body.fault == 1", Verdict: jobs.VerdictHoldOperator})
	both := own.Then(mustRules(t, presetRules...))
	if c, i, _, _ := both.Classify(answer(503, nil, ""), jobs.IdempotencyKeyed); c.Row != "R1" || i != 0 {
		t.Errorf("503: %+v by %d", c, i)
	}
	c, i, ok, errs := both.Classify(answer(400, nil, `{"code":1}`), jobs.IdempotencyKeyed)
	if c.Row != "acme/busy" || c.Reason != "preset acme: it is busy" || i != 2 || !ok || c.Verdict != jobs.VerdictRetrySameKey {
		t.Errorf("400: %+v by %d", c, i)
	}
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "rule 2: ") {
		t.Errorf("of its own rules only: %v", errs)
	}
	if _, _, ok, errs := mustRules(t, presetRules...).Classify(answer(400, nil, "no json"), jobs.IdempotencyKeyed); ok || errs != nil {
		t.Errorf("ok %v, %v", ok, errs)
	}
	if got := len(both.Specs()); got != 4 || len(own.Specs()) != 2 {
		t.Errorf("%d rules, %d of them its own", got, len(own.Specs()))
	}
	var none *Rules
	if none.Then(own) != own || own.Then(none) != own || none.Then(nil) != nil {
		t.Error("no rules beside some are these")
	}
}

// One line of a preset speaks to every class: what the load check refuses of a person's
// own rule, Classify turns into a question here.
func TestAPresetNeverHasAWeakClassSentAgain(t *testing.T) {
	t.Parallel()
	if err := CheckRules(presetRules, jobs.Idempotencies); err != nil {
		t.Error(err)
	}
	own := presetRules[0]
	own.Preset = ""
	if err := CheckRules([]RuleSpec{own}, jobs.Idempotencies); err == nil {
		t.Error("a rule of one's own passed")
	}
	rules := mustRules(t, presetRules...)
	for class, want := range map[jobs.Idempotency]jobs.Verdict{jobs.IdempotencyNone: jobs.VerdictUnknownInquire, jobs.IdempotencyConditional: jobs.VerdictUnknownInquire,
		jobs.IdempotencyKeyed: jobs.VerdictRetrySameKey, jobs.IdempotencyNatural: jobs.VerdictRetrySameKey} {
		if c, _, _, _ := rules.Classify(answer(400, nil, `{"code":1}`), class); c.Verdict != want || c.Outcome != jobs.OutcomeUnknown {
			t.Errorf("class %s: %+v, want %s", class, c, want)
		}
	}
}
