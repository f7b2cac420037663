package redrive

import (
	"errors"
	"testing"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// What Do saw, whatever that is, the ledger must take: each contradiction that it refuses
// would otherwise be an attempt that nobody hears of.
func TestEveryAttemptCanBeHandedOver(t *testing.T) {
	t.Parallel()
	rules := map[string]*policy.Rules{"table": nil}
	for _, verdict := range jobs.Verdicts {
		for _, processed := range []policy.Processed{"", policy.ProcessedNo, policy.ProcessedMaybe, policy.ProcessedYes} {
			r, err := policy.CompileRules([]policy.RuleSpec{{When: "status > 0", Verdict: verdict, Processed: processed}})
			if err != nil {
				continue // a rule that cannot be
			}
			rules[string(verdict)+"/"+string(processed)] = r
		}
	}
	if len(rules) < 10 {
		t.Fatalf("%d sets of rules", len(rules))
	}
	var answers []gateway.Answer
	for status := -1; status <= jobs.MaxStatus+1; status++ {
		for _, err := range []error{nil, errors.New("cut")} {
			answers = append(answers, gateway.Seen(status, nil, []byte(`{}`), time.Second, err))
		}
	}
	for _, phase := range policy.Phases {
		for wire := range int64(2) {
			answers = append(answers, gateway.Answer{Sample: policy.Sample{Phase: phase, WireBytes: wire}, WireBytes: wire, Err: "x"})
		}
	}
	told := 0
	for name, set := range rules {
		for _, inquiry := range []bool{false, true} {
			for _, class := range jobs.Idempotencies {
				spec := jobs.KindSpec{Kind: "charge", Dependency: "payrail", Method: "POST", Path: "/v1/charges", Idempotency: class, KeyHeader: "Idempotency-Key", BaseURL: "https://pay.example", DeadlineMS: 1000}
				if inquiry {
					spec.Inquiry = &jobs.InquirySpec{}
				}
				g := &ledger.Grant{Attempt: 1, Used: 1, Idempotency: class, DeadlineLeft: time.Hour, SafeFor: time.Hour}
				for _, answer := range answers {
					res, errs := attempt.Terms{MaxAttempts: 3, HasInquiry: inquiry, Rules: set}.Judge(g, answer, time.Now(), func() float64 { return 0.5 })
					if len(errs) > 0 {
						t.Fatal(name, errs)
					}
					if res.Step == ledger.StepSucceed {
						continue
					}
					told++
					s := &jobs.Submission{Kind: "charge", Key: "o1", Body: []byte(`{}`), Attempted: attempted(res)}
					if _, err := ledger.Prepare(s, spec); err != nil {
						t.Errorf("%s, %s, status %d, phase %s: %+v: %v", name, class, answer.Sample.Status, answer.Sample.Phase, s.Attempted, err)
					}
				}
			}
		}
	}
	if told < 10_000 {
		t.Errorf("only %d attempts were told of", told)
	}
}
