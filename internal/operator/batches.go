package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Batch is a bulk action over all its dependencies, as JSON.
type Batch struct {
	ID           string            `json:"batch"`
	Action       string            `json:"action"`
	Phase        ledger.Phase      `json:"phase"`
	At           *jobs.Instant     `json:"at"`
	By           string            `json:"by"`
	Note         string            `json:"note"`
	Filter       string            `json:"filter"`
	Dependencies []jobs.Dependency `json:"dependencies"`
	Planned      int               `json:"planned"` // operations that were chosen
	StoppedAt    *jobs.Instant     `json:"stopped_at"`
	StoppedBy    string            `json:"stopped_by"`
	StopNote     string            `json:"stop_note"`
}

// BatchProgress is what became of the operations of a batch so far, as JSON.
type BatchProgress struct {
	Batch
	Operations int                 `json:"operations"` // acted on; those that were refused are not among them
	States     map[jobs.State]int  `json:"states"`
	Reasons    map[jobs.Reason]int `json:"reasons"` // of the dead ones
	Gone       int                 `json:"gone"`    // records that retention took
	Open       int                 `json:"open"`    // still on their way
}

// Over reports whether nothing will change any more by itself.
func (b *BatchProgress) Over() bool {
	return b.Open == 0 && b.Phase != ledger.PhaseCanary && b.Phase != ledger.PhaseRunning
}

// join adds what another dependency knows of the same batch. It is as far as the
// last of them is, and at work as long as one gave a sign of life.
func (b *Batch) join(o ledger.Batch) {
	b.Dependencies = append(b.Dependencies, o.Dependency)
	b.Planned += o.Planned
	if b.StoppedAt == nil && o.StoppedAt != nil {
		b.StoppedAt, b.StoppedBy, b.StopNote = o.StoppedAt, o.StoppedBy, o.StopNote
	}
	alive := b.Phase == ledger.PhaseCutOff && (o.Phase == ledger.PhaseRunning || o.Phase == ledger.PhaseCanary)
	if b.Phase != ledger.PhaseStopped && (o.Phase == ledger.PhaseStopped || b.Phase == ledger.PhaseDone || alive) {
		b.Phase = o.Phase
	}
}

func newBatchOf(o ledger.Batch) *Batch {
	b := &Batch{ID: o.ID, Action: o.Action, Phase: o.Phase, At: o.At, By: o.By, Note: o.Note, Filter: o.Filter}
	b.join(o)
	return b
}

// Batches returns the bulk actions begun since an instant (zero: all that are
// remembered), newest first, at most limit.
func (o *Operator) Batches(ctx context.Context, since time.Time, limit int) ([]*Batch, error) {
	deps, err := o.Dependencies(ctx)
	if err != nil {
		return nil, err
	}
	byID := map[string]*Batch{}
	var out []*Batch
	for _, dep := range deps {
		found, err := o.ledger.Batches(ctx, dep, since, limit)
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			if known := byID[b.ID]; known != nil {
				known.join(b)
				continue
			}
			byID[b.ID] = newBatchOf(b)
			out = append(out, byID[b.ID])
		}
	}
	slices.SortFunc(out, func(a, b *Batch) int {
		return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), limit)], nil
}

// parts are a batch at each of its dependencies; [ledger.ErrNoBatch] when none knows it.
func (o *Operator) parts(ctx context.Context, id string) ([]ledger.Batch, error) {
	deps, err := o.Dependencies(ctx)
	if err != nil {
		return nil, err
	}
	var out []ledger.Batch
	for _, dep := range deps {
		b, err := o.ledger.Batch(ctx, dep, id)
		switch {
		case errors.Is(err, ledger.ErrNoBatch):
		case err != nil:
			return nil, err
		default:
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: %w", id, ledger.ErrNoBatch)
	}
	return out, nil
}

// Batch counts the operations of a bulk action by their state; [ledger.ErrNoBatch]
// when there is none of that name.
func (o *Operator) Batch(ctx context.Context, id string) (*BatchProgress, error) {
	parts, err := o.parts(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &BatchProgress{Batch: *newBatchOf(parts[0])}
	sum := ledger.NewProgress()
	for i, b := range parts {
		if i > 0 {
			out.join(b)
		}
		part, err := o.ledger.Progress(ctx, b.Dependency, id)
		if err != nil {
			return nil, err
		}
		sum.Add(part)
	}
	out.Operations, out.States, out.Reasons, out.Gone, out.Open = sum.Operations, sum.States, sum.Reasons, sum.Gone, sum.Open()
	return out, nil
}
