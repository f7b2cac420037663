package operator

import (
	"context"
	"fmt"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Canary is what became of the first few of a requeue, as JSON.
type Canary struct {
	Operations int    `json:"operations"`
	Succeeded  int    `json:"succeeded"`
	Failed     string `json:"failed"`    // why the rest was left as it was; "" when all succeeded
	Untouched  int    `json:"untouched"` // operations that were left as they were
}

// CanaryError ends a requeue whose canaries did not all succeed.
type CanaryError struct {
	Why       string
	Untouched int // operations that were left as they were
}

func (e *CanaryError) Error() string {
	return fmt.Sprintf("canary: %s; %s left as they were", e.Why, operations(e.Untouched))
}

// How often it is looked whether the canaries have ended: soon first, for those
// that take a second.
const (
	canaryLook    = 100 * time.Millisecond
	canaryLookMax = 2 * time.Second
)

// canaried requeues set[:n] first, n as many as it takes for p.Canary of them to be
// on their way, waits for them, and requeues the rest only if all of them succeeded.
func (r *requeueRun) canaried(ctx context.Context, set []Chosen, p Plan) (results []Result, c *Canary, err error) {
	c = &Canary{}
	next := 0
	var birds []jobs.ID
	for len(birds) < p.Canary && next < len(set) {
		part := set[next:min(next+p.Canary-len(birds), len(set))]
		done, err := r.all(ctx, part)
		results = append(results, done...)
		if err != nil {
			return results, c, err
		}
		for _, d := range done {
			if d.Result == ResultDone {
				birds = append(birds, d.Operation)
			}
		}
		next += len(part)
	}
	c.Operations = len(birds)
	rest := set[next:]
	r.u.wait(len(birds), true)
	why, err := r.await(ctx, birds, c, p.CanaryWait)
	if err != nil {
		c.Untouched = len(rest)
		return results, c, err
	}
	if why != "" {
		c.Failed, c.Untouched = why, len(rest)
		if err := r.u.phase(ctx, ledger.PhaseCanaryFailed); err != nil {
			return results, c, err
		}
		return results, c, &CanaryError{why, len(rest)}
	}
	if err := r.u.phase(ctx, ledger.PhaseRunning); err != nil {
		return results, c, err
	}
	r.u.wait(0, false)
	done, err := r.all(ctx, rest)
	return append(results, done...), c, err
}

// await waits until all birds have ended, and says why the rest must not follow; ""
// when all succeeded. It ends early with the first that did not.
func (r *requeueRun) await(ctx context.Context, birds []jobs.ID, c *Canary, patience time.Duration) (why string, err error) {
	deadline := time.Now().Add(patience)
	for look := canaryLook; ; look = min(2*look, canaryLookMax) {
		if err := r.u.stopped(ctx); err != nil {
			return "", err
		}
		set, err := r.o.named(ctx, birds)
		if err != nil {
			return "", err
		}
		open := 0
		c.Succeeded = 0
		for _, b := range set {
			switch {
			case b.Op == nil:
				return fmt.Sprintf("%s is gone", b.Place.ID), nil
			case b.Op.State == jobs.Succeeded:
				c.Succeeded++
			case b.Op.State.Ended():
				return fmt.Sprintf("%s is %s", b.Place.ID, StateText(b.Op)), nil
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
