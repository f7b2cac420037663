package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/operator"
)

const (
	// maxChosen operations are chosen by one bulk action: they are held in memory while
	// it goes on.
	maxChosen = 20_000
	maxBulk   = 2 // actions at once, whatever the number of requests
	// bulkPatience is how long a request waits for its action; one that takes longer goes
	// on without it.
	bulkPatience = 2 * time.Second
	maxItems     = maxChosen // of an answer
)

// maxNamed bounds the body of an order that may name operations.
const maxNamed = 1 << 20

// Choice says which operations an action is about.
type Choice struct {
	Operations []string              `json:"operations,omitempty" maxItems:"1000" doc:"by name, KIND/KEY"`
	Filter     *operator.FilterWords `json:"filter,omitempty" doc:"all that match, the newest 20000 at most; {} is all"`
}

// BulkDone is what a bulk action came to or, while it goes on, how it is followed.
type BulkDone struct {
	Action  string           `json:"action"`
	Batch   *string          `json:"batch" doc:"null: nothing was chosen, or one operation alone"`
	Chosen  int              `json:"chosen" doc:"operations"`
	More    bool             `json:"more" doc:"more match than one request takes: the same again goes on"`
	Over    bool             `json:"over" doc:"false: it goes on in the worker; the counts are not known yet"`
	Done    int              `json:"done"`
	Pending int              `json:"pending"`
	Unsafe  int              `json:"unsafe"`
	Refused int              `json:"refused"`
	Missing int              `json:"missing"`
	Unsure  int              `json:"unsure" doc:"of those done or pending: not yet on the replicas asked for"`
	Items   []BulkItem       `json:"items" nullable:"false" doc:"one for each operation that was reached"`
	Canary  *operator.Canary `json:"canary" doc:"null: there was none"`
	DryRun  *operator.DryRun `json:"dry_run" doc:"null: it was none"`
	Problem *Problem         `json:"problem" doc:"why it ended before its set did; null: it did not"`
}

// BulkItem is what came of an action on one operation.
type BulkItem = operator.Result

// bulk is an action on many operations, which are chosen already.
type bulk struct {
	chosen int
	more   bool // more match than one request takes
	// do carries it out; nil: nothing is to be changed.
	do  func(context.Context, operator.Order) (operator.Report, error)
	dry *operator.DryRun // what do would do, if that was asked; nil: it was not
}

// bulkEnd is what a bulk action came to.
type bulkEnd struct {
	done BulkDone
	err  error // nothing was done
}

