package policy

import (
	"math"
	"time"
)

// SendWindow is how long after begin the first byte of an attempt may be written.
const SendWindow = 2 * time.Second

// leaseGrace is what a claim's lease allows after the attempt's end, to write the result.
const leaseGrace = 2 * time.Second

// Forever is for how long a resend of a natural kind is safe.
const Forever = time.Duration(math.MaxInt64)

// ClaimLease is how long a claim holds: the send window, the attempt's own
// timeout, and the time to write its result.
func ClaimLease(timeout time.Duration) time.Duration { return SendWindow + timeout + leaseGrace }

// ResendSafe is how long after the first send a resend under the same key stays
// safe, given how long the gateway remembers the key: min(0.8 x window,
// window - 2 x lease). A fifth is kept for clocks and for gateways that forget
// early; two leases, because a send may begin at the last instant and last one.
// Zero or less: the window leaves nothing.
func ResendSafe(window, lease time.Duration) time.Duration {
	return min(window/5*4, window-2*lease)
}

// SafeUntil is [ResendSafe] as an instant.
func SafeUntil(firstSent time.Time, window, lease time.Duration) time.Time {
	return firstSent.Add(ResendSafe(window, lease))
}
