// Package budget decides whether a dependency may get one more call: the gate.
//
// Terms. The budget is one token bucket per dependency, kept in Redis and shared by
// every process: a first attempt that is sent puts in ratio tokens, each second puts in
// floor tokens, a retry or an inquiry takes one. It never holds more than cap, and a
// missing or garbled bucket starts with one second of floor, never full: a lost key
// must not become a burst. The breaker opens when too many calls fail, lets a few
// probes through after a while, and closes into a ramp. The drain lane lets a backlog
// leave beside the budget while nothing speaks against the dependency. Backlog is every
// retry, and first attempts that came due while the gate held the dependency back or
// nobody worked. The rate bounds all calls. A pause, an open breaker and a dependency
// that asked to wait hold everything.
//
// The gate is a Lua library (lua/gate.lua), composed into the ledger's scripts so that
// its decision is one step with the change of state. [Gate] is the same in plain Go: the
// oracle that the Lua is tested against, what the simulations run, and how a program
// looks at the gate without touching it ([Read], then [Gate.At]).
//
// Invariants: 0 <= tokens <= cap; integers only (thousandths and ms); time going
// backwards adds nothing; no fill and no spend unless the breaker is closed; at most
// probes permits are out in a half-open period; without tokens no retry is sent, but
// for the lane's and the probes.
package budget
