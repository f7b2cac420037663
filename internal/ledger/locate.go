package ledger

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// Place is an operation at a dependency.
type Place struct {
	Dependency jobs.Dependency
	ID         jobs.ID
}

// Locate reports for each place whether the operation is there.
func (l *Ledger) Locate(ctx context.Context, places []Place) ([]bool, error) {
	found := make([]bool, 0, len(places))
	for from := 0; from < len(places); from += listChunk {
		chunk := places[from:min(from+listChunk, len(places))]
		pipe := l.rdb.Pipeline()
		exists := make([]*redis.IntCmd, len(chunk))
		for i, p := range chunk {
			exists[i] = pipe.Exists(ctx, l.key(p.Dependency, "op:"+p.ID.String()))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("look for operations: %w", err)
		}
		for _, e := range exists {
			found = append(found, e.Val() == 1)
		}
	}
	return found, nil
}

// detailChunk operations are read at once: with bodies and answers each can be
// some hundred KiB.
const detailChunk = 50

// Details returns the operations at places, in order; nil for one that is not
// there.
func (l *Ledger) Details(ctx context.Context, places []Place, specs map[jobs.Kind]jobs.KindSpec) ([]*Detail, error) {
	out := make([]*Detail, 0, len(places))
	for from := 0; from < len(places); from += detailChunk {
		chunk := places[from:min(from+detailChunk, len(places))]
		pipe := l.rdb.Pipeline()
		read := make([]detailReply, len(chunk))
		for i, p := range chunk {
			read[i] = l.readDetail(ctx, pipe, p)
		}
		if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
			return nil, fmt.Errorf("read operations: %w", err)
		}
		for i, p := range chunk {
			d, err := read[i].detail(p, specOf(specs, p.ID.Kind))
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
	}
	return out, nil
}
