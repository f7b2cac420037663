package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
)

// Options say how an [Operator] works. The zero value is usable.
type Options struct {
	// Kinds are those of a configuration, which can be submitted to; nil: those that
	// the workers published. One without a base_url gets the published one.
	Kinds []jobs.KindSpec
	// Dependencies are those of the configuration: looked at even if the namespace
	// does not know them yet.
	Dependencies []jobs.Dependency
	// Source says where Kinds come from, for people: such as the configuration's path.
	Source string
	// Hands work on a bulk action at the same time, so that Redis has work while
	// replies travel; 0: 8.
	Hands int
}

const defaultHands = 8

// Operator acts on the operations of one namespace. It knows the kinds as they were
// when it was made, so it is made anew for each command or request, and serves one
// caller at a time.
type Operator struct {
	ledger  *ledger.Ledger
	options Options

	known map[jobs.Kind]jobs.KindSpec // of every kind that the configuration or the workers know
	ours  map[jobs.Kind]jobs.KindSpec // the kinds that can be submitted to: the configuration's, else the workers'
	bound map[jobs.Kind]error         // what binding a kind of the configuration came to; it is done once

	signEvery time.Duration // for tests; 0: [ledger.SignEvery]

	clock           sync.Mutex // guards redisAt, readAt
	redisAt, readAt time.Time  // Redis' clock, and ours when it was read; zero: not read yet
}

// New reads the kinds of the ledger's namespace. It changes nothing.
func New(ctx context.Context, l *ledger.Ledger, o Options) (*Operator, error) {
	if o.Hands < 1 {
		o.Hands = defaultHands
	}
	op := &Operator{ledger: l, options: o, bound: map[jobs.Kind]error{}}
	published, err := l.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	op.readKinds(published)
	return op, nil
}

// readKinds joins what the configuration says of kinds with what the workers
// published. The configuration wins where both speak of the same dependency;
// operations are found where their kind is bound.
func (o *Operator) readKinds(published map[jobs.Kind]jobs.KindSpec) {
	o.known = published
	if o.options.Kinds == nil {
		o.ours = maps.Clone(published)
		replicas := 0
		for _, spec := range published { // of one namespace all say the same
			replicas = max(replicas, spec.WaitReplicas)
		}
		o.ledger = o.ledger.WaitingFor(replicas)
		return
	}
	o.ours = map[jobs.Kind]jobs.KindSpec{}
	for _, spec := range o.options.Kinds {
		old, ok := published[spec.Kind]
		same := ok && old.Dependency == spec.Dependency
		if same && spec.BaseURL == "" {
			spec.BaseURL = old.BaseURL // the workers resolved what is a secret here
		}
		o.ours[spec.Kind] = spec
		if same || !ok {
			o.known[spec.Kind] = spec
		}
	}
}

// Ledger is the ledger that is acted on, waiting for as many replicas as its kinds
// ask for.
func (o *Operator) Ledger() *ledger.Ledger { return o.ledger }

// Known are all kinds that the configuration or the workers know. It is not to be
// changed.
func (o *Operator) Known() map[jobs.Kind]jobs.KindSpec { return o.known }

// Ours are the kinds that can be submitted to: the configuration's, else the
// workers'. It is not to be changed.
func (o *Operator) Ours() map[jobs.Kind]jobs.KindSpec { return o.ours }

// SpecOf is what is known of a kind; nil if nobody knows it.
func (o *Operator) SpecOf(kind jobs.Kind) *jobs.KindSpec {
	if spec, ok := o.known[kind]; ok {
		return &spec
	}
	return nil
}

// UnknownKindError says that nobody knows a kind.
type UnknownKindError struct{ Kind jobs.Kind }

func (e *UnknownKindError) Error() string { return fmt.Sprintf("unknown kind %q", e.Kind) }

// Knows reports whether anybody knows a kind.
func (o *Operator) Knows(kind jobs.Kind) bool {
	_, known := o.known[kind]
	_, ours := o.ours[kind]
	return known || ours
}

// Kind returns a kind to submit to. For one of the configuration it makes sure that
// its operations will be found. [UnknownKindError] if it cannot be submitted to,
// [ledger.BindingError] if it is bound to another dependency.
func (o *Operator) Kind(ctx context.Context, name jobs.Kind) (jobs.KindSpec, error) {
	spec, ok := o.ours[name]
	if !ok {
		return spec, &UnknownKindError{name}
	}
	if o.options.Kinds == nil {
		return spec, nil
	}
	err, done := o.bound[name]
	if !done {
		err = o.ledger.BindKinds(ctx, []jobs.KindSpec{spec})
		o.bound[name] = err
	}
	return spec, err
}

// whereFrom says where a kind's base_url is known from, for a person who is told that
// it is not the right one.
func (o *Operator) whereFrom(ctx context.Context, spec jobs.KindSpec) (string, error) {
	for _, ours := range o.options.Kinds {
		if ours.Dependency == spec.Dependency && ours.BaseURL != "" && ours.BaseURL == spec.BaseURL {
			return "; that is what " + o.options.Source + " says", nil
		}
	}
	live, err := o.ledger.Workers(ctx)
	if err != nil {
		return "", err
	}
	for _, w := range live {
		if slices.Contains(w.Kinds, spec.Kind) {
			return fmt.Sprintf("; that is what the workers published: %s runs since %s", w.ID, w.StartedAt.UTC().Format(time.RFC3339)), nil
		}
	}
	return "; that was published by a worker that has ended: start one with the right file", nil
}

// Dependencies returns every dependency that the namespace or the configuration
// knows, sorted.
func (o *Operator) Dependencies(ctx context.Context) ([]jobs.Dependency, error) {
	deps, err := o.ledger.Dependencies(ctx)
	if err != nil {
		return nil, err
	}
	for _, dep := range o.options.Dependencies {
		if !slices.Contains(deps, dep) {
			deps = append(deps, dep)
		}
	}
	slices.Sort(deps)
	return deps, nil
}

// Now is Redis' clock: asked once, counted on from there. Safe for concurrent use.
func (o *Operator) Now(ctx context.Context) (time.Time, error) {
	o.clock.Lock()
	defer o.clock.Unlock()
	if o.readAt.IsZero() {
		now, err := o.ledger.Now(ctx)
		if err != nil {
			return time.Time{}, err
		}
		o.redisAt, o.readAt = now, time.Now()
	}
	return o.redisAt.Add(time.Since(o.readAt)), nil
}

// auditSpan is how long it is kept who did what at a dependency; 0: for ever.
func (o *Operator) auditSpan(dep jobs.Dependency) time.Duration {
	for _, spec := range o.known {
		if spec.Dependency == dep {
			return terms.MS(spec.Retention.AuditMS)
		}
	}
	return 0
}
