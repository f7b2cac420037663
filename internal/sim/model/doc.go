// Package model explores every interleaving of one operation's life: the scripts
// of the ledger as atomic steps, two workers with their positions between the
// scripts, the inquiry, people, the request path, and the gateway's own truth.
//
// # What it decides
//
// Whether the rules of the state machine, as they are written down and not as
// they were programmed, keep the promises. It is a second reading of the
// design: no code of the ledger, of its Lua or of the worker is used, so a
// mistake there cannot hide here.
//
// # Terms
//
// A state is everything that can matter later: the record, the gateway, the
// clocks and where each process stands. A step leads from one state to the
// next. A disturbance is a step that would not happen on a good day: a crash, a
// lost script reply, a duplicate delivery, a lagging inquiry, a person, a
// duplicate submission, a changed configuration. How many of them one run may
// hold is bounded; everything else is free, in any order and at any time, so
// that a process may be slow for as long as it likes.
//
// Time is a few events instead of values: the lease of an attempt ends, its
// settle time ends, the deadline passes, a key is not safe any more, the gateway
// forgets it. Only what the design says about their order is assumed.
//
// # What it checks
//
// After each step: [check] (never twice, never past the deadline, no lie about
// what was applied, no claim without its holder). After all of them: from every
// state some way without any disturbance leads to an end.
//
// Each rule is a switch in [Rules]. With all of them nothing is found; without
// one the shortest way to the harm is printed as a list of steps.
//
// # What it does not do
//
// It knows one operation: the gate, budgets, indexes and counts are tested
// elsewhere, and so are bytes, sockets and durability. docs/model.md says what
// is caught here and what is not.
package model
