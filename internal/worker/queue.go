package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// The SHA-1s of the scripts of asynq v0.26.0 that this package handles itself. A
// test runs the asynq of go.mod and fails when it uses others: what is not
// recognised is passed through, which is right but slow.
const (
	hashEnqueue     = "98d28b42650870a743450ffda9791e9e19c6991b"
	hashDequeue     = "a8153319360adc71cdc370107f8ab9786f204765"
	hashDone        = "1241eaa1c73409baaf1fea0c08d203a4911bda15"
	hashServerState = "3c8548ad44d0dfcfde50f07ea9271d77f656042c"
	hashClearState  = "79cf8dbc80deca37314fdfdeb9fe33a12c9baad7"
)

const (
	// asynqLease is how long asynq believes a task to be worked on after it was
	// taken; from then on the task's own server extends it.
	asynqLease = 30 * time.Second
	// maxDequeueWait bounds how long asynq's dequeue waits here for a task. asynq
	// counts the lease from when it asked, so it must stay far below that.
	maxDequeueWait = time.Second
	// maxMoves bounds each sort of script in one pipeline, and so how long one
	// pipeline keeps Redis from others.
	maxMoves = 100
	// maxUnacked bounds the finished tasks that asynq has not been told of while
	// Redis is away. What is forgotten comes back as a stale delivery.
	maxUnacked = 10_000
)

// queue is the conveyor's asynq queue as this process uses it: the client that
// asynq's server and client work through. asynq takes one task in a round trip and
// ends one in another; queue takes and ends many in one pipeline, of the very
// scripts that asynq would have run, and answers asynq at once:
//
//   - enqueue is noted and runs with the next [queue.move];
//   - dequeue is answered with a task that move has taken before, or waits for one;
//   - done is answered at once and runs with the next move. If it never does, the
//     task comes back later and its delivery is stale: the ledger decides, not asynq;
//   - asynq's list of servers is not written: Redrive has heartbeats of its own;
//   - asynq hears of no cancellation: nobody may end a call behind the ledger's back.
//     (Its subscriber would also end the process when the client is closed under it.)
//
// All else passes through. enqueue and move belong to one goroutine, the
// conveyor's; the rest is safe for concurrent use.
type queue struct {
	redis.UniversalClient

	client  *asynq.Client
	options []asynq.Option // of every task

	put []script // enqueues noted by asynq's client; the conveyor's goroutine alone

	arrived chan struct{} // capacity 1: taken is not empty; sent by move, received by dequeue
	changed func()        // called when asynq is done with a task; must not block
	closed  chan struct{} // closed by close: dequeue gives nothing any more

	mu      sync.Mutex        // guards the rest
	sources map[string]string // by hash: asynq's scripts, once it has shown them
	take    script            // how asynq takes one task; hash is "" until it asked once
	taken   []string          // tasks taken from Redis and not yet handed to asynq
	here    int               // deliveries on the tasks taken and handed over, and not through yet
	unacked []script          // done, and Redis not yet told
}

// script is one call of a script of asynq's.
type script struct {
	hash string
	keys []string
	args []any
}

func newQueue(c redis.UniversalClient, name string, timeout time.Duration, changed func()) *queue {
	q := &queue{
		UniversalClient: c,
		options: []asynq.Option{asynq.Queue(name), asynq.MaxRetry(25), asynq.Retention(0),
			asynq.Timeout(taskTimeout(timeout))},
		arrived: make(chan struct{}, 1),
		changed: changed,
		closed:  make(chan struct{}),
		sources: map[string]string{},
	}
	q.client = asynq.NewClientFromRedisClient(q)
	return q
}

// taskTimeout is whole seconds above everything that one delivery may take, so
// that our own bounds always end first: asynq cuts fractions off, and reads 0 as
// half an hour.
func taskTimeout(attempt time.Duration) time.Duration {
	return (attempt + beginWithin + finishWithin + 10*time.Second).Truncate(time.Second) + time.Second
}

// EvalSha implements [redis.Scripter] for asynq.
func (q *queue) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	switch hash {
	case hashServerState, hashClearState:
		return redis.NewCmdResult("OK", nil)
	case hashEnqueue, hashDequeue, hashDone:
	default:
		return q.UniversalClient.EvalSha(ctx, hash, keys, args...)
	}
	q.mu.Lock()
	_, shown := q.sources[hash]
	q.mu.Unlock()
	if !shown {
		return redis.NewCmdResult(nil, redis.ErrNoScript) // asynq will call Eval with the source
	}
	return q.handle(ctx, script{hash, keys, args})
}

