package redrive

import (
	"context"
	"fmt"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
)

const (
	maxWriteAhead = 1500 * time.Millisecond
	// neverAfter: a write-ahead that Redis has not run by then never runs (see [ledger.Terms]).
	neverAfter = 2500 * time.Millisecond
)

// times fixes when everything ends: the deadline is checked before anything else.
func (d *doing) times(ctx context.Context) error {
	d.began = time.Now()
	d.started = d.began
	d.deadline = terms.MS(d.spec.DeadlineMS)
	switch {
	case !d.o.Deadline.IsZero():
		// An instant: by the clock of who gave it, and by the ledger's, which holds it to that.
		at := d.o.Deadline.Round(0)
		d.deadline = min(at.Sub(d.began), at.Sub(d.c.clock.at(d.began)))
	case d.o.Within != 0:
		d.deadline = d.o.Within
	}
	if ctx.Err() != nil || d.tooLate(d.ends(ctx)) {
		return ErrDeadline
	}
	return nil
}

// ends is until when a call that is made now may last: the kind's timeout, and never past
// the operation's deadline, nor into the reserve of what ctx leaves.
func (d *doing) ends(ctx context.Context) time.Time {
	now := time.Now() // before the clocks are compared: what passes between is lost, never gained
	return now.Add(min(terms.MS(d.spec.TimeoutMS), d.spare(ctx)))
}

// spare is how long is left of the operation's deadline, and of ctx less the reserve.
func (d *doing) spare(ctx context.Context) time.Duration {
	spare := d.left()
	if by, ok := ctx.Deadline(); ok {
		spare = min(spare, time.Until(by)-d.c.o.Reserve)
	}
	return spare
}

// writeAheadWithin is how long Redis may take for the write-ahead. What is sent without one
// as well must have the time for it.
func (d *doing) writeAheadWithin(ctx context.Context) time.Duration {
	spare := d.spare(ctx)
	if repeatable(d.spec.Idempotency) {
		spare /= 2
	}
	return min(terms.MS(d.spec.TimeoutMS), spare, maxWriteAhead)
}

// left is how long the operation's deadline is away, by the clock that went further since
// Do began: the monotonic one stands still while a machine sleeps.
func (d *doing) left() time.Duration { return d.deadline - d.c.goneFunc(d.began) }

// tooLate: a call that must end by then is not made.
func (d *doing) tooLate(ends time.Time) bool {
	return time.Until(ends) < terms.MS(d.spec.MinResponseMS)
}

// lapsed: no byte was sent, and none can be in time any more. Nobody needs a dead letter of
// what the caller is told at once.
func (d *doing) lapsed(res ledger.Result) bool {
	return res.Outcome == jobs.OutcomeNotSent &&
		(res.Step == ledger.StepEnd && res.Reason == jobs.ReasonDeadline || d.left() < terms.MS(d.spec.MinResponseMS))
}

// errLapsed is ErrDeadline with what the attempt met, if one was made.
func errLapsed(answer gateway.Answer) error {
	if answer.Sample.Phase == policy.PhaseTooLate {
		return ErrDeadline
	}
	return fmt.Errorf("%w: %s", ErrDeadline, answer.Err)
}

// withdraw takes back what was written ahead under a run: nothing was sent, and nothing is
// to be kept.
func (d *doing) withdraw(ctx context.Context, run string) error {
	store, err := d.c.store(ctx)
	if err != nil {
		return err
	}
	return store.Withdraw(ctx, terms.Of(d.spec), d.s.ID(), run)
}

// withdrawUnsettled takes back what may be written ahead, as soon as Redis answers.
func (d *doing) withdrawUnsettled(run string) {
	withdraw := func(ctx context.Context) error { return d.withdraw(ctx, run) }
	d.c.late.add(withdraw)
	d.c.late.addAfter(neverAfter, withdraw) // it may have been on its way to Redis still
}

// withdrawGranted takes back an operation that was written ahead and never sent in time.
func (d *doing) withdrawGranted(ctx context.Context, g *ledger.Grant, answer gateway.Answer) error {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.finishWithin())
	defer cancel()
	if err := d.withdraw(bound, g.RunID); err != nil {
		d.c.late.add(func(ctx context.Context) error { return d.withdraw(ctx, g.RunID) })
	}
	return errLapsed(answer)
}
