package operator

import (
	"context"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Cancel stops operations for good; one that is being sent, when that ends. One that
// may have taken effect keeps the wish, and is pending or unsafe.
func (o *Operator) Cancel(ctx context.Context, set Set, order Order) (Report, error) {
	return o.end(ctx, cancelVerb, set, order, func(ctx context.Context, c Chosen, keep jobs.Retention, who ledger.Actor) (Result, error) {
		done, err := o.ledger.Cancel(ctx, c.Place.Dependency, c.Place.ID, keep, who)
		return cancelResult(c, done), err
	})
}

// Discard gives dead letters up: they become cancelled. One that may have taken effect
// is refused.
func (o *Operator) Discard(ctx context.Context, set Set, order Order) (Report, error) {
	return o.end(ctx, discardVerb, set, order, func(ctx context.Context, c Chosen, keep jobs.Retention, who ledger.Actor) (Result, error) {
		done, err := o.ledger.Discard(ctx, c.Place.Dependency, c.Place.ID, keep, who)
		return resultOf(c.Place.ID, done), err
	})
}

func (o *Operator) end(ctx context.Context, verb string, set Set, order Order, do func(context.Context, Chosen, jobs.Retention, ledger.Actor) (Result, error)) (Report, error) {
	who, err := o.actor(ctx, order)
	if err != nil {
		return Report{}, err
	}
	u, err := o.record(ctx, verb, set, who, ledger.PhaseRunning, order)
	if err != nil {
		return Report{}, err
	}
	defer u.end()
	out := Report{Action: verb, Batch: who.Batch}
	out.Results, out.Failed = u.whole(ctx, set.Operations, func(ctx context.Context, _ int, c Chosen) (Result, error) {
		return do(ctx, c, o.known[c.Place.ID.Kind].Retention, who)
	})
	return out, nil
}

// cancelResult says what came of a wish to cancel: what may have taken effect keeps
// it, and is not cancelled.
func cancelResult(c Chosen, done ledger.Done) Result {
	r := resultOf(c.Place.ID, done)
	switch {
	case done.Verdict != ledger.DoneOK:
	case done.State == jobs.Unresolved:
		r.Result = ResultPending
		if c.Op.State == jobs.Unresolved && c.Op.Intent != nil && *c.Op.Intent == string(jobs.Cancelled) {
			r.Detail = "it was to be cancelled already, and its outcome is still unknown"
		}
	case done.State == jobs.Dead:
		r.Result = ResultUnsafe
	}
	return r
}
