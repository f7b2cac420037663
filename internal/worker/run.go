package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// closing is what a stop may take beyond the grace: cancelled calls end, their
	// results are written.
	closing = 2 * time.Second
	// stuckAfter is how long a loop may stand still while Redis can be used before
	// only a restart can help. Every call in a loop is bounded far below it.
	stuckAfter = 30 * time.Second
	// pollAged is when a dependency that is not asked for due operations makes the
	// worker unready.
	pollAged = 10 * time.Second
)

// run is one life of a worker, from Start to Stop.
type run struct {
	o         Options
	plan      *plan
	startedAt time.Time
	batcher   *batcher
	ledger    *ledger.Ledger // through the batcher, for what slots wait for; o.Ledger is for the loops
	health    *health
	clock     clock
	pending   *pending
	conveyors map[jobs.Dependency]*conveyor
	inquirers []*inquirer
	suspect   chan struct{} // capacity 1: who holds it may run a suspect
	upkeepAt  atomic.Int64  // when upkeep last turned, Unix ns
	disagreed sync.Map      // of jobs.Dependency: whose other workers the log has complained about
	unseen    atomic.Bool   // the clock stepped: what was said to be known may look long gone

	randMu sync.Mutex // guards o.Rand

	take  context.CancelFunc // ends the loops: nothing is released or taken any more
	send  context.CancelFunc // ends running calls
	write context.CancelFunc // ends the writing of what is pending

	conveying sync.WaitGroup // the conveyors' loops
	keeping   sync.WaitGroup // every other loop
	writing   sync.WaitGroup // pending's loop

	stopOnce sync.Once
	nowOnce  sync.Once
	stopped  chan struct{} // closed when Stop was called: nothing is begun any more
	now      chan struct{} // closed when StopNow was called
	ended    chan struct{} // closed when everything has ended
}

func newRun(o Options, p *plan) *run {
	r := &run{o: o, plan: p, startedAt: time.Now(), health: newHealth(o.Log, o.Metrics), conveyors: map[jobs.Dependency]*conveyor{},
		suspect: make(chan struct{}, 1), stopped: make(chan struct{}), now: make(chan struct{}), ended: make(chan struct{})}
	r.batcher = newBatcher(o.Ledger.Client())
	r.o.Ledger = o.Ledger.WaitingFor(o.Config.Redis.WaitReplicas)
	r.ledger = ledger.New(r.batcher, o.Ledger.Namespace()).WaitingFor(o.Config.Redis.WaitReplicas)
	r.pending = newPending(r.health, r.eased)
	r.upkeepAt.Store(time.Now().UnixNano())
	return r
}

// start makes the process known and sets everything going. Nothing runs when it
// returns an error.
func (r *run) start(ctx context.Context) error {
	if err := r.announce(ctx); err != nil {
		r.o.Metrics.RedisUp(false)
		return err
	}
	// The loops live until stop, not until the context of Start ends.
	ctx = context.WithoutCancel(ctx)
	var taking, sending, writing context.Context
	taking, r.take = context.WithCancel(ctx)
	sending, r.send = context.WithCancel(ctx)
	writing, r.write = context.WithCancel(ctx)

	for name, d := range r.plan.dependencies {
		r.conveyors[name] = newConveyor(r, d)
		r.o.Metrics.Slots(name, d.slots)
	}
	for name, c := range r.conveyors {
		if err := c.server.Start(c.handler(sending)); err != nil {
			return errors.Join(fmt.Errorf("start the queue of %s: %w", name, err), r.rollBack())
		}
	}
	for _, c := range r.conveyors {
		r.loop(taking, &r.conveying, "conveyor", c.loop)
		if i := newInquirer(c); i != nil {
			r.inquirers = append(r.inquirers, i)
			r.loop(taking, &r.conveying, "inquirer", func(ctx context.Context) { i.loop(ctx, sending) })
		}
	}
	r.loop(taking, &r.keeping, "health", func(ctx context.Context) { r.health.watch(ctx, r.announce) })
	r.loop(taking, &r.keeping, "upkeep", r.upkeep)
	r.loop(taking, &r.keeping, "heartbeat", r.heartbeat)
	r.loop(taking, &r.keeping, "retention", r.retention)
	r.loop(taking, &r.keeping, "nudges", r.nudges)
	r.loop(writing, &r.writing, "pending", r.pending.loop)
	return nil
}

// loop runs a loop until its context is done, again after a panic: one bad moment
// must not stop the timer for good.
func (r *run) loop(ctx context.Context, group *sync.WaitGroup, name string, f func(context.Context)) {
	group.Add(1)
	go func() { // ends with ctx; stop waits for the group
		defer group.Done()
		for r.guard(name, func() { f(ctx) }) && sleep(ctx, time.Second) {
		}
	}()
}

// announce makes this process and its kinds known. It is repeated whenever Redis
// comes back, because it may come back empty.
func (r *run) announce(ctx context.Context) error {
	if err := r.o.Ledger.CheckSchema(ctx); err != nil {
		return err
	}
	if err := r.o.Ledger.PublishKinds(ctx, r.plan.specs); err != nil {
		return err
	}
	return r.beat(ctx)
}

func (r *run) beat(ctx context.Context) error {
	return r.o.Ledger.Beat(ctx, ledger.Worker{ID: r.o.ID, Host: hostname(), PID: os.Getpid(), Version: r.o.Version, StartedAt: r.startedAt.UTC(),
		Dependencies: r.plan.names(), Kinds: r.plan.kinds()})
}

