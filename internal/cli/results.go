package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// result is what came of an action on one operation.
type result struct {
	Operation    jobs.ID    `json:"operation"`
	Result       string     `json:"result"` // done, pending, unsafe, refused or missing
	State        jobs.State `json:"state"`
	Detail       string     `json:"detail"`
	AttemptsLeft *int       `json:"attempts_left,omitempty"`
	Unsure       bool       `json:"unsure,omitempty"` // not yet on the replicas asked for
}

const (
	resultDone    = "done"
	resultPending = "pending" // done when the attempt under way ends, or when its outcome is known
	resultUnsafe  = "unsafe"  // not cancelled but dead (unsafe): nobody can be asked, so a person must resolve it
	resultRefused = "refused"
	resultMissing = "missing"
)

func resultOf(id jobs.ID, d ledger.Done) result {
	r := result{Operation: id, State: d.State, Detail: d.Detail, Unsure: d.Unsure}
	switch d.Verdict {
	case ledger.DoneOK, ledger.DoneAgain:
		r.Result = resultDone
	case ledger.DonePending:
		r.Result = resultPending
	case ledger.DoneMissing:
		r.Result = resultMissing
	default:
		r.Result = resultRefused
	}
	return r
}

// outcome is a bulk action as JSON.
type outcome struct {
	Action  string   `json:"action"`
	Batch   *string  `json:"batch"`
	Done    int      `json:"done"`
	Pending int      `json:"pending"`
	Unsafe  int      `json:"unsafe,omitempty"`
	Refused int      `json:"refused"`
	Missing int      `json:"missing"`
	Invalid int      `json:"invalid"`          // lines of a file that say nothing that can be done
	Unsure  int      `json:"unsure,omitempty"` // of those done or pending: not yet on the replicas asked for
	Items   []result `json:"items"`
	Errors  []fault  `json:"errors,omitempty"` // what is wrong with those lines
	Canary  *canary  `json:"canary,omitempty"`
}

// fault is what is wrong with one line of a file.
type fault struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// ending is how a bulk action came to its end.
type ending struct {
	action, past, batch string
	results             []result
	faults              []fault
	canary              *canary
	failed              error // what it ended early with; nil: it did not
}

// maxRows results are shown one by one; of more there are counts.
const maxRows = 20

// writeResults shows what came of an action, and ends accordingly. failed is the
// error that it ended early with, if any.
func (p *program) writeResults(action, past, batch string, results []result, failed error) error {
	return p.end(ending{action: action, past: past, batch: batch, results: results, failed: failed})
}

func (p *program) end(e ending) error {
	out := outcome{Action: e.action, Items: slices.DeleteFunc(e.results, func(r result) bool { return r.Result == "" }),
		Invalid: len(e.faults), Errors: e.faults, Canary: e.canary}
	if e.batch != "" {
		out.Batch = &e.batch
	}
	asked := 0 // of those pending
	for _, r := range out.Items {
		switch r.Result {
		case resultDone:
			out.Done++
		case resultPending:
			out.Pending++
			if r.State == jobs.Unresolved {
				asked++
			}
		case resultUnsafe:
			out.Unsafe++
		case resultRefused:
			out.Refused++
		case resultMissing:
			out.Missing++
		}
		if r.Unsure {
			out.Unsure++
		}
	}
	if err := p.writeOutcome(out); err != nil {
		return err
	}
	p.sayFaults(e.faults)
	words := fmt.Sprintf("%s %d", e.past, out.Done)
	for _, n := range []struct {
		n    int
		what string
	}{{out.Pending - asked, "when its attempt ends"}, {asked, "to be " + e.past + " once the outcome is known"},
		{out.Unsafe, "dead (unsafe) instead, for a person to resolve"}, {out.Refused, "refused"}, {out.Missing, "not found"}, {out.Invalid, "invalid"}} {
		if n.n > 0 {
			words += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	if e.batch != "" {
		words += ", batch " + e.batch
	}
	p.say("%s", words)
	if out.Unsure > 0 {
		p.say("%d of them not yet on the replicas asked for (redis.wait_replicas): a failover now could undo that, so look again once the replicas are back", out.Unsure)
	}
	var said *failure
	switch {
	case errors.As(e.failed, &said):
		return e.failed
	case ledger.WritesRefused(e.failed) && len(out.Items) == 0:
		return &noted{e.failed, "no operation was changed: give the same command again later"}
	case e.failed != nil:
		return &noted{e.failed, "it ended early: the same command again goes on with the rest"}
	}
	return exitWith(out.code())
}

// sayFaults tells of lines that are wrong, the first of them one by one.
func (p *program) sayFaults(faults []fault) {
	for _, f := range faults[:min(len(faults), maxShown)] {
		p.say("line %d: %s", f.Line, f.Error)
	}
	if more := len(faults) - maxShown; more > 0 {
		p.say("and %s more that are wrong", count(more, "line"))
	}
}

func (o outcome) code() int {
	good, bad := o.Done+o.Pending+o.Unsafe, o.Refused+o.Missing+o.Invalid
	switch {
	case bad == 0 && o.Unsure > 0:
		return exitAgain
	case bad == 0:
		return exitOK
	case good > 0:
		return exitPartly
	case bad == o.Invalid:
		return exitUsage
	case o.Refused == 0:
		return exitNotFound
	}
	return exitConflict
}

func (p *program) writeOutcome(o outcome) error {
	header := []string{"operation", "result", "state", "detail"}
	row := func(r result) []string {
		return []string{r.Operation.String(), r.Result, orDash(string(r.State)), orDash(r.detail())}
	}
	switch p.flags.output {
	case asJSON:
		if o.Items == nil {
			o.Items = []result{}
		}
		return p.writeJSON(o)
	case asJSONL:
		for _, r := range o.Items {
			if err := p.writeLine(r); err != nil {
				return err
			}
		}
	case asCSV:
		g := grid{header: header}
		for _, r := range o.Items {
			g.add(row(r)...)
		}
		return tableCSV(p.stdout, g)
	case asName:
		for _, r := range o.Items {
			if r.Result == resultDone || r.Result == resultPending || r.Result == resultUnsafe {
				p.print("%s", r.Operation)
			}
		}
	default:
		g := grid{header: header}
		for _, r := range o.Items {
			g.add(row(r)...)
		}
		if len(o.Items) > maxRows {
			g = countResults(o.Items)
		}
		p.table(g)
	}
	return nil
}

func (r result) detail() string {
	if r.AttemptsLeft != nil && r.Result == resultDone {
		return strings.TrimSpace(fmt.Sprintf("%s left %s", count(*r.AttemptsLeft, "attempt"), r.Detail))
	}
	return r.Detail
}

// countResults counts by result and why.
func countResults(items []result) grid {
	type key struct{ result, detail string }
	counts := map[key]int{}
	var order []key
	for _, r := range items {
		k := key{r.Result, r.detail()}
		if counts[k] == 0 {
			order = append(order, k)
		}
		counts[k]++
	}
	slices.SortStableFunc(order, func(a, b key) int { return counts[b] - counts[a] })
	g := grid{header: []string{"operations", "result", "detail"}}
	for _, k := range order {
		g.add(strconv.Itoa(counts[k]), k.result, orDash(k.detail))
	}
	return g
}
