package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

// stats is the JSON of stats.
type stats struct {
	States       map[jobs.State]int64                `json:"states"`
	Dependencies map[jobs.Dependency]dependencyStats `json:"dependencies"`
	Warnings     []string                            `json:"warnings"`
}

// dependencyStats is what stats says of one dependency.
type dependencyStats struct {
	States      map[jobs.State]int64               `json:"states"`
	Kinds       map[jobs.Kind]map[jobs.State]int64 `json:"kinds"`
	Reasons     map[jobs.Reason]int64              `json:"reasons"` // of the dead letters
	Due         int64                              `json:"due"`     // of those waiting: could go now
	OldestDueAt *jobs.Instant                      `json:"oldest_due_at"`
	Tokens      *float64                           `json:"tokens"`  // of the budget, as last written
	Workers     int                                `json:"workers"` // live processes that know it
	Paused      *wire.PausedBy                     `json:"paused"`
	Credentials []wire.PausedCredential            `json:"paused_credentials"`
}

func (p *program) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count operations by state and dependency",
		Args:  cobra.NoArgs,
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asCSV}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			s, err := p.open(ctx, reads)
			if err != nil {
				return err
			}
			defer s.close()
			st, err := s.stats(ctx)
			if err != nil {
				return err
			}
			return p.writeStats(st)
		}),
	}
}

func (s *session) stats(ctx context.Context) (stats, error) {
	out := stats{States: zeroStates(), Dependencies: map[jobs.Dependency]dependencyStats{}, Warnings: []string{}}
	deps, err := s.op.Dependencies(ctx)
	if err != nil {
		return out, err
	}
	live, err := s.ledger.Workers(ctx)
	if err != nil {
		return out, err
	}
	for _, dep := range deps {
		snapshot, err := s.ledger.Snapshot(ctx, dep)
		if err != nil {
			return out, err
		}
		gate, err := s.ledger.Gate(ctx, dep)
		if err != nil {
			return out, err
		}
		d := dependencyOf(snapshot)
		d.Credentials = wire.GateOf(gate).Credentials
		if d.Paused != nil {
			d.Paused.Since = jobs.AtMS(max(gate.PausedSince.UnixMilli(), gate.Gate.RolledAtMS))
		}
		for state, n := range d.States {
			out.States[state] += n
		}
		for _, w := range live {
			if slices.Contains(w.Dependencies, dep) {
				d.Workers++
			}
		}
		out.Dependencies[dep] = d
		out.Warnings = append(out.Warnings, unattended(dep, d, live)...)
		out.Warnings = append(out.Warnings, gateWarnings(gate)...)
	}
	return out, nil
}

func zeroStates() map[jobs.State]int64 {
	m := map[jobs.State]int64{}
	for _, state := range jobs.States {
		m[state] = 0
	}
	return m
}

func dependencyOf(s ledger.Snapshot) dependencyStats {
	d := dependencyStats{States: zeroStates(), Kinds: map[jobs.Kind]map[jobs.State]int64{}, Reasons: map[jobs.Reason]int64{}, Due: s.DueFirst + s.DueRetry}
	for _, c := range s.Counts {
		d.States[c.State] += c.N
		if d.Kinds[c.Kind] == nil {
			d.Kinds[c.Kind] = zeroStates()
		}
		d.Kinds[c.Kind][c.State] += c.N
		if c.State == jobs.Dead {
			d.Reasons[c.Reason] += c.N
		}
	}
	if !s.OldestDueAt.IsZero() {
		d.OldestDueAt = jobs.At(s.OldestDueAt)
	}
	if s.TokensMilli >= 0 {
		tokens := float64(s.TokensMilli) / 1000
		d.Tokens = &tokens
	}
	if s.Paused {
		d.Paused = &wire.PausedBy{By: s.PausedBy, Note: s.PausedNote}
		if !s.PausedUntil.IsZero() {
			d.Paused.Until = jobs.At(s.PausedUntil)
		}
	}
	return d
}

// unattended tells of operations on their way that no live worker will send.
func unattended(dep jobs.Dependency, d dependencyStats, live []ledger.Worker) []string {
	open := func(states map[jobs.State]int64) (n int64) {
		for _, state := range operator.OpenStates {
			n += states[state]
		}
		return n
	}
	if n := open(d.States); n > 0 && d.Workers == 0 {
		return []string{fmt.Sprintf("no live worker serves dependency %s, which has %s to send", dep, count(int(n), "operation"))}
	}
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(d.Kinds)) {
		known := slices.ContainsFunc(live, func(w ledger.Worker) bool { return slices.Contains(w.Kinds, kind) })
		if n := open(d.Kinds[kind]); n > 0 && !known {
			out = append(out, fmt.Sprintf("no live worker knows kind %s of dependency %s, which has %s to send", kind, dep, count(int(n), "operation")))
		}
	}
	return out
}

// gateWarnings tell of what keeps a dependency's operations from leaving as configured
// and is told by no column.
func gateWarnings(s ledger.GateState) []string {
	var out []string
	switch g := s.Gate; g.State {
	case budget.Open:
		out = append(out, fmt.Sprintf("the breaker of %s is open until %s, because of %s: nothing leaves", s.Dependency, instant(jobs.AtMS(g.UntilMS)), orDash(g.Why)))
	case budget.HalfOpen:
		out = append(out, fmt.Sprintf("the breaker of %s is half open since %s: only probes leave", s.Dependency, instant(jobs.AtMS(g.SinceMS))))
	}
	for _, c := range wire.GateOf(s).Credentials {
		out = append(out, fmt.Sprintf("credential %s of %s is paused since %s, because it was refused: mend it, then enqueue resume %s --credential %s",
			c.Name, s.Dependency, instant(c.Since), s.Dependency, c.Name))
	}
	if o := wire.OverrideOf(s); o != nil {
		out = append(out, fmt.Sprintf("an override of %s is in force: %s", s.Dependency, inForceText(o)))
	}
	return out
}

func (p *program) writeStats(st stats) error {
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

func (p *program) writeReasons(st stats) {
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
