package operator

import (
	"context"
	"fmt"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// NoteExport writes to the audit, one entry for each dependency, that operations are
// about to be shown with their payload: who cannot be written down sees nothing.
// chosenBy is the filter as it was given; "" for none.
func (o *Operator) NoteExport(ctx context.Context, ops []jobs.Operation, chosenBy, by string) error {
	byDependency := map[jobs.Dependency]int{}
	for i := range ops {
		byDependency[ops[i].Dependency]++
	}
	for dep, n := range byDependency {
		action := fmt.Sprintf("export %s with payload (%s)", operations(n), AllMatching(chosenBy))
		if err := o.ledger.Note(ctx, dep, "-", action, ledger.Actor{By: by}); err != nil {
			return err
		}
	}
	return nil
}

// Exported is a dead letter as a submission that goes on elsewhere.
type Exported struct {
	ID         jobs.ID
	Submission *jobs.Submission
	Err        error // why it is none; nil: Submission is there
}

// Export reads dead letters with their payload, which [Operator.NoteExport] has written
// down. One that is dead no more is left out.
func (o *Operator) Export(ctx context.Context, ops []jobs.Operation) ([]Exported, error) {
	places := make([]ledger.Place, len(ops))
	for i := range ops {
		places[i] = ledger.Place{Dependency: ops[i].Dependency, ID: ops[i].ID()}
	}
	details, err := o.ledger.Details(ctx, places, o.known)
	if err != nil {
		return nil, err
	}
	out := make([]Exported, 0, len(details))
	for _, d := range details {
		if d == nil || d.State != jobs.Dead {
			continue // it moved on meanwhile
		}
		e := Exported{ID: d.ID()}
		e.Submission, e.Err = d.Submission(o.SpecOf(d.Kind))
		out = append(out, e)
	}
	return out, nil
}
