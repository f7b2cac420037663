// Package analysis works out what a configuration leads to before anything is sent:
// the retry decision record of each kind ([Build], [Record]) and what is wrong with
// it, ranked ([Findings]). Both are pure functions of a [config.Config] and a [Load].
//
// Terms, beside those of packages jobs and policy:
//
//   - The load is what the arithmetic is done for: first attempts per second, the
//     share of calls that run into the timeout, how long an outage lasts. It stands
//     in the record, because no figure means anything without it.
//   - Hold time is how long one operation occupies one slot while the other side does
//     not answer. A path that sends again inside its slot holds it for
//     timeout x (resends + 1); a slot of Redrive is held for one attempt, the timeout.
//   - Wanted slots are load x failing x hold time (Little's law): so many are held at
//     once, on average, by calls that time out alone.
//   - The exhaustion figure is slots / (load x failing x hold time), in seconds: so
//     many seconds of arrivals use up all the slot-seconds that the pool has in one
//     second. Below 1 s the pool is exhausted as long as the failure lasts, from 1 s on
//     it never is. It is not the time until the pool is full, which is slots /
//     (load x failing), and stands beside it.
//   - A retry span is the time from the first send to the last: the mean one with
//     attempts that fail at once and the mean of each wait, the longest one with
//     attempts that last the whole timeout and the longest wait each time. Hints of the
//     other side, an open breaker and a lack of tokens make either longer.
//   - A finding is something about the configuration that a person should know:
//     error (it contradicts itself), warning (probably not meant) or note.
//
// What an answer leads to, how long a wait is and how long a resend is safe is asked of
// package policy, never written down a second time. What the file shows without any
// arithmetic is found by [config.Config.Warned] and joined to the findings here.
//
// Invariants, each with a test: the same configuration and load give the same record
// and findings, byte for byte; each sort of finding can be triggered by one flaw alone;
// a sound configuration has none; no secret of the configuration is in either.
package analysis