// Eval implements [redis.Scripter] for asynq, which calls it when Redis does not
// know a script.
func (q *queue) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	switch hash := redis.NewScript(source).Hash(); hash {
	case hashEnqueue, hashDequeue, hashDone:
		q.mu.Lock()
		q.sources[hash] = source
		q.mu.Unlock()
		return q.handle(ctx, script{hash, keys, args})
	default:
		return q.UniversalClient.Eval(ctx, source, keys, args...)
	}
}

func (q *queue) handle(ctx context.Context, s script) *redis.Cmd {
	switch s.hash {
	case hashEnqueue:
		q.put = append(q.put, s)
		return redis.NewCmdResult(int64(1), nil)
	case hashDequeue:
		return q.dequeue(ctx, s)
	default:
		return q.done(s)
	}
}

// ZAdd implements [redis.Cmdable] for asynq: its lists of servers and of their
// tasks are not written.
func (q *queue) ZAdd(ctx context.Context, key string, members ...redis.Z) *redis.IntCmd {
	if serverList(key) {
		return redis.NewIntResult(0, nil)
	}
	return q.UniversalClient.ZAdd(ctx, key, members...)
}

// ZRem is like [queue.ZAdd].
func (q *queue) ZRem(ctx context.Context, key string, members ...any) *redis.IntCmd {
	if serverList(key) {
		return redis.NewIntResult(0, nil)
	}
	return q.UniversalClient.ZRem(ctx, key, members...)
}

func serverList(key string) bool { return key == "asynq:servers" || key == "asynq:workers" }

// deaf is a closed client: a subscription through it fails at once, without a
// connection, and asynq asks again a few seconds later.
var deaf = func() *redis.Client {
	c := redis.NewClient(&redis.Options{})
	_ = c.Close() // it never had a connection
	return c
}()

// Subscribe implements [redis.UniversalClient] for asynq.
func (q *queue) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return deaf.Subscribe(ctx, channels...)
}

// dequeue hands asynq a task. It waits for one, so that a task starts when it
// arrives and an empty queue costs nothing.
func (q *queue) dequeue(ctx context.Context, s script) *redis.Cmd {
	timeout := time.NewTimer(maxDequeueWait)
	defer timeout.Stop()
	for {
		q.mu.Lock()
		if q.take.hash == "" {
			q.take = script{s.hash, s.keys, s.args[1:]} // without the lease's end
		}
		if !q.isClosed() && len(q.taken) > 0 {
			task := q.taken[0]
			q.taken[0], q.taken = "", q.taken[1:]
			q.mu.Unlock()
			return redis.NewCmdResult(task, nil)
		}
		q.mu.Unlock()
		select {
		case <-q.arrived:
		case <-timeout.C:
			return redis.NewCmdResult(nil, redis.Nil)
		case <-q.closed:
			return redis.NewCmdResult(nil, redis.Nil)
		case <-ctx.Done():
			return redis.NewCmdResult(nil, redis.Nil)
		}
	}
}

func (q *queue) isClosed() bool {
	select {
	case <-q.closed:
		return true
	default:
		return false
	}
}

func (q *queue) done(s script) *redis.Cmd {
	q.mu.Lock()
	q.unacked = append(q.unacked, s)
	q.mu.Unlock()
	q.changed()
	return redis.NewCmdResult("OK", nil)
}

// enqueue notes a tray for the next move.
func (q *queue) enqueue(t tray) error {
	_, err := q.client.Enqueue(asynq.NewTask(taskType, t.payload()), append(q.options, asynq.TaskID(t.taskID()))...)
	if err != nil {
		return fmt.Errorf("put %s on the conveyor: %w", t.taskID(), err)
	}
	return nil
}

// through says that a delivery has left its slot.
func (q *queue) through() {
	q.mu.Lock()
	q.here--
	q.mu.Unlock()
}

// load returns how many deliveries are here, waiting or in a slot, and how many
// finished tasks Redis has not been told of.
func (q *queue) load() (here, unacked int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.here, len(q.unacked)
}

