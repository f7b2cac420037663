// Package policy decides, and does nothing else: what an answer means
// (the [Rules] of a dependency, then [Classify]), what became of an operation by the
// answer to an inquiry ([Inquiry]), what is kept of a success ([Results]), what
// happens to the operation next ([Decide]), how long it waits ([Backoff], [Wait],
// [Hint]) and how long a resend under the same key stays safe ([ResendSafe],
// [SafeUntil]).
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
//   - A rule is one line of a dependency's own, asked before the table: a CEL
//     expression over an answer, and the verdict where it is true.
//   - The answer to an inquiry is read by up to four such expressions: succeeded,
//     pending, failed, not found. Where none holds, the inquiry proves nothing.
//   - A result is a named value that an expression takes out of a success.
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
//   - What neither a rule nor a row lists is never resent.
//   - A rule or inquiry that cannot be evaluated on an answer does not hold.
//   - A retry is never earlier than the hint and never so late that it would miss
//     the deadline.
package policy
