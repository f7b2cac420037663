package operator

import (
	"context"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Reconcile has workers ask what became of operations, each named once. One that the
// ledger does not hold is taken in without a request, first sent at firstSent (zero or
// in the future: now): its caller has made sure that Redis is fit to keep it. An
// [UnknownKindError] for one whose kind nobody knows; nothing was done then.
func (o *Operator) Reconcile(ctx context.Context, ids []jobs.ID, firstSent time.Time, order Order) (Report, error) {
	for _, id := range ids {
		if !o.Knows(id.Kind) {
			return Report{}, &UnknownKindError{id.Kind}
		}
	}
	set, err := o.Named(ctx, ids)
	if err != nil {
		return Report{}, err
	}
	specs := make([]jobs.KindSpec, set.Len()) // before the hands begin: looking up a kind may bind it
	for i := range set.Operations {
		c := &set.Operations[i]
		specs[i] = o.known[c.Place.ID.Kind]
		if c.Op != nil {
			continue
		}
		if _, ours := o.ours[c.Place.ID.Kind]; ours {
			if specs[i], err = o.Kind(ctx, c.Place.ID.Kind); err != nil {
				return Report{}, err
			}
		}
		c.Place.Dependency, c.anyway = specs[i].Dependency, true
	}
	return o.several(ctx, reconcileVerb, set, order, func(ctx context.Context, i int, c Chosen, who ledger.Actor) (Result, error) {
		done, err := o.ledger.Reconcile(ctx, specs[i], c.Place.ID, firstSent, who)
		if err != nil {
			return Result{}, err
		}
		return reconciled(c, done), nil
	})
}

// reconciled says what became of one: the ledger tells the state that it had.
func reconciled(c Chosen, done ledger.Done) Result {
	r := resultOf(c.Place.ID, done)
	if done.Verdict != ledger.DoneOK {
		return r
	}
	r.State = jobs.Unresolved
	switch done.State {
	case "":
		r.Detail = "not in the ledger: it is asked about, and nothing is sent for it"
	case jobs.Unresolved:
		r.Detail = "asked about again now"
	default:
		r.Detail = "it was " + string(done.State)
	}
	return r
}
