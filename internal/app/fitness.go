package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/ledger"
	"redrive/internal/metrics"
)

// fitnessEvery is how often Redis is looked at again: someone may change its
// configuration while we run.
const fitnessEvery = time.Minute

// fitnessWatch keeps what was last seen of Redis.
type fitnessWatch struct {
	rdb     redis.UniversalClient
	options ledger.FitnessOptions
	metrics *metrics.Metrics
	log     *slog.Logger

	mu   sync.Mutex // guards last
	last []ledger.Finding
}

// saw records a report and tells what is new in it.
func (w *fitnessWatch) saw(ctx context.Context, r ledger.Report) {
	w.metrics.RedisDurable(r.Fit())
	w.mu.Lock()
	before := w.last
	w.last = r.Findings
	w.mu.Unlock()
	for _, f := range r.Findings {
		if slices.Contains(before, f) {
			continue
		}
		level := slog.LevelWarn
		if f.Refuses {
			level = slog.LevelError
		}
		w.log.LogAttrs(ctx, level, "redis is not as it should be", slog.String("finding", string(f.Code)), slog.String("why", f.Text))
	}
	for _, f := range before {
		if !slices.Contains(r.Findings, f) {
			w.log.LogAttrs(ctx, slog.LevelInfo, "redis is mended", slog.String("finding", string(f.Code)), slog.String("was", f.Text))
		}
	}
}

// run looks again and again until ctx ends. That Redis is away is the worker's to
// report: what was seen last stays.
func (w *fitnessWatch) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r, err := look(ctx, w.rdb, w.options)
		if err != nil {
			w.log.LogAttrs(ctx, slog.LevelDebug, "redis could not be looked at", slog.String("err", ledger.Explain(err)))
			continue
		}
		w.saw(ctx, r)
	}
}

// reasons are why a worker on this Redis is not ready.
func (w *fitnessWatch) reasons() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, f := range w.last {
		if f.Refuses {
			out = append(out, f.Text)
		}
	}
	return out
}
