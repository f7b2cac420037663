package cli

import (
	"context"
	"time"

	"redrive/internal/ledger"
	"redrive/internal/wire"
)

// maxDoings entries of a dependency's audit are read for a timeline, newest first:
// it must not take minutes where millions were written since.
const maxDoings = 50_000

// tellDoings puts what people did to an operation into its timeline, and reports
// whether some of it may be missing.
func (s *session) tellDoings(ctx context.Context, d *ledger.Detail) (cut bool, err error) {
	var since time.Time
	if d.CreatedAt != nil {
		since = d.CreatedAt.Time
	}
	done, cut, err := s.ledger.Doings(ctx, d.Dependency, d.ID(), since, maxDoings)
	if err == nil {
		d.Timeline = wire.Timeline(d.Timeline, done)
	}
	return cut, err
}
