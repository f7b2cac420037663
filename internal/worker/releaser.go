package worker

import (
	"context"
	"log/slog"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// loop turns until ctx is done.
func (c *conveyor) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		c.turnAt.Store(time.Now().UnixNano())
		if !c.r.health.await(ctx.Done()) {
			return
		}
		next := pollEvery
		if c.r.guard("conveyor", func() { next = c.turn(ctx) }) {
			next = time.Second
		}
		timer.Reset(max(next, 0))
	}
}

// turn does what there is to do and returns how long nothing will be.
func (c *conveyor) turn(ctx context.Context) time.Duration {
	if c.releaseDue() {
		c.release(ctx)
	}
	c.move(ctx)
	c.mu.Lock()
	next := c.releaseAt
	c.mu.Unlock()
	if spaced := c.releasedAt.Add(releaseSpacing); next.Before(spaced) {
		next = spaced
	}
	if c.pollAt.Before(next) {
		next = c.pollAt
	}
	if !c.ackAt.IsZero() && c.ackAt.Before(next) {
		next = c.ackAt
	}
	return time.Until(next)
}

func (c *conveyor) releaseDue() bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !now.Before(c.releaseAt) && now.Sub(c.releasedAt) >= releaseSpacing
}

// release asks the gate for as many deliveries as the slots can take now.
func (c *conveyor) release(ctx context.Context) {
	asked := time.Now()
	c.releasedAt = asked
	c.mu.Lock()
	c.releaseAt = asked.Add(idleRelease) // an expect from now on brings it forward
	c.mu.Unlock()
	if c.r.pending.full() || !c.r.steady(c.d.name) {
		return
	}
	want := c.d.slots - int(c.begun.Load()) + c.spare()
	if c.r.health.justBack(settleStore) {
		want = 0 // who knows most of what was written ahead shall look first
	}
	if c.room() == 0 {
		want = 0 // what waits here was released so long ago that the ledger's count forgets it
	}
	var rel ledger.Release
	err := within(ctx, redisTimeout, func(ctx context.Context) (err error) {
		rel, err = c.r.ledger.Release(ctx, c.terms(), c.d.known, want)
		return err
	})
	if err != nil {
		c.r.failed(ctx, "release failed", c.d.name, err)
		return
	}
	c.r.o.Metrics.Polled(c.d.name, time.Now())
	c.r.sawClock(asked, rel.Now)
	c.memory.saw(rel.Begins)
	c.rolledBack(rel.RolledBack)
	c.r.news(c.d.name, rel.News)
	c.paused.Store(rel.Hold == jobs.HoldPaused)
	c.mu.Lock()
	c.hold = rel.Hold
	if next := asked.Add(min(rel.Next, idleRelease)); next.Before(c.releaseAt) {
		c.releaseAt = next
	}
	if rel.More {
		c.releaseAt = asked
	}
	c.mu.Unlock()
	for _, t := range trays(rel.Deliveries, c.traySize()) {
		c.put(t)
	}
	c.r.heldBack(c.d.name, rel)
	c.r.endings(c.d.name, rel.Ended)
}

func (c *conveyor) put(t tray) {
	if err := c.q.enqueue(t); err != nil {
		c.r.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "delivery not put on the conveyor",
			append(about(c.d.name, t[0].ID, 0, ""), slog.Any("err", err))...)
		c.giveBackAll(t, unclearWait)
		return
	}
	c.puts = append(c.puts, t)
}

func (c *conveyor) giveBackAll(t tray, wait time.Duration) {
	for _, d := range t {
		c.giveBack(d, "", wait, false)
	}
}

// move exchanges tasks with Redis' queue: tells what is done, puts what was released,
// and takes what there is room for. What this process just released it takes at once,
// by the count: it was let go for these slots.
func (c *conveyor) move(ctx context.Context) {
	now := time.Now()
	want := len(c.puts) + min(c.queued, (c.room()+c.traySize()-1)/c.traySize())
	poll := !now.Before(c.pollAt)
	if poll {
		c.pollAt = now.Add(pollEvery)
		if want == 0 && c.room() > 0 {
			want = 1
		}
	}
	if len(c.puts) == 0 && want == 0 && !c.ackDue(now) {
		return
	}
	puts := c.puts
	c.puts, c.ackAt = nil, time.Time{}
	var m moved
	err := within(ctx, redisTimeout, func(ctx context.Context) (err error) {
		m, err = c.q.move(ctx, want)
		return err
	})
	c.r.health.note(err)
	for _, i := range m.lost {
		c.giveBackAll(puts[i], 0)
	}
	c.queued = max(c.queued+len(puts)-len(m.lost)-m.took, 0)
	switch {
	case m.took < m.asked:
		c.queued = 0 // others took the rest
	case poll && m.took > 0:
		c.queued = max(c.queued, 1) // where one lay there may be more
	}
	if c.queued > 0 && c.room() > 0 {
		c.look()
	}
}

// room is for how many more deliveries there is room here.
func (c *conveyor) room() int {
	here, _ := c.q.load()
	return max(c.d.slots-here+c.spare(), 0)
}

// traySize is how many deliveries go on one task: few enough that one task does not
// take most of the slots of the process it comes to.
func (c *conveyor) traySize() int { return min(max(c.d.slots/4, 1), maxTray) }

// ackDue reports whether asynq's data must be told of finished tasks now.
func (c *conveyor) ackDue(now time.Time) bool {
	_, unacked := c.q.load()
	switch {
	case unacked == 0:
		c.ackAt = time.Time{}
		return false
	case c.ackAt.IsZero():
		c.ackAt = now.Add(ackWithin)
	}
	return unacked >= ackBatch || !now.Before(c.ackAt)
}
