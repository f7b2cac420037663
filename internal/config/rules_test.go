package config

import (
	"reflect"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

func TestRulesAndResultsAreCompiledAsWritten(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies:
  payrail:
    base_url: https://api.payrail.example
    rules:
      - when: |
          // what the card network says of itself
          status == 402 &&
            body.error.code.matches("^processing_error$$")
        verdict: retry_after
        after: 90s
        processed: no
      - {when: 'status == 403', verdict: permanent_failure, processed: yes}
  oldrail: {base_url: https://api.oldrail.example, rules: []}
operations:
  charge: {dependency: payrail, request: {path: /v1/charges}, result: {id: 'status < 300 ? body.id : null', price: '"$$" + string(body.amount)'}}
  report: {dependency: oldrail, request: {path: /v1/reports}, result: {}}
`)
	rules := c.Dependencies["payrail"].Rules
	want := []policy.RuleSpec{
		{When: "// what the card network says of itself\nstatus == 402 &&\n  body.error.code.matches(\"^processing_error$\")\n",
			Verdict: jobs.VerdictRetryAfter, After: 90 * time.Second, Processed: policy.ProcessedNo},
		{When: "status == 403", Verdict: jobs.VerdictPermanentFailure, Processed: policy.ProcessedYes},
	}
	if got := rules.Specs(); !reflect.DeepEqual(got, want) {
		t.Errorf("rules %+v, want %+v", got, want)
	}
	answer := func(status int, body string) policy.Sample {
		return policy.Sample{Phase: policy.PhaseAnswered, Status: status, Body: []byte(body)}
	}
	cl, index, ok, errs := rules.Classify(answer(402, `{"error":{"code":"processing_error"}}`), jobs.IdempotencyNone)
	if !ok || index != 0 || errs != nil || cl.Row != "R1" || cl.Outcome != jobs.OutcomeRefused || cl.Hint.Wait != 90*time.Second {
		t.Errorf("classified as %+v by %d (%v)", cl, index, errs)
	}
	values, errs := c.Kinds["charge"].Results.Read(answer(200, `{"id":"ch_1","amount":42}`))
	if want := map[string]string{"id": "ch_1", "price": "$42"}; errs != nil || !reflect.DeepEqual(values, want) {
		t.Errorf("results %v (%v), want %v", values, errs, want)
	}
	if none := c.Dependencies["oldrail"].Rules; none != nil || c.Kinds["report"].Results != nil {
		t.Errorf("an empty list of rules is %v, no results are %v, want none", none, c.Kinds["report"].Results)
	}
}

func TestARuleThatCouldRepeatAnEffectIsRefusedInAConfigurationBuiltInCode(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal)
	var err error
	if c.Dependencies["payrail"].Rules, err = policy.CompileRules([]policy.RuleSpec{{When: "status == 503", Verdict: jobs.VerdictRetryAfter}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err == nil {
		t.Error("class none would be sent again")
	}
	c.Kinds["charge"].Idempotency = jobs.IdempotencyKeyed
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
