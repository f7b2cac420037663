package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/wire"
)

// maxDoings entries of a dependency's audit are read for a timeline, newest first:
// it must not take minutes where millions were written since.
const maxDoings = 50_000

func (s *atRedis) show(ctx context.Context, name string, reveal bool) ([]shown, error) {
	places, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	details, err := s.ledger.Details(ctx, places, s.known)
	if err != nil {
		return nil, err
	}
	details = slices.DeleteFunc(details, func(d *ledger.Detail) bool { return d == nil })
	if len(details) == 0 {
		if !strings.Contains(name, "/") && len(s.known) == 0 {
			return nil, s.unknownKind("")
		}
		return nil, notFound(s, name)
	}
	if reveal {
		for _, d := range details { // before anything is shown: who cannot be written down sees nothing
			if err := s.ledger.Note(ctx, d.Dependency, d.ID().String(), wire.ActionReveal, ledger.Actor{By: s.p.by()}); err != nil {
				return nil, err
			}
		}
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]shown, len(details))
	for i, d := range details {
		cut, err := s.tellDoings(ctx, d)
		if err != nil {
			return nil, err
		}
		spec := s.op.SpecOf(d.Kind)
		among, err := s.ledger.ChainOf(ctx, d, spec)
		if err != nil {
			return nil, err
		}
		out[i] = shown{OperationView: wire.ViewOf(d, spec, among, reveal, now)}
		out[i].Cut = cut
		if spec != nil {
			kind := wire.KindOf(*spec)
			out[i].kind = &kind
		}
	}
	return out, nil
}

// notFound tells that nothing has a name.
func notFound(b backend, name string) error {
	return &failure{exitNotFound, fmt.Errorf("%s: %w %s", name, ledger.ErrNotFound, b.where())}
}

// find returns where an operation may be. A bare key is looked for under every kind.
func (s *atRedis) find(ctx context.Context, name string) ([]ledger.Place, error) {
	if strings.Contains(name, "/") {
		id, err := jobs.ParseID(name)
		if err != nil {
			return nil, err
		}
		return s.op.Places(ctx, []jobs.ID{id})
	}
	var places []ledger.Place
	for _, kind := range slices.Sorted(maps.Keys(s.known)) {
		places = append(places, ledger.Place{Dependency: s.known[kind].Dependency, ID: jobs.ID{Kind: kind, Key: jobs.Key(name)}})
	}
	return places, nil
}

// tellDoings puts what people did to an operation into its timeline, and reports
// whether some of it may be missing.
func (s *atRedis) tellDoings(ctx context.Context, d *ledger.Detail) (cut bool, err error) {
	var since time.Time
	if d.CreatedAt != nil {
		since = d.CreatedAt.Time
	}
	done, cut, err := s.ledger.Doings(ctx, d.Dependency, d.ID(), since, maxDoings)
	if err == nil {
		d.Timeline = wire.Timeline(d.Timeline, done)
	}
	return cut, err
}
