package policy

import (
	"time"

	"redrive/internal/jobs"
)

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

const (
	// credentialDelay is the least wait after a refused credential: enough for
	// a pause to take hold before the operation comes back.
	credentialDelay = 5 * time.Second
	// maxInARow: the third refused credential or lost worker in a row ends it.
	maxInARow = 3
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
	Verdict jobs.Verdict  // the table's; unknown_inquire where a resend was asked for and is not safe

	// SettlesPrior: this answer speaks for the earlier unknown attempts too, and
	// only then may their marks be cleared.
	SettlesPrior bool

	// Again is kept of the operation: what its decline said of trying again.
	Again jobs.Again

	// Stop is the label of retries_refused_total; "" with NextSucceed and NextRetry.
	Stop string
}

// Decide says what happens after an attempt, in this order. The first line that
// applies holds.
//
//  1. The verdict is a success: succeed.
//  2. The third lost worker in a row: end(poison).
//  3. The third refused credential in a row, nothing being paused: end(misconfigured).
//     An earlier one goes on as a resend, at line 8.
//  4. A permanent failure: end(permanent). Something a person must mend:
//     end(misconfigured).
//  5. The original must be read: ask, without an inquiry conflict.
//  6. Pending: ask.
//  7. The verdict is to ask, and there is an inquiry: ask.
//  8. An attempt is unknown and a resend is not safe until the delay is over: ask.
//     For none and conditional it never is; without an inquiry that ends as
//     dead(unsafe).
//  9. No attempts left: end(attempts).
//  10. The next attempt would miss the deadline (delay + min_response): end(deadline).
//  11. Retry after the delay.
//
// The deadline stands before any budget, so that a hopeless retry never takes a
// token, and after the attempts, because that is the plainer thing to read.
func Decide(in DecideInput) Decision {
	c := in.C
	d := Decision{Verdict: c.Verdict, Counted: Counts(c), SettlesPrior: settlesPrior(in), Again: c.Again}

	switch c.Verdict {
	case jobs.VerdictSucceeded, jobs.VerdictDuplicateSuccess:
		d.Next = NextSucceed
		return d
	}
	switch {
	case in.WorkerLosses >= maxInARow:
		return d.end(jobs.ReasonPoison)
	case c.CredentialRefused && in.CredentialRefusals >= maxInARow && !in.DependencyPaused:
		return d.end(jobs.ReasonMisconfigured)
	case c.CredentialRefused:
		// goes back to waiting: a rotated key must not cost an operation
	case c.Verdict == jobs.VerdictPermanentFailure:
		return d.end(jobs.ReasonPermanent)
	case c.Verdict == jobs.VerdictHoldOperator:
		return d.end(jobs.ReasonMisconfigured)
	case c.Verdict == jobs.VerdictConflictRead && !in.HasInquiry:
		return d.conflict()
	case c.Verdict == jobs.VerdictConflictRead, c.Verdict == jobs.VerdictPendingPoll:
		return d.ask(in.HasInquiry)
	case c.Verdict == jobs.VerdictUnknownInquire && in.HasInquiry:
		return d.ask(in.HasInquiry)
	}

	delay := in.delay()
	switch {
	case !in.resendSafe(d.SettlesPrior, delay):
		d.Verdict = jobs.VerdictUnknownInquire
		return d.ask(in.HasInquiry)
	case in.Used >= in.MaxAttempts:
		return d.end(jobs.ReasonAttempts)
	case !in.fits(delay):
		return d.end(jobs.ReasonDeadline)
	}
	d.Next, d.Delay = NextRetry, delay
	return d
}

// Counts reports whether an attempt counts against max_attempts: not when nothing
// was sent, when it was one too many for the dependency (429), or when the
// credential was refused. None of these is the operation's own failure.
func Counts(c Classification) bool {
	return c.Outcome != jobs.OutcomeNotSent && c.Class != jobs.Class429 && !c.CredentialRefused
}

// settlesPrior: a row speaks for earlier attempts "under the same key" only. For
// none and conditional there is no key, and outside the safe time the gateway may
// have forgotten it and looked at this attempt alone.
func settlesPrior(in DecideInput) bool {
	return in.C.SettlesPrior && keepsEffect(in.Idempotency) && in.ResendSafeFor > 0
}

// keepsEffect reports whether a resend of what may have acted leaves the effect as
// it is. An unknown word is as weak as none.
func keepsEffect(c jobs.Idempotency) bool {
	return c == jobs.IdempotencyKeyed || c == jobs.IdempotencyNatural
}

func (in DecideInput) resendSafe(priorSettled bool, delay time.Duration) bool {
	unknown := in.C.Outcome == jobs.OutcomeUnknown || in.UnknownBefore && !priorSettled
	return !unknown || keepsEffect(in.Idempotency) && in.ResendSafeFor > 0 && in.ResendSafeFor >= delay
}

func (in DecideInput) delay() time.Duration {
	delay := Wait(in.C.Hint.Wait, in.Backoff.Delay(in.Attempt, in.Rand), in.Rand)
	if in.C.CredentialRefused && delay < credentialDelay {
		delay += credentialDelay // added, not raised to: the jitter must survive
	}
	return delay
}

// fits reports whether an attempt after delay still has MinResponse before the deadline.
func (in DecideInput) fits(delay time.Duration) bool {
	return in.DeadlineIn > 0 && delay <= in.DeadlineIn-max(in.MinResponse, 0)
}

func (d Decision) end(r jobs.Reason) Decision {
	d.Next, d.Reason, d.Stop = NextEnd, r, string(r)
	return d
}

func (d Decision) ask(hasInquiry bool) Decision {
	d.Next, d.Stop = NextAsk, string(jobs.ReasonUnsafe)
	if hasInquiry {
		d.Stop = string(jobs.ReasonUnresolved)
	}
	return d
}

// conflict has no label of its own among those of retries_refused_total: for the
// retry it is one more permanent refusal.
func (d Decision) conflict() Decision {
	d.Next, d.Reason, d.Stop = NextConflict, jobs.ReasonConflict, string(jobs.ReasonPermanent)
	return d
}
