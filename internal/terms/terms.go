// Package terms turns what is published of a kind into what the ledger's calls ask for,
// for programs that submit and do not redeliver.
package terms

import (
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// Of returns the terms of a kind's dependency. Its gate counts only for as long as no
// worker has said its own.
func Of(spec jobs.KindSpec) ledger.Terms {
	return ledger.Terms{
		Dependency:  spec.Dependency,
		Gate:        budget.Params{RatioMilli: spec.BudgetRatioMilli, Cap: spec.BudgetCap, FloorMilliPerSecond: spec.BudgetFloorMilliPerSecond},
		MinResponse: MS(spec.MinResponseMS),
		Retention:   spec.Retention,
	}
}

// Submit returns the terms of a submission. by is who makes it.
func Submit(spec jobs.KindSpec, by string) ledger.SubmitTerms {
	return ledger.SubmitTerms{Terms: Of(spec), By: by, MaxBacklog: spec.MaxBacklog, ClaimLease: policy.ClaimLease(MS(spec.TimeoutMS))}
}

// Target is what an attempt of the kind would be sent to and under.
func Target(spec jobs.KindSpec) ledger.Target {
	return ledger.Target{BaseURL: spec.BaseURL, Idempotency: spec.Idempotency, KeyHeader: spec.KeyHeader,
		KeyWindow: MS(spec.KeyWindowMS), ClaimLease: policy.ClaimLease(MS(spec.TimeoutMS))}
}

// MS is a span in milliseconds, as specs have them.
func MS(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
