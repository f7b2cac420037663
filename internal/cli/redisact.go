package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

func (s *atRedis) choose(ctx context.Context, c choice) (chosen, error) {
	if c.names != nil {
		set, err := s.op.Named(ctx, c.names)
		return redisSet{s.op, set}, err
	}
	filter, err := s.filter(ctx, c.words)
	if err != nil {
		return nil, err
	}
	set, err := s.op.Matching(ctx, filter, c.states, c.words.String())
	return redisSet{s.op, set}, err
}

// redisSet is a set whose operations are known.
type redisSet struct {
	op  *operator.Operator
	set operator.Set
}

func (c redisSet) count() int { return c.set.Len() }

func (c redisSet) check(ctx context.Context, w operator.RequeueWords) error {
	plan, err := w.Plan()
	if err != nil {
		return err
	}
	return c.op.CheckPlan(ctx, plan)
}

func (c redisSet) dryRun(ctx context.Context, w operator.RequeueWords) (operator.DryRun, error) {
	plan, err := w.Plan()
	if err != nil {
		return operator.DryRun{}, err
	}
	return c.op.DryRun(ctx, c.set, plan)
}

func (c redisSet) requeue(ctx context.Context, w operator.RequeueWords, order operator.Order) (operator.Report, error) {
	plan, err := w.Plan()
	if err != nil {
		return operator.Report{}, err
	}
	return acted(c.op.Requeue(ctx, c.set, plan, order))
}

func (c redisSet) cancel(ctx context.Context, order operator.Order) (operator.Report, error) {
	return acted(c.op.Cancel(ctx, c.set, order))
}

func (c redisSet) discard(ctx context.Context, order operator.Order) (operator.Report, error) {
	return acted(c.op.Discard(ctx, c.set, order))
}

// acted is what came of a bulk action. An error, where it is not in the report, ended the
// action before it came to the first operation: while it read, or wrote down what it was
// about to do.
func acted(r operator.Report, err error) (operator.Report, error) {
	if err != nil && (fromStore(err) || errors.Is(err, context.Canceled)) {
		err = &noted{err, untouched}
	}
	return r, err
}

func (s *atRedis) reconcilable(ctx context.Context, named []namedAt, fromFile bool) ([]jobs.ID, []operator.Fault, error) {
	if err := s.fit(ctx); err != nil { // what is not in the ledger is taken in
		return nil, nil, err
	}
	return ofKnownKinds(named, fromFile && len(s.ours) > 0, s.op.Knows, s.unknownKind)
}

func (s *atRedis) reconcile(ctx context.Context, ids []jobs.ID, firstSent time.Time, order operator.Order) (operator.Report, error) {
	return acted(s.op.Reconcile(ctx, ids, firstSent, order))
}

func (s *atRedis) resolve(ctx context.Context, found []operator.Finding, order operator.Order) (operator.Report, error) {
	return acted(s.op.Resolve(ctx, found, order))
}

func (s *atRedis) stopBatch(ctx context.Context, id string, order operator.Order) (operator.Stopped, error) {
	stopped, err := s.op.StopBatch(ctx, id, order)
	switch {
	case errors.Is(err, operator.ErrNotRequeue):
		return stopped, &failure{exitConflict, err}
	case errors.Is(err, ledger.ErrNoBatch):
		return stopped, noBatch(s, id)
	}
	return stopped, ifOpen(err, openStop)
}

// mustKnow makes sure that the namespace knows a dependency: a typo would pause nothing
// and say so to nobody.
func (s *atRedis) mustKnow(ctx context.Context, dep jobs.Dependency) error {
	_, err := s.chosenDependencies(ctx, []string{string(dep)})
	return err
}

func (s *atRedis) noDependency(dep jobs.Dependency, known []jobs.Dependency) error {
	list := "none is"
	if len(known) > 0 {
		list = join(known) + " are"
	}
	return &failure{exitNotFound, fmt.Errorf("no dependency %q %s: %s known", dep, s.where(), list)}
}

func actorOf(order operator.Order) ledger.Actor { return ledger.Actor{By: order.By, Note: order.Note} }

func (s *atRedis) pause(ctx context.Context, dep jobs.Dependency, span time.Duration, order operator.Order) (paused, error) {
	if err := s.mustKnow(ctx, dep); err != nil {
		return paused{}, err
	}
	state, err := s.ledger.Pause(ctx, dep, span, actorOf(order))
	out := paused{Dependency: dep, Paused: true, Doomed: state.Doomed}
	if !state.Until.IsZero() {
		out.Until = jobs.At(state.Until)
	}
	return out, ifOpen(err, openPause)
}

