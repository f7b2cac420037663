package worker

import (
	"sync"
	"time"
)

// stepTolerance is how far Redis' clock and this process's monotonic clock may
// drift apart between two readings before it counts as a step.
const stepTolerance = 2 * time.Second

// clock compares Redis' clock, by which every lease and deadline counts, with this
// process's monotonic one. After a step nobody knows which leases really ran out:
// this process then leaves them alone for as long as a claim may last. The zero
// value is ready. Safe for concurrent use.
type clock struct {
	mu        sync.Mutex // guards the rest
	local     time.Time  // when redis was read; zero: never
	redis     time.Time
	slack     time.Duration // half of what the reading took
	steppedAt time.Time     // when the last step was noticed; zero: never
}

// saw takes a reading of Redis' clock that was asked for and answered at these
// local instants. It reports whether the clock stepped since the last one.
func (c *clock) saw(asked, answered, redis time.Time) (stepped bool) {
	slack := answered.Sub(asked) / 2
	local := asked.Add(slack)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.local.IsZero() {
		if asked.Before(c.local) {
			return false // an older reading that came in late
		}
		drift := redis.Sub(c.redis) - local.Sub(c.local)
		if drift.Abs() > stepTolerance+slack+c.slack {
			stepped = true
			c.steppedAt = answered
		}
	}
	c.local, c.redis, c.slack = local, redis, slack
	return stepped
}

// now estimates Redis' clock at a local instant, the zero time before the first
// reading.
func (c *clock) now(local time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.local.IsZero() {
		return time.Time{}
	}
	return c.redis.Add(local.Sub(c.local))
}

// readAt is when the last reading was taken, the zero time before the first.
func (c *clock) readAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local
}

// steady reports whether the last step, if any, is at least span ago.
func (c *clock) steady(local time.Time, span time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steppedAt.IsZero() || local.Sub(c.steppedAt) >= span
}
