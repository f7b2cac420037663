package outage

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
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

// TableWidth is how many columns a terminal needs for [Table]: a line that wraps
// would spoil the redrawing.
const TableWidth = 80

// Table returns an [Options.ShowFunc] that draws a table and redraws it in place: for
// terminals. Colour: whether it may use any.
func Table(w io.Writer, colour bool) func(Progress) {
	height := 0
	return func(p Progress) {
		text := drawProgress(p, colour)
		if height > 0 {
			fmt.Fprintf(w, "\x1b[%dA\x1b[J", height) // up to its first line, clear what is below
		}
		height = strings.Count(text, "\n")
		_, _ = io.WriteString(w, text) // a picture: if it cannot be drawn, the report still can
	}
}

const barWidth = 40

func drawProgress(p Progress, colour bool) string {
	paint := func(code, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
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
	done := 0
	if p.Took > 0 {
		done = min(int(p.At*barWidth/p.Took), barWidth)
	}
	bar := paint("36", strings.Repeat("█", done)) + strings.Repeat("░", barWidth-done)
	breaker := paint("32", p.Breaker)
	if p.Breaker != breakerLevels[0] {
		breaker = paint("31", strings.ReplaceAll(p.Breaker, "_", " "))
	}
	return fmt.Sprintf("%s\n%s %s  %s\nredrive: %.0f tokens · breaker %s · backlog %d\n",
		t.Render(), bar, p.time(), p.Part, p.Tokens, breaker, p.Backlog)
}
