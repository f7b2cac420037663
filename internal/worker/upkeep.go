package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

const (
	upkeepEvery    = time.Second
	namesEvery     = 8 * time.Second // how often names and live kinds are read anew
	retentionEvery = time.Minute
	seenBeats      = 60 // heartbeats between two times that a process says which kinds it can ask about: 5 min
	// Bounds of one round: what is left waits for the next, so that no dependency
	// keeps the others waiting.
	maxRecoverCalls   = 10
	maxSweepCalls     = 20
	maxRetentionCalls = 200
	// orphanGrace is how long beyond its lease an attempt of a kind that this process
	// does not know is left to those who know it.
	orphanGrace = 60 * time.Second
	// foreignLease stands for the claim lease of a dependency that this process does
	// not know.
	foreignLease = 30 * time.Second
)

// upkeep recovers and sweeps every dependency of the namespace once a second, those
// that no configuration names any more included. Every worker does it; a random
// phase spreads them over the second. It ends with ctx.
func (r *run) upkeep(ctx context.Context) {
	if !sleep(ctx, time.Duration(r.random()*float64(upkeepEvery))) {
		return
	}
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	var names []jobs.Dependency
	var live []jobs.Kind
	var readAt time.Time
	for {
		r.upkeepAt.Store(time.Now().UnixNano())
		if !r.health.await(ctx.Done()) {
			return
		}
		if r.unseen.Swap(false) {
			if err := r.o.Ledger.SeenKinds(ctx, r.plan.specs); err != nil {
				r.unseen.Store(true)
				r.failed(ctx, "kinds not said to be known", "", err)
			}
		}
		if time.Since(readAt) >= namesEvery {
			readAt = time.Now()
			names, live = r.names(ctx), r.liveKinds(ctx)
			r.guard("voids", func() { r.voids(ctx) })
		}
		for _, dep := range names {
			r.guard("upkeep", func() { r.keep(ctx, dep, live) })
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// keep does the upkeep of one dependency, unless Redis' clock stepped a moment ago.
func (r *run) keep(ctx context.Context, dep jobs.Dependency, live []jobs.Kind) {
	if time.Since(r.clock.readAt()) > 2*upkeepEvery && !r.readClock(ctx) {
		return
	}
	if !r.steady(dep) || r.health.trouble() != nil {
		return
	}
	if err := r.recover(ctx, dep); err != nil {
		r.failed(ctx, "recover failed", dep, err)
		return
	}
	if err := r.sweep(ctx, dep, live); err != nil {
		r.failed(ctx, "sweep failed", dep, err)
	}
}

// failed handles the error of a loop's call to Redis.
func (r *run) failed(ctx context.Context, what string, dep jobs.Dependency, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, ledger.ErrClockStepped) {
		r.readClock(ctx) // says so, if it did
		return
	}
	r.health.note(err)
	r.o.Log.LogAttrs(ctx, slog.LevelWarn, what, slog.String("dependency", string(dep)), slog.Any("err", err))
}

// readClock reads Redis' clock by a call of its own, for when no release does.
func (r *run) readClock(ctx context.Context) bool {
	asked := time.Now()
	now, err := r.o.Ledger.Now(ctx)
	if err != nil {
		r.failed(ctx, "clock not read", "", err)
		return false
	}
	r.sawClock(asked, now)
	return true
}

// sawClock takes a reading of Redis' clock.
func (r *run) sawClock(asked, redis time.Time) {
	now := time.Now()
	r.o.Metrics.ClockSkew(now.Sub(redis))
	if r.clock.saw(asked, now, redis) {
		r.o.Metrics.ClockStep()
		r.unseen.Store(true)
		r.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "redis' clock stepped: leases are left alone for a while",
			slog.Duration("delay", r.lease("")))
	}
}

// steady reports whether leases and deadlines of a dependency may be acted upon:
// no step of the clock within one claim lease.
func (r *run) steady(dep jobs.Dependency) bool { return r.clock.steady(time.Now(), r.lease(dep)) }

// lease is the claim lease of a dependency.
func (r *run) lease(dep jobs.Dependency) time.Duration {
	if d := r.plan.dependencies[dep]; d != nil {
		return policy.ClaimLease(d.timeout)
	}
	return foreignLease
}

// recover closes the attempts whose worker was lost.
func (r *run) recover(ctx context.Context, dep jobs.Dependency) error {
	for range maxRecoverCalls {
		lost, err := r.o.Ledger.LostAttempts(ctx, dep, 0, r.clock.now(time.Now()))
		if err != nil {
			return err
		}
		done := 0
		for _, l := range lost {
			closed, err := r.closeLost(ctx, dep, l)
			if err != nil {
				return err
			}
			if closed {
				done++
			}
		}
		if len(lost) < 100 || done == 0 {
			return nil
		}
	}
	return nil
}

// closeLost closes one lost attempt, as far as this process may: of a kind that it does
// not know it may only put the operation back, and not at once.
func (r *run) closeLost(ctx context.Context, dep jobs.Dependency, l ledger.Lost) (bool, error) {
	d := r.plan.dependencies[dep]
	var k *kind
	if d != nil {
		k = d.kinds[l.ID.Kind]
	}
	if k == nil && l.Over < orphanGrace {
		return false, nil
	}
	l.Stepped = !r.clock.steady(time.Now(), 2*r.lease(dep))
	terms, target := r.plan.termsOf(dep), ledger.Target{}
	var res ledger.Result
	if k != nil {
		target = k.target
		res = r.lostResult(d, k, l)
	} else {
		res = lostBlindly(l)
	}
	f, err := r.ledger.FinishLost(ctx, terms, target, l, res, k == nil)
	if err != nil {
		return false, err
	}
	if f.How != ledger.HowOwn {
		return true, nil // its worker, or another instance, was first
	}
	r.o.Metrics.Rescued(dep)
	r.o.Log.LogAttrs(ctx, slog.LevelWarn, "lost attempt closed", append(about(dep, l.ID, l.Attempt, l.CorrelationID),
		slog.String("class", string(jobs.ClassWorkerLost)), slog.String("outcome", string(res.Outcome)), slog.String("verdict", string(res.Verdict)),
		slog.Duration("delay", res.Delay))...)
	r.endings(dep, f.Ended)
	if c := r.conveyors[dep]; c != nil && f.State == jobs.Waiting {
		c.expect(res.Delay)
	}
	return true, nil
}

// lostResult is what policy makes of a lost worker: it may have sent.
func (r *run) lostResult(d *dependency, k *kind, l ledger.Lost) ledger.Result {
	class := l.Idempotency.Weaker(k.target.Idempotency)
	cl := policy.Classify(policy.Sample{Phase: policy.PhaseWorkerLost}, class)
	safeFor := l.SafeFor
	if class == jobs.IdempotencyNatural {
		safeFor = policy.Forever
	}
	losses := l.Losses + 1
	if l.Stepped {
		losses = l.Losses
	}
	next := policy.Decide(policy.DecideInput{
		C: cl, Idempotency: class, UnknownBefore: l.UnknownBefore, ResendSafeFor: safeFor,
		HasInquiry: k.inquiry != nil, Attempt: l.Attempt, Used: l.Used, MaxAttempts: k.maxAttempts + l.Extra,
		DeadlineIn: l.DeadlineLeft, MinResponse: d.terms.MinResponse, Backoff: k.backoff,
		WorkerLosses: losses, Rand: r.random,
	})
	return attempt.Result(cl, next, gateway.Answer{Duration: l.Age, Err: "the worker was lost"})
}

// lostBlindly is the result of a lost attempt of an unknown kind: begin looks again
// whether a resend is safe.
func lostBlindly(l ledger.Lost) ledger.Result {
	cl := policy.Classify(policy.Sample{Phase: policy.PhaseWorkerLost}, jobs.IdempotencyNone)
	return ledger.Result{Outcome: cl.Outcome, Class: cl.Class, Verdict: cl.Verdict, Duration: l.Age, Step: ledger.StepRetry,
		Counted: true, Error: "the worker was lost"}
}

// sweep ends what can no longer make its deadline, brings back what nobody began,
// and lets go of windows that are over.
func (r *run) sweep(ctx context.Context, dep jobs.Dependency, live []jobs.Kind) error {
	for range maxSweepCalls {
		terms := r.plan.termsOf(dep)
		terms.Expect = r.clock.now(time.Now())
		ends, more, err := r.o.Ledger.Sweep(ctx, terms, live)
		if err != nil {
			return err
		}
		r.endings(dep, ends)
		if !more {
			break
		}
	}
	return nil
}

// names are the dependencies that the namespace has ever seen, and our own. Ours
// missing from them means that Redis was emptied meanwhile, perhaps so fast that
// nobody saw it away: then everything is made known anew.
func (r *run) names(ctx context.Context) []jobs.Dependency {
	names := r.plan.names()
	known, err := r.o.Ledger.Dependencies(ctx)
	if err != nil {
		r.failed(ctx, "dependencies not read", "", err)
		return names
	}
	for _, n := range r.plan.bindings() {
		if !slices.Contains(known, n) {
			if err := r.announce(ctx); err != nil {
				r.failed(ctx, "kinds not published", "", err)
			}
			break
		}
	}
	for _, n := range known {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// liveKinds are the kinds that some live worker knows, this one included.
func (r *run) liveKinds(ctx context.Context) []jobs.Kind {
	kinds := r.plan.kinds()
	live, err := r.o.Ledger.Workers(ctx)
	if err != nil {
		r.failed(ctx, "workers not read", "", err)
	}
	for _, w := range live {
		for _, k := range w.Kinds {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

// retention lets ended operations go, once a minute. It ends with ctx.
func (r *run) retention(ctx context.Context) {
	for {
		jitter := time.Duration(r.random() * float64(retentionEvery) / 2)
		if !sleep(ctx, retentionEvery*3/4+jitter) || !r.health.await(ctx.Done()) {
			return
		}
		for _, dep := range r.names(ctx) {
			r.guard("retention", func() {
				if err := r.retire(ctx, dep); err != nil {
					r.failed(ctx, "retention failed", dep, err)
				}
			})
		}
	}
}

func (r *run) retire(ctx context.Context, dep jobs.Dependency) error {
	for range maxRetentionCalls {
		gone, err := r.o.Ledger.Retire(ctx, dep, r.plan.retention)
		if err != nil {
			return err
		}
		for _, e := range gone.Expired {
			r.o.Metrics.DeadLettersExpired(e.ID.Kind, e.Reason, 1)
		}
		if !gone.More || !sleep(ctx, time.Millisecond) { // others want Redis too
			break
		}
	}
	return nil
}

// heartbeat says every few seconds that this worker lives, and now and then which
// kinds it can ask about. It ends with ctx.
func (r *run) heartbeat(ctx context.Context) {
	for n := 1; sleep(ctx, ledger.HeartbeatEvery) && r.health.await(ctx.Done()); n++ {
		if err := within(ctx, redisTimeout, r.beat); err != nil {
			r.failed(ctx, "heartbeat failed", "", err)
		}
		if n%seenBeats != 0 {
			continue
		}
		if err := r.o.Ledger.SeenKinds(ctx, r.plan.specs); err != nil {
			r.failed(ctx, "kinds not said to be known", "", err)
		}
	}
}
