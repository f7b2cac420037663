package worker

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"redrive/internal/attempt"
	"redrive/internal/budget"
	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// GateParams is [attempt.Gate].
func GateParams(d *config.Dependency) budget.Params { return attempt.Gate(d) }

// news logs what a call of this process changed of a gate. Only one process hears of
// each change.
func (r *run) news(dep jobs.Dependency, n ledger.News) {
	for _, change := range n.Changes {
		attrs := []slog.Attr{slog.String("dependency", string(dep))}
		if n.Why != "" {
			attrs = append(attrs, slog.String("reason", n.Why))
		}
		if !n.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", n.Until))
		}
		level, message := slog.LevelWarn, "gate "+change
		switch {
		case change == string(budget.Closed):
			level, message = slog.LevelInfo, "breaker closed, ramping up"
		case slices.Contains(budget.States, budget.State(change)):
			message = "breaker " + strings.ReplaceAll(change, "_", " ")
		case change == "parked":
			message = "dependency asked to wait, several times in a row"
		case change == "repaired":
			message = "gate missing or garbled in the store, starts low"
		case change == "differs":
			if _, before := r.disagreed.LoadOrStore(dep, true); before {
				continue // with each release, for as long as both live: once is enough
			}
			message = "another worker is configured otherwise for this gate: each asks by its own limits"
		}
		r.o.Log.LogAttrs(context.Background(), level, message, attrs...)
	}
}

// credentialPaused says loudly that nothing leaves under a credential any more.
func (r *run) credentialPaused(dep jobs.Dependency, credential string) {
	if credential == "" {
		credential = jobs.DefaultCredential
	}
	r.o.Log.LogAttrs(context.Background(), slog.LevelError, "credential refused several times in a row: paused until somebody mends it and resumes",
		slog.String("dependency", string(dep)), slog.String("credential", credential))
}
