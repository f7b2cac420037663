package httpapi

import (
	"context"

	"redrive/internal/operator"
)

// maxBatches of a list.
const maxBatches = 1000

// Batches are bulk actions, newest first.
type Batches struct {
	Items []*operator.Batch `json:"items" nullable:"false"`
}

type batchesInput struct {
	Since string `query:"since" doc:"begun at or after this time: RFC 3339, 09:00 (today, UTC) or 2h (ago)"`
	Limit int    `query:"limit" default:"50" minimum:"1" maximum:"1000" doc:"how many at most"`
}

func (d *door) batches(ctx context.Context, in *batchesInput) (*body[Batches], error) {
	now, err := d.clock.now(ctx)
	if err != nil {
		return nil, err
	}
	since, err := operator.ParseWhen(operator.FieldSince, in.Since, now)
	if err != nil {
		return nil, err
	}
	o, err := operator.New(ctx, d.Ledger, operator.Options{Kinds: d.Kinds})
	if err != nil {
		return nil, err
	}
	items, err := o.Batches(ctx, since, min(in.Limit, maxBatches))
	if items == nil {
		items = []*operator.Batch{}
	}
	return &body[Batches]{Batches{items}}, err
}

// BatchPath names one bulk action.
type BatchPath struct {
	Batch string `path:"batch" pattern:"^b-[0-9a-z-]{1,64}$" doc:"as a bulk action answered it"`
}

func (d *door) batch(ctx context.Context, in *BatchPath) (*body[operator.BatchProgress], error) {
	o, err := operator.New(ctx, d.Ledger, operator.Options{Kinds: d.Kinds})
	if err != nil {
		return nil, err
	}
	progress, err := o.Batch(ctx, in.Batch)
	if err != nil {
		return nil, err
	}
	return &body[operator.BatchProgress]{*progress}, nil
}

type stopInput struct {
	BatchPath
	Body Order
}

// BatchStopped is what stopping a requeue came to.
type BatchStopped struct {
	Batch   string     `json:"batch"`
	Done    int        `json:"done" doc:"put back as they were"`
	Left    int        `json:"left" doc:"left as they are: sent since, ended, or back already"`
	Over    bool       `json:"over" doc:"the batch was done already"`
	Items   []BulkItem `json:"items" nullable:"false" doc:"those that were put back, at most 1000"`
	Problem *Problem   `json:"problem" doc:"why it ended before all were looked at: the same again goes on; null: it did not"`
}

func (d *door) stopBatch(ctx context.Context, in *stopInput) (*body[BatchStopped], error) {
	who, err := in.Body.actor(ctx)
	if err != nil {
		return nil, err
	}
	o, err := operator.New(ctx, d.Ledger, operator.Options{Kinds: d.Kinds})
	if err != nil {
		return nil, err
	}
	stopped, err := o.StopBatch(ctx, in.Batch, operator.Order{By: who.By, Note: who.Note})
	if err != nil {
		return nil, err
	}
	sum := stopped.Outcome(nil)
	out := BatchStopped{Batch: in.Batch, Done: sum.Done, Left: stopped.Left, Over: stopped.Over, Items: sum.Items[:min(len(sum.Items), maxItems)]}
	if stopped.Failed != nil {
		out.Problem = d.problem(ctx, stopped.Failed)
	}
	return &body[BatchStopped]{out}, nil
}
