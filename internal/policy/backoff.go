package policy

import "time"

// Backoff is full jitter: uniform in [0, min(Cap, Base x 2^(n-1))] plus [MinDelay].
type Backoff struct {
	Base time.Duration
	Cap  time.Duration
}

// Limits of a wait.
const (
	MinDelay = 100 * time.Millisecond // no retry comes sooner, whatever the hint says
	MaxWait  = 24 * time.Hour         // hints and backoff are cut to it
	MaxExtra = 30 * time.Second       // at most this much is added to a hint
)
