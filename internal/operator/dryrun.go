package operator

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"redrive/internal/jobs"
)

// DryRun is what a requeue would do, as JSON.
type DryRun struct {
	DryRun   bool         `json:"dry_run"`  // always true: so that nobody takes it for what was done
	Requeued int          `json:"requeued"` // would be
	Refused  int          `json:"refused"`
	Missing  int          `json:"missing"`
	Groups   []*Group     `json:"groups"`     // of what would be requeued
	Refusals []RefusedFor `json:"refusals"`   // of what would not, by why
	Good     []jobs.ID    `json:"operations"` // would be requeued, in this order
}

// RefusedFor are operations that would be refused for one reason.
type RefusedFor struct {
	Why        string    `json:"why"`
	Operations int       `json:"operations"`
	Examples   []jobs.ID `json:"examples"` // at most 5
}

const maxExamples = 5

// DryRun asks the ledger what a requeue of set would do, and changes nothing.
func (o *Operator) DryRun(ctx context.Context, set Set, p Plan) (DryRun, error) {
	run := &requeueRun{o: o, base: p.base, apart: p.Apart}
	run.base.DryRun = true
	ordered := earliestDeadlineFirst(set.Operations)
	results, err := o.carryOut(ctx, ordered, run.one(0), nil)
	if err != nil {
		return DryRun{}, err
	}
	return dryRunOf(ordered, results), nil
}

func dryRunOf(set []Chosen, results []Result) DryRun {
	out := DryRun{DryRun: true, Refusals: []RefusedFor{}, Good: []jobs.ID{}}
	var good []*jobs.Operation
	byWhy := map[string]*RefusedFor{}
	for i, r := range results {
		if r.Result == ResultDone {
			out.Requeued++
			out.Good = append(out.Good, r.Operation)
			good = append(good, set[i].Op)
			continue
		}
		if r.Result == ResultMissing {
			out.Missing++
		} else {
			out.Refused++
		}
		why := byWhy[r.Detail]
		if why == nil {
			why = &RefusedFor{Why: r.Detail}
			byWhy[r.Detail] = why
		}
		why.Operations++
		if len(why.Examples) < maxExamples {
			why.Examples = append(why.Examples, r.Operation)
		}
	}
	out.Groups = Groups(good)
	for _, why := range slices.SortedFunc(maps.Values(byWhy), func(a, b *RefusedFor) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Why, b.Why))
	}) {
		out.Refusals = append(out.Refusals, *why)
	}
	return out
}
