package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// BindKinds binds kinds of a file that are about to be submitted to, so that every
// program of the namespace finds their operations. What a worker has published of
// a kind stays: it knows what the file alone does not, such as a base_url with a
// secret in it. [*BindingError] as from [Ledger.CheckBindings].
func (l *Ledger) BindKinds(ctx context.Context, specs []jobs.KindSpec) error {
	if err := l.CheckBindings(ctx, specs); err != nil {
		return err
	}
	known, err := l.Kinds(ctx)
	if err != nil {
		return err
	}
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	pipe := l.rdb.Pipeline()
	for _, s := range specs {
		b, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("bind kind %s: %w", s.Kind, err)
		}
		if old, ok := known[s.Kind]; ok && old.Dependency != s.Dependency {
			pipe.HSet(ctx, l.global("kinds"), string(s.Kind), b) // bound elsewhere, without operations
		} else {
			pipe.HSetNX(ctx, l.global("kinds"), string(s.Kind), b)
		}
		pipe.SAdd(ctx, l.global("dependencies"), string(s.Dependency))
		if terms := termsOfKind(s, now); terms != "" {
			pipe.HSetNX(ctx, l.key(s.Dependency, "kinds"), string(s.Kind), terms)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
		return fmt.Errorf("bind kinds: %w", err)
	}
	// Somebody may have bound one elsewhere meanwhile: then that binding stands.
	if known, err = l.Kinds(ctx); err != nil {
		return err
	}
	for _, s := range specs {
		if bound := known[s.Kind].Dependency; bound != s.Dependency {
			return &BindingError{Kind: s.Kind, Bound: bound, Other: s.Dependency}
		}
	}
	return nil
}
