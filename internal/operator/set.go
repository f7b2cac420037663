package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// The states that actions choose among, unless a filter names some.
var (
	// OpenStates are those of operations on their way: what can be cancelled. Dead
	// letters are discarded, or cancelled where the filter says so.
	OpenStates = []jobs.State{jobs.Waiting, jobs.Released, jobs.Attempting, jobs.Unresolved}
	// DeadStates is that of dead letters: what can be requeued or discarded.
	DeadStates = []jobs.State{jobs.Dead}
)

// Chosen is one operation that an action is about.
type Chosen struct {
	Place  ledger.Place
	Op     *jobs.Operation // nil: there is none of that name
	anyway bool            // it is acted on even then
}

// Set is what an action is about, fixed once.
type Set struct {
	Operations []Chosen
	More       bool   // more match than the filter's limit let in
	chosenBy   string // for the audit
}

// Len is how many operations were chosen, those that do not exist included.
func (s Set) Len() int { return len(s.Operations) }

// NameError says which of several names is no operation's.
type NameError struct {
	Index int // among the names, from 0
	Err   error
}

func (e *NameError) Error() string { return fmt.Sprintf("operation %d: %s", e.Index+1, e.Err) }

// Unwrap returns what is wrong with the name.
func (e *NameError) Unwrap() error { return e.Err }

// ParseIDs reads the names of operations, KIND/KEY, and takes each once. A [NameError]
// for the first that is none.
func ParseIDs(names []string) ([]jobs.ID, error) {
	seen := map[jobs.ID]bool{}
	var ids []jobs.ID
	for i, name := range names {
		id, err := jobs.ParseID(name)
		if err != nil {
			return nil, &NameError{i, err}
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Named chooses operations by name, each of which is given once: see [ParseIDs].
// Bodies are read and let go. One that is nowhere is chosen without an operation, and an
// action says of it that it is missing.
func (o *Operator) Named(ctx context.Context, ids []jobs.ID) (Set, error) {
	found, err := o.named(ctx, ids)
	return Set{Operations: found, chosenBy: "named one by one"}, err
}

// Matching chooses all operations that match now, among states unless the filter
// names some; of a filter with a limit, one page of them, newest first. chosenBy is the
// filter as it was given, for the audit; "" for none.
func (o *Operator) Matching(ctx context.Context, filter ledger.Filter, states []jobs.State, chosenBy string) (Set, error) {
	if len(filter.States) == 0 {
		filter.States = states
	}
	page, err := o.ledger.List(ctx, filter, o.known)
	if err != nil {
		return Set{}, err
	}
	out := make([]Chosen, len(page.Items))
	for i := range page.Items {
		op := &page.Items[i]
		out[i] = Chosen{Place: ledger.Place{Dependency: op.Dependency, ID: op.ID()}, Op: op}
	}
	return Set{out, page.NextCursor != "", AllMatching(chosenBy)}, nil
}

// AllMatching says in the audit that a filter chose.
func AllMatching(filter string) string {
	if filter == "" {
		return "all matching, without a filter"
	}
	return "all matching " + filter
}

func (o *Operator) named(ctx context.Context, ids []jobs.ID) ([]Chosen, error) {
	const chunk = 500 // bodies come along and are let go
	out := make([]Chosen, 0, len(ids))
	for part := range slices.Chunk(ids, chunk) {
		places, err := o.Places(ctx, part)
		if err != nil {
			return nil, err
		}
		details, err := o.ledger.Details(ctx, places, o.known)
		if err != nil {
			return nil, err
		}
		byID := map[jobs.ID]*ledger.Detail{}
		for _, d := range details {
			if d != nil {
				byID[d.ID()] = d
			}
		}
		for _, id := range part {
			c := Chosen{Place: ledger.Place{ID: id}}
			if d := byID[id]; d != nil {
				d.Timeline = nil
				c.Op, c.Place.Dependency = &d.Operation, d.Dependency
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// Places says where operations are by the binding of their kinds; those of a kind
// that nobody knows are looked for at every dependency, and left out if they are
// nowhere.
func (o *Operator) Places(ctx context.Context, ids []jobs.ID) ([]ledger.Place, error) {
	var out, unsure []ledger.Place
	var deps []jobs.Dependency
	for _, id := range ids {
		if spec, ok := o.known[id.Kind]; ok {
			out = append(out, ledger.Place{Dependency: spec.Dependency, ID: id})
			continue
		}
		if deps == nil {
			var err error
			if deps, err = o.ledger.Dependencies(ctx); err != nil {
				return nil, err
			}
		}
		for _, dep := range deps {
			unsure = append(unsure, ledger.Place{Dependency: dep, ID: id})
		}
	}
	found, err := o.ledger.Locate(ctx, unsure)
	if err != nil {
		return nil, err
	}
	for i, there := range found {
		if there {
			out = append(out, unsure[i])
		}
	}
	return out, nil
}

// earliestDeadlineFirst orders what has the least time to lose first.
func earliestDeadlineFirst(set []Chosen) []Chosen {
	deadline := func(c Chosen) int64 {
		if c.Op == nil || c.Op.DeadlineAt == nil {
			return 0
		}
		return c.Op.DeadlineAt.UnixMilli()
	}
	return slices.SortedStableFunc(slices.Values(set), func(a, b Chosen) int { return cmp.Compare(deadline(a), deadline(b)) })
}
