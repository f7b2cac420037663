package policy

import "time"

// Backoff is full jitter: uniform in [0, min(Cap, Base x 2^(n-1))] plus [MinDelay].
// Of the usual forms full jitter costs a cohort that failed together the fewest
// calls (M. Brooker, "Exponential Backoff And Jitter", 2015).
type Backoff struct {
	Base time.Duration // the first retry waits up to this; 0 or less: just MinDelay
	Cap  time.Duration // no retry waits longer, MinDelay aside; above [MaxWait]: MaxWait
}

// Limits of a wait.
const (
	MinDelay = 100 * time.Millisecond // no retry comes sooner, whatever the hint says
	MaxWait  = 24 * time.Hour         // hints and backoff are cut to it
	MaxExtra = 30 * time.Second       // at most this much is added to a hint
)

// Ceiling is the upper end of the jitter before attempt n+1, MinDelay not
// included. It never falls as n grows and does not overflow for any n.
func (b Backoff) Ceiling(n int) time.Duration {
	top := min(b.Cap, MaxWait)
	if b.Base <= 0 || top <= 0 {
		return 0
	}
	c := min(b.Base, top)
	for i := 1; i < n && c < top; i++ { // at most 47 rounds: c doubles
		c = min(c*2, top)
	}
	return c
}

// Delay draws the wait after attempt n (from 1). It counts from the attempt's end:
// counted from its start, a slow attempt would leave no wait at all. rnd is uniform
// in [0, 1).
func (b Backoff) Delay(n int, rnd func() float64) time.Duration {
	return MinDelay + uniform(b.Ceiling(n), rnd)
}

// Wait joins a hint (0: none) and a drawn backoff: the longer of the two, plus up
// to half the hint and at most [MaxExtra], so that those who got the same hint do
// not come back together. Never earlier than the hint.
func Wait(hint, backoff time.Duration, rnd func() float64) time.Duration {
	hint = clampWait(hint)
	return clampWait(max(hint, backoff)) + uniform(min(hint/2, MaxExtra), rnd)
}

// uniform draws from [0, most].
func uniform(most time.Duration, rnd func() float64) time.Duration {
	if most <= 0 {
		return 0
	}
	return min(time.Duration(rnd()*float64(most)), most)
}
