// Package ledger is the durable record in Redis: what was accepted, what was
// tried, what came of it, and what may happen next.
//
// Every change of an operation is one Lua script that reads its state first, so
// that it is in exactly one state and in exactly the index of that state at any
// time, whatever dies. Go passes durations, Redis decides instants. An operation
// leaves for an end only through settle(intent): while an attempt's unknown
// outcome is not settled, it is neither resent unsafely nor ended as if nothing
// had happened.
//
// Keys, all with the prefix '<namespace>:{<dependency>}:' so that a script touches
// one slot, are listed in docs/redis-keys.md; the state machine in
// docs/state-machine.md.
//
// The package does not send, does not queue and knows no configuration file: the
// deciding process passes its [Terms] with each call.
package ledger
