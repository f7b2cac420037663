package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// BindingError is returned when a kind is bound to another dependency while
// operations of it exist there. Use a new kind.
type BindingError struct {
	Kind         jobs.Kind
	Bound, Other jobs.Dependency
	Operations   int64
}

func (e *BindingError) Error() string {
	return fmt.Sprintf("kind %s is bound to dependency %s, which has %d of its operations: it cannot be bound to %s (use a new kind)",
		e.Kind, e.Bound, e.Operations, e.Other)
}

// PublishKinds makes kinds known to every program of the namespace, without
// secrets, and binds each to its dependency. [*BindingError] when one is bound
// elsewhere while operations of it exist.
func (l *Ledger) PublishKinds(ctx context.Context, specs []jobs.KindSpec) error {
	if err := l.CheckBindings(ctx, specs); err != nil {
		return err
	}
	for _, s := range specs {
		b, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("publish kind %s: %w", s.Kind, err)
		}
		pipe := l.rdb.Pipeline()
		pipe.HSet(ctx, l.global("kinds"), string(s.Kind), b)
		pipe.SAdd(ctx, l.global("dependencies"), string(s.Dependency))
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("publish kind %s: %w", s.Kind, err)
		}
	}
	return l.SeenKinds(ctx, specs)
}

// CheckBindings reports a [*BindingError] as [Ledger.PublishKinds] would.
func (l *Ledger) CheckBindings(ctx context.Context, specs []jobs.KindSpec) error {
	known, err := l.Kinds(ctx)
	if err != nil {
		return err
	}
	for _, s := range specs {
		old, ok := known[s.Kind]
		if !ok || old.Dependency == s.Dependency {
			continue
		}
		counts, err := l.Counts(ctx, old.Dependency)
		if err != nil {
			return err
		}
		var n int64
		for _, c := range counts {
			if c.Kind == s.Kind {
				n += c.N
			}
		}
		if n > 0 {
			return &BindingError{Kind: s.Kind, Bound: old.Dependency, Other: s.Dependency, Operations: n}
		}
	}
	return nil
}

// Kinds returns the published kinds.
func (l *Ledger) Kinds(ctx context.Context) (map[jobs.Kind]jobs.KindSpec, error) {
	raw, err := l.rdb.HGetAll(ctx, l.global("kinds")).Result()
	if err != nil {
		return nil, fmt.Errorf("read kinds: %w", err)
	}
	out := make(map[jobs.Kind]jobs.KindSpec, len(raw))
	for name, text := range raw {
		var s jobs.KindSpec
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return nil, fmt.Errorf("read kinds: %s: %w", name, err)
		}
		out[jobs.Kind(name)] = s
	}
	return out, nil
}

// Dependencies returns every dependency that the namespace has seen, sorted.
func (l *Ledger) Dependencies(ctx context.Context) ([]jobs.Dependency, error) {
	names, err := l.rdb.SMembers(ctx, l.global("dependencies")).Result()
	if err != nil {
		return nil, fmt.Errorf("read dependencies: %w", err)
	}
	slices.Sort(names)
	out := make([]jobs.Dependency, len(names))
	for i, n := range names {
		out[i] = jobs.Dependency(n)
	}
	return out, nil
}

// Worker is one live process, as its heartbeat says.
type Worker struct {
	ID           string            `json:"id"`
	Host         string            `json:"host"`
	PID          int               `json:"pid"`
	Version      string            `json:"version"`
	Schema       int               `json:"schema"`
	StartedAt    time.Time         `json:"started_at"`
	BeatAt       time.Time         `json:"beat_at"` // by Redis' clock
	Dependencies []jobs.Dependency `json:"dependencies"`
	Kinds        []jobs.Kind       `json:"kinds"`
}

// Heartbeats: how often a worker says that it lives, and when it is taken for dead.
const (
	HeartbeatEvery = 5 * time.Second
	HeartbeatLost  = 30 * time.Second
)

// ErrNewerSchema is returned when the namespace was written by a newer binary.
var ErrNewerSchema = errors.New("the namespace has a newer schema than this binary knows")

// ErrOlderWorkers is returned when workers of an older schema still live.
var ErrOlderWorkers = errors.New("workers of an older schema are still running")

// CheckNewerSchema refuses a namespace of a newer schema and writes nothing: for
// programs that only look.
func (l *Ledger) CheckNewerSchema(ctx context.Context) error {
	_, err := l.storedSchema(ctx)
	return err
}

// storedSchema is 0 in an empty namespace.
func (l *Ledger) storedSchema(ctx context.Context) (int, error) {
	stored, err := l.rdb.Get(ctx, l.global("schema")).Int()
	if err != nil && err != redis.Nil {
		return 0, fmt.Errorf("read schema: %w", err)
	}
	if stored > Schema {
		return 0, fmt.Errorf("%w: %d, this binary knows %d", ErrNewerSchema, stored, Schema)
	}
	return stored, nil
}

// CheckSchema refuses a namespace of a newer schema, and one of an older schema
// while its workers live; otherwise it writes this binary's number.
func (l *Ledger) CheckSchema(ctx context.Context) error {
	stored, err := l.storedSchema(ctx)
	if err != nil {
		return err
	}
	if stored == Schema {
		return nil
	}
	live, err := l.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range live {
		if w.Schema < Schema {
			return fmt.Errorf("%w: %s has schema %d, this binary %d", ErrOlderWorkers, w.ID, w.Schema, Schema)
		}
	}
	if err := l.rdb.Set(ctx, l.global("schema"), Schema, 0).Err(); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	return nil
}

// Beat writes a worker's heartbeat.
func (l *Ledger) Beat(ctx context.Context, w Worker) error {
	now, err := l.Now(ctx)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	w.BeatAt = now.UTC()
	w.Schema = Schema
	b, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if err := l.rdb.HSet(ctx, l.global("workers"), w.ID, b).Err(); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// Leave removes a worker's heartbeat: it ends in order.
func (l *Ledger) Leave(ctx context.Context, id string) error {
	return l.rdb.HDel(ctx, l.global("workers"), id).Err()
}

// Workers returns the live workers, sorted by id, and forgets the dead ones after
// a day.
func (l *Ledger) Workers(ctx context.Context) ([]Worker, error) {
	now, err := l.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	raw, err := l.rdb.HGetAll(ctx, l.global("workers")).Result()
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	var out []Worker
	for id, text := range raw {
		var w Worker
		if json.Unmarshal([]byte(text), &w) != nil || now.Sub(w.BeatAt) > 24*time.Hour {
			l.rdb.HDel(ctx, l.global("workers"), id)
			continue
		}
		if now.Sub(w.BeatAt) <= HeartbeatLost {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}
