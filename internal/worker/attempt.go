package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
	"redrive/internal/metrics"
	"redrive/internal/policy"
)

const (
	// beginWithin bounds all tries of one begin: what is granted later could not be
	// sent any more, because the send window counts from before the first.
	beginWithin = 1500 * time.Millisecond
	beginTry    = 700 * time.Millisecond
	beginPause  = 20 * time.Millisecond
	// beginWaitTry is the one try of a begin that waits for replicas: a second one
	// would not fit, and would find what kept the first waiting.
	beginWaitTry = luascript.ReplicaWait + 200*time.Millisecond
	// finishWithin bounds the one try to write a result that is made inside the slot.
	finishWithin = time.Second
	// suspectWait is how long suspects wait at most while others are under way.
	suspectWait = time.Second
	// suspectsWithin is how long the suspects of one tray may take, one after the
	// other: the last must begin well within its release lease.
	suspectsWithin = 5 * time.Second
	// unclearWait keeps what fails again and again from going round in circles.
	unclearWait = time.Second
	// fullWait is how long a delivery waits while too many writes are pending.
	fullWait = time.Second
)

// errUnclear says that begin got no clear answer: the attempt may be written ahead.
var errUnclear = errors.New("begin got no clear answer")

// deliver makes the attempt of one delivery, or gives the delivery back. ctx ends
// the call itself; what is written for it has bounds of its own.
func (c *conveyor) deliver(ctx context.Context, d ledger.Delivery) {
	k := c.d.kinds[d.ID.Kind]
	switch {
	case !c.r.health.await(c.r.stopped):
		c.giveBack(d, "", 0, false)
		return
	case k == nil:
		c.giveBack(d, "", 0, true)
		return
	case c.r.pending.full():
		c.giveBack(d, "", fullWait, false)
		return
	}
	// Counted before Redis may know: a promise that is kept must not look like a free slot.
	c.begun.Add(1)
	defer c.begun.Add(-1)
	startedAt := time.Now() // before begin: every span of the grant counts from here
	runID := ledger.NewRunID()
	b, err := c.begin(ctx, k, d, runID)
	if err != nil {
		c.r.o.Log.LogAttrs(ctx, slog.LevelWarn, "begin unclear, given back", append(about(c.d.name, d.ID, 0, ""),
			slog.Int64("delivery", d.Number), slog.Any("err", err))...)
		c.giveBack(d, runID, unclearWait, false)
		return
	}
	switch b.Status {
	case ledger.BeginGranted:
		c.remember(k, b.Grant)
		c.attempt(ctx, k, d, b.Grant, startedAt)
	case ledger.BeginHeld:
		if d.Lane != ledger.LaneFirst {
			c.r.refused(c.d.name, d.ID, b.Sends, metrics.Refusal(b.Hold), b.Class, b.CorrelationID, slog.LevelInfo)
		}
	case ledger.BeginEnded:
		c.r.endings(c.d.name, b.Ended)
	case ledger.BeginStale, ledger.BeginGone:
		c.r.o.Metrics.StaleDelivery(c.d.name)
		c.r.o.Log.LogAttrs(ctx, slog.LevelDebug, "stale delivery dropped", append(about(c.d.name, d.ID, 0, ""),
			slog.Int64("delivery", d.Number), slog.String("reason", string(b.Status)))...)
	}
}

// begin asks for the grant, again with the same run id while the answer is lost. A
// clear refusal of Redis is not repeated, nor is a begin that waits for replicas: one
// that is not on them is as good as none.
func (c *conveyor) begin(ctx context.Context, k *kind, d ledger.Delivery, runID string) (ledger.Begin, error) {
	ctx, cancel := context.WithTimeout(ctx, beginWithin)
	defer cancel()
	try, waits := beginTry, c.r.o.Config.Redis.WaitReplicas > 0
	if waits {
		try = beginWaitTry
	}
	for {
		var b ledger.Begin
		err := within(ctx, try, func(ctx context.Context) (err error) {
			b, err = c.r.ledger.Begin(ctx, c.terms(), k.target, k.maxAttempts, d, runID)
			return err
		})
		if err == nil {
			return b, nil
		}
		// A begin may be late, or in vain, because of a replica: no news of Redis itself.
		if !waits || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, luascript.ErrTooFewReplicas) {
			c.r.health.note(err)
		}
		var reply redis.Error
		if waits || errors.As(err, &reply) || !sleep(ctx, beginPause) || !c.r.health.await(ctx.Done()) {
			return ledger.Begin{}, errors.Join(errUnclear, err)
		}
	}
}

// giveBack abandons a delivery of which nothing was sent. What Redis does not take
// at once is repeated outside the slot.
func (c *conveyor) giveBack(d ledger.Delivery, runID string, wait time.Duration, orphan bool) {
	write := func(ctx context.Context) error {
		ends, err := c.r.ledger.Abandon(ctx, c.d.terms, d, runID, wait, orphan)
		if err != nil {
			return err
		}
		c.r.guard(d.ID.String(), func() { c.r.endings(c.d.name, ends) })
		if !c.r.stopping() {
			c.expect(wait)
		}
		return nil
	}
	if c.r.health.trouble() == nil {
		err := within(context.Background(), finishWithin, write)
		if err == nil {
			return
		}
		c.r.health.note(err)
	}
	c.r.pending.add(write)
}

