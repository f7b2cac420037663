// Package world plays seeded worlds over the real Lua scripts: the ledger on
// miniredis under a clock that the test owns, policy, two worker processes as small
// state machines, people, a request path, and a gateway that keeps the truth.
//
// # A world
//
// A world is a number. From it come one to four operations of any class, with an
// inquiry or without, everything that the gateway answers, the order in which
// processes take their steps, and the faults: a crash between any two steps, calls
// of Redis that are lost before or after they were applied or that are applied later,
// a process that stands still past its lease, deliveries lost or doubled, a gateway
// whose records lag, steps of Redis' clock. The same number gives the same log.
//
// Each call of Redis is one event. After each event the promises are judged: the
// sends and effects by the gateway's own account, the ledger by what stands in Redis
// (docs/redis-keys.md), the gate by every script that was applied. Then the faults stop,
// and every operation must come to an end.
//
// Four worlds of six have a whole gate, drawn small, and people and request paths that
// meddle with it; two have a plain bucket.
//
// # Crash points
//
// Apart from the worlds each operation's way is walked without any fault, its steps
// (calls of Redis, first bytes and inquiries) are numbered, and then the process is
// lost before and after each of them in turn, and each call's request and reply as well.
//
// # What it does not do
//
// asynq, sockets and real processes are not here: a queue is a list whose entries may
// vanish or be there twice. docs/sim.md says what is assumed of a gateway.
package world