func (s *atRedis) resume(ctx context.Context, dep jobs.Dependency, credential string, order operator.Order) (paused, error) {
	if err := s.mustKnow(ctx, dep); err != nil {
		return paused{}, err
	}
	if credential == "" {
		return paused{Dependency: dep}, ifOpen(s.ledger.Resume(ctx, dep, actorOf(order)), openResume)
	}
	state, err := s.ledger.Gate(ctx, dep)
	if err != nil {
		return paused{}, err
	}
	if _, held := state.PausedCredentials[credential]; !held {
		which := "none is"
		if names := slices.Sorted(maps.Keys(state.PausedCredentials)); len(names) > 0 {
			which = join(names) + " are"
		}
		return paused{}, &failure{exitConflict, fmt.Errorf("credential %q of %s is not paused: %s", credential, dep, which)}
	}
	err = s.ledger.ResumeCredential(ctx, dep, credential, actorOf(order))
	return paused{Dependency: dep, Credential: &credential}, ifOpen(err, openRelease)
}

func (s *atRedis) override(ctx context.Context, dep jobs.Dependency, values map[string]int64, span time.Duration, order operator.Order) (overrideAnswer, error) {
	var out overrideAnswer
	if err := s.mustKnow(ctx, dep); err != nil {
		return out, err
	}
	before, err := s.ledger.Gate(ctx, dep)
	if err != nil {
		return out, err
	}
	if _, err := s.ledger.Override(ctx, dep, values, span, actorOf(order)); err != nil {
		return out, ifOpen(err, openOverride)
	}
	after, err := s.ledger.Gate(ctx, dep)
	if err != nil {
		return out, &noted{err, "the override is in force"}
	}
	return overrideAnswer{Dependency: dep, Override: wire.OverrideOf(after), Replaced: wire.OverrideOf(before), Warnings: wire.Starved(after)}, nil
}

func (s *atRedis) clearOverride(ctx context.Context, dep jobs.Dependency, order operator.Order) (overrideAnswer, error) {
	var out overrideAnswer
	if err := s.mustKnow(ctx, dep); err != nil {
		return out, err
	}
	before, err := s.ledger.Gate(ctx, dep)
	if err != nil {
		return out, err
	}
	_, err = s.ledger.ClearOverride(ctx, dep, actorOf(order))
	return overrideAnswer{Dependency: dep, Replaced: wire.OverrideOf(before), Warnings: []string{}}, ifOpen(err, openClear)
}

func (s *atRedis) firstAttempts(ctx context.Context, dep jobs.Dependency, f ledger.Firsts) (firstsAnswer, error) {
	if err := s.mustKnow(ctx, dep); err != nil {
		return firstsAnswer{}, err
	}
	taken, err := s.ledger.FirstAttempts(ctx, dep, s.spareGate(dep), f)
	if err != nil {
		return firstsAnswer{}, firstsNote(err)
	}
	answer := firstsAnswer{Dependency: dep, Counted: f.OK + f.Failed + f.TimedOut, Breaker: taken.State}
	if taken.Hold == jobs.HoldNone {
		return answer, nil
	}
	answer.HeldBy = &taken.Hold
	// The answer says when to ask again, which is not when a pause ends.
	state, err := s.ledger.Gate(ctx, dep)
	if err != nil {
		return answer, &noted{err, "it was counted"}
	}
	switch now := state.ReadAt.UnixMilli(); taken.Hold {
	case jobs.HoldBreaker:
		answer.Until = jobs.AtMS(cmp.Or(state.Gate.UntilMS, now)) // 0: it ended in between
	case jobs.HoldRateHint:
		answer.Until = jobs.AtMS(max(state.Gate.ParkedUntilMS, now))
	default:
		answer.Until = jobs.AtMS(state.Gate.HeldUntilMS)
	}
	return answer, nil
}

// spareGate is what is known of a dependency's gate where no worker ever said more.
func (s *atRedis) spareGate(dep jobs.Dependency) budget.Params {
	for _, kind := range slices.Sorted(maps.Keys(s.known)) {
		if spec := s.known[kind]; spec.Dependency == dep {
			return terms.Of(spec).Gate
		}
	}
	return budget.Params{}
}
