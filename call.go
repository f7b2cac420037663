package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/budget"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
)

// Tries and pauses of [Client.Call].
const (
	callTries   = 3
	callBase    = 100 * time.Millisecond
	callCap     = 2 * time.Second
	callTimeout = 3 * time.Second // of a dependency whose own is not known here
	spendWithin = 250 * time.Millisecond
	maxCallWait = 10 * time.Second // a Retry-After beyond it is for somebody who can wait
)

// ReadFunc makes one call that changes nothing, or that has the same effect however often
// it is made, and returns its reply or an error. It must heed ctx and must not retry.
type ReadFunc func(ctx context.Context) (Reply, error)

// Call makes a read, or another call that may be repeated, and repeats it while that
// promises something: at most three tries in all, after pauses of full jitter (up to 100
// ms, 200 ms) and never before a Retry-After, each under a token of the dependency's
// shared retry budget. It queues nothing. The first try counts as a first attempt.
//
// It returns the first reply that is a success, else [*Stopped] with the last reply. The
// deadline of ctx is looked at before the budget is asked; a Retry-After beyond ten seconds
// counts as past it. When Redis does not answer nothing is retried, and for half a second
// it is not asked again. What a reply with a status means is the built-in table's and the
// configured rules' word. [*Invalid], before anything is sent: a dependency that is not known,
// also after another look at what workers have published; no read.
func (c *Client) Call(ctx context.Context, dependency string, read ReadFunc) (Reply, error) {
	if err := c.underway.enter(ctx); err != nil {
		return Reply{}, err
	}
	defer c.underway.leave()
	k := caller{c: c, dep: jobs.Dependency(dependency), timeout: callTimeout, minResponse: 0}
	if read == nil {
		return Reply{}, invalid(errors.New("read is nil"))
	}
	if err := c.knows(ctx, k.dep); err != nil {
		return Reply{}, err
	}
	c.mu.Lock()
	for _, spec := range c.specs {
		if spec.Dependency == k.dep {
			k.timeout, k.minResponse, k.spare = terms.MS(spec.TimeoutMS), terms.MS(spec.MinResponseMS), terms.Of(spec).Gate
		}
	}
	c.mu.Unlock()
	if c.config != nil {
		if d := c.config.Dependencies[k.dep]; d != nil {
			k.rules, k.slow, k.spare = d.Rules, d.Breaker.SlowCall, attempt.Gate(d)
		}
	}
	return k.call(ctx, read)
}

// caller is one Call.
type caller struct {
	c           *Client
	dep         jobs.Dependency
	timeout     time.Duration
	minResponse time.Duration
	slow        time.Duration
	rules       *policy.Rules
	spare       budget.Params

	said       ledger.Said // how the last retry ended
	generation int64
}

func (k *caller) call(ctx context.Context, read ReadFunc) (Reply, error) {
	stop := &Stopped{}
	if err := ctx.Err(); err != nil {
		stop.Reason, stop.First = StopDeadline, err
		return Reply{}, stop
	}
	if state, ok := k.c.path.State(k.dep); ok && state.Age() <= stateAge && (state.Breaker == budget.Open || state.Hold != jobs.HoldNone) {
		stop.Reason, stop.First = StopBreaker, ErrOpen
		return Reply{}, stop
	}
	defer func() { k.tell(ctx) }()
	for {
		reply, cl, err := k.try(ctx, read, stop.Tries == 0)
		stop.Tries++
		if err == nil {
			return reply, nil
		}
		if stop.First == nil {
			stop.First = err
		}
		pause, why := k.again(ctx, cl, stop.Tries)
		if why != "" {
			stop.Reason = why
			return reply, stop
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			stop.Reason = StopDeadline
			return reply, stop
		case <-k.c.underway.closed:
			stop.Reason = StopClosed
			return reply, stop
		}
	}
}

// try makes one call; err is nil for a success.
func (k *caller) try(ctx context.Context, read ReadFunc, first bool) (Reply, policy.Classification, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	began := time.Now()
	reply, err := read(ctx)
	answer := gateway.Seen(reply.Status, reply.Header, reply.Body, time.Since(began), err)
	cl, _, ruled, _ := k.rules.Classify(answer.Sample, jobs.IdempotencyNatural)
	if !ruled {
		cl = policy.Classify(answer.Sample, jobs.IdempotencyNatural)
	}
	switch {
	case !first:
		k.said = attempt.Said(cl, answer, k.slow, true, k.c.random)
	case answer.WireBytes > 0:
		k.c.path.Record(k.dep, attempt.First(ledger.Result{Class: cl.Class, Outcome: cl.Outcome}))
	}
	// Of a natural kind that is sent again a 404 can be a success: of a read it is none.
	if err == nil && reply.Status/100 == 2 && (!ruled || cl.Verdict == jobs.VerdictSucceeded || cl.Verdict == jobs.VerdictDuplicateSuccess) {
		return reply, cl, nil
	}
	if err == nil {
		err = fmt.Errorf("status %d: %s", reply.Status, cl.Reason)
	}
	return reply, cl, err
}

