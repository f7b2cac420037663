// Package cli is the program enqueue: it hands operations in, shows what became of
// them, and lets a person act on them. It writes to and reads from the ledger; it
// never calls a dependency and never resolves a dependency's secrets.
//
// [Run] is the whole program as a function, so that it runs inside a test: one
// command line in, an exit code out, data on stdout, words on stderr.
//
// Three rules hold for all commands. What a command changes it names by operation
// or by a filter whose set is fixed when the command starts. Payload (body,
// headers, answers, the rendered path) is shown only on request, and the request
// is written to the audit. Text that came from outside reaches the terminal with
// its control characters escaped.
//
// Commands, flags and exit codes are described in docs/enqueue.md.
package cli
