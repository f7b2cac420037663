package operator

import (
	"fmt"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// ResultCode says what came of an action on one operation, in a word.
type ResultCode string

// The results.
const (
	ResultDone    ResultCode = "done"
	ResultPending ResultCode = "pending" // done when the attempt under way ends, or when its outcome is known
	ResultUnsafe  ResultCode = "unsafe"  // not cancelled but dead (unsafe): nobody can be asked, so a person must resolve it
	ResultRefused ResultCode = "refused"
	ResultMissing ResultCode = "missing"
)

// Result is what came of an action on one operation.
type Result struct {
	Operation    jobs.ID    `json:"operation"`
	Result       ResultCode `json:"result"`
	State        jobs.State `json:"state"`
	Detail       string     `json:"detail"`
	AttemptsLeft *int       `json:"attempts_left,omitempty"`
	Unsure       bool       `json:"unsure,omitempty"` // not yet on the replicas asked for
}

func resultOf(id jobs.ID, d ledger.Done) Result {
	r := Result{Operation: id, State: d.State, Detail: d.Detail, Unsure: d.Unsure}
	switch d.Verdict {
	case ledger.DoneOK, ledger.DoneAgain:
		r.Result = ResultDone
	case ledger.DonePending:
		r.Result = ResultPending
	case ledger.DoneMissing:
		r.Result = ResultMissing
	default:
		r.Result = ResultRefused
	}
	return r
}

// Report is what came of an action.
type Report struct {
	Action  string
	Batch   string   // what it is remembered under; "": one named operation is no batch
	Results []Result // of each that was chosen; without a code where it was not reached, or the reply was lost
	Canary  *Canary  // nil: there was none
	// Failed is what the action ended early with, nil if it went through its set:
	// [ErrStopped], a [CanaryError], the context's error, or one of Redis.
	Failed error
}

// Outcome is a bulk action as JSON.
type Outcome struct {
	Action  string   `json:"action"`
	Batch   *string  `json:"batch"`
	Done    int      `json:"done"`
	Pending int      `json:"pending"`
	Unsafe  int      `json:"unsafe,omitempty"`
	Refused int      `json:"refused"`
	Missing int      `json:"missing"`
	Invalid int      `json:"invalid"`          // lines of a file that say nothing that can be done
	Unsure  int      `json:"unsure,omitempty"` // of those done or pending: not yet on the replicas asked for
	Items   []Result `json:"items"`
	Errors  []Fault  `json:"errors,omitempty"` // what is wrong with those lines
	Canary  *Canary  `json:"canary,omitempty"`
}

// Fault is what is wrong with one line of a file.
type Fault struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// Outcome counts the results; what was not reached is not among them. faults are lines that came to no operation, if a file
// named them.
func (r *Report) Outcome(faults []Fault) Outcome {
	out := Outcome{Action: r.Action, Items: []Result{}, Invalid: len(faults), Errors: faults, Canary: r.Canary}
	if r.Batch != "" {
		out.Batch = &r.Batch
	}
	for _, item := range r.Results {
		switch item.Result {
		case "":
			continue
		case ResultDone:
			out.Done++
		case ResultPending:
			out.Pending++
		case ResultUnsafe:
			out.Unsafe++
		case ResultRefused:
			out.Refused++
		case ResultMissing:
			out.Missing++
		}
		if item.Unsure {
			out.Unsure++
		}
		out.Items = append(out.Items, item)
	}
	return out
}

// StateText is an operation's state in words: dead (deadline).
func StateText(o *jobs.Operation) string {
	if o.Reason != nil {
		return string(o.State) + " (" + string(*o.Reason) + ")"
	}
	return string(o.State)
}

// operations is n with its noun.
func operations(n int) string {
	if n == 1 {
		return "1 operation"
	}
	return fmt.Sprintf("%d operations", n)
}
