// Package requestpath counts what a service's request path sends itself in the shared
// budget of each dependency: first attempts fill it, and their results feed the breaker.
//
// The request path calls [Recorder.Record] after each first attempt; that adds one to
// a counter and never waits. At a jittered interval, a quarter of a second to a second,
// a flush tells the dependency's gate what was counted since, in one batch. Cost in
// Redis is one short script per interval, process and dependency, however many attempts
// there are.
//
// Invariants:
//
//   - A batch counts once. Until the gate has answered, its fate is unknown: it is flushed
//     again as it was, under the number it had, and what comes later collects behind it.
//   - A crash forfeits what is not told yet: the attempts of one interval, where Redis
//     answers. That errs on the strict side: the budget fills less.
//   - What could not be told within [Options.Keep] is forgotten. A deposit for attempts
//     that are long over would be a burst of retries just when Redis is back, and old
//     results say nothing of the dependency's present. So memory is bounded too.
//
// It decides nothing: whether a request path fails fast while the breaker is open is its
// own choice, for which [Recorder.State] gives the gate's last answer.
package requestpath
