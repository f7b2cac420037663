// Package remote asks a worker's HTTP API (docs/api.md) on behalf of the program
// enqueue. It knows how to ask, not what: routes and the types of answers are its
// caller's.
//
// Three rules hold for every request. The token goes to the server that was named and
// to nobody else: never in the clear beyond this machine, never along with a redirect,
// never into an error. Requests on the wire are the requests that were made: each has a
// connection of its own, so that nothing below resends one whose answer was lost. What
// comes back is bounded in size and in time, and is taken for Redrive's only if it looks
// like that: whatever else stands behind an address is told in one line ([StrangeError]).
//
// What was not done is an error: a [Problem] where the API says why, an [UnansweredError]
// where no whole answer came.
package remote
