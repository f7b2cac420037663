package worker

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// releaseSpacing is the least time between two releases: at 500 due operations
	// a second most would otherwise get a script call of their own.
	releaseSpacing = 2 * time.Millisecond
	// idleRelease is how often the gate is asked when nothing is known to be due.
	idleRelease = time.Second
	// pollEvery is how often the queue is looked into when this process put nothing
	// there: another one may have died with its deliveries on it.
	pollEvery = 2 * time.Second
	// ackWithin is how long finished tasks are collected before asynq's data is told.
	ackWithin = 5 * time.Millisecond
	ackBatch  = 16
	// ahead is how much work is kept on the conveyor beyond the free slots, as a
	// span: what the slots finish while a release, a put and a take are under way.
	ahead = 20 * time.Millisecond
	// maxSpare bounds that, per slot: if the process is killed, what it had taken waits
	// for the end of its release lease.
	maxSpare = 1
	// settleStore is how long after Redis came back nothing is released: by then every
	// process has compared what it saw with what Redis has.
	settleStore = 2 * time.Second
	// redisTimeout bounds a call to Redis that only the conveyor waits for.
	redisTimeout = 5 * time.Second
)

// conveyor carries the deliveries of one dependency from the ledger to the slots of
// this process.
type conveyor struct {
	r      *run
	d      *dependency
	q      *queue
	server *asynq.Server
	wake   chan struct{} // capacity 1: the loop has something to look at
	slots  chan struct{} // capacity d.slots: who holds one may make a call
	memory memory

	begun  atomic.Int64 // attempts under way, and begins
	paused atomic.Bool  // a person holds the dependency, as the last release said
	turnAt atomic.Int64 // when the loop last turned, Unix ns

	mu        sync.Mutex // guards the rest
	releaseAt time.Time  // when to ask the gate next
	hold      jobs.Hold  // why the last release let nothing more go
	pace      float64    // seconds that a delivery takes in its slot, as a moving mean; 0: not known

	// The loop's own:
	puts       []tray // noted in q since the last move
	queued     int    // tasks in Redis' queue that this process put there and nobody is known to have taken
	releasedAt time.Time
	pollAt     time.Time
	ackAt      time.Time // when the oldest unacked task must be told; zero: none waits
}

func newConveyor(r *run, d *dependency) *conveyor {
	c := &conveyor{r: r, d: d, wake: make(chan struct{}, 1), slots: make(chan struct{}, d.slots)}
	c.turnAt.Store(time.Now().UnixNano())
	name := r.o.Ledger.Namespace() + ":" + string(d.name)
	c.q = newQueue(r.o.Queue, name, d.timeout, c.look)
	c.server = asynq.NewServerFromRedisClient(c.q, asynq.Config{
		Concurrency:       d.slots,
		Queues:            map[string]int{name: 1},
		TaskCheckInterval: time.Millisecond, // the wait is in queue.dequeue
		RetryDelayFunc:    func(int, error, *asynq.Task) time.Duration { return time.Second },
		Logger:            asynqLog{r.o.Log, r.health},
		LogLevel:          asynq.WarnLevel,
		ShutdownTimeout:   r.plan.grace + 10*time.Second, // our own bounds end first
		// Its retry set holds only what a lost worker had in hand: stale deliveries,
		// which may wait; its set of completed tasks is always empty.
		DelayedTaskCheckInterval: 30 * time.Second,
		JanitorInterval:          5 * time.Minute,
	})
	return c
}

// handler carries the deliveries of a task to the slots. It always returns nil: to
// asynq a task is done when the ledger knows what became of its deliveries, or has
// them back.
func (c *conveyor) handler(ctx context.Context) asynq.Handler {
	return asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		on, err := parseTray(t.Payload())
		if err != nil {
			c.r.o.Log.LogAttrs(ctx, slog.LevelError, "foreign task dropped", slog.String("dependency", string(c.d.name)), slog.Any("err", err))
			return nil
		}
		if on.suspects() {
			c.carrySuspects(ctx, on)
			return nil
		}
		var all sync.WaitGroup
		for _, d := range on[1:] {
			all.Go(func() { c.carry(ctx, d) })
		}
		c.carry(ctx, on[0])
		all.Wait()
		return nil
	})
}

