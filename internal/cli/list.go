package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
)

func (p *program) listCommand() *cobra.Command {
	f := &filters{}
	cmd := &cobra.Command{
		Use:   "list [FILTERS]",
		Short: "Show operations, newest first by when they entered their state",
		Example: `  enqueue list --state waiting,released --dependency payrail
  enqueue list --kind charge --unknown --since 2h -o csv`,
		Args: cobra.NoArgs,
		RunE: p.command(limited, forms, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return p.list(ctx, f, nil, listGrid)
		}),
	}
	f.register(cmd, filterFlags{state: true, page: true})
	return cmd
}

func (p *program) dlqListCommand() *cobra.Command {
	f := &filters{}
	cmd := &cobra.Command{
		Use:     "list [FILTERS]",
		Short:   "Show dead letters, newest first",
		Example: `  enqueue dlq list --reason deadline,attempts --since 09:00`,
		Args:    cobra.NoArgs,
		RunE: p.command(limited, forms, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return p.list(ctx, f, []string{string(jobs.Dead)}, deadGrid)
		}),
	}
	f.register(cmd, filterFlags{page: true})
	return cmd
}

// list shows one page. states, if any, are the command's own.
func (p *program) list(ctx context.Context, f *filters, states []string, tabular func([]jobs.Operation) grid) error {
	b, err := p.openFiltered(ctx, reads, f)
	if err != nil {
		return err
	}
	defer b.close()
	if states != nil {
		f.States = states
	}
	found, err := b.list(ctx, &f.FilterWords)
	if err != nil {
		return err
	}
	if len(found.Items) == 0 && p.flags.output == asTable {
		p.say("no operation matches")
	}
	return p.writeOperations(found.Items, found.NextCursor, tabular)
}

// openFiltered opens what is acted on. A filter that is wrong in itself needs nobody to
// be refused: by this machine's clock it is too.
func (p *program) openFiltered(ctx context.Context, a access, f *filters) (backend, error) {
	if _, err := f.Filter(time.Now()); err != nil {
		return nil, err
	}
	return p.open(ctx, a)
}
