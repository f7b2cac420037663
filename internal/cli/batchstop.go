package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
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
			if err := checkNote(note); err != nil {
				return err
			}
			s, err := p.open(ctx, writes)
			if err != nil {
				return err
			}
			defer s.close()
			return s.stopBatch(ctx, args[0], note)
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit (required)")
	return cmd
}

func (s *session) stopBatch(ctx context.Context, id, note string) error {
	parts, err := s.parts(ctx, id)
	if err != nil {
		return err
	}
	if parts[0].Action != requeueVerb {
		return &failure{exitConflict, fmt.Errorf("%s is a %s: only what a requeue sent on its way can be taken back", id, parts[0].Action)}
	}
	who := ledger.Actor{By: s.p.by(), Note: note, Batch: id}
	over := !slices.ContainsFunc(parts, func(b ledger.Batch) bool { return b.Phase != ledger.PhaseDone })
	if !over { // all of them first: its command must not go on at one while another is put back
		if err := s.markStopped(ctx, parts, who); err != nil {
			return err
		}
	}
	end := ending{action: "stop", past: "put back", batch: id}
	left := 0
	seen := map[jobs.ID]bool{} // a scan may meet a field twice
	for _, b := range parts {
		end.failed = s.ledger.BatchMembers(ctx, b.Dependency, id, func(members []ledger.Member) error {
			members = slices.DeleteFunc(members, func(m ledger.Member) bool { return seen[m.ID] })
			set := make([]chosen, len(members))
			for i, m := range members {
				seen[m.ID] = true
				set[i] = chosen{place: ledger.Place{Dependency: b.Dependency, ID: m.ID}, anyway: true}
			}
			results, err := s.p.carryOut(ctx, set, func(ctx context.Context, i int, c chosen) (result, error) {
				done, err := s.ledger.PutBack(ctx, b.Dependency, members[i], who)
				return resultOf(c.place.ID, done), err
			})
			for _, r := range results {
				switch r.Result {
				case resultDone:
					end.results = append(end.results, r)
				case resultRefused:
					left++
				}
			}
			return err
		})
		if end.failed != nil {
			break
		}
	}
	switch {
	case over && len(end.results) > 0: // nothing is at work on it: it is stopped only if something was taken back
		end.failed = errors.Join(end.failed, s.markStopped(ctx, parts, who))
	case over && end.failed == nil:
		s.p.say("nothing to take back: %s is done, and none of its operations waits as it left them; its phase stays done", id)
	}
	if left > 0 {
		s.p.say("%s left as they are: sent since, ended, or back already", count(left, "operation"))
	}
	return s.p.end(end)
}

// markStopped says in the audit and in the batch that a person stopped it.
func (s *session) markStopped(ctx context.Context, parts []ledger.Batch, who ledger.Actor) error {
	for _, b := range parts {
		if err := s.ledger.Note(ctx, b.Dependency, "-", "stop batch "+b.ID, who); err != nil {
			return err
		}
		if err := s.ledger.StopBatch(ctx, b.Dependency, b.ID, who); err != nil {
			return err
		}
	}
	return nil
}
