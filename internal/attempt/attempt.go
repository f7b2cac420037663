// Package attempt says what the answer to an attempt means for its operation: what the
// ledger is told, and what the gate. Whoever sends, a worker or a service's request path,
// judges by it, so that both come to the same result.
package attempt

import (
	"slices"
	"time"

	"redrive/internal/budget"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// Terms are what a configuration says about how answers to a kind's attempts are judged.
type Terms struct {
	MaxAttempts int
	Backoff     policy.Backoff
	MinResponse time.Duration // an attempt with less time than this before the deadline is not made
	SlowCall    time.Duration // an answer that takes longer is a failure to the breaker; 0: none does
	HasInquiry  bool
	Rules       *policy.Rules   // nil: the table alone
	Results     *policy.Results // nil: nothing is taken from a success
	Paused      bool            // the dependency is paused, as far as this process knows
}

// Judge says what an answer means and what comes next: by the rules of the dependency,
// else by the table. Of a success it takes the kind's results. errs are expressions that
// could not be evaluated; they name the expression and hold no value of the answer.
func (t Terms) Judge(g *ledger.Grant, answer gateway.Answer, startedAt time.Time, random func() float64) (res ledger.Result, errs []error) {
	cl, _, ruled, errs := t.Rules.Classify(answer.Sample, g.Idempotency)
	if !ruled {
		cl = policy.Classify(answer.Sample, g.Idempotency)
	}
	res = t.Decide(g, cl, answer, startedAt, random)
	if res.Outcome == jobs.OutcomeSucceeded {
		var left []error
		res.Values, left = t.Results.Read(answer.Sample)
		errs = append(errs, left...)
	}
	res.Said = Said(cl, answer, t.SlowCall, true, random)
	return res, errs
}

// Decide is [Terms.Judge] for a classification that is known. It says nothing to the gate.
func (t Terms) Decide(g *ledger.Grant, cl policy.Classification, answer gateway.Answer, startedAt time.Time, random func() float64) ledger.Result {
	elapsed := time.Since(startedAt)
	used, refusals := g.Used, 0
	if !policy.Counts(cl) {
		used--
	}
	if cl.CredentialRefused {
		refusals = g.Refusals + 1
	}
	next := policy.Decide(policy.DecideInput{
		C: cl, Idempotency: g.Idempotency, UnknownBefore: g.UnknownBefore, ResendSafeFor: left(g.SafeFor, elapsed),
		HasInquiry: t.HasInquiry, Attempt: g.Attempt, Used: used, MaxAttempts: t.MaxAttempts + g.Extra,
		DeadlineIn: g.DeadlineLeft - elapsed, MinResponse: t.MinResponse, Backoff: t.Backoff,
		CredentialRefusals: refusals, DependencyPaused: t.Paused, Rand: random,
	})
	return Result(cl, next, answer)
}

// Result is what the ledger is told of an attempt. An answer without an error of its own
// that is no success, such as a 202, is told in the words of the row that lists it.
func Result(cl policy.Classification, next policy.Decision, answer gateway.Answer) ledger.Result {
	if answer.Err == "" && cl.Outcome != jobs.OutcomeSucceeded {
		answer.Err = cl.Reason
	}
	return ledger.Result{
		Outcome: cl.Outcome, Class: cl.Class, Status: answer.Sample.Status, Verdict: next.Verdict, Duration: answer.Duration,
		Step: ledger.Step(next.Next), Reason: next.Reason, Delay: next.Delay,
		Original: next.Next == policy.NextAsk && cl.Verdict == jobs.VerdictConflictRead,
		Settles:  next.SettlesPrior, Acted: cl.Acted, Counted: next.Counted, CredentialRefused: cl.CredentialRefused, Again: next.Again,
		Error: answer.Err, Body: answer.Kept,
	}
}

// left is what remains of a span after a while; for ever stays for ever.
func left(span, elapsed time.Duration) time.Duration {
	if span == ledger.Always {
		return policy.Forever
	}
	return span - elapsed
}

// Said is what the end of a call says of its dependency. sent is false when nobody was
// even asked to send.
func Said(cl policy.Classification, answer gateway.Answer, slowCall time.Duration, sent bool, random func() float64) ledger.Said {
	s := ledger.Said{Jitter: int64(random() * 1001)}
	if !sent {
		return s
	}
	s.Sign, s.Denied = sign(cl, answer.Sample, answer.Duration, slowCall), cl.CredentialRefused
	if cl.Class == jobs.Class429 || cl.Class == jobs.Class503 {
		s.Hint = cl.Hint.Wait
	}
	return s
}

// sign reads one call's end. What we did ourselves says nothing of the dependency, and
// what it declined it declined because it works.
func sign(cl policy.Classification, sample policy.Sample, took, slowCall time.Duration) budget.Sign {
	const requestTimeout = 408 // of a server that did not get to it: no decline
	ownDoing := []policy.Phase{policy.PhaseInvalidRequest, policy.PhaseCancelledUnsent, policy.PhaseCancelledSent, policy.PhaseTooLate,
		policy.PhaseHiddenResend, policy.PhaseWorkerLost}
	switch {
	case slices.Contains(ownDoing, sample.Phase):
		return budget.SignNothing
	case cl.Class == jobs.Class429:
		return budget.SignThrottled
	case cl.CredentialRefused:
		return budget.SignDeclined
	case cl.Outcome == jobs.OutcomeSucceeded, cl.Class == jobs.Class2xx, cl.Class == jobs.Class4xx && sample.Status != requestTimeout:
		if slowCall > 0 && took > slowCall {
			return budget.SignSlow
		}
		if cl.Class == jobs.Class4xx && cl.Outcome != jobs.OutcomeSucceeded {
			return budget.SignDeclined
		}
		return budget.SignOK
	}
	return budget.SignFailed
}

// First is how a first attempt went, as the budget sees it: a decline is the operation's
// affair, not the dependency's failure.
func First(res ledger.Result) jobs.Result {
	switch {
	case res.Class == jobs.ClassTimeout:
		return jobs.ResultTimedOut
	case res.Outcome == jobs.OutcomeSucceeded, res.Class == jobs.Class4xx, res.Class == jobs.Class2xx:
		return jobs.ResultOK
	default:
		return jobs.ResultFailed
	}
}

// Gate is the gate of a dependency as the configuration has it.
func Gate(d *config.Dependency) budget.Params {
	b := d.Breaker
	return budget.Params{
		RatioMilli: d.Budget.RatioMilli, Cap: d.Budget.Cap, FloorMilliPerSecond: d.Budget.FloorMilliPerSecond,
		DrainMilliPerSecond: d.Drain.MaxMilliPerSecond, RateMilliPerSecond: d.Rate.MilliPerSecond, RateBurst: d.Rate.Burst,
		MaxInFlight: int64(d.MaxInFlight), Slots: int64(d.Slots),
		Breaker: budget.Breaker{WindowMS: b.Window.Milliseconds(), MinCalls: int64(b.MinCalls), FailureRateMilli: b.FailureRateMilli,
			Consecutive: int64(b.Consecutive), OpenMS: b.Open.Milliseconds(), MaxOpenMS: b.MaxOpen.Milliseconds(), Probes: int64(b.Probes),
			RampMS: b.Ramp.Milliseconds()},
	}
}
