package cli

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"redrive/internal/ledger"
)

func (p *program) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [DEPENDENCY...]",
		Short: "Show operations as they change, until interrupted",
		Long: "watch shows each operation that begins to wait or ends, from now on, until it is interrupted or --command-timeout (if\n" +
			"given) passes. It costs Redis one blocked call; what changes too fast for it may be missing.",
		RunE: p.command(unlimited, []string{asTable, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			b, err := p.open(ctx, reads)
			if err != nil {
				return err
			}
			defer b.close()
			err = b.follow(ctx, args, p.writeChanges)
			if ctx.Err() != nil {
				return nil // being interrupted is how it ends
			}
			return err
		}),
	}
	p.completeDependencies(cmd, math.MaxInt)
	return cmd
}

// writeChanges writes a line for each change, at once: a table could only be made at the
// end.
func (p *program) writeChanges(changes []ledger.Change) error {
	for _, c := range changes {
		if err := p.writeChange(c); err != nil {
			return err
		}
	}
	if err := p.stdout.Flush(); err != nil {
		return &failure{exitError, err}
	}
	return nil
}

func (p *program) writeChange(c ledger.Change) error {
	if p.flags.output == asJSONL {
		return p.writeLine(c)
	}
	state := c.State
	if c.Reason != "" {
		state += " (" + c.Reason + ")"
	}
	p.print("%s  %s  %s  %s", instant(c.At), c.Dependency, c.Operation, state)
	return nil
}
