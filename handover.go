package redrive

import (
	"context"
	"errors"
	"fmt"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
)

// attempted is a result as a submission reports it: the ledger makes of it what it makes of
// one that was written ahead.
func attempted(res ledger.Result) *jobs.Attempted {
	a := &jobs.Attempted{ID: ledger.NewRunID(), Outcome: res.Outcome, Class: res.Class, Step: res.Step, Acted: res.Acted, RefusedCredential: res.CredentialRefused}
	if res.Original {
		a.Step = jobs.StepConflict
	}
	if res.Step == ledger.StepEnd {
		a.Reason = res.Reason
	}
	if res.Status > 0 && res.Status <= jobs.MaxStatus { // a sender may say anything
		a.Status = res.Status
	}
	return a
}

// reason is why the ledger calls an operation dead; "" where it does not say so in time.
func (d *doing) reason(ctx context.Context, r Receipt) string {
	if r.State != Dead {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.finishWithin())
	defer cancel()
	record, err := d.c.get(ctx, r.Kind, r.Key)
	if err != nil {
		return ""
	}
	return record.Reason
}

func (d *doing) handOver(ctx context.Context, res ledger.Result) (Receipt, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.finishWithin())
	defer cancel()
	d.fixDeadline()
	entry, err := ledger.Prepare(d.s, d.spec)
	if err != nil {
		return Receipt{}, d.spooled(Outcome(res.Outcome), err)
	}
	entry.Delay = res.Delay
	store, err := d.c.store(ctx)
	if err != nil {
		return Receipt{}, d.spooled(Outcome(res.Outcome), err)
	}
	got, err := store.Submit(ctx, terms.Submit(d.spec, d.c.o.Name), []ledger.Entry{entry})
	if err != nil {
		return Receipt{}, d.spooled(Outcome(res.Outcome), err)
	}
	switch r := receiptOf(got[0]); {
	case r.Answer == Accepted || r.Answer == Duplicate:
		return r, nil
	case r.Answer == Conflict:
		return Receipt{}, &Clash{r} // what was sent is on record if it may have acted
	case r.Answer == Unsure || r.Later:
		return Receipt{}, d.spooled(Outcome(res.Outcome), fmt.Errorf("%s %s", r.Answer, r.Error))
	default:
		return Receipt{}, d.spooled(Outcome(res.Outcome), rejected(r))
	}
}

// fixDeadline makes a span an instant: it would begin anew when it is taken.
func (d *doing) fixDeadline() {
	if d.o.Deadline.IsZero() {
		d.s.Deadline = instantText(d.c.clock.at(d.began).Add(d.deadline))
	}
}

// done: the customer can be told now, and nothing is left to do. What no row lists, and
// what a rule calls permanent though it may have been processed, is an end of unknown
// outcome: a person must look.
func done(res ledger.Result) bool {
	return res.Step == ledger.StepSucceed || res.Step == ledger.StepEnd && res.Reason == jobs.ReasonPermanent && res.Outcome != jobs.OutcomeUnknown
}

// ended is what Do returns of an attempt that was made. reason is why the operation is dead.
func (d *doing) ended(reply Reply, res ledger.Result, receipt Receipt, reason string) (*Reply, error) {
	switch {
	case res.Step == ledger.StepSucceed:
		reply.Result = res.Values
		return &reply, nil
	case done(res):
		return nil, permanent(reply, res)
	}
	return nil, &Deferred{Receipt: receipt, Outcome: Outcome(res.Outcome), Reason: reason, Cause: errors.New(res.Error)}
}

func permanent(reply Reply, res ledger.Result) *Permanent {
	return &Permanent{Reply: reply, Class: string(res.Class), Reason: res.Error}
}
