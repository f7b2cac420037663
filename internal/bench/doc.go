// Package bench measures what a user of Redrive pays for its guarantees: only
// benchmarks, run by make bench against a real redis-server on a unix socket.
//
// A figure from a shared machine says little by itself, so whatever has a peer is
// measured in alternation with it, in one run, and given as the median of the
// ratios. Nothing here decides a test.
package bench