// carry takes one delivery through a slot. The slots are counted here and not by
// asynq, whose tasks carry several deliveries, and which gives up on a task whose
// lease it could not extend while our calls still run.
func (c *conveyor) carry(ctx context.Context, d ledger.Delivery) {
	select {
	case c.slots <- struct{}{}:
	case <-c.r.stopped:
		c.turnAway(tray{d}, 0)
		return
	}
	startedAt := time.Now()
	c.r.guard(d.ID.String(), func() {
		c.r.o.Metrics.SlotTaken(c.d.name)
		defer c.r.o.Metrics.SlotFreed(c.d.name)
		c.deliver(ctx, d)
	})
	c.took(time.Since(startedAt))
	<-c.slots
	c.q.through()
	c.freed()
}

// carrySuspects takes suspects through one after the other, and only one tray of them
// at a time in this process: the one that costs the process its life must not take
// the others along.
func (c *conveyor) carrySuspects(ctx context.Context, on tray) {
	select {
	case c.r.suspect <- struct{}{}:
		defer func() { <-c.r.suspect }()
	default:
		c.turnAway(on, c.suspectsTake())
		return
	}
	startedAt := time.Now()
	for i, d := range on {
		if time.Since(startedAt) > suspectsWithin {
			c.turnAway(on[i:], 0)
			return
		}
		c.carry(ctx, d)
	}
}

// turnAway gives back deliveries that get no slot now.
func (c *conveyor) turnAway(on tray, wait time.Duration) {
	c.r.guard("conveyor", func() { c.giveBackAll(on, wait) })
	for range on {
		c.q.through()
	}
	c.freed()
}

// took notes how long a delivery was in its slot.
func (c *conveyor) took(span time.Duration) {
	const weight = 0.05 // of the newest: about the last twenty count
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pace == 0 {
		c.pace = span.Seconds()
	}
	c.pace += weight * (span.Seconds() - c.pace)
}

// suspectsTake is how long a tray of suspects takes at the present pace, at most a second.
func (c *conveyor) suspectsTake() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pace == 0 {
		return suspectWait
	}
	return min(suspectWait, time.Duration(maxTray*c.pace*float64(time.Second)))
}

// spare is how many deliveries may wait on the conveyor for a slot to come free: what
// the slots finish in a moment. With fast calls that is several for each slot, with
// slow ones next to none, because other processes may have a slot free for them.
func (c *conveyor) spare() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pace == 0 {
		return 0
	}
	n := math.Ceil(float64(c.d.slots) * ahead.Seconds() / c.pace)
	return int(min(n, maxSpare*float64(c.d.slots)))
}

// expect says that something will be due here in a while.
func (c *conveyor) expect(in time.Duration) {
	at := time.Now().Add(in)
	c.mu.Lock()
	sooner := at.Before(c.releaseAt)
	if sooner {
		c.releaseAt = at
	}
	c.mu.Unlock()
	if sooner {
		c.look()
	}
}

// nudged is expect for what another process says: of no use while nothing may leave.
func (c *conveyor) nudged(in time.Duration) {
	c.mu.Lock()
	open := c.hold == jobs.HoldNone || c.hold == jobs.HoldBudget || c.hold == jobs.HoldLane
	c.mu.Unlock()
	if open {
		c.expect(in)
	}
}

// freed says that a slot is free.
func (c *conveyor) freed() {
	c.mu.Lock()
	if c.hold == jobs.HoldSlots || c.hold == jobs.HoldInFlight {
		c.releaseAt = time.Time{}
	}
	c.mu.Unlock()
	c.look()
}

func (c *conveyor) look() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look
	}
}
