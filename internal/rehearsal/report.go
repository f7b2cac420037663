package rehearsal

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"redrive/internal/jobs"
)

// Promises are the five promises, by their names in the report.
var Promises = []string{"P1", "P2", "P3", "P4", "P5"}

var promiseTexts = map[string]string{
	"P1": "never twice",
	"P2": "never lost",
	"P3": "never past the deadline",
	"P4": "never a storm",
	"P5": "never a held slot",
}

// Report is what the judge found.
type Report struct {
	Operations int                 `json:"operations"` // handed over and accepted
	Succeeded  int                 `json:"succeeded"`
	Dead       map[jobs.Reason]int `json:"dead"`

	// By the gateway's ledger.
	ChargedOnce  int `json:"charged_once"`  // took effect once
	ChargedTwice int `json:"charged_twice"` // took effect more than once
	// Lost: not in exactly one end state, or its end contradicts the gateway.
	Lost          int     `json:"lost"`
	Late          int     `json:"late"` // requests that arrived after their deadline
	FirstAttempts int     `json:"first_attempts"`
	Retries       int     `json:"retries"`
	Inquiries     int     `json:"inquiries"` // requests that asked what became of an operation
	Seconds       float64 `json:"seconds"`

	Promises map[string]bool `json:"promises"`

	Broken []Breach `json:"-"` // what broke a promise, for people

	// What the report says of how it was played.
	Store   string `json:"-"`
	Fault   string `json:"-"`
	Seed    uint64 `json:"-"`
	Settled int    `json:"-"` // answered on the request path, so never handed over

	Asked          int `json:"-"` // operations that the gateway was asked about
	AskedSucceeded int `json:"-"` // of them succeeded
}

// Breach is one way in which a promise was broken.
type Breach struct {
	Promise string
	What    string
}

// Kept reports whether every promise was kept.
func (r *Report) Kept() bool {
	for _, p := range Promises {
		if !r.Promises[p] {
			return false
		}
	}
	return true
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// maxBreaches are shown; the rest is counted.
const maxBreaches = 10

// WriteText writes the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	row := func(name string, value any, note string) { t.AppendRow(table.Row{name, value, note}) }
	row("operations handed over", r.Operations, "")
	row("succeeded", r.Succeeded, "")
	for _, reason := range slices.Sorted(maps.Keys(r.Dead)) {
		row("dead: "+string(reason), r.Dead[reason], reasonTexts[reason])
	}
	row("charged once", r.ChargedOnce, "by the gateway's own ledger")
	row("charged twice", r.ChargedTwice, "")
	row("lost", r.Lost, "")
	row("after the deadline", r.Late, "")
	row("calls per operation", ratioText(r.FirstAttempts+r.Retries, r.Operations), "")
	row("retries per first attempt", ratioText(r.Retries, r.FirstAttempts), "")
	asked := ""
	if r.Asked > 0 {
		asked = fmt.Sprintf("%d of the %d operations asked about succeeded", r.AskedSucceeded, r.Asked)
	}
	row("inquiries", r.Inquiries, asked)
	row("seconds", r.Seconds, "")
	var b strings.Builder
	fmt.Fprintf(&b, "\nGateway: %s, seed %d. Store: %s.\n", r.Fault, r.Seed, r.Store)
	if r.Settled > 0 {
		fmt.Fprintf(&b, "Answered on the request path, so never handed over: %d.\n", r.Settled)
	}
	b.WriteString("\n" + t.Render() + "\n\n")
	for _, p := range Promises {
		word := "kept"
		if !r.Promises[p] {
			word = "BROKEN"
		}
		fmt.Fprintf(&b, " %s %-24s %s\n", p, promiseTexts[p], word)
	}
	for i, breach := range r.Broken {
		if i == maxBreaches {
			fmt.Fprintf(&b, " ... and %d more\n", len(r.Broken)-maxBreaches)
			break
		}
		fmt.Fprintf(&b, " %s: %s\n", breach.Promise, breach.What)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// reasonTexts say what a dead letter of the demo is for a person.
var reasonTexts = map[jobs.Reason]string{
	jobs.ReasonPermanent:  "the gateway said no for good",
	jobs.ReasonAttempts:   "no attempts left",
	jobs.ReasonDeadline:   "stopped in time, nothing was charged",
	jobs.ReasonUnsafe:     "outcome unknown, and nobody can be asked: a person decides",
	jobs.ReasonUnresolved: "outcome unknown, and asking did not tell: a person decides",
}

func ratioText(a, b int) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}
