package cli

import (
	"context"

	"github.com/spf13/cobra"

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
			b, err := p.openFiltered(ctx, reads, f)
			if err != nil {
				return err
			}
			defer b.close()
			found, err := b.countDead(ctx, &f.FilterWords)
			if err != nil {
				return err
			}
			return p.writeGroups(found)
		}),
	}
	f.register(cmd, filterFlags{})
	return cmd
}

func (p *program) writeGroups(found deadGroups) error {
	g := grid{header: append(append([]string{}, groupHeader...), "oldest", "newest")}
	for _, group := range found.Groups {
		g.add(append(groupCells(group), instant(group.OldestAt), instant(group.NewestAt))...)
	}
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(found)
	case asJSONL:
		for _, group := range found.Groups {
			if err := p.writeLine(group); err != nil {
				return err
			}
		}
		return nil
	case asCSV:
		return tableCSV(p.stdout, g)
	}
	p.table(g)
	p.say("%s", count(found.Operations, "dead letter"))
	return nil
}
