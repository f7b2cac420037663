package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/operator"
)

// maxRows results are shown one by one; of more there are counts.
const maxRows = 20

// end shows what came of an action, and ends accordingly. past is the action in the
// past tense, faults are lines of a file that came to nothing.
func (p *program) end(r operator.Report, past string, faults []operator.Fault) error {
	out := r.Outcome(faults)
	asked := 0 // of those pending
	for _, item := range out.Items {
		if item.Result == operator.ResultPending && item.State == jobs.Unresolved {
			asked++
		}
	}
	if err := p.writeOutcome(out); err != nil {
		return err
	}
	p.sayFaults(faults)
	words := fmt.Sprintf("%s %d", past, out.Done)
	for _, n := range []struct {
		n    int
		what string
	}{{out.Pending - asked, "when its attempt ends"}, {asked, "to be " + past + " once the outcome is known"},
		{out.Unsafe, "dead (unsafe) instead, for a person to resolve"}, {out.Refused, "refused"}, {out.Missing, "not found"}, {out.Invalid, "invalid"}} {
		if n.n > 0 {
			words += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	if r.Batch != "" {
		words += ", batch " + r.Batch
	}
	p.say("%s", words)
	if out.Unsure > 0 {
		p.say("%d of them not yet on the replicas asked for (redis.wait_replicas): a failover now could undo that, so look again once the replicas are back", out.Unsure)
	}
	var canary *operator.CanaryError
	switch {
	case errors.Is(r.Failed, operator.ErrStopped), errors.As(r.Failed, &canary):
		return &failure{exitConflict, r.Failed}
	case unchanged(r.Failed) && len(out.Items) == 0 && len(r.Results) <= 1: // of several under way another's reply may be lost
		return &noted{r.Failed, untouched}
	case r.Failed != nil:
		return &noted{r.Failed, endedEarly}
	}
	return exitWith(outcomeCode(out))
}

// sayFaults tells of lines that are wrong, the first of them one by one.
func (p *program) sayFaults(faults []operator.Fault) {
	for _, f := range faults[:min(len(faults), maxShown)] {
		p.say("line %d: %s", f.Line, f.Error)
	}
	if more := len(faults) - maxShown; more > 0 {
		p.say("and %s more that are wrong", count(more, "line"))
	}
}

func outcomeCode(o operator.Outcome) int {
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

func (p *program) writeOutcome(o operator.Outcome) error {
	header := []string{"operation", "result", "state", "detail"}
	row := func(r operator.Result) []string {
		return []string{r.Operation.String(), string(r.Result), orDash(string(r.State)), orDash(detailText(r))}
	}
	switch p.flags.output {
	case asJSON:
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
			if r.Result == operator.ResultDone || r.Result == operator.ResultPending || r.Result == operator.ResultUnsafe {
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

func detailText(r operator.Result) string {
	if r.AttemptsLeft != nil && r.Result == operator.ResultDone {
		return strings.TrimSpace(fmt.Sprintf("%s left %s", count(*r.AttemptsLeft, "attempt"), r.Detail))
	}
	return r.Detail
}

// countResults counts by result and why.
func countResults(items []operator.Result) grid {
	type key struct {
		result operator.ResultCode
		detail string
	}
	counts := map[key]int{}
	var order []key
	for _, r := range items {
		k := key{r.Result, detailText(r)}
		if counts[k] == 0 {
			order = append(order, k)
		}
		counts[k]++
	}
	slices.SortStableFunc(order, func(a, b key) int { return counts[b] - counts[a] })
	g := grid{header: []string{"operations", "result", "detail"}}
	for _, k := range order {
		g.add(strconv.Itoa(counts[k]), string(k.result), orDash(k.detail))
	}
	return g
}
