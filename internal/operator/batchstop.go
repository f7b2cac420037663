package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// ErrNotRequeue is returned when a bulk action is to be stopped that sent nothing on
// its way.
var ErrNotRequeue = errors.New("only what a requeue sent on its way can be taken back")

// Stopped is what came of stopping a batch. Its results are those that were put back.
type Stopped struct {
	Report
	Left int  // operations that are left as they are: sent since, ended, or back already
	Over bool // the batch was done already: it counts as stopped only if something was put back
}

// StopBatch puts dead letters that a bulk requeue sent on their way, and that were not
// sent since, back as they were, and ends the requeue if it is still at work. It may be
// repeated. [ledger.ErrNoBatch] when there is none of that name, [ErrNotRequeue] when it
// is another action.
func (o *Operator) StopBatch(ctx context.Context, id string, order Order) (Stopped, error) {
	parts, err := o.parts(ctx, id)
	if err != nil {
		return Stopped{}, err
	}
	if parts[0].Action != requeueVerb {
		return Stopped{}, fmt.Errorf("%s is a %s: %w", id, parts[0].Action, ErrNotRequeue)
	}
	who := ledger.Actor{By: order.By, Note: order.Note, Batch: id}
	out := Stopped{Report: Report{Action: stopVerb, Batch: id}}
	out.Over = !slices.ContainsFunc(parts, func(b ledger.Batch) bool { return b.Phase != ledger.PhaseDone })
	if !out.Over { // all of them first: its command must not go on at one while another is put back
		if err := o.markStopped(ctx, parts, who); err != nil {
			return Stopped{}, err
		}
	}
	seen := map[jobs.ID]bool{} // a scan may meet a field twice
	for _, b := range parts {
		out.Failed = o.ledger.BatchMembers(ctx, b.Dependency, id, func(members []ledger.Member) error {
			members = slices.DeleteFunc(members, func(m ledger.Member) bool { return seen[m.ID] })
			set := make([]Chosen, len(members))
			for i, m := range members {
				seen[m.ID] = true
				set[i] = Chosen{Place: ledger.Place{Dependency: b.Dependency, ID: m.ID}, anyway: true}
			}
			results, err := o.carryOut(ctx, set, func(ctx context.Context, i int, c Chosen) (Result, error) {
				done, err := o.ledger.PutBack(ctx, b.Dependency, members[i], who)
				return resultOf(c.Place.ID, done), err
			}, nil)
			for _, r := range results {
				switch r.Result {
				case ResultDone:
					out.Results = append(out.Results, r)
				case ResultRefused:
					out.Left++
				}
			}
			return err
		})
		if out.Failed != nil {
			break
		}
	}
	if out.Over && len(out.Results) > 0 { // nothing is at work on it: it is stopped only if something was taken back
		out.Failed = errors.Join(out.Failed, o.markStopped(ctx, parts, who))
	}
	return out, nil
}

// markStopped says in the audit and in the batch that a person stopped it.
func (o *Operator) markStopped(ctx context.Context, parts []ledger.Batch, who ledger.Actor) error {
	for _, b := range parts {
		if err := o.ledger.Note(ctx, b.Dependency, "-", "stop batch "+b.ID, who); err != nil {
			return err
		}
		if err := o.ledger.StopBatch(ctx, b.Dependency, b.ID, who); err != nil {
			return err
		}
	}
	return nil
}
