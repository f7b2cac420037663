package cli

import (
	"context"
	"fmt"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// canary is what became of the first few of a requeue, as JSON.
type canary struct {
	Operations int    `json:"operations"`
	Succeeded  int    `json:"succeeded"`
	Failed     string `json:"failed"`    // why the rest was left as it was; "" when all succeeded
	Untouched  int    `json:"untouched"` // operations that were left as they were
}

// How often it is looked whether the canaries have ended: soon first, for those
// that take a second.
const (
	canaryLook    = 100 * time.Millisecond
	canaryLookMax = 2 * time.Second
)

// canaried requeues set[:n] first, n as many as it takes for f.canary of them to be
// on their way, waits for them, and requeues the rest only if all of them succeeded.
func (r *requeueRun) canaried(ctx context.Context, set []chosen, f *requeueFlags) (results []result, c *canary, err error) {
	c = &canary{}
	next := 0
	var birds []jobs.ID
	for len(birds) < f.canary && next < len(set) {
		part := set[next:min(next+f.canary-len(birds), len(set))]
		done, err := r.all(ctx, part)
		results = append(results, done...)
		if err != nil {
			return results, c, err
		}
		for _, d := range done {
			if d.Result == resultDone {
				birds = append(birds, d.Operation)
			}
		}
		next += len(part)
	}
	c.Operations = len(birds)
	rest := set[next:]
	r.s.p.say("requeued %s first, batch %s; waiting for what becomes of them (at most %s)", count(len(birds), "operation"), r.who.Batch, f.canaryWait)
	why, err := r.await(ctx, birds, c, f.canaryWait)
	if err != nil {
		c.Untouched = len(rest)
		return results, c, err
	}
	if why != "" {
		c.Failed, c.Untouched = why, len(rest)
		if err := r.u.phase(ctx, ledger.PhaseCanaryFailed); err != nil {
			return results, c, err
		}
		return results, c, &failure{exitConflict, fmt.Errorf("canary: %s; %s left as they were", why, count(len(rest), "operation"))}
	}
	if err := r.u.phase(ctx, ledger.PhaseRunning); err != nil {
		return results, c, err
	}
	done, err := r.all(ctx, rest)
	return append(results, done...), c, err
}

// await waits until all birds have ended, and says why the rest must not follow; ""
// when all succeeded. It ends early with the first that did not.
func (r *requeueRun) await(ctx context.Context, birds []jobs.ID, c *canary, patience time.Duration) (why string, err error) {
	deadline := time.Now().Add(patience)
	for look := canaryLook; ; look = min(2*look, canaryLookMax) {
		if err := r.u.stopped(ctx); err != nil {
			return "", err
		}
		set, err := r.s.named(ctx, birds)
		if err != nil {
			return "", err
		}
		open := 0
		c.Succeeded = 0
		for _, b := range set {
			switch {
			case b.op == nil:
				return fmt.Sprintf("%s is gone", b.place.ID), nil
			case b.op.State == jobs.Succeeded:
				c.Succeeded++
			case b.op.State.Ended():
				return fmt.Sprintf("%s is %s", b.place.ID, stateText(b.op)), nil
			default:
				open++
			}
		}
		left := time.Until(deadline)
		switch {
		case open == 0:
			return "", nil
		case left <= 0:
			return fmt.Sprintf("%d of %d have not ended within %s; they go on", open, len(birds), patience), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(min(look, left)):
		}
	}
}
