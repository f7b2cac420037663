// Package sandbox is a payment gateway that misbehaves on demand and keeps its
// own ledger. It is the judge of "never twice, never lost": what it counted is
// compared with what the system under test believes.
//
// Terms:
//
//   - A request is one POST to /v1/charges, /v1/refunds or /v1/voids whose body
//     arrived whole. It is counted on arrival, before any fault acts on it.
//   - A side effect is money that moved: one object with status "succeeded". It
//     is counted at its instant, per route and reference. A declined charge
//     leaves an object with status "failed", which is no side effect.
//   - An inquiry is a GET on the same routes. It never has a side effect.
//   - A [Fault] is a way to misbehave; a request it acts on is hit. Which
//     requests are hit is drawn from a seed, so the same seed draws the same
//     sequence again.
//   - A cut is the end of a connection before any byte of an answer.
//   - The book holds everything that [Sandbox.Reset] clears: ledger, objects,
//     idempotency keys, totals and the position in the sequence of draws.
//
// Invariants, whatever the fault: requests in the ledger plus unread and
// unreferenced ones are the POSTs that reached the sandbox; a key that is
// honoured brings about at most one side effect inside its window; /livez and
// /_sandbox are never hit.
//
// The ledger is never trimmed, because a judge that forgets cannot judge: a
// reference with one request costs about 1 KiB of memory, a further request about
// 30 bytes (measured 2026-11-30), until [Sandbox.Reset]. The sandbox is a tool for
// tests and rehearsals: it has no authentication and belongs on a loopback
// address.
//
// Routes, faults and examples are in docs/sandbox.md.
package sandbox
