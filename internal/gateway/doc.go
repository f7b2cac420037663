// Package gateway makes one attempt or one inquiry: exactly one HTTP request on the
// wire, bounded in time and size, and then says how far it got. What that means is
// decided in package policy.
//
// net/http resends by itself in more cases than one would think: on a reused
// connection, for requests that carry an idempotency key, on HTTP/2, and by
// following redirects. None of that can happen here. Each [Client.Send]
// and [Client.Ask] has its own transport with its own single connection, HTTP/1
// only, no keep-alive, no proxy, no redirects, no decompression; the connection
// counts what is handed to the kernel. "Not sent" is said only when that count is
// zero.
//
// Invariants, each with a test:
//
//   - Requests on the wire = calls of Send and Ask that wrote a byte.
//   - The first application byte is not handed to the kernel when the monotonic or
//     the wall clock is past StartedAt + SendBy. DNS, dialling and TLS lie inside.
//   - When Send returns, the connection is closed. Unless the whole answer was
//     read, it is reset: the kernel delivers nothing of the attempt later.
//   - The idempotency key goes out byte for byte as it is stored, or nothing does.
//   - Nothing in an [Answer] but the sample itself shows a credential.
//
// Limits are the constants of this package. What is not promised stands in
// docs/sending.md.
package gateway
