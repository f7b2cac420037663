// Package gate plays outages over the oracle of package budget and over what others
// do, to compare them: who sends how many calls, when the dependency serves again, how
// long a backlog takes to leave.
//
// A world is a discrete-event simulation: a source of operations, a dependency, and
// between them either the Redrive fleet or a rival that retries in the request path.
// The fleet is instances of the request path, which make first attempts and tell the
// gate of them every 250 to 1000 ms, and workers, which ask the gate how much of the
// backlog may leave, as the script release does. The gate is [budget.Gate] itself, one
// for all; releasing and beginning are one instant here, deadlines and a limit of
// attempts are left out, and Redis is always there.
//
// Every scenario ([Brooker], [Metastable], [Night], [Recovery]) is a pure function of
// its arguments and a seed: the same numbers on every run. Times are whole
// microseconds since the world began.
//
// The numbers of docs/budget.md and its plots come from here: make sim-report.
package gate
