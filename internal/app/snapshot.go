package app

import (
	"context"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
)

// ledgerState reads the state of every dependency for a scrape: sizes of indexes
// and heads of lanes, so it costs the same whatever waits there.
func ledgerState(l *ledger.Ledger) metrics.SnapshotFunc {
	return func(ctx context.Context) ([]metrics.DependencySnapshot, error) {
		deps, err := l.Dependencies(ctx)
		if err != nil {
			return nil, err
		}
		out := make([]metrics.DependencySnapshot, 0, len(deps))
		for _, dep := range deps {
			s, err := l.Snapshot(ctx, dep)
			if err != nil {
				return nil, err
			}
			g, err := l.Gate(ctx, dep)
			if err != nil {
				return nil, err
			}
			out = append(out, stateOf(s, g))
		}
		return out, nil
	}
}

// stateOf is a snapshot and the gate in the words of the metrics.
func stateOf(s ledger.Snapshot, g ledger.GateState) metrics.DependencySnapshot {
	out := metrics.DependencySnapshot{Dependency: s.Dependency, Operations: map[jobs.State]int64{}, Held: g.HeldBy(),
		DeadLetters: map[jobs.Kind]map[jobs.Reason]int64{}, Submissions: map[jobs.Kind]map[jobs.Answer]int64{},
		Tokens: float64(g.Gate.TokensMilli) / 1000, Cap: float64(g.InForce.Cap), Ratio: float64(g.InForce.RatioMilli) / 1000,
		Overridden: g.Gate.Override.UntilMS > g.ReadAt.UnixMilli(), Paused: s.Paused, Breaker: string(g.Gate.State),
		DrainETA: g.Forecast.ETA, DrainStuck: g.Forecast.ETA == budget.Never, DeadlineMisses: g.Forecast.Misses}
	for _, c := range s.Counts {
		out.Operations[c.State] += c.N
		if c.State != jobs.Dead {
			continue
		}
		if out.DeadLetters[c.Kind] == nil {
			out.DeadLetters[c.Kind] = map[jobs.Reason]int64{}
		}
		out.DeadLetters[c.Kind][c.Reason] += c.N
	}
	for _, n := range s.Submitted {
		if out.Submissions[n.Kind] == nil {
			out.Submissions[n.Kind] = map[jobs.Answer]int64{}
		}
		out.Submissions[n.Kind][n.Answer] += n.N
	}
	if !s.OldestDueAt.IsZero() {
		out.OldestDueAge = max(s.ReadAt.Sub(s.OldestDueAt), 0)
	}
	if !s.OldestUnresolvedAt.IsZero() {
		out.OldestUnresolvedAge = max(s.ReadAt.Sub(s.OldestUnresolvedAt), 0)
	}
	return out
}
