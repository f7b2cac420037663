package operator

import (
	"context"
	"fmt"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Finding is what a person found out about one operation.
type Finding struct {
	ID      jobs.ID
	Verdict ledger.Resolution
	Ref     string // proof that it was applied, such as the dependency's id of it; "": none
}

var resolutions = []ledger.Resolution{ledger.ResolvedApplied, ledger.ResolvedNotApplied, ledger.WrittenOff}

// ParseVerdict reads applied, not_applied or written_off, in any case, also with dashes.
func ParseVerdict(s string) (ledger.Resolution, error) {
	return jobs.Parse(string(FieldVerdict), strings.ReplaceAll(strings.ToLower(s), "-", "_"), resolutions)
}

// Check refuses a finding that says nothing sensible. Its error names the operation.
func (f Finding) Check() error {
	if f.Ref != "" && f.Verdict != ledger.ResolvedApplied {
		return fmt.Errorf("%s: a ref is proof that it was applied, the verdict is %s", f.ID, f.Verdict)
	}
	if err := CheckRef(f.Ref); err != nil {
		return fmt.Errorf("%s: ref: %w", f.ID, err)
	}
	return nil
}

// Resolve settles operations that may have taken effect, by what a person found out.
// Each is named once. The findings have been checked.
func (o *Operator) Resolve(ctx context.Context, found []Finding, order Order) (Report, error) {
	ids := make([]jobs.ID, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	set, err := o.Named(ctx, ids)
	if err != nil {
		return Report{}, err
	}
	return o.several(ctx, resolveVerb, set, order, func(ctx context.Context, i int, c Chosen, who ledger.Actor) (Result, error) {
		done, err := o.ledger.Resolve(ctx, c.Place.Dependency, c.Place.ID, found[i].Verdict, found[i].Ref, o.known[c.Place.ID.Kind].Retention, who)
		return resultOf(c.Place.ID, done), err
	})
}
