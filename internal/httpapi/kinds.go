package httpapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Published kinds are read again after kindsFresh, and for a kind that is not among them
// after kindsPatience, so that a flood of unknown names is no flood of reads.
const (
	kindsFresh    = 5 * time.Second
	kindsPatience = time.Second
)

// kinds knows the kinds of the namespace: those of the configuration, and what other
// workers published.
type kinds struct {
	ledger *ledger.Ledger
	ours   map[jobs.Kind]jobs.KindSpec

	mu     sync.Mutex                  // guards known, readAt
	known  map[jobs.Kind]jobs.KindSpec // never changed once it is here
	readAt time.Time
}

func newKinds(l *ledger.Ledger, ours []jobs.KindSpec) *kinds {
	k := &kinds{ledger: l, ours: map[jobs.Kind]jobs.KindSpec{}}
	for _, spec := range ours {
		k.ours[spec.Kind] = spec
	}
	return k
}

// all returns every kind that is known. Not to be changed.
func (k *kinds) all(ctx context.Context) (map[jobs.Kind]jobs.KindSpec, error) {
	return k.read(ctx, kindsFresh)
}

func (k *kinds) read(ctx context.Context, fresh time.Duration) (map[jobs.Kind]jobs.KindSpec, error) {
	k.mu.Lock()
	known, age := k.known, time.Since(k.readAt)
	k.mu.Unlock()
	if known != nil && age < fresh {
		return known, nil
	}
	known, err := k.ledger.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(known, k.ours) // a worker that does not own a kind does not start: see ledger.BindingError
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.readAt = known, time.Now()
	return known, nil
}

// spec returns one kind: a [Problem] when nobody knows it. location is where the request
// names it.
func (k *kinds) spec(ctx context.Context, kind jobs.Kind, location string) (jobs.KindSpec, error) {
	if spec, ok := k.ours[kind]; ok {
		return spec, nil
	}
	if err := jobs.CheckName(string(kind)); err != nil {
		return jobs.KindSpec{}, invalid.at(location, err)
	}
	known, err := k.all(ctx)
	if err == nil && known[kind].Kind == "" {
		known, err = k.read(ctx, kindsPatience)
	}
	if err != nil {
		return jobs.KindSpec{}, err
	}
	spec, ok := known[kind]
	if !ok {
		return spec, invalid.at(location, unknownKindError{kind, slices.Sorted(maps.Keys(known))})
	}
	return spec, nil
}

// unknownKindError names the kinds that there are.
type unknownKindError struct {
	kind  jobs.Kind
	known []jobs.Kind
}

func (e unknownKindError) Error() string {
	names := make([]string, len(e.known))
	for i, k := range e.known {
		names[i] = string(k)
	}
	return fmt.Sprintf("unknown kind %q: known are %s", e.kind, strings.Join(names, ", "))
}

// place says where an operation is: by the binding of its kind or, of a kind that
// nobody knows any more, wherever it is found. [ledger.ErrNotFound] when it is nowhere.
func (k *kinds) place(ctx context.Context, id jobs.ID) (ledger.Place, *jobs.KindSpec, error) {
	known, err := k.all(ctx)
	if err != nil {
		return ledger.Place{}, nil, err
	}
	if spec, ok := known[id.Kind]; ok {
		return ledger.Place{Dependency: spec.Dependency, ID: id}, &spec, nil
	}
	deps, err := k.ledger.Dependencies(ctx)
	if err != nil {
		return ledger.Place{}, nil, err
	}
	places := make([]ledger.Place, len(deps))
	for i, dep := range deps {
		places[i] = ledger.Place{Dependency: dep, ID: id}
	}
	there, err := k.ledger.Locate(ctx, places)
	if err != nil {
		return ledger.Place{}, nil, err
	}
	for i := range places {
		if there[i] {
			return places[i], nil, nil
		}
	}
	return ledger.Place{}, nil, notFound.because("%s: %s", id, ledger.ErrNotFound)
}

// dependencies returns every dependency that the namespace or the configuration knows,
// sorted.
func (k *kinds) dependencies(ctx context.Context) ([]jobs.Dependency, error) {
	deps, err := k.ledger.Dependencies(ctx)
	if err != nil {
		return nil, err
	}
	for _, spec := range k.ours {
		if !slices.Contains(deps, spec.Dependency) {
			deps = append(deps, spec.Dependency)
		}
	}
	slices.Sort(deps)
	return deps, nil
}
