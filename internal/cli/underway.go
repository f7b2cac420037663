package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
)

// underway is a bulk action that is written down.
type underway struct {
	s    *session
	who  ledger.Actor // under the batch's name
	deps []jobs.Dependency
}

// record writes one audit entry and one batch per dependency: the action with its
// filter and how many it is about. It is written first: what cannot be recorded is
// not done. cmd may be nil where no filter chose.
func (b *bulk) record(ctx context.Context, s *session, cmd *cobra.Command, set []chosen, who ledger.Actor, phase ledger.Phase) (*underway, error) {
	planned := map[jobs.Dependency]int{}
	for _, c := range set {
		if c.op != nil || c.anyway {
			planned[c.place.Dependency]++
		}
	}
	chosenBy := "named one by one"
	if b.all {
		chosenBy = "all matching" + filterText(given(cmd))
	}
	u := &underway{s: s, who: who, deps: slices.Sorted(maps.Keys(planned))}
	for _, dep := range u.deps {
		n := planned[dep]
		if err := s.ledger.Note(ctx, dep, "-", fmt.Sprintf("%s %s (%s)", b.verb, count(n, "operation"), chosenBy), who); err != nil {
			return nil, err
		}
		opened := ledger.Batch{ID: who.Batch, Dependency: dep, Action: b.verb, Filter: chosenBy, By: who.By, Note: who.Note, Planned: n, Phase: phase}
		if err := s.ledger.OpenBatch(ctx, opened, s.auditSpan(dep)); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// auditSpan is how long it is kept who did what at a dependency; 0: for ever.
func (s *session) auditSpan(dep jobs.Dependency) time.Duration {
	for _, spec := range s.known {
		if spec.Dependency == dep {
			return terms.MS(spec.Retention.AuditMS)
		}
	}
	return 0
}

// join writes down what is about to be changed, as it is before.
func (u *underway) join(ctx context.Context, set []chosen) error {
	members := map[jobs.Dependency][]ledger.Member{}
	for _, c := range set {
		switch {
		case c.op != nil:
			members[c.place.Dependency] = append(members[c.place.Dependency], ledger.MemberOf(c.op, u.s.specOf(c.place.ID.Kind)))
		case c.anyway:
			members[c.place.Dependency] = append(members[c.place.Dependency], ledger.Member{ID: c.place.ID})
		}
	}
	for dep, m := range members {
		if err := u.s.ledger.AddToBatch(ctx, dep, u.who.Batch, m); err != nil {
			return err
		}
	}
	return nil
}

// leave forgets what was refused: it is no part of the batch.
func (u *underway) leave(ctx context.Context, set []chosen, results []result) error {
	refused := map[jobs.Dependency][]jobs.ID{}
	for i, r := range results {
		if r.Result == resultRefused {
			refused[set[i].place.Dependency] = append(refused[set[i].place.Dependency], r.Operation)
		}
	}
	for dep, ids := range refused {
		if err := u.s.ledger.DropFromBatch(ctx, dep, u.who.Batch, ids); err != nil {
			return err
		}
	}
	return nil
}

func (u *underway) phase(ctx context.Context, phase ledger.Phase) error {
	for _, dep := range u.deps {
		if err := u.s.ledger.SetPhase(ctx, dep, u.who.Batch, phase); err != nil {
			return err
		}
	}
	return nil
}

// errStopped ends a bulk action that a person stopped meanwhile.
var errStopped = &failure{exitConflict, errors.New("a person stopped the batch: the rest was left as it was")}

// stopped returns [errStopped] when a person stopped the batch.
func (u *underway) stopped(ctx context.Context) error {
	for _, dep := range u.deps {
		b, err := u.s.ledger.Batch(ctx, dep, u.who.Batch)
		if err != nil {
			return err
		}
		if b.Phase == ledger.PhaseStopped {
			return errStopped
		}
	}
	return nil
}

// carry joins a set to the batch, does one thing to each and lets go of what was
// refused.
func (u *underway) carry(ctx context.Context, set []chosen, do func(context.Context, int, chosen) (result, error)) ([]result, error) {
	if err := u.join(ctx, set); err != nil {
		return nil, err
	}
	results, failed := u.s.p.carryOut(ctx, set, do)
	if failed != nil {
		return results, failed
	}
	return results, u.leave(ctx, set, results)
}

// whole carries out all of a set, and says so in the batch.
func (u *underway) whole(ctx context.Context, set []chosen, do func(context.Context, int, chosen) (result, error)) ([]result, error) {
	results, err := u.carry(ctx, set, do)
	if err != nil {
		return results, err
	}
	return results, u.phase(ctx, ledger.PhaseDone)
}

// several carries out an action on named operations. One alone is no batch: its own
// entry in the audit says all.
func (b *bulk) several(ctx context.Context, s *session, set []chosen, who *ledger.Actor, do func(context.Context, int, chosen) (result, error)) (batch string, results []result, failed, err error) {
	if len(set) == 1 {
		who.Batch = ""
		results, failed = s.p.carryOut(ctx, set, do)
		return "", results, failed, nil
	}
	u, err := b.record(ctx, s, nil, set, *who, ledger.PhaseRunning)
	if err != nil {
		return "", nil, nil, err
	}
	results, failed = u.whole(ctx, set, do)
	return who.Batch, results, failed, nil
}
