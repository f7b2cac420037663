package worker

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"redrive/internal/budget"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// GateParams is the gate of a dependency as the configuration has it.
func GateParams(d *config.Dependency) budget.Params {
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

// said is what the end of a call says of its dependency. sent is false when the Sender
// was not even asked.
func (d *dependency) said(cl policy.Classification, answer gateway.Answer, sent bool, random func() float64) ledger.Said {
	s := ledger.Said{Jitter: int64(random() * 1001)}
	if !sent {
		return s
	}
	s.Sign, s.Denied = sign(cl, answer.Sample, answer.Duration, d.slowCall), cl.CredentialRefused
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

// news logs what a call of this process changed of a gate. Only one process hears of
// each change.
func (r *run) news(dep jobs.Dependency, n ledger.News) {
	for _, change := range n.Changes {
		attrs := []slog.Attr{slog.String("dependency", string(dep))}
		if n.Why != "" {
			attrs = append(attrs, slog.String("reason", n.Why))
		}
		if !n.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", n.Until))
		}
		level, message := slog.LevelWarn, "gate "+change
		switch {
		case change == string(budget.Closed):
			level, message = slog.LevelInfo, "breaker closed, ramping up"
		case slices.Contains(budget.States, budget.State(change)):
			message = "breaker " + strings.ReplaceAll(change, "_", " ")
		case change == "parked":
			message = "dependency asked to wait, several times in a row"
		case change == "repaired":
			message = "gate missing or garbled in the store, starts low"
		case change == "differs":
			if _, before := r.disagreed.LoadOrStore(dep, true); before {
				continue // with each release, for as long as both live: once is enough
			}
			message = "another worker is configured otherwise for this gate: each asks by its own limits"
		}
		r.o.Log.LogAttrs(context.Background(), level, message, attrs...)
	}
}

// credentialPaused says loudly that nothing leaves under a credential any more.
func (r *run) credentialPaused(dep jobs.Dependency, credential string) {
	if credential == "" {
		credential = jobs.DefaultCredential
	}
	r.o.Log.LogAttrs(context.Background(), slog.LevelError, "credential refused several times in a row: paused until somebody mends it and resumes",
		slog.String("dependency", string(dep)), slog.String("credential", credential))
}
