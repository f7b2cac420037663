package httpapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

type auditInput struct {
	Dependency string `query:"dependency" doc:"only of this dependency"`
	Operation  string `query:"operation" doc:"only of this operation, KIND/KEY"`
	Since      string `query:"since" doc:"at or after this time: RFC 3339, 09:00 (today, UTC) or 2h (ago)"`
	Limit      int    `query:"limit" default:"100" minimum:"1" maximum:"10000" doc:"the newest of them"`
}

// Audit is who did what, when and why: oldest first.
type Audit struct {
	Items []ledger.AuditEntry `json:"items" nullable:"false"`
}

func (d *door) audit(ctx context.Context, in *auditInput) (*body[Audit], error) {
	if in.Dependency != "" && in.Operation != "" {
		return nil, invalid.at("query.operation", errors.New("it says which dependency by itself: give one of the two"))
	}
	if _, err := operator.ParseWhen(operator.FieldSince, in.Since, time.Now()); err != nil { // before Redis is asked
		return nil, err
	}
	now, err := d.clock.now(ctx)
	if err != nil {
		return nil, err
	}
	since, err := operator.ParseWhen(operator.FieldSince, in.Since, now)
	if err != nil {
		return nil, err
	}
	out := Audit{Items: []ledger.AuditEntry{}}
	if in.Operation != "" {
		out.Items, err = d.auditOf(ctx, in.Operation, since, int64(in.Limit))
	} else {
		out.Items, err = d.auditAt(ctx, in.Dependency, since, int64(in.Limit))
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out.Items, func(a, b ledger.AuditEntry) int { return cmp.Compare(millis(a.At), millis(b.At)) })
	out.Items = out.Items[max(0, len(out.Items)-in.Limit):]
	for i, e := range out.Items {
		out.Items[i] = wire.Told(e)
		out.Items[i].Note = wire.Masked(e.Note)
	}
	return &body[Audit]{out}, nil
}

// auditAt reads the audit of one dependency, or of all.
func (d *door) auditAt(ctx context.Context, name string, since time.Time, limit int64) ([]ledger.AuditEntry, error) {
	deps, err := d.kinds.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	if name != "" {
		if err := jobs.CheckName(name); err != nil {
			return nil, invalid.at("query.dependency", err)
		}
		if !slices.Contains(deps, jobs.Dependency(name)) {
			return nil, notFound.because("no dependency %q: %s known", name, listed(deps))
		}
		deps = []jobs.Dependency{jobs.Dependency(name)}
	}
	out := []ledger.AuditEntry{}
	for _, dep := range deps {
		entries, err := d.Ledger.Audit(ctx, dep, since, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	}
	return out, nil
}

// auditOf reads what was done to one operation, also one that is gone by now.
func (d *door) auditOf(ctx context.Context, name string, since time.Time, limit int64) ([]ledger.AuditEntry, error) {
	id, err := jobs.ParseID(name)
	if err != nil {
		return nil, invalid.at("query.operation", err)
	}
	known, err := d.kinds.all(ctx)
	if err != nil {
		return nil, err
	}
	deps := []jobs.Dependency{known[id.Kind].Dependency}
	if known[id.Kind].Kind == "" {
		if deps, err = d.kinds.dependencies(ctx); err != nil {
			return nil, err
		}
	}
	out := []ledger.AuditEntry{}
	for _, dep := range deps {
		entries, err := d.Ledger.AuditOf(ctx, dep, id, since, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	}
	return out, nil
}

func millis(i *jobs.Instant) int64 {
	if i == nil {
		return 0
	}
	return i.UnixMilli()
}
