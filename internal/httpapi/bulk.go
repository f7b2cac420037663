package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
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
	maxItems     = 1000 // of an answer
)

func (d *door) registerBulk(api huma.API) {
	act := func(id, path, summary, tell string) route {
		return route{id: id, method: http.MethodPost, path: path, tag: "dead letters", summary: summary, tell: tell,
			rule: rule{role: config.RoleOperate, takes: jsonType, maxBody: maxNamed}, problems: []problemKind{busy, notInState}}
	}
	const goesOn = "Choose by operations or by filter. It is written to the audit and as a batch before anything is changed. An action that takes longer than two seconds goes on " +
		"in the worker (202, with its batch: see /v1/batches); should the worker end, the same request goes on with the rest."
	serve(d, api, act("requeue-dead-letters", "/v1/dead-letters/requeue", "Send dead letters on their way again",
		goesOn+" One that may have taken effect is refused, unless a resend is safe. With dry_run nothing is changed. With canary so many go first, and the rest only if all of them succeeded."), d.requeue)
	serve(d, api, act("discard-dead-letters", "/v1/dead-letters/discard", "Give dead letters up: they become cancelled",
		goesOn+" One that may have taken effect is refused."), d.discard)
	serve(d, api, route{id: "list-batches", method: http.MethodGet, path: "/v1/batches", tag: "dead letters",
		summary: "List bulk actions, newest first", rule: rule{role: config.RoleRead}}, d.batches)
	serve(d, api, route{id: "get-batch", method: http.MethodGet, path: "/v1/batches/{batch}", tag: "dead letters",
		summary: "Tell what became of the operations of a bulk action so far", rule: rule{role: config.RoleRead}, problems: []problemKind{notFound}}, d.batch)
	stop := act("stop-batch", "/v1/batches/{batch}/stop", "Put back what a requeue sent on its way and was not sent since", "It may be repeated.")
	stop.problems = append(stop.problems, notFound)
	serve(d, api, stop, d.stopBatch)
}

// maxNamed bounds the body of an order that may name operations.
const maxNamed = 512 << 10

// Choice says which dead letters an action is about.
type Choice struct {
	Operations []string              `json:"operations,omitempty" maxItems:"1000" doc:"by name, KIND/KEY"`
	Filter     *operator.FilterWords `json:"filter,omitempty" doc:"all that match, the newest 20000 at most; {} is all"`
}

type requeueInput struct {
	Body struct {
		Order
		Choice
		MoreAttempts *int   `json:"more_attempts,omitempty" minimum:"1" doc:"granted on top; not given: as many as leave 3"`
		Deadline     string `json:"deadline,omitempty" doc:"a span from when each is due, or RFC 3339; not given: each keeps its own"`
		Rate         string `json:"rate,omitempty" doc:"so many become due per span, such as 5/s, 300/m or 1000/h; not given: all at once"`
		Canary       *int   `json:"canary,omitempty" minimum:"1" doc:"so many first"`
		CanaryWait   string `json:"canary_wait,omitempty" doc:"for what becomes of them, such as 5m, which is the default"`
		DryRun       bool   `json:"dry_run,omitempty" doc:"change nothing, say what would happen"`
	}
}

type discardInput struct {
	Body struct {
		Order
		Choice
	}
}

// BulkDone is what a bulk action came to or, while it goes on, how it is followed.
type BulkDone struct {
	Action  string           `json:"action"`
	Batch   *string          `json:"batch" doc:"null: nothing was chosen, or one operation alone"`
	Chosen  int              `json:"chosen" doc:"operations"`
	More    bool             `json:"more" doc:"as many were chosen as one request takes: the same again goes on"`
	Over    bool             `json:"over" doc:"false: it goes on in the worker; the counts are not known yet"`
	Done    int              `json:"done"`
	Pending int              `json:"pending"`
	Unsafe  int              `json:"unsafe"`
	Refused int              `json:"refused"`
	Missing int              `json:"missing"`
	Unsure  int              `json:"unsure" doc:"of those done or pending: not yet on the replicas asked for"`
	Items   []BulkItem       `json:"items" nullable:"false" doc:"at most 1000"`
	Canary  *operator.Canary `json:"canary" doc:"null: there was none"`
	DryRun  *operator.DryRun `json:"dry_run" doc:"null: it was none"`
	Problem *Problem         `json:"problem" doc:"why it ended before its set did; null: it did not"`
}

// BulkItem is what came of an action on one operation.
type BulkItem = operator.Result

func (d *door) requeue(ctx context.Context, in *requeueInput) (*answered[BulkDone], error) {
	words := operator.RequeueWords{MoreAttempts: in.Body.MoreAttempts, Deadline: in.Body.Deadline, Rate: in.Body.Rate, Canary: in.Body.Canary}
	if text := in.Body.CanaryWait; text != "" {
		wait, err := spanOf("body.canary_wait", text, config.MaxDuration)
		if err != nil {
			return nil, err
		}
		words.CanaryWait = &wait
	}
	plan, err := words.Plan()
	if err != nil {
		return nil, inBody("body.", err)
	}
	b := bulk{name: "requeue", order: in.Body.Order, choice: in.Body.Choice,
		do: func(ctx context.Context, o *operator.Operator, set operator.Set, order operator.Order) (operator.Report, error) {
			return o.Requeue(ctx, set, plan, order)
		}}
	b.look = func(ctx context.Context, o *operator.Operator, set operator.Set) (*operator.DryRun, error) {
		if err := o.CheckPlan(ctx, plan); err != nil || !in.Body.DryRun {
			return nil, inBody("body.", err)
		}
		dry, err := o.DryRun(ctx, set, plan)
		return &dry, err
	}
	return d.act(ctx, b)
}

