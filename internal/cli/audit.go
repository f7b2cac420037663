package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

func (p *program) auditCommand() *cobra.Command {
	var since string
	var limit int64
	cmd := &cobra.Command{
		Use:   "audit [DEPENDENCY|KIND/KEY] [--since TIME]",
		Short: "Show who did what when, and why",
		Args:  cobra.MaximumNArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asCSV}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usagef("--limit %d: must be at least 1", limit)
			}
			if _, err := operator.ParseWhen(operator.FieldSince, since, time.Time{}); err != nil {
				return err
			}
			about := ""
			if len(args) > 0 {
				about = args[0]
			}
			entries, err := p.audit(ctx, about, since, limit)
			if err != nil {
				return err
			}
			return p.writeAudit(entries)
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "at or after this `time`: RFC 3339, 09:00 (today, local) or 2h (ago)")
	cmd.Flags().Int64Var(&limit, "limit", 100, "show at most the `n` newest entries")
	p.completeDependencies(cmd, 1)
	return cmd
}

// audit returns entries oldest first. about is a dependency, an operation, or "".
func (p *program) audit(ctx context.Context, about, since string, limit int64) ([]ledger.AuditEntry, error) {
	var id jobs.ID
	var err error
	if strings.Contains(about, "/") {
		if id, err = jobs.ParseID(about); err != nil {
			return nil, &failure{exitUsage, err}
		}
	} else if about != "" {
		if err := jobs.CheckName(about); err != nil {
			return nil, usagef("dependency: %w", err)
		}
	}
	s, err := p.open(ctx, reads)
	if err != nil {
		return nil, err
	}
	defer s.close()
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	from, err := operator.ParseWhen(operator.FieldSince, since, now)
	if err != nil {
		return nil, err
	}
	deps, err := s.op.Dependencies(ctx)
	if err != nil {
		return nil, err
	}
	switch spec, known := s.known[id.Kind]; {
	case known:
		deps = []jobs.Dependency{spec.Dependency}
	case about != "" && id.Kind == "":
		if !slices.Contains(deps, jobs.Dependency(about)) {
			return nil, s.noDependency(jobs.Dependency(about), deps)
		}
		deps = []jobs.Dependency{jobs.Dependency(about)}
	}
	var out []ledger.AuditEntry
	for _, dep := range deps {
		var entries []ledger.AuditEntry
		if id.Kind != "" {
			entries, err = s.ledger.AuditOf(ctx, dep, id, from, limit)
		} else {
			entries, err = s.ledger.Audit(ctx, dep, from, limit)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, wire.Told(e))
		}
	}
	slices.SortStableFunc(out, func(a, b ledger.AuditEntry) int { return cmp.Compare(millis(a.At), millis(b.At)) })
	return out[max(0, len(out)-int(limit)):], nil
}

func millis(i *jobs.Instant) int64 {
	if i == nil {
		return 0
	}
	return i.UnixMilli()
}

func (p *program) writeAudit(entries []ledger.AuditEntry) error {
	switch p.flags.output {
	case asJSON:
		if entries == nil {
			entries = []ledger.AuditEntry{}
		}
		return p.writeJSON(struct {
			Items []ledger.AuditEntry `json:"items"`
		}{entries})
	case asJSONL:
		for _, e := range entries {
			if err := p.writeLine(e); err != nil {
				return err
			}
		}
		return nil
	}
	g := grid{header: []string{"at", "dependency", "operation", "action", "by", "from", "to", "batch", "note"}}
	for _, e := range entries {
		g.add(instant(e.At), string(e.Dependency), e.Operation, e.Action, e.By, orDash(e.From), orDash(e.To), orDash(e.Batch), orDash(e.Note))
	}
	if p.flags.output == asCSV {
		return tableCSV(p.stdout, g)
	}
	p.table(g)
	if len(entries) == 0 {
		p.say("no entry")
	}
	return nil
}
