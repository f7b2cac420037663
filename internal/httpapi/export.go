package httpapi

import (
	"context"

	"redrive/internal/jobs"
)

const (
	// maxExported dead letters come with one answer: each may have a body of 256 KiB.
	maxExported = 100
	maxExports  = 2 // answers at once, for the same reason
)

type exportInput struct {
	FilterQuery
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"100" doc:"how many at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// ExportPage is one page of an export.
type ExportPage struct {
	Items      []jobs.Submission `json:"items" nullable:"false" doc:"submissions, as an import takes them"`
	Left       []LeftOut         `json:"left_out" nullable:"false"`
	NextCursor string            `json:"next_cursor" doc:"go on with it; empty: nothing more"`
}

// LeftOut is a dead letter that no submission can be made of.
type LeftOut struct {
	Operation jobs.ID `json:"operation"`
	Why       string  `json:"why"`
}

func (d *door) exportDead(ctx context.Context, in *exportInput) (*body[ExportPage], error) {
	w := in.words()
	w.States = []string{string(jobs.Dead)}
	chosenBy := in.words()
	w.Limit, w.Cursor = min(in.Limit, maxExported), in.Cursor
	found, err := d.matching(ctx, w, maxLookedAt)
	if err != nil {
		return nil, err
	}
	o, err := d.operator(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.NoteExport(ctx, found.Items, chosenBy.String(), callerOf(ctx).name); err != nil {
		return nil, err
	}
	exported, err := o.Export(ctx, found.Items)
	if err != nil {
		return nil, err
	}
	out := ExportPage{Items: []jobs.Submission{}, Left: []LeftOut{}, NextCursor: found.NextCursor}
	for _, e := range exported {
		if e.Err != nil {
			out.Left = append(out.Left, LeftOut{e.ID, e.Err.Error()})
			continue
		}
		out.Items = append(out.Items, *e.Submission)
	}
	return &body[ExportPage]{out}, nil
}