func (d *door) discard(ctx context.Context, in *discardInput) (*answered[BulkDone], error) {
	return d.act(ctx, bulk{name: "discard", order: in.Body.Order, choice: in.Body.Choice,
		look: func(context.Context, *operator.Operator, operator.Set) (*operator.DryRun, error) { return nil, nil },
		do: func(ctx context.Context, o *operator.Operator, set operator.Set, order operator.Order) (operator.Report, error) {
			return o.Discard(ctx, set, order)
		}})
}

// bulk is an action on a set of dead letters.
type bulk struct {
	name   string
	order  Order
	choice Choice

	// look comes before do, and says what do would do, if only that is asked.
	look func(context.Context, *operator.Operator, operator.Set) (*operator.DryRun, error)
	do   func(context.Context, *operator.Operator, operator.Set, operator.Order) (operator.Report, error)
}

// bulkEnd is what a bulk action came to.
type bulkEnd struct {
	report operator.Report
	err    error // nothing was done
}

func (d *door) act(ctx context.Context, b bulk) (*answered[BulkDone], error) {
	who, err := b.order.actor(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case d.bulks <- struct{}{}:
	default:
		return nil, busy.because("%d bulk actions are under way already", maxBulk)
	}
	release := func() { <-d.bulks }
	o, set, err := d.choose(ctx, b.choice)
	if err != nil {
		release()
		return nil, err
	}
	out := &answered[BulkDone]{http.StatusOK, BulkDone{Action: b.name, Chosen: set.Len(), More: b.choice.Filter != nil && set.Len() >= maxChosen, Over: true, Items: []BulkItem{}}}
	dry, err := b.look(ctx, o, set)
	if err != nil || dry != nil || set.Len() == 0 {
		release()
		out.Body.DryRun = dry
		return out, err
	}
	began := make(chan string, 1)  // gets the batch when it is written down, once
	ended := make(chan bulkEnd, 1) // gets what came of it, once
	order := operator.Order{By: who.By, Note: who.Note, ProgressFunc: func(p operator.Progress) {
		select {
		case began <- p.Batch:
		default: // told already
		}
	}}
	goesOn := d.acting.begin(func(ctx context.Context) { // ends with the action, or with ctx; the door's close waits
		defer release()
		report, err := b.do(ctx, o, set, order)
		if err == nil && report.Failed != nil {
			d.log.LogAttrs(ctx, slog.LevelWarn, "a bulk action ended early", slog.String("action", b.name), slog.String("batch", report.Batch), slog.Any("err", report.Failed))
		}
		ended <- bulkEnd{report, err}
	})
	if !goesOn {
		release()
		return nil, closing.because("the worker ends: ask another")
	}
	patience := time.NewTimer(cmp.Or(d.patience, bulkPatience))
	defer patience.Stop()
	select {
	case end := <-ended:
		return d.over(ctx, out, end)
	case <-patience.C:
	}
	select {
	case end := <-ended:
		return d.over(ctx, out, end)
	case batch := <-began:
		out.Status, out.Body.Over, out.Body.Batch = http.StatusAccepted, false, &batch
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// choose fixes the set of an action.
func (d *door) choose(ctx context.Context, c Choice) (*operator.Operator, operator.Set, error) {
	var none operator.Set
	if (c.Filter == nil) == (len(c.Operations) == 0) {
		return nil, none, invalid.at("body", errors.New("give either operations or filter"))
	}
	ids := make([]jobs.ID, len(c.Operations))
	for i, name := range c.Operations {
		var err error
		if ids[i], err = jobs.ParseID(name); err != nil {
			return nil, none, invalid.at(fmt.Sprintf("body.operations[%d]", i), err)
		}
	}
	o, err := operator.New(ctx, d.Ledger, operator.Options{Kinds: d.Kinds, Source: "the worker's configuration"})
	if err != nil {
		return nil, none, err
	}
	if c.Filter == nil {
		set, err := o.Named(ctx, ids)
		return o, set, err
	}
	w := *c.Filter
	switch {
	case len(w.States) > 0:
		return nil, none, invalid.at("body.filter.state", errors.New("it is dead letters that are chosen"))
	case w.Cursor != "":
		return nil, none, invalid.at("body.filter.cursor", errors.New("a set is no page of a list"))
	case w.Limit == 0 || w.Limit > maxChosen:
		w.Limit = maxChosen
	}
	now, err := d.clock.now(ctx)
	if err != nil {
		return nil, none, err
	}
	filter, err := w.Filter(now)
	if err != nil {
		return nil, none, inBody("body.filter.", err)
	}
	set, err := o.Matching(ctx, filter, operator.DeadStates, w.String())
	return o, set, err
}

// inBody says where in a body a word is wrong.
func inBody(where string, err error) error {
	var word *operator.InvalidError
	if errors.As(err, &word) {
		return invalid.at(where+string(word.Field), word)
	}
	return err
}

// over tells what an action came to.
func (d *door) over(ctx context.Context, out *answered[BulkDone], end bulkEnd) (*answered[BulkDone], error) {
	if end.err != nil {
		return nil, end.err
	}
	sum := end.report.Outcome(nil)
	b := &out.Body
	b.Batch, b.Done, b.Pending, b.Unsafe, b.Refused, b.Missing, b.Unsure, b.Canary = sum.Batch, sum.Done, sum.Pending, sum.Unsafe, sum.Refused, sum.Missing, sum.Unsure, sum.Canary
	b.Items = append(b.Items, sum.Items[:min(len(sum.Items), maxItems)]...)
	if end.report.Failed != nil {
		b.Problem = d.problem(ctx, end.report.Failed)
	}
	return out, nil
}