// again says how long to wait before another try, or why there is none. The deadline
// stands before the budget, so that a hopeless try takes no token.
func (k *caller) again(ctx context.Context, cl policy.Classification, tries int) (time.Duration, Stop) {
	wait := policy.Wait(cl.Hint.Wait, policy.Backoff{Base: callBase, Cap: callCap}.Delay(tries, k.c.random), k.c.random)
	by, bounded := ctx.Deadline()
	switch {
	case !cl.Verdict.Resends():
		return 0, StopPermanent
	case ctx.Err() != nil, wait > maxCallWait, bounded && time.Until(by) < wait+max(k.minResponse, time.Millisecond):
		return 0, StopDeadline
	case tries >= callTries:
		return 0, StopAttempts
	case k.c.underway.isClosed():
		return 0, StopClosed
	}
	if why := k.c.budget.of(k.dep); why != "" {
		return 0, why
	}
	spend, cancel := context.WithTimeout(ctx, spendWithin)
	defer cancel()
	if !k.c.budget.enter(spend) {
		return 0, k.unanswered(ctx)
	}
	defer k.c.budget.leave()
	if why := k.c.budget.of(k.dep); why != "" {
		return 0, why // it was said to who asked before
	}
	spent, err := k.c.ledger.Spend(spend, k.dep, k.spare, k.said, k.generation)
	if err != nil {
		if why := k.unanswered(ctx); why != StopLedger {
			return 0, why
		}
		return 0, k.c.budget.note(k.dep, StopLedger, ledgerDenial)
	}
	k.said, k.generation = ledger.Said{}, spent.Generation
	switch spent.Hold {
	case jobs.HoldNone:
		return wait, ""
	case jobs.HoldBudget, jobs.HoldRate:
		return 0, k.c.budget.note(k.dep, StopBudget, spent.Wait)
	}
	return 0, k.c.budget.note(k.dep, StopBreaker, spent.Wait)
}

// unanswered is why there is no word of the gate: a caller who leaves says nothing of Redis.
func (k *caller) unanswered(ctx context.Context) Stop {
	if ctx.Err() != nil {
		return StopDeadline
	}
	return StopLedger
}

// tell lets the breaker know how the last retry ended.
func (k *caller) tell(ctx context.Context) {
	if k.said.Sign == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spendWithin)
	defer cancel()
	if err := k.c.ledger.Tell(ctx, k.dep, k.spare, k.said, k.generation); err != nil {
		k.c.o.Log.DebugContext(ctx, "result of a retry not told to the gate", "dependency", string(k.dep), "err", err)
	}
}

// denials remembers for how long the gate of a dependency gives nothing, so that who is
// refused meanwhile costs Redis nothing and waits for nothing. One asks at a time: when all
// reads of a busy service fail at once they would each open a connection to hear the same.
type denials struct {
	turn chan struct{} // capacity 1: who holds it asks

	mu    sync.Mutex // guards until
	until map[jobs.Dependency]denial
}

type denial struct {
	why Stop
	at  time.Time // when it ends
}

const (
	// maxDenial: somebody's first attempts, or a resumption, may end it earlier than the gate said.
	maxDenial = time.Second
	// ledgerDenial is for how long a Redis that did not answer in time is not asked again.
	ledgerDenial = 500 * time.Millisecond
)

func newDenials() *denials {
	return &denials{turn: make(chan struct{}, 1), until: map[jobs.Dependency]denial{}}
}

// enter waits for the turn to ask; false: ctx ended before.
func (d *denials) enter(ctx context.Context) bool {
	select {
	case d.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *denials) leave() { <-d.turn }

func (d *denials) of(dep jobs.Dependency) Stop {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.until[dep]; time.Now().Before(known.at) {
		return known.why
	}
	return ""
}

func (d *denials) note(dep jobs.Dependency, why Stop, wait time.Duration) Stop {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.until) < 1000 || !d.until[dep].at.IsZero() { // names are the caller's
		d.until[dep] = denial{why, time.Now().Add(min(wait, maxDenial))}
	}
	return why
}
