package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
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
	if strings.Contains(about, "/") {
		if _, err := jobs.ParseID(about); err != nil {
			return nil, &failure{exitUsage, err}
		}
	} else if about != "" {
		if err := jobs.CheckName(about); err != nil {
			return nil, usagef("dependency: %w", err)
		}
	}
	b, err := p.open(ctx, reads)
	if err != nil {
		return nil, err
	}
	defer b.close()
	return b.audit(ctx, about, since, limit)
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
