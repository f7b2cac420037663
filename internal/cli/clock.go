package cli

import (
	"context"
	"fmt"
	"time"

	"redrive/internal/jobs"
)

// clockSlack is how far ahead of Redis' clock an instant may lie before it is told
// that it counts as now: clocks of machines differ by some milliseconds.
const clockSlack = time.Second

// futureWarning tells that an instant of the past has not come yet; "" if it has.
func futureWarning(field string, t, now time.Time) string {
	if !t.After(now.Add(clockSlack)) {
		return ""
	}
	return fmt.Sprintf("%s %s lies %s in the future by Redis' clock: it counts as now", field, t.UTC().Format(time.RFC3339), t.Sub(now).Round(time.Second))
}

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
	if w := futureWarning("first_sent_at", t, now); w != "" {
		return []string{w}, nil
	}
	return nil, nil
}
