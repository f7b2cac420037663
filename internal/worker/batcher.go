package worker

import (
	"context"
	"runtime"
	"sync"

	"github.com/redis/go-redis/v9"
)

const (
	// maxBatch bounds how long one pipeline keeps Redis from others: 64 scripts
	// take about 2 ms.
	maxBatch = 64
	// maxPipelines are in flight at once. While one is at Redis the next fills up,
	// so the batch grows with the load and a lone call never waits for company. A
	// second one bridges the round trip.
	maxPipelines = 2
)

// batcher is a Redis client that sends the scripts called at the same time by
// many goroutines in one pipeline: with 50 slots a begin and a finish each cost a
// fraction of a round trip. Everything but EVALSHA goes straight to the client
// inside. A call fails alone, by its own error, or with its pipeline, when the
// connection does; then its fate is unknown, as that of any lost reply.
type batcher struct {
	redis.UniversalClient

	mu      sync.Mutex // guards waiting, running
	waiting []*scriptCall
	running int            // drains, at most maxPipelines
	drains  sync.WaitGroup // counts running
}

// scriptCall is one EVALSHA on its way. done is closed by the drain that ran it;
// until then cmd belongs to that drain.
type scriptCall struct {
	ctx  context.Context
	cmd  *redis.Cmd
	done chan struct{}
}

func newBatcher(c redis.UniversalClient) *batcher { return &batcher{UniversalClient: c} }

// evalSha returns the command that runs a script Redis should know.
func evalSha(ctx context.Context, hash string, keys []string, args []any) *redis.Cmd {
	list := make([]any, 0, 3+len(keys)+len(args))
	list = append(list, "evalsha", hash, len(keys))
	for _, k := range keys {
		list = append(list, k)
	}
	cmd := redis.NewCmd(ctx, append(list, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// EvalSha implements [redis.Scripter]. It returns when the script has answered or
// ctx is done; in the second case the script may run all the same.
func (b *batcher) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	call := &scriptCall{ctx: ctx, cmd: evalSha(ctx, hash, keys, args), done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, call)
	if b.running < maxPipelines {
		b.running++
		b.drains.Add(1)
		go b.drain() // ends when nothing waits; close waits for it
	}
	b.mu.Unlock()
	select {
	case <-call.done:
		return call.cmd
	case <-ctx.Done():
		failed := redis.NewCmd(ctx)
		failed.SetErr(ctx.Err())
		return failed
	}
}

// drain runs what waits, batch by batch, until nothing does.
func (b *batcher) drain() {
	defer b.drains.Done()
	runtime.Gosched() // those who call in the same instant share the first batch
	for {
		b.mu.Lock()
		n := min(len(b.waiting), maxBatch)
		if n == 0 {
			b.running--
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.mu.Unlock()
		b.exec(batch)
	}
}

func (b *batcher) exec(batch []*scriptCall) {
	pipe := b.UniversalClient.Pipeline()
	ctx := context.Background() // a batch serves many callers; the client's timeouts bound it
	for _, call := range batch {
		if err := call.ctx.Err(); err != nil {
			call.cmd.SetErr(err) // its caller has left: what was not sent must not be sent later
			continue
		}
		_ = pipe.Process(ctx, call.cmd) // only queues
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for _, call := range batch {
		close(call.done)
	}
}

// close waits for the pipelines in flight; nobody may call meanwhile.
func (b *batcher) close() { b.drains.Wait() }
