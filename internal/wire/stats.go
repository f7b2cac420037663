package wire

import (
	"fmt"
	"maps"
	"slices"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Stats counts the operations of a namespace.
type Stats struct {
	States       map[jobs.State]int64                `json:"states"`
	Dependencies map[jobs.Dependency]DependencyStats `json:"dependencies"`
	Warnings     []string                            `json:"warnings" nullable:"false"` // what keeps operations from leaving, for people
}

// DependencyStats is what stats says of one dependency.
type DependencyStats struct {
	States      map[jobs.State]int64               `json:"states"`
	Kinds       map[jobs.Kind]map[jobs.State]int64 `json:"kinds"`
	Reasons     map[jobs.Reason]int64              `json:"reasons"` // of the dead letters
	Due         int64                              `json:"due"`     // of those waiting: could go now
	OldestDueAt *jobs.Instant                      `json:"oldest_due_at"`
	Tokens      *float64                           `json:"tokens"`  // of the budget, as last written
	Workers     int                                `json:"workers"` // live processes that know it
	Paused      *PausedBy                          `json:"paused"`
	Credentials []PausedCredential                 `json:"paused_credentials" nullable:"false"`
}

// NewStats counts nothing yet.
func NewStats() Stats {
	return Stats{States: zeroStates(), Dependencies: map[jobs.Dependency]DependencyStats{}, Warnings: []string{}}
}

// Add counts the operations of one more dependency. live are all live workers.
func (s *Stats) Add(snapshot ledger.Snapshot, gate ledger.GateState, live []ledger.Worker) {
	d := dependencyStats(snapshot)
	d.Credentials = credentialsOf(gate)
	if d.Paused != nil {
		d.Paused.Since = jobs.AtMS(max(gate.PausedSince.UnixMilli(), gate.Gate.RolledAtMS))
	}
	for state, n := range d.States {
		s.States[state] += n
	}
	for _, w := range live {
		if slices.Contains(w.Dependencies, snapshot.Dependency) {
			d.Workers++
		}
	}
	s.Dependencies[snapshot.Dependency] = d
	s.Warnings = append(s.Warnings, unattended(snapshot.Dependency, d, live)...)
	s.Warnings = append(s.Warnings, gateWarnings(gate)...)
}

func zeroStates() map[jobs.State]int64 {
	m := map[jobs.State]int64{}
	for _, state := range jobs.States {
		m[state] = 0
	}
	return m
}

func dependencyStats(s ledger.Snapshot) DependencyStats {
	d := DependencyStats{States: zeroStates(), Kinds: map[jobs.Kind]map[jobs.State]int64{}, Reasons: map[jobs.Reason]int64{}, Due: s.DueFirst + s.DueRetry}
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
		tokens := units(s.TokensMilli)
		d.Tokens = &tokens
	}
	if s.Paused {
		d.Paused = &PausedBy{By: s.PausedBy, Note: s.PausedNote}
		if !s.PausedUntil.IsZero() {
			d.Paused.Until = jobs.At(s.PausedUntil)
		}
	}
	return d
}

// unattended tells of operations on their way that no live worker will send.
func unattended(dep jobs.Dependency, d DependencyStats, live []ledger.Worker) []string {
	open := func(states map[jobs.State]int64) (n int64) {
		for state, of := range states {
			if !state.Ended() {
				n += of
			}
		}
		return n
	}
	if n := open(d.States); n > 0 && d.Workers == 0 {
		return []string{fmt.Sprintf("no live worker serves dependency %s, which has %s to send", dep, operations(n))}
	}
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(d.Kinds)) {
		known := slices.ContainsFunc(live, func(w ledger.Worker) bool { return slices.Contains(w.Kinds, kind) })
		if n := open(d.Kinds[kind]); n > 0 && !known {
			out = append(out, fmt.Sprintf("no live worker knows kind %s of dependency %s, which has %s to send", kind, dep, operations(n)))
		}
	}
	return out
}

func operations(n int64) string {
	if n == 1 {
		return "1 operation"
	}
	return fmt.Sprintf("%d operations", n)
}

// gateWarnings tell of what keeps a dependency's operations from leaving as configured
// and is told by no count.
func gateWarnings(s ledger.GateState) []string {
	var out []string
	switch g := s.Gate; g.State {
	case budget.Open:
		why := g.Why
		if why == "" {
			why = "-"
		}
		out = append(out, fmt.Sprintf("the breaker of %s is open until %s, because of %s: nothing leaves", s.Dependency, instantText(jobs.AtMS(g.UntilMS)), why))
	case budget.HalfOpen:
		out = append(out, fmt.Sprintf("the breaker of %s is half open since %s: only probes leave", s.Dependency, instantText(jobs.AtMS(g.SinceMS))))
	}
	for _, c := range credentialsOf(s) {
		out = append(out, fmt.Sprintf("credential %s of %s is paused since %s, because it was refused: mend it, then enqueue resume %s --credential %s",
			c.Name, s.Dependency, instantText(c.Since), s.Dependency, c.Name))
	}
	if o := OverrideOf(s); o != nil {
		out = append(out, fmt.Sprintf("an override of %s is in force: %s until %s, by %s: %s", s.Dependency, LimitsText(s.Gate.Override.Values), instantText(o.Until), o.By, o.Note))
	}
	return out
}
