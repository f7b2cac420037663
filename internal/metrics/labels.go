package metrics

import (
	"maps"
	"slices"
	"sync"

	"redrive/internal/jobs"
)

// other is the label value of everything that stands in no declared list.
const other = "other"

// Call says which sort of call was made.
type Call string

// The sorts of calls.
const (
	CallFirst   Call = "first"   // attempt 1 of an operation
	CallRetry   Call = "retry"   // any later attempt
	CallInquiry Call = "inquiry" // a read that asks what became of an operation
)

// Calls lists every sort of call.
var Calls = []Call{CallFirst, CallRetry, CallInquiry}

// Result is how a first attempt went.
type Result = jobs.Result

// The results of first attempts.
const (
	ResultOK       = jobs.ResultOK
	ResultFailed   = jobs.ResultFailed
	ResultTimedOut = jobs.ResultTimedOut
)

// Results lists every result of a first attempt.
var Results = jobs.Results

// Refusal says why a retry could not go at its due time, or will never go: what
// the gate answered (a [jobs.Hold]), why the operation ended (a [jobs.Reason]), or
// [RefusedCancelled].
type Refusal string

// RefusedCancelled is the refusal of an operation that a person cancelled.
const RefusedCancelled Refusal = "cancelled"

// Refusals lists every refusal. Busy slots are none: they delay first attempts
// and retries alike and refuse nothing.
var Refusals = []Refusal{
	Refusal(jobs.HoldBudget), Refusal(jobs.HoldBreaker), Refusal(jobs.HoldRamp), Refusal(jobs.HoldLane),
	Refusal(jobs.HoldInFlight), Refusal(jobs.HoldRate), Refusal(jobs.HoldRateHint), Refusal(jobs.HoldPaused),
	Refusal(jobs.ReasonDeadline), Refusal(jobs.ReasonAttempts), Refusal(jobs.ReasonPermanent),
	Refusal(jobs.ReasonMisconfigured), Refusal(jobs.ReasonPoison), Refusal(jobs.ReasonUnsafe),
	Refusal(jobs.ReasonUnresolved), RefusedCancelled,
}

// The states of the breaker, as package budget names them.
const (
	BreakerClosed   = "closed"
	BreakerOpen     = "open"
	BreakerHalfOpen = "half_open"
)

// Ends lists the states in which operations end.
var Ends = []jobs.State{jobs.Succeeded, jobs.Dead, jobs.Cancelled}

// Answers lists the answers that the ledger counts. [jobs.Unsure] is none of its own:
// such a submission is accepted, and whoever submitted it waits for replicas.
var Answers = []jobs.Answer{jobs.Accepted, jobs.Duplicate, jobs.Conflict, jobs.Refused}

// BreakerStates lists the states of the breaker.
var BreakerStates = []string{BreakerClosed, BreakerOpen, BreakerHalfOpen}

// label returns v when it stands in allowed, else "other".
func label[T ~string](v T, allowed []T) string {
	if slices.Contains(allowed, v) {
		return string(v)
	}
	return other
}

// endLabel is the reason label of an end: only dead letters have a reason.
func endLabel(s jobs.State, r jobs.Reason) string {
	if s != jobs.Dead {
		return ""
	}
	return label(r, jobs.Reasons)
}

// declared holds the names that may be label values.
type declared struct {
	mu           sync.RWMutex // guards dependencies, kinds
	dependencies map[jobs.Dependency]bool
	kinds        map[jobs.Kind]jobs.Dependency
}

func (d *declared) add(deps []jobs.Dependency, kinds map[jobs.Kind]jobs.Dependency) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dep := range deps {
		d.dependencies[dep] = true
	}
	maps.Copy(d.kinds, kinds)
}

func (d *declared) dependency(dep jobs.Dependency) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.dependencies[dep] {
		return string(dep)
	}
	return other
}

func (d *declared) kind(kind jobs.Kind) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if _, ok := d.kinds[kind]; ok {
		return string(kind)
	}
	return other
}

// pair labels a call: a kind counts under its own name at its own dependency alone.
func (d *declared) pair(dep jobs.Dependency, kind jobs.Kind) (dependency, kindLabel string) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	switch {
	case !d.dependencies[dep]:
		return other, other
	case d.kinds[kind] != dep:
		return string(dep), other
	}
	return string(dep), string(kind)
}

// allKinds returns the declared kinds in order.
func (d *declared) allKinds() []jobs.Kind {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Sorted(maps.Keys(d.kinds))
}
