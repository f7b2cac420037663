// Package jobs is the ground floor: the nouns every other package of Redrive
// speaks in. It decides nothing and imports only the standard library.
//
// Terms, used with one meaning everywhere (code, config, metrics, docs):
//
//   - An operation is one business intent, named kind/key ("charge/order-1001").
//     Its request is fixed when it is submitted.
//   - A kind says how such operations are sent; a dependency is the outside
//     system that budget, breaker and limits belong to.
//   - An attempt is one network send of an operation, numbered from 1; attempts
//     that the request path made are counted in. The first attempt is attempt 1,
//     a retry is any later one. An inquiry is a read that asks what became of an
//     operation. A call is an attempt or an inquiry.
//   - An outcome says what an attempt proved: succeeded, refused (known not to
//     have acted), not_sent (provably no byte arrived) or unknown (it may have
//     acted). An operation with an attempt whose unknown outcome is not settled
//     bears the unknown mark.
//   - A delivery is one pass through the queue, a run id names one handler run,
//     a claim is the right to make the one attempt in flight.
//   - A dead letter is an operation that needs a person, with a [Reason].
//
// The states and their transitions are described in docs/state-machine.md.
package jobs
