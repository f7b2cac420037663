package cli

import (
	"context"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/wire"
)

// warnings are what only the clock tells of a submission.
func (s *atRedis) warnings(ctx context.Context, sub *jobs.Submission) ([]string, error) {
	if sub.Attempted == nil || sub.Attempted.FirstSentAt == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339, sub.Attempted.FirstSentAt)
	if err != nil {
		return nil, nil // it is refused for that elsewhere
	}
	now, err := s.op.Now(ctx)
	if err != nil {
		return nil, err
	}
	if w := wire.FutureWarning("first_sent_at", t, now); w != "" {
		return []string{w}, nil
	}
	return nil, nil
}

// sleep waits, or returns why ctx ended before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