// stop ends everything, in the order in which one thing feeds the next, and
// returns when it has ended. now: running calls get no grace. Who comes second waits.
func (r *run) stop(now bool) {
	if now {
		r.nowOnce.Do(func() { close(r.now) })
	}
	r.stopOnce.Do(func() {
		defer close(r.ended)
		r.o.Log.LogAttrs(context.Background(), slog.LevelInfo, "stopping")
		grace := time.NewTimer(r.plan.grace)
		defer grace.Stop()
		close(r.stopped) // no begin any more
		r.take()         // no release any more; nothing comes from the queue
		emptied := wait(&r.conveying, closing/2)
		r.handBack()
		ends := r.endServers()
		select {
		case <-ends:
		case <-grace.C:
		case <-r.now:
		}
		r.send()
		r.close(ends, emptied)
		r.o.Log.LogAttrs(context.Background(), slog.LevelInfo, "stopped")
	})
	<-r.ended
}

// handBack gives back what was taken from the queue and has no slot yet.
func (r *run) handBack() {
	for _, c := range r.conveyors {
		for _, message := range c.q.close() {
			t, err := trayOf(message)
			if err != nil {
				r.o.Log.LogAttrs(context.Background(), slog.LevelError, "foreign task left in the queue", slog.Any("err", err))
				continue
			}
			c.giveBackAll(t, 0)
		}
	}
}

// endServers shuts the asynq servers down; the channel is closed when the last
// delivery has left its slot, the last inquiry has ended, and so have they.
func (r *run) endServers() <-chan struct{} {
	var all sync.WaitGroup
	for _, c := range r.conveyors {
		all.Go(c.server.Shutdown)
	}
	for _, i := range r.inquirers {
		all.Go(i.running.Wait)
	}
	return ended(&all)
}

// ended returns a channel that is closed when the group has ended. What waits for
// it is a goroutine that ends with the group.
func ended(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return done
}

// wait waits for the group, but no longer than span. It reports whether it ended.
func wait(group *sync.WaitGroup, span time.Duration) bool {
	t := time.NewTimer(span)
	defer t.Stop()
	select {
	case <-ended(group):
		return true
	case <-t.C:
		return false
	}
}

// close writes what is left to write and ends the loops. It takes no longer than
// closing: a Redis that hangs must not keep the process from ending. emptied: the
// conveyors' loops have ended, so that their queues are free to be used.
func (r *run) close(ends <-chan struct{}, emptied bool) {
	until := time.Now().Add(closing)
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	select {
	case <-ends:
	case <-ctx.Done():
	}
	for _, c := range r.conveyors {
		for range maxUnacked / maxMoves { // what the last calls noted as done
			if _, unacked := c.q.load(); unacked == 0 || !emptied || r.health.trouble() != nil {
				break
			}
			_, err := c.q.move(ctx, 0)
			r.health.note(err)
		}
	}
	r.write()
	wait(&r.writing, time.Until(until))
	if left := r.pending.flush(ctx); left > 0 {
		r.o.Log.LogAttrs(ctx, slog.LevelError, "writes left to the leases: redis did not take them", slog.Int("pending", left))
	}
	wait(&r.keeping, time.Until(until))
	if r.health.trouble() == nil {
		if err := r.o.Ledger.Leave(ctx, r.o.ID); err != nil {
			r.o.Log.LogAttrs(ctx, slog.LevelWarn, "heartbeat not removed", slog.Any("err", err))
		}
	}
	r.batcher.close()
}

// rollBack ends what start had begun.
func (r *run) rollBack() error {
	r.take()
	for _, c := range r.conveyors {
		c.q.close()
	}
	<-r.endServers()
	r.send()
	r.write()
	return nil
}

// stopping reports whether Stop was called.
func (r *run) stopping() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// eased is called when deliveries may be begun again.
func (r *run) eased() {
	for _, c := range r.conveyors {
		c.expect(0)
	}
}

// random draws from [0, 1).
func (r *run) random() float64 {
	r.randMu.Lock()
	defer r.randMu.Unlock()
	return r.o.Rand.Float64()
}

// reasons are why nothing can be redelivered at this moment.
func (r *run) reasons() []string {
	var why []string
	if r.stopping() {
		why = append(why, "stopping")
	}
	if err := r.health.trouble(); err != nil {
		return append(why, "redis cannot be used: "+err.Error())
	}
	if r.pending.full() {
		why = append(why, fmt.Sprintf("%d results wait to be written", r.pending.len()))
	}
	for _, name := range r.plan.names() {
		if at := r.conveyors[name].memory.since(); !at.IsZero() {
			why = append(why, fmt.Sprintf("redis lost attempts of %s that it had acknowledged (noticed %s): check, then resume it", name, at.Format(time.RFC3339)))
		}
		if !r.steady(name) {
			why = append(why, fmt.Sprintf("redis' clock stepped: %s waits for a claim lease", name))
		}
		if age := r.still(&r.conveyors[name].turnAt); age > pollAged {
			why = append(why, fmt.Sprintf("%s was last asked for due operations %s ago", name, age.Round(time.Second)))
		}
	}
	return why
}

// alive returns an error when a loop stands still though Redis can be used.
func (r *run) alive() error {
	if r.stopping() || r.health.trouble() != nil {
		return nil
	}
	for _, name := range r.plan.names() {
		if age := r.still(&r.conveyors[name].turnAt); age > stuckAfter {
			return fmt.Errorf("the conveyor of %s stands still for %s", name, age.Round(time.Second))
		}
	}
	if age := r.still(&r.upkeepAt); age > stuckAfter {
		return fmt.Errorf("upkeep stands still for %s", age.Round(time.Second))
	}
	return nil
}

// still is how long a loop has not turned although Redis could be used.
func (r *run) still(at *atomic.Int64) time.Duration {
	return min(time.Since(time.Unix(0, at.Load())), r.health.usableFor())
}
