package redrive

import (
	"context"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
)

// settleUnsettled has the ledger told of an attempt that was made without a write-ahead that
// is known of, as soon as Redis answers. If it was written ahead all the same, this was its
// attempt. If not, the customer has heard the end of something that may stand there as well,
// submitted before by somebody else: it would be sent again, or die at its deadline.
func (d *doing) settleUnsettled(g *ledger.Grant, res ledger.Result) {
	res.Told = true
	var told *ledger.Entry // nil: it is handed over
	if done(res) {
		d.fixDeadline()
		entry, err := ledger.Prepare(d.s, d.spec)
		if err != nil {
			d.c.o.Log.Error("an attempt cannot be told of", "operation", d.s.ID().String(), "err", err)
		} else {
			entry = entry.Ended(g.RunID, d.c.clock.at(d.started), res)
			told = &entry
		}
	}
	settle := func(ctx context.Context) error {
		f, err := d.finish(ctx, g, res)
		known := f.How == ledger.HowOwn || f.How == ledger.HowLate || f.How == ledger.HowKnown
		if err != nil || known || told == nil {
			return err
		}
		// Of a refusal nobody needs a dead letter, unless an operation goes on without it.
		if res.Outcome == jobs.OutcomeSucceeded || f.How == ledger.HowStale && !f.State.Ended() {
			return d.tell(ctx, *told)
		}
		return nil
	}
	d.c.late.add(settle)
	d.c.late.addAfter(neverAfter, settle) // the write-ahead may have been on its way to Redis still
}

// tell submits what an attempt came to of which the customer has heard.
func (d *doing) tell(ctx context.Context, entry ledger.Entry) error {
	store, err := d.c.store(ctx)
	if err != nil {
		return err
	}
	got, err := store.Submit(ctx, terms.Submit(d.spec, d.c.o.Name), []ledger.Entry{entry})
	if err != nil {
		return err
	}
	if r := receiptOf(got[0]); r.Answer != Accepted && r.Answer != Duplicate && r.Answer != Unsure {
		d.c.o.Log.WarnContext(ctx, "the ledger does not take what an attempt came to", "operation", entry.ID.String(), "answer", string(r.Answer), "err", r.Error)
	}
	return nil
}
