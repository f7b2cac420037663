package operator

import (
	"context"
	"fmt"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
)

// The actions, as audit and batches name them.
const (
	requeueVerb   = "requeue"
	cancelVerb    = "cancel"
	discardVerb   = "discard"
	resolveVerb   = "resolve"
	reconcileVerb = "reconcile"
	stopVerb      = "stop"
)

// CheckPlan refuses a new deadline that is over already by Redis' clock: an
// [InvalidError]. Without it each operation would be refused for that.
func (o *Operator) CheckPlan(ctx context.Context, p Plan) error {
	deadline := p.base.DeadlineAt
	if deadline.IsZero() {
		return nil
	}
	now, err := o.Now(ctx)
	if err == nil && !deadline.After(now) {
		err = invalidf(FieldDeadline, "%s %s is over already: it is %s", FieldDeadline, deadline.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return err
}

// Requeue sends dead letters on their way again, those with the earliest deadline
// first. It blocks until all are requeued; with a canary until those have ended, and
// then goes on only if all of them succeeded.
func (o *Operator) Requeue(ctx context.Context, set Set, p Plan, order Order) (Report, error) {
	who, err := o.actor(ctx, order)
	if err != nil {
		return Report{}, err
	}
	phase := ledger.PhaseRunning
	if p.Canary > 0 {
		phase = ledger.PhaseCanary
	}
	u, err := o.record(ctx, requeueVerb, set, who, phase, order)
	if err != nil {
		return Report{}, err
	}
	defer u.end()
	run := &requeueRun{o: o, base: p.base, apart: p.Apart, who: who, u: u}
	run.base.RequestID = who.Batch
	out := Report{Action: requeueVerb, Batch: who.Batch}
	ordered := earliestDeadlineFirst(set.Operations)
	if p.Canary > 0 {
		out.Results, out.Canary, out.Failed = run.canaried(ctx, ordered, p)
	} else {
		out.Results, out.Failed = run.all(ctx, ordered)
	}
	if out.Failed == nil {
		out.Failed = u.phase(ctx, ledger.PhaseDone)
	}
	return out, nil
}

// requeueRun is one requeue of a set.
type requeueRun struct {
	o     *Operator
	base  ledger.Requeue
	apart time.Duration // between when one and the next become due
	who   ledger.Actor
	u     *underway
}

// requeueChunk operations are requeued before it is looked whether a person stopped
// the batch meanwhile.
const requeueChunk = 500

// all requeues a set, the first at once.
func (r *requeueRun) all(ctx context.Context, set []Chosen) ([]Result, error) {
	results := make([]Result, 0, len(set))
	for from := 0; from < len(set); from += requeueChunk {
		if err := r.u.stopped(ctx); err != nil {
			return results, err
		}
		part := set[from:min(from+requeueChunk, len(set))]
		done, err := r.u.carry(ctx, part, r.one(from))
		results = append(results, done...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// one requeues number from+i of the set.
func (r *requeueRun) one(from int) actFunc {
	return func(ctx context.Context, i int, c Chosen) (Result, error) {
		spec, ok := r.o.known[c.Place.ID.Kind]
		if !ok {
			return Result{Operation: c.Place.ID, Result: ResultRefused, State: c.Op.State, Detail: "nobody knows its kind: start a worker that does"}, nil
		}
		if allowed := c.Op.MaxAttempts; allowed+r.base.More > maxAttempts && r.base.More > 0 {
			return Result{Operation: c.Place.ID, Result: ResultRefused, State: c.Op.State,
				Detail: fmt.Sprintf("it may make %d attempts already, and %d is the most: grant fewer, or say nothing, which leaves it %d", allowed, maxAttempts, attemptsLeft)}, nil
		}
		q := r.base
		q.Delay = r.apart * time.Duration(from+i)
		q.MaxAttempts = spec.MaxAttempts
		done, err := r.o.ledger.Requeue(ctx, terms.Of(spec), terms.Target(spec), c.Place.ID, q, r.who)
		if err != nil {
			return Result{}, err
		}
		res := resultOf(c.Place.ID, done.Done)
		res.AttemptsLeft = &done.AttemptsLeft
		if done.Verdict == ledger.DoneRefused && done.State == jobs.Dead {
			if why, err := r.o.whyUnsafe(ctx, c.Place, spec, q.Delay); err != nil {
				return Result{}, err
			} else if why != "" {
				res.Detail = why
			}
		}
		return res, nil
	}
}

// whyUnsafe says why a dead letter may not be resent after delay, "" if that is not
// what is in the way.
func (o *Operator) whyUnsafe(ctx context.Context, place ledger.Place, spec jobs.KindSpec, delay time.Duration) (string, error) {
	d, err := o.ledger.Get(ctx, place.Dependency, place.ID, &spec)
	if err != nil || d.State != jobs.Dead || d.Request.Method == "" {
		return "", err
	}
	now, err := o.Now(ctx)
	if err != nil {
		return "", err
	}
	why := d.ResendUnsafe(&spec, now.Add(delay))
	if why == "" {
		return "", nil
	}
	if d.Moved(&spec) != "" {
		from, err := o.whereFrom(ctx, spec)
		if err != nil {
			return "", err
		}
		why += from
	}
	instead := "resolve it first"
	if spec.Inquiry != nil {
		instead += ", or have it asked about (reconcile)"
	}
	return fmt.Sprintf("its outcome is unknown and a resend is not safe (%s): %s", why, instead), nil
}
