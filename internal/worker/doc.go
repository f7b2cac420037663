// Package worker redelivers: it lets due operations out of the ledger as its
// slots can take them, carries them through asynq to a slot, makes one bounded
// call for each and writes down what came of it.
//
// Terms, beside those of package jobs:
//
//   - The conveyor is what lies between the ledger's waiting room and a
//     dependency's slots: an asynq queue and the one asynq server of this process
//     that serves it. What is on it is a hint; the ledger is the truth.
//   - To release is to let deliveries out of the waiting room, to give back is to
//     abandon one of which nothing was sent, to recover is to close attempts whose
//     worker was lost.
//   - A suspect is a delivery of an operation whose last worker was lost.
//   - A pending write is a result or a give-back that Redis has not taken yet.
//
// Invariants, each with a test:
//
//   - Nothing is sent without a clear grant from the ledger, and nothing is begun
//     after Stop, while Redis takes no writes, or while too many pending writes
//     wait.
//   - Whatever a Sender does, panic included, the attempt it was called for ends
//     with one result in the ledger: the worker's own, or "lost" once the claim's
//     lease is over.
//   - A delivery that the conveyor loses, doubles or delays costs time, never a
//     second send and never an operation.
//   - While Redis is away or full the process waits without spinning and goes on
//     by itself when it is back, even if it came back empty.
//
// The package knows no HTTP: gateway sends, policy decides, ledger remembers.
// How the parts play together is told in docs/worker.md.
package worker
