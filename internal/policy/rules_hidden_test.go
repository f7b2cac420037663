package policy

import (
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// A decline inside a 200 must not become a success because its body cannot be read.
func TestAnUnreadableBodyIsNoSuccessWhereARuleAsksForIt(t *testing.T) {
	t.Parallel()
	rules, err := CompileRules([]RuleSpec{{When: `status == 200 && body.resultCode == "Refused"`, Verdict: jobs.VerdictPermanentFailure, Processed: ProcessedYes},
		{When: `status == 402 && body.code == "x"`, Verdict: jobs.VerdictPermanentFailure, Processed: ProcessedYes}})
	if err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for body, hidden := range map[string]bool{
		`{"resultCode":"Authorised"}`: false, `{"resultCode":"Refused","a":1,"a":2}`: true, `{"resultCode":"Refused","amount":1e999}`: true,
		`{"resultCode":"Refused","a":` + deep + `}`: true, `resultCode=Refused`: true, ``: false, ` `: false, `null`: false, `{}`: false,
	} {
		for _, class := range jobs.Idempotencies {
			s := Sample{Phase: PhaseAnswered, Status: 200, Body: []byte(body), Header: map[string][]string{"Content-Type": {"application/json"}}, WireBytes: 9}
			c, index, ruled, _ := rules.Classify(s, class)
			if ruled != hidden || hidden && (index != -1 || c.Outcome == jobs.OutcomeSucceeded || c.Verdict.Resends() && class == jobs.IdempotencyNone) {
				t.Errorf("%.60s of a %s kind: ruled %v, %+v", body, class, ruled, c)
			}
			s.Status = 500
			if _, _, ruled, _ := rules.Classify(s, class); ruled {
				t.Errorf("%.60s with 500: a rule decided", body)
			}
		}
	}
}
