package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/wire"
)

func (p *program) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count operations by state and dependency",
		Args:  cobra.NoArgs,
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asCSV}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			b, err := p.open(ctx, reads)
			if err != nil {
				return err
			}
			defer b.close()
			st, err := b.stats(ctx)
			if err != nil {
				return err
			}
			return p.writeStats(st)
		}),
	}
}

func (p *program) writeStats(st wire.Stats) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(st)
	case asJSONL:
		return p.writeLine(st)
	}
	g := grid{header: []string{"dependency"}}
	for _, state := range jobs.States {
		g.header = append(g.header, string(state))
	}
	g.header = append(g.header, "due", "workers", "paused")
	row := func(name string, states map[jobs.State]int64, rest ...string) {
		cells := []string{name}
		for _, state := range jobs.States {
			cells = append(cells, strconv.FormatInt(states[state], 10))
		}
		g.add(append(cells, rest...)...)
	}
	var due int64
	for _, dep := range slices.Sorted(maps.Keys(st.Dependencies)) {
		d := st.Dependencies[dep]
		due += d.Due
		row(string(dep), d.States, strconv.FormatInt(d.Due, 10), strconv.Itoa(d.Workers), pausedText(d.Paused))
	}
	row("total", st.States, strconv.FormatInt(due, 10), "-", "-")
	if p.flags.output == asCSV {
		return tableCSV(p.stdout, g)
	}
	p.table(g)
	p.writeReasons(st)
	for _, w := range st.Warnings {
		p.say("warning: %s", w)
	}
	return nil
}

func pausedText(b *wire.PausedBy) string {
	const most = 60 // of a note: the JSON has all of it
	if b == nil {
		return "-"
	}
	text := "until resumed, by " + b.By
	if b.Until != nil {
		text = "until " + instant(b.Until) + ", by " + b.By
	}
	if b.Note == "" {
		return text
	}
	return text + ": " + shorten(b.Note, most)
}

func (p *program) writeReasons(st wire.Stats) {
	total := map[jobs.Reason]int64{}
	for _, d := range st.Dependencies {
		for reason, n := range d.Reasons {
			total[reason] += n
		}
	}
	if len(total) == 0 {
		return
	}
	g := grid{header: []string{"dead for", "operations"}}
	for _, reason := range slices.SortedFunc(maps.Keys(total), func(a, b jobs.Reason) int { return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b)) }) {
		g.add(string(reason), strconv.FormatInt(total[reason], 10))
	}
	p.print("")
	p.table(g)
}
