package analysis

import (
	"time"

	"redrive/internal/config"
	"redrive/internal/policy"
)

// Delay is the wait before the retries First to Last, which have the same bounds.
type Delay struct {
	First  int   `json:"first_retry"`
	Last   int   `json:"last_retry"`
	MinMS  int64 `json:"min_ms"`
	MeanMS int64 `json:"mean_ms"`
	MaxMS  int64 `json:"max_ms"`
}

// policyBackoff is what draws the waits of k.
func policyBackoff(k *config.Kind) policy.Backoff {
	return policy.Backoff{Base: k.Backoff.Base, Cap: k.Backoff.Cap}
}

// delays are the waits between the attempts of k, by what [policy.Backoff] draws at the
// ends and in the middle of its range.
func delays(k *config.Kind) []Delay {
	b := policyBackoff(k)
	list := []Delay{}
	for n := 1; n < k.MaxAttempts; n++ {
		d := Delay{First: n, Last: n, MinMS: drawn(b, n, 0).Milliseconds(), MeanMS: drawn(b, n, 0.5).Milliseconds(), MaxMS: drawn(b, n, 1).Milliseconds()}
		if last := len(list) - 1; last >= 0 && list[last].MaxMS == d.MaxMS {
			list[last].Last = n
			continue
		}
		list = append(list, d)
	}
	return list
}

// drawn is the wait after attempt n for one draw; 1 stands for the upper end, which is
// never quite reached.
func drawn(b policy.Backoff, n int, draw float64) time.Duration {
	return b.Delay(n, func() float64 { return draw })
}

// meanSpan is the mean retry span of k: attempts that fail at once.
func meanSpan(k *config.Kind) time.Duration { return waits(k, k.MaxAttempts, 0.5) }

// longestSpan is the longest retry span of k by its backoff: every attempt lasts the
// timeout, every wait its upper end.
func longestSpan(k *config.Kind, d *config.Dependency) time.Duration {
	return waits(k, k.MaxAttempts, 1) + time.Duration(k.MaxAttempts-1)*d.Timeout
}

// waits adds the waits between so many attempts.
func waits(k *config.Kind, attempts int, draw float64) time.Duration {
	var sum time.Duration
	for n := 1; n < attempts; n++ { // at most 999 waits of a day: far below what a Duration holds
		sum += drawn(policyBackoff(k), n, draw)
	}
	return sum
}

// attemptsFor is the smallest max_attempts whose mean retry span is at least want; ok is
// false if the largest there is does not reach it.
func attemptsFor(k *config.Kind, want time.Duration) (n int, ok bool) {
	const most = 1000 // what the configuration takes
	var sum time.Duration
	for n = 1; n <= most; n++ {
		if sum >= want {
			return n, true
		}
		sum += drawn(policyBackoff(k), n, 0.5)
	}
	return 0, false
}

// safeWindow is how long after the first send a resend under the same key stays safe.
func safeWindow(k *config.Kind, d *config.Dependency) time.Duration {
	return policy.ResendSafe(k.IdempotencyKey.Window, policy.ClaimLease(d.Timeout))
}

// windowFor is the shortest key window under which resends stay safe for so long.
func windowFor(safe, timeout time.Duration) time.Duration {
	return max(safe/4*5, safe+2*policy.ClaimLease(timeout)) + time.Millisecond // no division of it falls short
}
