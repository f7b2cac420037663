package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
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
			return p.list(ctx, f, []jobs.State{jobs.Dead}, deadGrid)
		}),
	}
	f.register(cmd, filterFlags{page: true})
	return cmd
}

// list shows one page. states, if any, are the command's own.
func (p *program) list(ctx context.Context, f *filters, states []jobs.State, tabular func([]jobs.Operation) grid) error {
	s, filter, err := p.openFiltered(ctx, reads, f)
	if err != nil {
		return err
	}
	defer s.close()
	if states != nil {
		filter.States = states
	}
	found, err := s.ledger.List(ctx, filter, s.known)
	if err != nil {
		return err
	}
	if len(found.Items) == 0 && p.flags.output == asTable {
		p.say("no operation matches")
	}
	return p.writeOperations(found.Items, found.NextCursor, tabular)
}

// openFiltered connects and reads the filter by Redis' clock. A filter that is wrong
// in itself does not need Redis to be refused: by this machine's clock it is too.
func (p *program) openFiltered(ctx context.Context, a access, f *filters) (*session, ledger.Filter, error) {
	if _, err := f.Filter(time.Now()); err != nil {
		return nil, ledger.Filter{}, err
	}
	s, err := p.open(ctx, a)
	if err != nil {
		return nil, ledger.Filter{}, err
	}
	now, err := s.now(ctx)
	if err != nil {
		s.close()
		return nil, ledger.Filter{}, err
	}
	filter, err := f.Filter(now)
	if err != nil {
		s.close()
		return nil, ledger.Filter{}, err
	}
	s.warnUnknown(filter)
	return s, filter, nil
}

// warnUnknown tells of names that nothing in the namespace bears: likely a typo.
func (s *session) warnUnknown(f ledger.Filter) {
	for _, kind := range f.Kinds {
		if _, ok := s.known[kind]; !ok {
			s.p.say("warning: no kind %q is known in namespace %s", kind, s.ledger.Namespace())
		}
	}
	for _, dep := range f.Dependencies {
		known := s.config.Dependencies[dep] != nil
		for _, spec := range s.known {
			known = known || spec.Dependency == dep
		}
		if !known {
			s.p.say("warning: no dependency %q is known in namespace %s", dep, s.ledger.Namespace())
		}
	}
}
