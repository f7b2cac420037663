package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (p *program) gateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "gate [DEPENDENCY]",
		Aliases: []string{"budget"},
		Short:   "Show what may leave to a dependency, what holds the rest, and until when",
		Long: "gate shows, for one dependency or a row for each: tokens, fill and spending of the retry budget, the breaker with its probes and\n" +
			"ramp, the drain lane, rate and calls in flight, pauses, what is due and which of these holds it, when the backlog will have left\n" +
			"and how much of it too late, and the override in force. It changes nothing.",
		Example: "  enqueue gate\n  enqueue gate payrail -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asCSV}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			b, err := p.open(ctx, reads)
			if err != nil {
				return err
			}
			defer b.close()
			gates, err := b.gates(ctx, args)
			if err != nil {
				return err
			}
			return p.writeGates(gates, len(args) == 1)
		}),
	}
	p.completeDependencies(cmd, 1)
	cmd.AddCommand(p.overrideCommand(), p.clearCommand())
	return cmd
}
