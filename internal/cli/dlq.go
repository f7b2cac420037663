package cli

import (
	"context"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/operator"
)

func (p *program) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters and act on them",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.dlqListCommand(), p.dlqShowCommand(), p.dlqStatsCommand(), p.requeueCommand(), p.discardCommand(), p.exportCommand())
	return cmd
}

// deadGroups are dead letters counted, as JSON.
type deadGroups struct {
	Operations int               `json:"operations"`
	Groups     []*operator.Group `json:"groups"`
}

func (p *program) dlqStatsCommand() *cobra.Command {
	f := &filters{}
	cmd := &cobra.Command{
		Use:   "stats [FILTERS]",
		Short: "Count dead letters by kind, reason and class, and add up their columns",
		Args:  cobra.NoArgs,
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asCSV}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			s, filter, err := p.openFiltered(ctx, reads, f)
			if err != nil {
				return err
			}
			defer s.close()
			filter.States = operator.DeadStates
			page, err := s.ledger.List(ctx, filter, s.known)
			if err != nil {
				return err
			}
			ops := make([]*jobs.Operation, len(page.Items))
			for i := range page.Items {
				ops[i] = &page.Items[i]
			}
			return p.writeGroups(operator.Groups(ops), len(ops))
		}),
	}
	f.register(cmd, filterFlags{})
	return cmd
}

func (p *program) writeGroups(found []*operator.Group, total int) error {
	g := grid{header: append(append([]string{}, groupHeader...), "oldest", "newest")}
	for _, group := range found {
		g.add(append(groupCells(group), instant(group.OldestAt), instant(group.NewestAt))...)
	}
	switch p.flags.output {
	case asJSON:
		if found == nil {
			found = []*operator.Group{}
		}
		return p.writeJSON(deadGroups{Operations: total, Groups: found})
	case asJSONL:
		for _, group := range found {
			if err := p.writeLine(group); err != nil {
				return err
			}
		}
		return nil
	case asCSV:
		return tableCSV(p.stdout, g)
	}
	p.table(g)
	p.say("%s", count(total, "dead letter"))
	return nil
}
