package cli

import (
	"context"

	"github.com/spf13/cobra"

	"redrive/internal/operator"
)

func (p *program) batchStopCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "stop ID --note WHY",
		Short: "Take back what a bulk requeue has not sent yet",
		Long: "stop puts dead letters that a bulk requeue sent on their way, and that were not sent since, back as they were: dead, with their\n" +
			"reason, deadline and attempts. What was sent meanwhile goes on. A command that is still at work on the batch goes no further.\n" +
			"It does not ask, and may be repeated.",
		Args: cobra.ExactArgs(1),
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := checkBatchID(args[0]); err != nil {
				return err
			}
			if err := operator.CheckNote(note); err != nil {
				return err
			}
			b, err := p.open(ctx, writes)
			if err != nil {
				return err
			}
			defer b.close()
			return p.stopBatch(ctx, b, args[0], note)
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit (required)")
	return cmd
}

func (p *program) stopBatch(ctx context.Context, b backend, id, note string) error {
	stopped, err := b.stopBatch(ctx, id, p.order(note))
	if err != nil {
		return err
	}
	if stopped.Over && len(stopped.Results) == 0 && stopped.Failed == nil {
		p.say("nothing to take back: %s is done, and none of its operations waits as it left them; its phase stays done", id)
	}
	if stopped.Left > 0 {
		p.say("%s left as they are: sent since, ended, or back already", count(stopped.Left, "operation"))
	}
	return p.end(stopped.Report, "put back", nil)
}
