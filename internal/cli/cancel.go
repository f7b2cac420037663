package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"redrive/internal/operator"
)

func (p *program) cancelCommand() *cobra.Command {
	b := &bulk{verb: "cancel", past: "cancelled", states: operator.OpenStates}
	cmd := &cobra.Command{
		Use:   "cancel KIND/KEY...|-|--all-matching FILTERS --note WHY",
		Short: "Stop operations for good",
		Long: "cancel stops operations for good; one that is being sent, when that ends. One that may have taken effect keeps the wish:\n" +
			"where its dependency can be asked it is unresolved, and cancelled once the answer is that it was not applied (if it was, it\n" +
			"is succeeded); where nobody can be asked it becomes a dead letter (unsafe) that a person must resolve. --all-matching\n" +
			"chooses among operations on their way, unless --state says otherwise.",
		Example: `  enqueue cancel charge/order-1001 --note "customer withdrew" -y
  enqueue cancel --all-matching --kind charge --state waiting --note "shop closed"`,
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.stop(ctx, cmd, args, b, chosen.cancel)
		}),
	}
	b.register(cmd, filterFlags{state: true})
	return cmd
}

func (p *program) discardCommand() *cobra.Command {
	b := &bulk{verb: "discard", past: "discarded", states: operator.DeadStates}
	cmd := &cobra.Command{
		Use:   "discard KIND/KEY...|-|--all-matching FILTERS --note WHY",
		Short: "Give dead letters up: they become cancelled",
		Long:  "discard gives dead letters up. One that may have taken effect is refused: resolve it first.",
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.stop(ctx, cmd, args, b, chosen.discard)
		}),
	}
	b.register(cmd, filterFlags{})
	return cmd
}

// stopFunc is cancel or discard of a set.
type stopFunc func(chosen, context.Context, operator.Order) (operator.Report, error)

func (p *program) stop(ctx context.Context, cmd *cobra.Command, args []string, b *bulk, end stopFunc) error {
	if err := b.check(p, cmd, args, true); err != nil {
		return err
	}
	on, set, err := b.prepare(ctx, p, cmd, args)
	if err != nil || set == nil {
		return err
	}
	defer on.close()
	if goOn, err := p.ask(ctx, fmt.Sprintf("%s %s?", b.verb, count(set.count(), "operation"))); err != nil || !goOn {
		return declined(err)
	}
	report, err := end(set, ctx, p.order(b.note))
	if err != nil {
		return err
	}
	return p.end(report, b.past, nil)
}
