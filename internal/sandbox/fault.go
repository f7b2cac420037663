package sandbox

import (
	"fmt"
	"strings"
	"time"
)

// Mode names a way to misbehave.
type Mode string

// The modes. What each does to a request it hits:
const (
	None        Mode = "none"         // nothing: every request is served well
	Slow        Mode = "slow"         // applied at once, answered late
	Down        Mode = "down"         // connection reset before the request is read: no side effect, not in the ledger
	Refuse      Mode = "refuse"       // 503 with Retry-After, no side effect
	LostReplies Mode = "lost_replies" // applied, then the connection is cut
	Flaky       Mode = "flaky"        // one of: 500, 502, 503, reset, lost reply, slow
	RateLimit   Mode = "rate_limit"   // 429 with Retry-After above PerSecond, no side effect
	Decline     Mode = "decline"      // 402, an object with status failed, no side effect
	Garbage     Mode = "garbage"      // one of: invalid status line, HTML page, truncated JSON, wrong length
	Storm       Mode = "storm"        // PerSecond requests are served in turn, the rest wait, later ones are shed
)

// Modes lists every mode.
var Modes = []Mode{None, Slow, Down, Refuse, LostReplies, Flaky, RateLimit, Decline, Garbage, Storm}

// ParseMode finds the mode that s names; "-" counts as "_". The error lists the
// modes there are.
func ParseMode(s string) (Mode, error) {
	mode := Mode(strings.ReplaceAll(s, "-", "_"))
	names := make([]string, len(Modes))
	for i, m := range Modes {
		if m == mode {
			return m, nil
		}
		names[i] = string(m)
	}
	return "", fmt.Errorf("unknown mode %q: want one of %s", s, strings.Join(names, ", "))
}

// Fault says how the sandbox misbehaves. The zero value of a field (nil for a
// pointer) means the default of its mode. For the mode none only ReadLag has
// a meaning.
type Fault struct {
	Mode Mode

	// Latency is the time a hit request takes. For slow, and the slow ones of
	// flaky, it is the median of a lognormal draw (default 2.4s), kept between a
	// quarter and four times it. For storm it is the time of one request when
	// nobody waits (default 180ms). For the others it is added before the answer
	// or the cut (default 0). At most [MaxLatency].
	Latency time.Duration

	// Share is the fraction of requests that are hit, 0 to 1. Default 1 for the
	// outages (slow, down, refuse, rate_limit, storm), 0.3 for what happens now
	// and then (lost_replies, flaky, decline, garbage).
	Share *float64

	// For is how long the fault lasts; 0 = until it is changed.
	For time.Duration

	// RetryAfter is the Retry-After header of every 429 and 503 that the fault
	// makes, sent as it stands (default "1"); "" sends none.
	RetryAfter *string

	// PerSecond is the rate above which rate_limit answers 429 (default 10, a
	// burst of one second's worth is let through), and the number of requests a
	// second that storm can serve (default 20): 0.001 to 1,000,000. The other
	// modes have none.
	PerSecond float64

	// ReadLag is how old an object must be to be seen by an inquiry, under any mode,
	// none included: real gateways answer reads from copies that lag. 0 = seen at
	// once; at most [MaxLatency].
	ReadLag time.Duration
}

// Limits and defaults of a fault.
const (
	// MaxLatency bounds Fault.Latency.
	MaxLatency = time.Hour
	// StormPatience is the longest a request waits for its turn in a storm; one
	// that would wait longer is shed with 503 and no side effect. With Latency it
	// bounds the time after which a side effect can still come about.
	StormPatience = 10 * time.Second

	maxRetryAfterBytes = 200
	minPerSecond       = 0.001
	maxPerSecond       = 1_000_000.0
	outageShare        = 1
	sporadicShare      = 0.3
	defaultRetryAfter  = "1"
	slowMedian         = 2400 * time.Millisecond
	stormLatency       = 180 * time.Millisecond
	limitPerSecond     = 10
	stormPerSecond     = 20
)

// filled returns f with every default in place, or why f cannot be.
func (f Fault) filled() (Fault, error) {
	mode, err := ParseMode(string(f.Mode))
	if err != nil {
		return Fault{}, err
	}
	if f.ReadLag < 0 || f.ReadLag > MaxLatency {
		return Fault{}, fmt.Errorf("read_lag %s: want 0 to %s", f.ReadLag, MaxLatency)
	}
	if mode == None {
		return Fault{Mode: None, ReadLag: f.ReadLag}, nil
	}
	if err := f.check(mode); err != nil {
		return Fault{}, err
	}
	f.Mode = mode
	if f.Share == nil {
		f.Share = new(float64(outageShare))
		switch mode {
		case LostReplies, Flaky, Decline, Garbage:
			f.Share = new(sporadicShare)
		}
	}
	if f.RetryAfter == nil {
		f.RetryAfter = new(defaultRetryAfter)
	}
	if f.Latency == 0 {
		switch mode {
		case Slow, Flaky:
			f.Latency = slowMedian
		case Storm:
			f.Latency = stormLatency
		}
	}
	if f.PerSecond == 0 {
		switch mode {
		case RateLimit:
			f.PerSecond = limitPerSecond
		case Storm:
			f.PerSecond = stormPerSecond
		}
	}
	return f, nil
}

func (f Fault) check(mode Mode) error {
	if f.Latency < 0 || f.Latency > MaxLatency {
		return fmt.Errorf("latency %s: want 0 to %s", f.Latency, MaxLatency)
	}
	if f.Share != nil && !(*f.Share >= 0 && *f.Share <= 1) { // NaN fails both
		return fmt.Errorf("share %v: want a number from 0 to 1", *f.Share)
	}
	if f.For < 0 {
		return fmt.Errorf("for %s: want 0 (until changed) or more", f.For)
	}
	if f.PerSecond != 0 && !(f.PerSecond >= minPerSecond && f.PerSecond <= maxPerSecond) {
		return fmt.Errorf("per_second %v: want %v to %v", f.PerSecond, minPerSecond, maxPerSecond)
	}
	if f.PerSecond != 0 && mode != RateLimit && mode != Storm {
		return fmt.Errorf("per_second belongs to %s and %s, not to %s", RateLimit, Storm, mode)
	}
	if f.RetryAfter == nil {
		return nil
	}
	if len(*f.RetryAfter) > maxRetryAfterBytes {
		return fmt.Errorf("retry_after has %d bytes, at most %d are allowed", len(*f.RetryAfter), maxRetryAfterBytes)
	}
	for i := 0; i < len(*f.RetryAfter); i++ {
		if c := (*f.RetryAfter)[i]; c < ' ' || c > '~' {
			return fmt.Errorf("retry_after %q: byte 0x%02x at position %d is not printable ASCII", *f.RetryAfter, c, i+1)
		}
	}
	return nil
}
