package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/ledger"
	"redrive/internal/metrics"
)

const (
	probeTimeout  = 3 * time.Second
	firstProbeIn  = 20 * time.Millisecond // a single lost reply closes the gate no longer than this
	slowestProbes = time.Second           // how often Redis is asked while it stays away
)

// health knows whether Redis can be used: it answers and takes writes. Every call
// to Redis tells it of errors; from the first that means trouble until a probe (a
// write) succeeds, nobody asks Redis for anything but the prober, so that a Redis
// that is away or full costs one call a second and no CPU.
type health struct {
	log     *slog.Logger
	metrics *metrics.Metrics
	ask     chan struct{} // capacity 1: wakes watch

	mu   sync.Mutex    // guards the rest
	down error         // what is wrong; nil while Redis can be used
	up   chan struct{} // closed while Redis can be used
	upAt time.Time     // since when it can be used, or last could
	back bool          // it was away at least once
}

// newHealth begins as usable: the worker starts only once Redis has answered.
func newHealth(log *slog.Logger, m *metrics.Metrics) *health {
	h := &health{log: log, metrics: m, ask: make(chan struct{}, 1), up: make(chan struct{}), upAt: time.Now()}
	close(h.up)
	m.RedisUp(true)
	return h
}

// note looks at the error of a call to Redis, nil included.
func (h *health) note(err error) {
	if !troubles(err) {
		return
	}
	h.lose(err)
	select {
	case h.ask <- struct{}{}:
	default: // the prober is awake
	}
}

// lose takes note that Redis cannot be used, for the first time or still.
func (h *health) lose(err error) {
	h.mu.Lock()
	first := h.down == nil
	h.down = err
	if first {
		h.up = make(chan struct{})
	}
	h.mu.Unlock()
	if first {
		h.metrics.RedisUp(false)
		h.log.LogAttrs(context.Background(), slog.LevelWarn, "redis cannot be used", slog.Any("err", err))
	}
}

// trouble returns why Redis cannot be used, nil while it can.
func (h *health) trouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

// usableFor is for how long Redis could be used without a break, 0 while it cannot.
func (h *health) usableFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil {
		return 0
	}
	return time.Since(h.upAt)
}

// justBack reports whether Redis was away less than span ago.
func (h *health) justBack(span time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.back && (h.down != nil || time.Since(h.upAt) < span)
}

// await blocks until Redis can be used, or until done is closed: then false.
func (h *health) await(done <-chan struct{}) bool {
	h.mu.Lock()
	up := h.up
	h.mu.Unlock()
	select {
	case <-done:
		return false
	case <-up:
	}
	select {
	case <-done: // both may be the case
		return false
	default:
		return true
	}
}

// watch probes while Redis cannot be used. It ends with ctx.
func (h *health) watch(ctx context.Context, probe func(context.Context) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.ask:
		}
		for wait := firstProbeIn; ; wait = min(2*wait, slowestProbes) {
			if !sleep(ctx, wait) {
				return
			}
			err := within(ctx, probeTimeout, probe)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				h.restore()
				break
			}
			h.lose(err)
		}
	}
}

func (h *health) restore() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down == nil {
		return
	}
	h.down, h.upAt, h.back = nil, time.Now(), true
	close(h.up)
	h.metrics.RedisUp(true)
	h.log.LogAttrs(context.Background(), slog.LevelInfo, "redis can be used again")
}

// scriptFaults are the codes of error replies that speak of the one command, not
// of Redis: nothing is gained by waiting for it.
var scriptFaults = map[string]bool{"ERR": true, "WRONGTYPE": true, "NOSCRIPT": true, "NOT": true, "EXECABORT": true}

// troubles reports whether an error of a call means that Redis cannot be used. That
// somebody of ours gave up is no news of Redis; a bound of our own that ran out is.
func troubles(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) {
		return false
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		if ledger.WritesRefused(err) {
			return true
		}
		code, _, _ := strings.Cut(reply.Error(), " ")
		return !scriptFaults[code]
	}
	return true
}

// within runs f with a bound of its own.
func within(ctx context.Context, span time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	return f(ctx)
}

// sleep waits, or returns false when ctx is done first.
func sleep(ctx context.Context, span time.Duration) bool {
	t := time.NewTimer(span)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
