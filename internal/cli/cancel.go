package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// openStates are those of operations on their way. Dead letters are discarded, or
// cancelled where --state says so.
var openStates = []jobs.State{jobs.Waiting, jobs.Released, jobs.Attempting, jobs.Unresolved}

func (p *program) cancelCommand() *cobra.Command {
	b := &bulk{verb: cancelVerb, past: "cancelled", states: openStates}
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
			return p.stop(ctx, cmd, args, b, (*ledger.Ledger).Cancel)
		}),
	}
	b.register(cmd, filterFlags{state: true})
	return cmd
}

func (p *program) discardCommand() *cobra.Command {
	b := &bulk{verb: "discard", past: "discarded", states: []jobs.State{jobs.Dead}}
	cmd := &cobra.Command{
		Use:   "discard KIND/KEY...|-|--all-matching FILTERS --note WHY",
		Short: "Give dead letters up: they become cancelled",
		Long:  "discard gives dead letters up. One that may have taken effect is refused: resolve it first.",
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.stop(ctx, cmd, args, b, (*ledger.Ledger).Discard)
		}),
	}
	b.register(cmd, filterFlags{})
	return cmd
}

// stopFunc is [ledger.Ledger.Cancel] or [ledger.Ledger.Discard].
type stopFunc func(*ledger.Ledger, context.Context, jobs.Dependency, jobs.ID, jobs.Retention, ledger.Actor) (ledger.Done, error)

func (p *program) stop(ctx context.Context, cmd *cobra.Command, args []string, b *bulk, end stopFunc) error {
	if err := b.check(p, cmd, args, true); err != nil {
		return err
	}
	s, set, err := p.prepareBulk(ctx, b, args)
	if err != nil || set == nil {
		return err
	}
	defer s.close()
	if goOn, err := p.ask(fmt.Sprintf("%s %s?", b.verb, count(len(set), "operation"))); err != nil || !goOn {
		return declined(err)
	}
	who, err := s.actor(ctx, b.note)
	if err != nil {
		return err
	}
	u, err := b.record(ctx, s, cmd, set, who, ledger.PhaseRunning)
	if err != nil {
		return err
	}
	results, failed := u.whole(ctx, set, func(ctx context.Context, _ int, c chosen) (result, error) {
		done, err := end(s.ledger, ctx, c.place.Dependency, c.place.ID, s.known[c.place.ID.Kind].Retention, who)
		if b.verb == cancelVerb {
			return cancelResult(c, done), err
		}
		return resultOf(c.place.ID, done), err
	})
	return p.writeResults(b.verb, b.past, who.Batch, results, failed)
}

const cancelVerb = "cancel"

// cancelResult says what came of a wish to cancel: what may have taken effect keeps
// it, and is not cancelled.
func cancelResult(c chosen, done ledger.Done) result {
	r := resultOf(c.place.ID, done)
	switch {
	case done.Verdict != ledger.DoneOK:
	case done.State == jobs.Unresolved:
		r.Result = resultPending
		if c.op.State == jobs.Unresolved && deref(c.op.Intent) == string(jobs.Cancelled) {
			r.Detail = "it was to be cancelled already, and its outcome is still unknown"
		}
	case done.State == jobs.Dead:
		r.Result = resultUnsafe
	}
	return r
}

// prepareBulk checks the filter, connects and fixes the set. A nil set, without an
// error, means that nothing matches and that it was said.
func (p *program) prepareBulk(ctx context.Context, b *bulk, args []string) (*session, []chosen, error) {
	s, filter, err := p.openFiltered(ctx, writes, &b.filter)
	if err != nil {
		return nil, nil, err
	}
	set, err := b.choose(ctx, s, args, filter)
	if err == nil && len(set) > 0 {
		return s, set, nil
	}
	s.close()
	if err == nil {
		p.say("no operation matches")
		err = p.writeOutcome(outcome{Action: b.verb})
	}
	return nil, nil, err
}

// actor is who acts, under a new batch.
func (s *session) actor(ctx context.Context, note string) (ledger.Actor, error) {
	now, err := s.ledger.Now(ctx)
	return ledger.Actor{By: s.p.by(), Note: note, Batch: newBatch(now)}, err
}

// declined ends a command whose question was answered with no.
func declined(err error) error {
	if err != nil {
		return err
	}
	return &failure{exitError, fmt.Errorf("nothing was changed")}
}
