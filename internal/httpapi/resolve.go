package httpapi

import (
	"context"
	"errors"
	"fmt"

	"redrive/internal/jobs"
	"redrive/internal/operator"
)

// Verdict is what a person found out about an unknown outcome.
type Verdict struct {
	Verdict string `json:"verdict" enum:"applied,not_applied,written_off" doc:"applied: it took effect (it becomes succeeded); not_applied: it did not (a dead letter may be requeued, an unresolved one does what it was about to); written_off: nobody can tell (it becomes cancelled and keeps saying so)"`
	Ref     string `json:"ref,omitempty" maxLength:"200" doc:"proof that it was applied, such as the dependency's id of it"`
}

// Finding is a verdict on one of many operations.
type Finding struct {
	Operation string `json:"operation" doc:"by name, KIND/KEY"`
	Verdict
}

// about checks a verdict on one operation. location is that of its fields.
func (v Verdict) about(id jobs.ID, location string) (operator.Finding, error) {
	f := operator.Finding{ID: id, Ref: v.Ref}
	var err error
	if f.Verdict, err = operator.ParseVerdict(v.Verdict); err != nil {
		return f, invalid.at(location+"verdict", err)
	}
	if err := operator.CheckRef(v.Ref); err != nil {
		return f, invalid.at(location+"ref", err)
	}
	if err := f.Check(); err != nil {
		return f, invalid.at(location+"ref", errors.New("it is proof that it was applied, and goes with that verdict alone"))
	}
	return f, nil
}

type resolveInput struct {
	OperationPath
	Body struct {
		Order
		Verdict
	}
}

func (d *door) resolve(ctx context.Context, in *resolveInput) (*answered[Done], error) {
	who, err := in.Body.actor(ctx)
	if err != nil {
		return nil, err
	}
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	found, err := in.Body.about(id, "body.")
	if err != nil {
		return nil, err
	}
	place, of, err := d.target(ctx, id)
	if err != nil {
		return nil, err
	}
	done, err := d.storeFor(of).Resolve(ctx, place.Dependency, id, found.Verdict, found.Ref, of.Retention, who)
	if err != nil {
		return nil, err
	}
	return doneOf(id, done)
}

type resolveManyInput struct {
	Body struct {
		Order
		Findings []Finding `json:"findings" minItems:"1" maxItems:"1000" nullable:"false"`
	}
}

func (d *door) resolveMany(ctx context.Context, in *resolveManyInput) (*answered[BulkDone], error) {
	found := make([]operator.Finding, len(in.Body.Findings))
	at := map[jobs.ID]int{}
	for i, f := range in.Body.Findings {
		where := fmt.Sprintf("body.findings[%d].", i)
		id, err := jobs.ParseID(f.Operation)
		if err != nil {
			return nil, invalid.at(where+"operation", err)
		}
		if before, twice := at[id]; twice {
			return nil, invalid.at(where+"operation", fmt.Errorf("findings[%d] is about the same", before))
		}
		at[id] = i
		if found[i], err = f.about(id, where); err != nil {
			return nil, err
		}
	}
	return d.act(ctx, "resolve", in.Body.Order, func(ctx context.Context) (bulk, error) {
		o, err := d.operator(ctx)
		return bulk{chosen: len(found), do: func(ctx context.Context, order operator.Order) (operator.Report, error) {
			return o.Resolve(ctx, found, order)
		}}, err
	})
}
