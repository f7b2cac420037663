package rehearsal

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"redrive/internal/jobs"
	"redrive/internal/picture"
	"redrive/internal/sandbox"
)

// Lines returns a [Options.ShowFunc] that writes one line a second: for logs and
// pipes.
func Lines(w io.Writer) func(Progress) {
	var last time.Duration
	said := false
	return func(p Progress) {
		if !said {
			said = true
			fmt.Fprintf(w, "store: %s\n", p.Store)
		} else if p.Elapsed-last < time.Second && p.Ended() < p.Total {
			return
		}
		last = p.Elapsed
		fmt.Fprintf(w, "%5.1fs  gateway %-20s", p.Elapsed.Seconds(), faultText(p))
		for _, state := range shown {
			fmt.Fprintf(w, "  %s %d", state, p.States[state])
		}
		fmt.Fprintf(w, "  requests %d  charged %d\n", p.Requests, p.Effects)
	}
}

// shown are the states that a rehearsal can see: nobody cancels.
var shown = []jobs.State{jobs.Waiting, jobs.Released, jobs.Attempting, jobs.Unresolved, jobs.Succeeded, jobs.Dead}

// Table returns an [Options.ShowFunc] that draws a table and redraws it in place: for
// terminals of at least [picture.Width] columns. Colour: whether it may use any.
func Table(w io.Writer, colour bool) func(Progress) {
	return picture.InPlace(w, func(p Progress) string { return drawTable(p, picture.Brush(colour)) })
}

const barWidth = 36

func drawTable(p Progress, brush picture.Brush) string {
	gateway := brush.Paint(picture.Green, faultText(p))
	if p.Fault != sandbox.None {
		gateway = brush.Paint(picture.Red, faultText(p))
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleRounded)
	var header, counts table.Row
	for _, state := range shown {
		header, counts = append(header, string(state)), append(counts, p.States[state])
	}
	t.AppendHeader(header)
	t.AppendRow(counts)
	return fmt.Sprintf("%s\n%s %3d %%  %.1f s · %d of %d handed over\ngateway: %s · %d requests, %d charged · %.0f tokens\nstore: %s\n",
		t.Render(), brush.Bar(barWidth, int64(p.Ended()), int64(p.Total)), p.Ended()*100/max(p.Total, 1), p.Elapsed.Seconds(), p.Handed, p.Total,
		gateway, p.Requests, p.Effects, p.Tokens, p.Store)
}

func faultText(p Progress) string {
	if p.Fault == sandbox.None {
		return "healthy"
	}
	text := strings.ReplaceAll(string(p.Fault), "_", " ")
	if p.FaultLeft > 0 {
		text += fmt.Sprintf(" for %.0f s", p.FaultLeft.Seconds())
	}
	return text
}