// act prepares an action and carries it out, and waits for it for a while.
func (d *door) act(ctx context.Context, name string, by Order, prepare func(context.Context) (bulk, error)) (*answered[BulkDone], error) {
	who, err := by.actor(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case d.bulks <- struct{}{}:
	default:
		return nil, busy.because("%d bulk actions are under way already", maxBulk)
	}
	release := func() { <-d.bulks }
	b, err := prepare(ctx)
	if err != nil {
		release()
		if d.ranOut(ctx, err) {
			err = timedOut.because("to choose took longer than api.timeout, which is %s: nothing was changed; narrow the filter", d.Limits.Timeout)
		}
		return nil, err
	}
	out := &answered[BulkDone]{http.StatusOK, BulkDone{Action: name, Chosen: b.chosen, More: b.more, Over: true, Items: []BulkItem{}, DryRun: b.dry}}
	if b.do == nil || b.chosen == 0 {
		release()
		return out, nil
	}
	began := make(chan string, 1)  // gets the batch when it is written down, once
	ended := make(chan bulkEnd, 1) // gets what came of it, once
	order := operator.Order{By: who.By, Note: who.Note, ProgressFunc: func(p operator.Progress) {
		select {
		case began <- p.Batch:
		default: // told already
		}
	}}
	begun := out.Body
	goesOn := d.acting.begin(func(ctx context.Context) { // ends with the action, or with ctx; the door's close waits
		defer release()
		report, err := b.do(ctx, order)
		if err == nil && report.Failed != nil {
			d.log.LogAttrs(ctx, slog.LevelWarn, "a bulk action ended early", slog.String("action", name), slog.String("batch", report.Batch), slog.Any("err", report.Failed))
		}
		if err == nil && report.Failed != nil && report.Batch == "" { // of one operation, so nothing was done before
			err = report.Failed
		}
		end := bulkEnd{err: err}
		if err == nil {
			end.done = d.over(ctx, begun, report)
			d.outcomes.keep(end.done)
		}
		ended <- end
	})
	if !goesOn {
		release()
		return nil, closing.because("the worker ends: ask another")
	}
	patience := time.NewTimer(cmp.Or(d.patience, bulkPatience))
	defer patience.Stop()
	select {
	case end := <-ended:
		out.Body = end.done
		return out, end.err
	case <-patience.C:
	}
	select {
	case end := <-ended:
		out.Body = end.done
		return out, end.err
	case batch := <-began:
		out.Status, out.Body.Over, out.Body.Batch = http.StatusAccepted, false, &batch
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// operator acts in the name of one request.
func (d *door) operator(ctx context.Context) (*operator.Operator, error) {
	return operator.New(ctx, d.Ledger, operator.Options{Kinds: d.Kinds, Source: "the worker's configuration"})
}

// choose fixes the set of an action, by a filter among states. more: others match, which
// one request does not take; those that the filter's own limit leaves out are not asked for.
func (d *door) choose(ctx context.Context, o *operator.Operator, c Choice, states []jobs.State) (set operator.Set, more bool, err error) {
	if (c.Filter == nil) == (len(c.Operations) == 0) {
		return set, false, invalid.at("body", errors.New("give either operations or filter"))
	}
	if c.Filter == nil {
		ids, err := named("body.operations[%d]", c.Operations)
		if err != nil {
			return set, false, err
		}
		set, err = o.Named(ctx, ids)
		return set, false, err
	}
	w, most := *c.Filter, cmp.Or(d.mostChosen, maxChosen)
	all, chosenBy := w.Limit == 0 || w.Limit > most, w.String()
	switch {
	case w.Cursor != "":
		return set, false, invalid.at("body.filter.cursor", errors.New("a set is no page of a list"))
	case all:
		w.Limit = most
	}
	now, err := d.clock.now(ctx)
	if err != nil {
		return set, false, err
	}
	filter, err := w.Filter(now)
	if err != nil {
		return set, false, inBody("body.filter.", err)
	}
	set, err = o.Matching(ctx, filter, states, chosenBy)
	return set, set.More && all, err
}

// chooseDead fixes the set of an action on dead letters.
func (d *door) chooseDead(ctx context.Context, o *operator.Operator, c Choice) (operator.Set, bool, error) {
	if c.Filter != nil && len(c.Filter.States) > 0 {
		return operator.Set{}, false, invalid.at("body.filter.state", errors.New("it is dead letters that are chosen"))
	}
	return d.choose(ctx, o, c, operator.DeadStates)
}

// named reads the names of operations, each of which counts once. location is a format
// for where the one of a number stands.
func named(location string, names []string) ([]jobs.ID, error) {
	ids, err := operator.ParseIDs(names)
	var wrong *operator.NameError
	if errors.As(err, &wrong) {
		return nil, invalid.at(fmt.Sprintf(location, wrong.Index), wrong.Err)
	}
	return ids, err
}

// inBody says where in a body a word is wrong.
func inBody(where string, err error) error {
	var word *operator.InvalidError
	if errors.As(err, &word) {
		return invalid.at(where+string(word.Field), word)
	}
	return err
}

// over tells what an action came to, once it has begun.
func (d *door) over(ctx context.Context, b BulkDone, report operator.Report) BulkDone {
	sum := report.Outcome(nil)
	b.Batch, b.Done, b.Pending, b.Unsafe, b.Refused, b.Missing, b.Unsure, b.Canary = sum.Batch, sum.Done, sum.Pending, sum.Unsafe, sum.Refused, sum.Missing, sum.Unsure, sum.Canary
	b.Items = append(b.Items, sum.Items[:min(len(sum.Items), maxItems)]...)
	if report.Failed != nil {
		b.Problem = d.problem(ctx, report.Failed)
	}
	return b
}
