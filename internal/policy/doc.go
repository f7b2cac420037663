// Package policy decides, and does nothing else: what an answer means
// ([Classify]), what happens to the operation next ([Decide]), how long it waits
// ([Backoff], [Wait], [Hint]) and how long a resend under the same key stays safe
// ([ResendSafe], [SafeUntil]).
//
// Everything here is a pure function of its arguments. There is no clock, no
// Redis, no net/http and no global randomness: instants come in with the
// [Sample], randomness as a function, durations go out.
//
// Terms, beside those of package jobs:
//
//   - A phase is how far an attempt got on the network before it ended.
//   - A row is one line of the classification table ([Table]): what happened, did
//     the other side process it, and one verdict per idempotency class.
//   - Processed says whether the other side acted on the request: no, maybe, yes.
//   - Acted means that the other side took the request but has not said how it
//     ended. Only another answer or a person settles such an attempt; that the
//     dependency finds nothing does not.
//   - A hint is how long the other side asks us to wait.
//
// Invariants, each with a test:
//
//   - An attempt that may have acted is never resent for the classes none and
//     conditional, whatever the answer, the hint or the caller says.
//   - What no row lists is never resent.
//   - A retry is never earlier than the hint and never so late that it would miss
//     the deadline.
package policy
