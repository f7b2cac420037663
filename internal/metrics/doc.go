// Package metrics declares every metric of Redrive in one place, with the names,
// types and labels that docs/metrics.md promises.
//
// A [Metrics] belongs to one process (or to one test: two in a process do not
// meet) and has a registry of its own. Callers use typed methods and cannot invent
// a label: dependencies and kinds are declared at the start, classes, reasons,
// states and answers are the closed lists of package jobs, and anything else is
// counted under "other". No operation key, error text or attempt number is ever a
// label, so the number of series is bounded by the configuration alone; docs/metrics.md
// states the bound, which new labels and buckets draw on.
//
// Three sorts of numbers, with different meaning across processes:
//
//   - counters and histograms count what this process did: sum them;
//   - slots, slots_busy and last_poll_timestamp_seconds are this process's own;
//   - the state of the ledger (operations, held_operations, ages, the gate
//     and its forecast, dead_letters, and the counter of submissions) is read from
//     Redis at each scrape and is the same from every process: take the maximum,
//     never the sum.
//
// Every counter and histogram of a declared dependency or kind exists from the start
// with 0, so that rate() sees the first event.
package metrics
