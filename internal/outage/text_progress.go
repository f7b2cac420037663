package outage

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"redrive/internal/picture"
)

// Lines returns an [Options.ShowFunc] that writes one line for every fifteen seconds
// of the scenario and for every change of part: for logs and pipes.
func Lines(w io.Writer) func(Progress) {
	const every = 15 * time.Second
	var last time.Duration
	part := ""
	return func(p Progress) {
		if p.Part == part && p.At-last < every {
			return
		}
		last, part = p.At, p.Part
		fmt.Fprintf(w, "%14s  %-10s", p.time(), p.Part)
		for _, c := range Clients {
			if n, ok := p.Calls[c]; ok {
				fmt.Fprintf(w, "  %s %d", c, n)
			}
		}
		fmt.Fprintf(w, "  tokens %.0f  breaker %s  backlog %d\n", p.Tokens, strings.ReplaceAll(p.Breaker, "_", " "), p.Backlog)
	}
}

// time says how far it is. What comes after the last customer takes as long as it takes.
func (p Progress) time() string {
	if p.At > p.Took {
		return instant(p.At)
	}
	return instant(p.At) + " of " + instant(p.Took)
}

// Table returns an [Options.ShowFunc] that draws a table and redraws it in place: for
// terminals of at least [picture.Width] columns. Colour: whether it may use any.
func Table(w io.Writer, colour bool) func(Progress) {
	return picture.InPlace(w, func(p Progress) string { return drawProgress(p, picture.Brush(colour)) })
}

const barWidth = 40

func drawProgress(p Progress, brush picture.Brush) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleRounded)
	head, calls := table.Row{"calls of"}, table.Row{""}
	for _, c := range Clients {
		if n, ok := p.Calls[c]; ok {
			head, calls = append(head, string(c)), append(calls, n)
		}
	}
	t.AppendHeader(head)
	t.AppendRow(calls)
	breaker := brush.Paint(picture.Green, p.Breaker)
	if p.Breaker != breakerLevels[0] {
		breaker = brush.Paint(picture.Red, strings.ReplaceAll(p.Breaker, "_", " "))
	}
	return fmt.Sprintf("%s\n%s %s  %s\nredrive: %.0f tokens · breaker %s · backlog %d\n",
		t.Render(), brush.Bar(barWidth, p.At.Milliseconds(), p.Took.Milliseconds()), p.time(), p.Part, p.Tokens, breaker, p.Backlog)
}