// attempt makes the call of a grant and writes its result.
func (c *conveyor) attempt(ctx context.Context, k *kind, d ledger.Delivery, g *ledger.Grant, startedAt time.Time) {
	var res ledger.Result
	sent := false
	sendAt := time.Now()
	traced := traced(c.d.name, g.ID, g.Request)
	c.r.o.Tracer.Wait(traced, g.Waited, startedAt)
	span := c.r.o.Tracer.Attempt(traced, g.Attempt, sendAt)
	g.Request.Traceparent = span.Traceparent()
	if c.r.guard(g.ID.String(), func() { res = c.call(ctx, k, d, g, startedAt, &sent) }) {
		res = panicResult(sent, time.Since(sendAt))
	}
	span.EndAttempt(res.Outcome, res.Class, res.Verdict, res.Status, res.Error)
	c.memory.finish(g.RunID, res.Outcome, res.Class)
	c.finish(ctx, k, g, res)
	c.r.guard(g.ID.String(), func() { c.r.called(c.d.name, g, res, sent, g.DeadlineLeft-time.Since(startedAt)) })
}

// call sends, and lets policy say what that means and what comes next. sent is set
// before the first byte can leave.
func (c *conveyor) call(ctx context.Context, k *kind, d ledger.Delivery, g *ledger.Grant, startedAt time.Time, sent *bool) ledger.Result {
	header, err := c.r.o.Headers(c.d.name, g.Request.Credential)
	if err != nil {
		// A secret that cannot be read now may be readable soon: as with a refused
		// credential the operation waits. One that does not exist never will be.
		cl := unsent(!errors.Is(err, attempt.ErrNoCredential), err.Error())
		res := c.judgeBy(k).Decide(g, cl, gateway.Answer{Err: err.Error()}, startedAt, c.r.random)
		res.Said = attempt.Said(cl, gateway.Answer{}, c.d.slowCall, false, c.r.random)
		return res
	}
	*sent = true
	c.r.o.Metrics.StartLateness(c.d.name, c.lateness(d))
	answer := c.r.o.Sender.Send(ctx, gateway.Call{
		Request: g.Request, Attempt: g.Attempt, BaseURL: c.d.baseURL, Header: header, KeyHeader: k.target.KeyHeader,
		StartedAt: startedAt, SendBy: min(policy.SendWindow, g.DeadlineLeft-c.d.terms.MinResponse), Timeout: c.d.timeout,
	})
	return c.read(k, g, answer, startedAt)
}

// lateness is how long after its due instant a delivery is sent.
func (c *conveyor) lateness(d ledger.Delivery) time.Duration {
	now := c.r.clock.now(time.Now())
	if now.IsZero() {
		return 0
	}
	return max(now.Sub(d.DueAt), 0)
}

// finish writes a result. It does not end with ctx: a result must be written also
// while the worker stops. What Redis does not take at once is repeated outside the
// slot until it is recorded.
func (c *conveyor) finish(ctx context.Context, k *kind, g *ledger.Grant, res ledger.Result) {
	again := false
	write := func(ctx context.Context) error {
		if again {
			c.r.o.Metrics.ResultWriteRetry()
		}
		again = true
		f, err := c.r.ledger.Finish(ctx, c.d.terms, k.target, g, res)
		if err != nil {
			return err
		}
		c.r.guard(g.ID.String(), func() { c.recorded(g, res, f) })
		return nil
	}
	err := within(context.WithoutCancel(ctx), finishWithin, write)
	if err == nil {
		return
	}
	c.r.health.note(err)
	c.r.o.Log.LogAttrs(ctx, slog.LevelWarn, "result not written yet", append(about(c.d.name, g.ID, g.Attempt, g.Request.CorrelationID),
		slog.String("outcome", string(res.Outcome)), slog.Any("err", err))...)
	c.r.pending.add(write)
}

// recorded looks at what the ledger made of a result.
func (c *conveyor) recorded(g *ledger.Grant, res ledger.Result, f ledger.Finish) {
	c.r.endings(c.d.name, f.Ended)
	c.r.news(c.d.name, f.News)
	if f.Paused {
		c.r.credentialPaused(c.d.name, g.Request.Credential)
	}
	if f.How == ledger.HowStale && res.Outcome == jobs.OutcomeSucceeded {
		c.tellSuccess(g.RunID)
	}
	if f.How == ledger.HowLate {
		c.r.o.Metrics.LateResult(c.d.name)
	}
	if f.Conflict {
		c.r.o.Metrics.Conflict(c.d.name)
	}
	if f.How != ledger.HowOwn || f.Conflict {
		c.r.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "result out of the ordinary",
			append(about(c.d.name, g.ID, g.Attempt, g.Request.CorrelationID), slog.String("outcome", string(res.Outcome)),
				slog.String("reason", string(f.How)))...)
	}
	if f.State == jobs.Waiting {
		c.expect(res.Delay)
	}
}
