package cli

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

// filter reads the words of a filter by Redis' clock, where the person is.
func (s *atRedis) filter(ctx context.Context, w *operator.FilterWords) (ledger.Filter, error) {
	now, err := s.op.Now(ctx)
	if err != nil {
		return ledger.Filter{}, err
	}
	filter, err := w.Filter(now.In(time.Local))
	if err == nil {
		s.warnUnknown(filter)
	}
	return filter, err
}

// warnUnknown tells of names that nothing in the namespace bears: likely a typo.
func (s *atRedis) warnUnknown(f ledger.Filter) {
	for _, kind := range f.Kinds {
		if _, ok := s.known[kind]; !ok {
			s.p.say("warning: no kind %q is known %s", kind, s.where())
		}
	}
	for _, dep := range f.Dependencies {
		known := s.config.Dependencies[dep] != nil
		for _, spec := range s.known {
			known = known || spec.Dependency == dep
		}
		if !known {
			s.p.say("warning: no dependency %q is known %s", dep, s.where())
		}
	}
}

func (s *atRedis) matching(ctx context.Context, w *operator.FilterWords, states []jobs.State) (ledger.Page, error) {
	filter, err := s.filter(ctx, w)
	if err != nil {
		return ledger.Page{}, err
	}
	if states != nil {
		filter.States = states
	}
	return s.ledger.List(ctx, filter, s.known)
}

func (s *atRedis) list(ctx context.Context, w *operator.FilterWords) (page, error) {
	found, err := s.matching(ctx, w, nil)
	return page{found.Items, found.NextCursor}, err
}

func (s *atRedis) countDead(ctx context.Context, w *operator.FilterWords) (deadGroups, error) {
	found, err := s.matching(ctx, w, operator.DeadStates)
	if err != nil {
		return deadGroups{}, err
	}
	ops := make([]*jobs.Operation, len(found.Items))
	for i := range found.Items {
		ops[i] = &found.Items[i]
	}
	groups := operator.Groups(ops)
	if groups == nil {
		groups = []*operator.Group{}
	}
	return deadGroups{Operations: len(ops), Groups: groups}, nil
}

func (s *atRedis) export(ctx context.Context, w *operator.FilterWords, take func(*jobs.Submission) error, left func(string)) error {
	found, err := s.matching(ctx, w, operator.DeadStates)
	if err != nil {
		return err
	}
	if err := s.op.NoteExport(ctx, found.Items, w.String(), s.p.by()); err != nil {
		return err
	}
	const chunk = 100 // with their bodies they may be more than memory holds
	for part := range slices.Chunk(found.Items, chunk) {
		exported, err := s.op.Export(ctx, part)
		if err != nil {
			return err
		}
		for _, e := range exported {
			if e.Err != nil {
				left(e.Err.Error())
			} else if err := take(e.Submission); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *atRedis) gates(ctx context.Context, names []string) ([]wire.Gate, error) {
	deps, err := s.chosenDependencies(ctx, names)
	if err != nil {
		return nil, err
	}
	out := make([]wire.Gate, len(deps))
	for i, dep := range deps {
		state, err := s.ledger.Gate(ctx, dep)
		if err != nil {
			return nil, err
		}
		out[i] = wire.GateOf(state)
	}
	return out, nil
}

// chosenDependencies are the named ones, or all.
func (s *atRedis) chosenDependencies(ctx context.Context, names []string) ([]jobs.Dependency, error) {
	deps, err := s.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		if len(deps) == 0 {
			return nil, &failure{exitNotFound, errors.New("no dependency is known yet " + s.where())}
		}
		return deps, nil
	}
	chosen := make([]jobs.Dependency, len(names))
	for i, name := range names {
		chosen[i] = jobs.Dependency(name)
		if !slices.Contains(deps, chosen[i]) {
			return nil, s.noDependency(chosen[i], deps)
		}
	}
	return chosen, nil
}

func (s *atRedis) audit(ctx context.Context, about, since string, limit int64) ([]ledger.AuditEntry, error) {
	now, err := s.op.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, err := operator.ParseWhen(operator.FieldSince, since, now.In(time.Local))
	if err != nil {
		return nil, err
	}
	deps, err := s.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	id, err := jobs.ParseID(about)
	switch spec, known := s.known[id.Kind]; {
	case err == nil && known:
		deps = []jobs.Dependency{spec.Dependency}
	case err != nil && about != "":
		if deps, err = s.chosenDependencies(ctx, []string{about}); err != nil {
			return nil, err
		}
	}
	var out []ledger.AuditEntry
	for _, dep := range deps {
		var entries []ledger.AuditEntry
		if id.Kind != "" {
			entries, err = s.ledger.AuditOf(ctx, dep, id, from, limit)
		} else {
			entries, err = s.ledger.Audit(ctx, dep, from, limit)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, wire.Told(e))
		}
	}
	slices.SortStableFunc(out, func(a, b ledger.AuditEntry) int { return cmp.Compare(millis(a.At), millis(b.At)) })
	return out[max(0, len(out)-int(limit)):], nil
}

func (s *atRedis) stats(ctx context.Context) (wire.Stats, error) {
	out := wire.NewStats()
	deps, err := s.dependencies(ctx)
	if err != nil {
		return out, err
	}
	live, err := s.ledger.Workers(ctx)
	if err != nil {
		return out, err
	}
	for _, dep := range deps {
		snapshot, err := s.ledger.Snapshot(ctx, dep)
		if err != nil {
			return out, err
		}
		gate, err := s.ledger.Gate(ctx, dep)
		if err != nil {
			return out, err
		}
		out.Add(snapshot, gate, live)
	}
	return out, nil
}

func (s *atRedis) batches(ctx context.Context, since string, limit int) ([]*operator.Batch, error) {
	now, err := s.op.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, err := operator.ParseWhen(operator.FieldSince, since, now.In(time.Local))
	if err != nil {
		return nil, err
	}
	return s.op.Batches(ctx, from, limit)
}

func (s *atRedis) batch(ctx context.Context, id string) (*operator.BatchProgress, error) {
	b, err := s.op.Batch(ctx, id)
	if errors.Is(err, ledger.ErrNoBatch) {
		return nil, noBatch(s, id)
	}
	return b, err
}

// followFor bounds one wait for changes, so that an interrupt is noticed.
const followFor = time.Second

func (s *atRedis) follow(ctx context.Context, names []string, each func([]ledger.Change) error) error {
	deps, err := s.chosenDependencies(ctx, names)
	if err != nil {
		return err
	}
	changes, err := s.ledger.Changes(ctx, deps)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		seen, err := changes.Next(ctx, followFor)
		if err == nil {
			err = each(seen)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
