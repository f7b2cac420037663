// Package torture runs Redrive as it is run for real (processes of worker and
// enqueue, a redis-server with an append-only file, a gateway behind a socket),
// takes it apart while it works, and holds the gateway's account of what happened
// against the ledger's: only tests.
//
// A run has three parts. While the script lasts, a shop hands over operations of
// all four classes and every one of them again, and the script kills, freezes and
// cuts off what it is told to by its seed. Then the faults are off and everything
// must come to rest within a bound. Then the judge compares, promise by promise.
//
// The same seed draws the same script and the same orders. When what is drawn meets
// what is running depends on the machine, so a seed repeats a run only as far as
// the machine does.
//
// Terms:
//
//   - An order is one operation as the shop means it: it may be handed over many
//     times, and the shop may have called the gateway for it itself.
//   - The door stands before the gateway and writes down each request on arrival.
//   - A link is the connection of one process to Redis; it runs through a proxy
//     that can be cut, slowed and muted (commands go through, answers do not).
//   - A surplus attempt stands in the ledger and never arrived: its worker died
//     between the write-ahead and the send.
//
// How to run it, and what a run on a machine of ours showed, is in docs/torture.md.
package torture
