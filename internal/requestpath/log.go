package requestpath

import (
	"context"
	"log/slog"
	"sync"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// trouble says once that gates cannot be told, and once that they can again, whatever
// the number of dependencies.
type trouble struct {
	mu        sync.Mutex // guards all below
	failing   int        // dependencies
	forgotten int64      // first attempts
	many      bool       // said that there are too many dependencies
}

func (tr *trouble) begins(log *slog.Logger, t *tally, err error) {
	if t.failing {
		return
	}
	t.failing = true
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.failing++; tr.failing == 1 {
		log.LogAttrs(context.Background(), slog.LevelWarn, "the gate cannot be told of first attempts: they are kept for a while",
			slog.String("dependency", string(t.dependency)), slog.Any("err", err))
	}
}

func (tr *trouble) ends(log *slog.Logger, t *tally) {
	if !t.failing {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.forgotten += t.forgotten
	t.failing, t.forgotten = false, 0
	if tr.failing--; tr.failing == 0 {
		log.LogAttrs(context.Background(), slog.LevelInfo, "the gate is told of first attempts again", slog.Int64("forgotten", tr.forgotten))
		tr.forgotten = 0
	}
}

func (tr *trouble) tooMany(log *slog.Logger) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !tr.many {
		tr.many = true
		log.LogAttrs(context.Background(), slog.LevelWarn, "first attempts of too many dependencies: those of further ones are not counted",
			slog.Int("limit", MaxDependencies))
	}
}

// logNews logs what a call of this process changed of a gate: nobody else hears of it.
func logNews(log *slog.Logger, dep jobs.Dependency, n ledger.News) {
	for _, change := range n.Changes {
		attrs := []slog.Attr{slog.String("dependency", string(dep)), slog.String("change", change)}
		if n.Why != "" {
			attrs = append(attrs, slog.String("reason", n.Why))
		}
		if !n.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", n.Until))
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "first attempts changed the gate", attrs...)
	}
}