// moved is what one move did.
type moved struct {
	took       int   // tasks taken from Redis
	deliveries int   // on them
	asked      int   // tasks asked for
	lost       []int // positions of noted enqueues that Redis may not have got
}

// move runs, in one pipeline, the dones and enqueues that are noted and takes up
// to want tasks. The error is that of the connection or of a Redis that refuses;
// dones are then kept for the next move.
func (q *queue) move(ctx context.Context, want int) (moved, error) {
	q.mu.Lock()
	acks := q.unacked[:min(len(q.unacked), maxMoves):min(len(q.unacked), maxMoves)]
	take := q.take
	q.mu.Unlock()
	calls := append(append([]script(nil), acks...), q.put...)
	puts := len(q.put)
	q.put = q.put[:0]
	m := moved{}
	if take.hash != "" && !q.isClosed() {
		m.asked = min(want, maxMoves)
		take.args = append([]any{time.Now().Add(asynqLease).Unix()}, take.args...)
		for range m.asked {
			calls = append(calls, take)
		}
	}
	if len(calls) == 0 {
		return m, nil
	}
	cmds, err := q.exec(ctx, calls)
	var kept []script
	var tasks []string
	for i, cmd := range cmds {
		switch failed := cmd.Err(); {
		case i < len(acks):
			if troubles(failed) {
				kept = append(kept, acks[i])
			}
		case i < len(acks)+puts:
			if failed != nil {
				m.lost = append(m.lost, i-len(acks))
			}
		case failed == nil:
			if text, err := cmd.Text(); err == nil {
				tasks = append(tasks, text)
			}
		}
	}
	m.took = len(tasks)
	for _, t := range tasks {
		if on, err := trayOf(t); err == nil { // a foreign one weighs nothing: its handler drops it
			m.deliveries += len(on)
		}
	}
	q.mu.Lock()
	q.here += m.deliveries
	q.unacked = append(kept, q.unacked[len(acks):]...)
	if over := len(q.unacked) - maxUnacked; over > 0 {
		q.unacked = q.unacked[over:]
	}
	q.taken = append(q.taken, tasks...)
	q.mu.Unlock()
	if len(tasks) > 0 {
		select {
		case q.arrived <- struct{}{}:
		default: // dequeue has been told already
		}
	}
	return m, err
}

// exec runs the calls in one pipeline; the scripts that Redis has forgotten are
// loaded and their calls repeated, which is safe because they did not run.
func (q *queue) exec(ctx context.Context, calls []script) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(calls))
	again := make([]int, len(calls))
	for i := range calls {
		again[i] = i
	}
	for range 2 {
		pipe := q.UniversalClient.Pipeline()
		for _, i := range again {
			cmds[i] = evalSha(ctx, calls[i])
			_ = pipe.Process(ctx, cmds[i]) // only queues
		}
		_, _ = pipe.Exec(ctx) // each command keeps its own error
		missing := map[string]bool{}
		again = again[:0]
		for i, cmd := range cmds {
			unknown := redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT")
			if unknown {
				missing[calls[i].hash] = true
			}
			if unknown || cmd.Err() == redis.Nil { // what found nothing may have come before what was not put yet
				again = append(again, i)
			}
		}
		if len(missing) == 0 {
			break
		}
		for hash := range missing {
			q.mu.Lock()
			source := q.sources[hash]
			q.mu.Unlock()
			if err := q.UniversalClient.ScriptLoad(ctx, source).Err(); err != nil {
				return cmds, fmt.Errorf("load a script of the queue: %w", err)
			}
		}
	}
	for _, cmd := range cmds {
		// Not an error: an empty queue, and a done for a task that asynq took for lost.
		if err := cmd.Err(); troubles(err) {
			return cmds, fmt.Errorf("move the conveyor: %w", err)
		}
	}
	return cmds, nil
}

// close makes dequeue give nothing any more and returns the tasks that were taken
// and never handed over. Call it once.
func (q *queue) close() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.closed)
	left := q.taken
	q.taken = nil
	return left
}

// evalSha returns the command that runs a script Redis should know.
func evalSha(ctx context.Context, s script) *redis.Cmd {
	list := make([]any, 0, 3+len(s.keys)+len(s.args))
	list = append(list, "evalsha", s.hash, len(s.keys))
	for _, k := range s.keys {
		list = append(list, k)
	}
	cmd := redis.NewCmd(ctx, append(list, s.args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}
