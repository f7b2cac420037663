package world

import (
	"sync"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

const (
	dep         = jobs.Dependency("payrail")
	namespace   = "sim"
	maxAttempts = 4
	slots       = 3
	inquirySlot = 2

	baseURL  = "https://pay.example"
	otherURL = "https://other.example" // of a process whose configuration was changed
)

// kind is how operations of one class are sent, with an inquiry or without.
type kind struct {
	spec   jobs.KindSpec
	target ledger.Target
	asked  bool
}

func kindName(class jobs.Idempotency, asked bool) jobs.Kind {
	if asked {
		return jobs.Kind(string(class) + "-asked")
	}
	return jobs.Kind(class)
}

// setup is what all worlds share: what a configuration would say.
type setup struct {
	kinds   map[jobs.Kind]*kind
	names   []jobs.Kind // all of them
	asking  []jobs.Kind // those with an inquiry
	terms   ledger.Terms
	rules   *policy.Rules
	inquiry *policy.Inquiry
	backoff policy.Backoff
}

var configuration = sync.OnceValues(func() (*setup, error) {
	lease := policy.ClaimLease(timeout)
	day := (24 * time.Hour).Milliseconds()
	c := &setup{kinds: map[jobs.Kind]*kind{}, backoff: policy.Backoff{Base: time.Second, Cap: 8 * time.Second},
		terms: ledger.Terms{Dependency: dep, Gate: budget.Params{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 20_000},
			MinResponse: minResponse, ClaimLease: lease,
			Retention: jobs.Retention{SucceededMS: day, CancelledMS: day, KeysMS: 2 * day}}}
	for _, class := range jobs.Idempotencies {
		for _, asked := range []bool{false, true} {
			name := kindName(class, asked)
			k := &kind{asked: asked,
				spec: jobs.KindSpec{Kind: name, Dependency: dep, Method: "POST", Path: "/v1/" + string(name), ContentType: "application/json",
					BaseURL: baseURL, Idempotency: class, KeyHeader: "Idempotency-Key", KeyWindowMS: keyWindow.Milliseconds(),
					KeyMaxLength: 255, Credentials: credentials, DeadlineMS: time.Hour.Milliseconds(), MaxAttempts: maxAttempts, TimeoutMS: timeout.Milliseconds(),
					MinResponseMS: minResponse.Milliseconds(), MaxBacklog: 1000, Retention: c.terms.Retention},
				target: ledger.Target{BaseURL: baseURL, Idempotency: class, KeyHeader: "Idempotency-Key",
					KeyWindow: keyWindow, ClaimLease: lease}}
			if asked {
				k.spec.Inquiry = &jobs.InquirySpec{SettleMS: settle.Milliseconds(), GiveUpAfterMS: giveUp.Milliseconds()}
				c.asking = append(c.asking, name)
			}
			c.kinds[name] = k
			c.names = append(c.names, name)
		}
	}
	var err error
	if c.rules, err = policy.CompileRules([]policy.RuleSpec{{When: `status == 409 && body.code == "duplicate"`, Verdict: jobs.VerdictDuplicateSuccess}}); err != nil {
		return nil, err
	}
	c.inquiry, err = policy.CompileInquiry(policy.InquirySpec{Answers: []int{200},
		Succeeded: `body.data.exists(c, c.status == "succeeded")`, Pending: `body.data.exists(c, c.status == "pending")`,
		Failed: `size(body.data) > 0 && body.data.all(c, c.status == "failed")`, NotFound: `size(body.data) == 0`})
	return c, err
})
