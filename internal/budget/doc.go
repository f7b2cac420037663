// Package budget decides whether a dependency may get one more call.
//
// Terms. The budget is one token bucket per dependency, kept in Redis and shared
// by every process: a first attempt that is sent puts in ratio tokens, each second
// puts in floor tokens, a retry takes one. It never holds more than cap, and a
// missing or garbled bucket starts with one second of floor, never full: a lost
// key must not become a burst. Together with a hold (a pause, for now) it is the
// gate; breaker, ramp and drain lane join it there.
//
// The gate is a Lua library (lua/gate.lua), composed into the ledger's release and
// begin so that the decision is one step with the change of state. [Bucket] is the
// same arithmetic in plain Go: the oracle that the Lua is tested against.
//
// Invariants: 0 <= tokens <= cap; integers only (milli-tokens, ms); time going
// backwards adds nothing; without tokens no retry is sent.
package budget
