package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// underway is a bulk action that is written down.
type underway struct {
	o    *Operator
	who  ledger.Actor // under the batch's name
	deps []jobs.Dependency

	progress     Progress
	progressFunc func(Progress) // nil: nobody wants to know

	over    context.CancelFunc // ends its signs of life
	signing sync.WaitGroup     // of the goroutine that gives them
}

// record writes one audit entry and one batch per dependency: the action with its
// filter and how many it is about. It is written first: what cannot be recorded is
// not done. From then on it gives signs of life, until [underway.end].
func (o *Operator) record(ctx context.Context, verb string, set Set, who ledger.Actor, phase ledger.Phase, order Order) (*underway, error) {
	planned := map[jobs.Dependency]int{}
	for _, c := range set.Operations {
		if c.Op != nil || c.anyway {
			planned[c.Place.Dependency]++
		}
	}
	u := &underway{o: o, who: who, deps: slices.Sorted(maps.Keys(planned)),
		progress: Progress{Batch: who.Batch, Planned: set.Len()}, progressFunc: order.ProgressFunc}
	for _, dep := range u.deps {
		n := planned[dep]
		if err := o.ledger.Note(ctx, dep, "-", fmt.Sprintf("%s %s (%s)", verb, operations(n), set.chosenBy), who); err != nil {
			return nil, err
		}
		opened := ledger.Batch{ID: who.Batch, Dependency: dep, Action: verb, Filter: set.chosenBy, By: who.By, Note: who.Note, Planned: n, Phase: phase}
		if err := o.ledger.OpenBatch(ctx, opened, o.auditSpan(dep)); err != nil {
			return nil, err
		}
	}
	ctx, u.over = context.WithCancel(ctx)
	u.signing.Go(func() { u.sign(ctx) }) // ends with ctx; end waits
	u.tell(0)
	return u, nil
}

// sign tells that the action is at work, so that one that was cut off is known by its
// silence. That Redis is away for a while is no matter: the next sign makes up for it.
func (u *underway) sign(ctx context.Context) {
	every := time.NewTicker(cmp.Or(u.o.signEvery, ledger.SignEvery))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		for _, dep := range u.deps {
			_ = u.o.ledger.SignBatch(ctx, dep, u.who.Batch)
		}
	}
}

// end ends the signs of life.
func (u *underway) end() {
	u.over()
	u.signing.Wait()
}

// tell says how many were acted on by now.
func (u *underway) tell(acted int) {
	u.progress.Acted = acted
	if u.progressFunc != nil {
		u.progressFunc(u.progress)
	}
}

// wait says that so many canaries are waited for, or that the rest follows.
func (u *underway) wait(canaries int, waiting bool) {
	u.progress.Canaries, u.progress.Waiting = canaries, waiting
	u.tell(u.progress.Acted)
}

// join writes down what is about to be changed, as it is before.
func (u *underway) join(ctx context.Context, set []Chosen) error {
	members := map[jobs.Dependency][]ledger.Member{}
	for _, c := range set {
		switch {
		case c.Op != nil:
			members[c.Place.Dependency] = append(members[c.Place.Dependency], ledger.MemberOf(c.Op, u.o.SpecOf(c.Place.ID.Kind)))
		case c.anyway:
			members[c.Place.Dependency] = append(members[c.Place.Dependency], ledger.Member{ID: c.Place.ID})
		}
	}
	for dep, m := range members {
		if err := u.o.ledger.AddToBatch(ctx, dep, u.who.Batch, m); err != nil {
			return err
		}
	}
	return nil
}

// leave forgets what was refused: it is no part of the batch.
func (u *underway) leave(ctx context.Context, set []Chosen, results []Result) error {
	refused := map[jobs.Dependency][]jobs.ID{}
	for i, r := range results {
		if r.Result == ResultRefused {
			refused[set[i].Place.Dependency] = append(refused[set[i].Place.Dependency], r.Operation)
		}
	}
	for dep, ids := range refused {
		if err := u.o.ledger.DropFromBatch(ctx, dep, u.who.Batch, ids); err != nil {
			return err
		}
	}
	return nil
}

func (u *underway) phase(ctx context.Context, phase ledger.Phase) error {
	for _, dep := range u.deps {
		if err := u.o.ledger.SetPhase(ctx, dep, u.who.Batch, phase); err != nil {
			return err
		}
	}
	return nil
}

// ErrStopped ends a bulk action that a person stopped meanwhile.
var ErrStopped = errors.New("a person stopped the batch: the rest was left as it was")

// stopped returns [ErrStopped] when a person stopped the batch.
func (u *underway) stopped(ctx context.Context) error {
	for _, dep := range u.deps {
		b, err := u.o.ledger.Batch(ctx, dep, u.who.Batch)
		if err != nil {
			return err
		}
		if b.Phase == ledger.PhaseStopped {
			return ErrStopped
		}
	}
	return nil
}

// carry joins a set to the batch, does one thing to each and lets go of what was
// refused.
func (u *underway) carry(ctx context.Context, set []Chosen, do actFunc) ([]Result, error) {
	if err := u.join(ctx, set); err != nil {
		return nil, err
	}
	before := u.progress.Acted
	results, failed := u.o.carryOut(ctx, set, do, func(acted int) { u.tell(before + acted) })
	if failed != nil {
		return results, failed
	}
	u.tell(before + len(results))
	return results, u.leave(ctx, set, results)
}

// whole carries out all of a set, and says so in the batch.
func (u *underway) whole(ctx context.Context, set []Chosen, do actFunc) ([]Result, error) {
	results, err := u.carry(ctx, set, do)
	if err != nil {
		return results, err
	}
	return results, u.phase(ctx, ledger.PhaseDone)
}

// several carries out an action on named operations. One alone is no batch: its own
// entry in the audit says all.
func (o *Operator) several(ctx context.Context, verb string, set Set, order Order, do func(context.Context, int, Chosen, ledger.Actor) (Result, error)) (Report, error) {
	who, err := o.actor(ctx, order)
	if err != nil {
		return Report{}, err
	}
	if set.Len() == 1 {
		who.Batch = ""
	}
	act := func(ctx context.Context, i int, c Chosen) (Result, error) { return do(ctx, i, c, who) }
	out := Report{Action: verb, Batch: who.Batch}
	if out.Batch == "" {
		out.Results, out.Failed = o.carryOut(ctx, set.Operations, act, nil)
		return out, nil
	}
	u, err := o.record(ctx, verb, set, who, ledger.PhaseRunning, order)
	if err != nil {
		return Report{}, err
	}
	defer u.end()
	out.Results, out.Failed = u.whole(ctx, set.Operations, act)
	return out, nil
}
