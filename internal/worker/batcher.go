package worker

import (
	"context"
	"runtime"
	"sync"

	"github.com/redis/go-redis/v9"

	"redrive/internal/luascript"
)

const (
	// maxBatch bounds how long one pipeline keeps Redis from others: 64 calls take
	// some ms.
	maxBatch = 64
	// maxPipelines are in flight at once. While one is at Redis the next fills up,
	// so the batch grows with the load and a lone call never waits for company. A
	// second one bridges the round trip.
	maxPipelines = 2
)

// batcher is a Redis client that runs the scripts called at the same time by many
// goroutines together: calls of one script at one dependency in one run, several
// runs in one pipeline. With 50 slots a begin and a finish each cost a fraction of a
// round trip and of a script. All else goes straight to the client inside.
//
// A call fails alone, by its own error, or with its pipeline, when the connection
// does; then its fate is unknown, as that of any lost reply.
//
// Calls that ask for replicas go over pipelines of their own, which end with one WAIT:
// while a replica is away no other call, such as that of a result, waits for it.
type batcher struct {
	redis.UniversalClient

	mu     sync.Mutex // guards the lanes
	plain  batchLane
	copied batchLane      // of calls that ask for replicas
	drains sync.WaitGroup // counts what runs in both
}

// batchLane is where calls queue for the next pipeline.
type batchLane struct {
	waiting []*scriptCall
	running int // drains, at most maxPipelines
}

var _ luascript.Runner = (*batcher)(nil)

// scriptCall is one call of a script on its way. answer is written by the drain that
// runs it, before it closes done.
type scriptCall struct {
	ctx    context.Context
	script *luascript.Script
	key    string
	args   *luascript.Args
	answer luascript.Answer
	done   chan struct{}
}

func newBatcher(c redis.UniversalClient) *batcher { return &batcher{UniversalClient: c} }

// RunScript implements [luascript.Runner]. It returns when the script has answered
// or ctx is done; in the second case the script may run all the same.
func (b *batcher) RunScript(ctx context.Context, s *luascript.Script, key string, args *luascript.Args) (luascript.Reply, error) {
	call := &scriptCall{ctx: ctx, script: s, key: key, args: args, done: make(chan struct{})}
	lane := &b.plain
	if args.WantsReplicas() > 0 {
		lane = &b.copied
	}
	b.mu.Lock()
	lane.waiting = append(lane.waiting, call)
	if lane.running < maxPipelines {
		lane.running++
		b.drains.Add(1)
		go b.drain(lane) // ends when nothing waits; close waits for it
	}
	b.mu.Unlock()
	select {
	case <-call.done:
		return call.answer.Reply, call.answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// drain runs what waits in a lane, batch by batch, until nothing does.
func (b *batcher) drain(lane *batchLane) {
	defer b.drains.Done()
	runtime.Gosched() // those who call in the same instant share the first batch
	for {
		b.mu.Lock()
		n := min(len(lane.waiting), maxBatch)
		if n == 0 {
			lane.running--
			lane.waiting = nil
			b.mu.Unlock()
			return
		}
		batch := lane.waiting[:n:n]
		lane.waiting = lane.waiting[n:]
		b.mu.Unlock()
		b.exec(batch)
	}
}

// together are calls of one script at one key, decided in one run.
type together struct {
	calls []*scriptCall
	args  []*luascript.Args
	cmd   *redis.Cmd
	wait  *luascript.Wait // nil: no call of the pipeline asks for replicas
}

// exec runs a batch. Its calls are of different operations or of different steps of
// one, so their order says nothing; those of one script keep theirs.
func (b *batcher) exec(batch []*scriptCall) {
	type same struct {
		script *luascript.Script
		key    string
	}
	groups := map[same]*together{}
	var order []*together
	for _, call := range batch {
		if err := call.ctx.Err(); err != nil {
			call.answer.Err = err // its caller has left: what was not sent must not be sent later
			close(call.done)
			continue
		}
		g := groups[same{call.script, call.key}]
		if g == nil {
			g = &together{}
			groups[same{call.script, call.key}] = g
			order = append(order, g)
		}
		g.calls, g.args = append(g.calls, call), append(g.args, call.args)
	}
	b.run(order)
	if unknown := forgotten(order); len(unknown) > 0 {
		for _, g := range unknown {
			// An error shows in the second run, which then answers NOSCRIPT again.
			_ = b.UniversalClient.ScriptLoad(context.Background(), g.calls[0].script.Source())
		}
		b.run(unknown)
	}
	for _, g := range order {
		for i, answer := range g.calls[0].script.Answers(g.cmd, len(g.calls)) {
			if g.wait != nil {
				answer = g.wait.Settle(answer, g.args[i].WantsReplicas())
			}
			g.calls[i].answer = answer
			close(g.calls[i].done)
		}
	}
}

func (b *batcher) run(groups []*together) {
	ctx := context.Background() // a batch serves many callers; the client's timeouts bound it
	pipe := b.UniversalClient.Pipeline()
	replicas := 0
	for _, g := range groups {
		g.cmd = g.calls[0].script.Command(ctx, g.calls[0].key, g.args)
		_ = pipe.Process(ctx, g.cmd) // only queues
		for _, args := range g.args {
			replicas = max(replicas, args.WantsReplicas())
		}
	}
	if replicas > 0 {
		// On this very pipeline: another one may go over another connection.
		wait := luascript.WaitFor(ctx, pipe, groups[0].calls[0].key, replicas)
		for _, g := range groups {
			g.wait = wait
		}
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
}

// forgotten are the groups whose script Redis does not know: nothing of them ran.
func forgotten(groups []*together) []*together {
	var unknown []*together
	for _, g := range groups {
		if redis.HasErrorPrefix(g.cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, g)
		}
	}
	return unknown
}

// close waits for the pipelines in flight; nobody may call meanwhile.
func (b *batcher) close() { b.drains.Wait() }
