package outage

import (
	"context"
	"time"
)

// clock is that of a scenario.
type clock struct {
	began time.Time
	speed float64
}

// now is how long the scenario has been under way.
func (c clock) now() time.Duration { return c.at(time.Now()) }

// at is an instant of the wall on the scenario's clock.
func (c clock) at(t time.Time) time.Duration {
	return time.Duration(float64(t.Sub(c.began)) * c.speed)
}

// wall is a span of the scenario as it is waited for.
func (c clock) wall(d time.Duration) time.Duration { return time.Duration(float64(d) / c.speed) }

// wallMS is wall in whole milliseconds, the store's resolution, and at least one.
func (c clock) wallMS(d time.Duration) time.Duration {
	return max(c.wall(d).Round(time.Millisecond), time.Millisecond)
}

// sleep waits until an instant of the scenario; false when ctx ended first.
func (c clock) sleep(ctx context.Context, until time.Duration) bool {
	t := time.NewTimer(time.Until(c.began.Add(c.wall(until))))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
