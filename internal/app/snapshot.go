package app

import (
	"context"

	"redrive/internal/budget"
	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
)

// ledgerState reads the state of every dependency for a scrape: sizes of indexes
// and heads of lanes, so it costs the same whatever waits there.
func ledgerState(l *ledger.Ledger, c *config.Config) metrics.SnapshotFunc {
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
			out = append(out, stateOf(s, c.Dependencies[dep]))
		}
		return out, nil
	}
}

// stateOf is a snapshot in the words of the metrics. d is nil for a dependency that
// this process does not know: of its budget nothing can be said.
func stateOf(s ledger.Snapshot, d *config.Dependency) metrics.DependencySnapshot {
	out := metrics.DependencySnapshot{Dependency: s.Dependency, Paused: s.Paused, Operations: map[jobs.State]int64{},
		Held: map[jobs.Hold]int64{}, DeadLetters: map[jobs.Kind]map[jobs.Reason]int64{}}
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
	if !s.OldestDueAt.IsZero() {
		out.OldestDueAge = max(s.ReadAt.Sub(s.OldestDueAt), 0)
	}
	if !s.OldestUnresolvedAt.IsZero() {
		out.OldestUnresolvedAge = max(s.ReadAt.Sub(s.OldestUnresolvedAt), 0)
	}
	tokensMilli := max(s.TokensMilli, 0)
	if d != nil {
		params := budget.Params{RatioMilli: d.Budget.RatioMilli, Cap: d.Budget.Cap, FloorMilliPerSecond: d.Budget.FloorMilliPerSecond}
		// The bucket is written when a call draws on it; what the floor put in since
		// then is there all the same.
		bucket := budget.Bucket{TokensMilli: s.TokensMilli, FilledAtMS: s.TokensAt.UnixMilli(), Known: s.TokensMilli >= 0}
		tokensMilli = bucket.At(s.ReadAt.UnixMilli(), params).TokensMilli
		out.Cap, out.Ratio = float64(d.Budget.Cap), float64(d.Budget.RatioMilli)/1000
	}
	out.Tokens = float64(tokensMilli) / 1000
	hold(&out, s, d, tokensMilli)
	return out
}

// hold says why what is due has not left: the gate's reasons in the order in which
// it asks. What nothing else holds waits for a slot.
func hold(out *metrics.DependencySnapshot, s ledger.Snapshot, d *config.Dependency, tokensMilli int64) {
	first, retry := jobs.HoldSlots, jobs.HoldSlots
	inFlight := out.Operations[jobs.Released] + out.Operations[jobs.Attempting]
	const callMilli = 1000
	switch {
	case s.Paused:
		first, retry = jobs.HoldPaused, jobs.HoldPaused
	case d != nil && d.MaxInFlight > 0 && inFlight >= int64(d.MaxInFlight):
		first, retry = jobs.HoldInFlight, jobs.HoldInFlight
	case d != nil && tokensMilli < callMilli:
		retry = jobs.HoldBudget
	}
	out.Held[first] += s.DueFirst
	out.Held[retry] += s.DueRetry
}
