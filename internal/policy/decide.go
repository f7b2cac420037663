package policy

import (
	"math"
	"time"

	"redrive/internal/jobs"
)

// Forever is the ResendSafeFor of a natural kind whose target is unchanged.
const Forever = time.Duration(math.MaxInt64)

// Next is where an operation goes after an attempt.
type Next string

// The ways on.
const (
	NextSucceed  Next = "succeed"  // succeeded
	NextRetry    Next = "retry"    // waiting, after Delay
	NextAsk      Next = "ask"      // unresolved with intent waiting; without an inquiry dead(unsafe)
	NextEnd      Next = "end"      // settle(dead(Reason))
	NextConflict Next = "conflict" // dead(conflict), literally
)

// DecideInput is everything [Decide] looks at.
type DecideInput struct {
	C           Classification
	Idempotency jobs.Idempotency // the class in force

	UnknownBefore bool          // an earlier attempt is unknown and not settled
	ResendSafeFor time.Duration // for how long from now a resend under the same key to the same target is safe; <= 0: it is not; [Forever]
	HasInquiry    bool

	Attempt     int // number of this attempt, from 1; the backoff grows with it
	Used        int // sends that count, this one included if it counts (see [Counts])
	MaxAttempts int // sends that may count; 0 or less: none

	DeadlineIn  time.Duration // time left until the deadline, from now
	MinResponse time.Duration // an attempt with less time than this before the deadline is not made
	Backoff     Backoff

	CredentialRefusals int  // refused credentials in a row, this one included
	DependencyPaused   bool // the dependency or the credential is paused
	WorkerLosses       int  // lost workers in a row, this one included

	Rand func() float64 // uniform in [0, 1)
}

// Decision is what [Decide] answers.
type Decision struct {
	Next    Next
	Reason  jobs.Reason   // with NextEnd and NextConflict
	Delay   time.Duration // with NextRetry: from the end of the attempt
	Counted bool          // this attempt counts against MaxAttempts
	Verdict jobs.Verdict  // after "a resend that is not safe becomes unknown_inquire"

	// SettlesPrior: this answer speaks for the earlier unknown attempts too.
	SettlesPrior bool

	// Stop is the label of retries_refused_total; "" with NextSucceed and NextRetry.
	Stop string
}
