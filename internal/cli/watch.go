package cli

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func (p *program) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [DEPENDENCY...]",
		Short: "Show operations as they change, until interrupted",
		Long: "watch shows each operation that begins to wait or ends, from now on, until it is interrupted or --command-timeout (if\n" +
			"given) passes. It costs Redis one blocked call; what changes too fast for it may be missing.",
		RunE: p.command(unlimited, []string{asTable, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			s, err := p.open(ctx, reads)
			if err != nil {
				return err
			}
			defer s.close()
			return s.watch(ctx, args)
		}),
	}
	p.completeDependencies(cmd, math.MaxInt)
	return cmd
}

// watchEvery bounds one wait, so that an interrupt is noticed.
const watchEvery = time.Second

func (s *session) watch(ctx context.Context, names []string) error {
	deps, err := s.chosenDependencies(ctx, names)
	if err != nil {
		return err
	}
	changes, err := s.ledger.Changes(ctx, deps)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		seen, err := changes.Next(ctx, watchEvery)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return err
		}
		for _, c := range seen {
			if err := s.p.writeChange(c); err != nil {
				return err
			}
		}
		if err := s.p.stdout.Flush(); err != nil {
			return &failure{exitError, err}
		}
	}
	return nil // being interrupted is how it ends
}

// chosenDependencies are the named ones, or all.
func (s *session) chosenDependencies(ctx context.Context, names []string) ([]jobs.Dependency, error) {
	deps, err := s.op.Dependencies(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		if len(deps) == 0 {
			return nil, &failure{exitNotFound, errors.New("no dependency is known yet in namespace " + s.ledger.Namespace())}
		}
		return deps, nil
	}
	chosen := make([]jobs.Dependency, len(names))
	for i, name := range names {
		chosen[i] = jobs.Dependency(name)
		if !slices.Contains(deps, chosen[i]) {
			return nil, s.noDependency(chosen[i], deps)
		}
	}
	return chosen, nil
}

// writeChange writes one line at once: a table could only be made at the end.
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
