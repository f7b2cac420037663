package luascript

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrTooFewReplicas says that a script ran and that what it wrote stands, but that it
// is not known to be on as many replicas as its arguments ask for ([Args.Replicas]).
// It comes together with the script's answer.
var ErrTooFewReplicas = errors.New("not on enough replicas")

// ReplicaWait is how long Redis waits for its replicas. The reply timeout of the
// client must be longer.
const ReplicaWait = time.Second

// Replicas asks that what the script writes is on n replicas before it answers; 0
// asks for nothing, and costs nothing. Of many calls on one pipeline the largest n
// is waited for, and each call is answered by its own.
func (a *Args) Replicas(n int) *Args {
	a.replicas = n
	return a
}

// WantsReplicas returns how many replicas are asked for.
func (a *Args) WantsReplicas() int { return a.replicas }

// Wait is the end of a pipeline that waits for replicas.
type Wait struct {
	fence *redis.StatusCmd
	acks  *redis.IntCmd
}

// WaitFor appends to a pipeline what waits until n replicas have all that was written
// before it; key is that of a script on the pipeline.
//
// Redis waits for what came over the same connection alone: on another one of the
// pool, WAIT would wait for nothing. And since 7.2 it waits for the last write there,
// not for the last command: a script that finds everything as it should be, such as
// a submission that is repeated, writes nothing, and WAIT would again wait for
// nothing while what the script found is on no replica. Hence the fence, a write that
// replicas take after all that was there before.
func WaitFor(ctx context.Context, pipe redis.Pipeliner, key string, n int) *Wait {
	w := &Wait{fence: pipe.Set(ctx, key+":fence", "", 0), acks: redis.NewIntCmd(ctx, "wait", n, ReplicaWait.Milliseconds())}
	_ = pipe.Process(ctx, w.acks) // only queues
	return w
}

// Settle returns the answer of a call that asked for n replicas, with an error that
// wraps [ErrTooFewReplicas] if its writes are not known to be on so many. It may be
// called once the pipeline has run.
func (w *Wait) Settle(a Answer, n int) Answer {
	if a.Err != nil || n <= 0 {
		return a
	}
	got, err := w.acks.Result()
	switch err = errors.Join(w.fence.Err(), err); {
	case err != nil:
		a.Err = fmt.Errorf("%w: written, but it is not known on how many: %w", ErrTooFewReplicas, err)
	case got < int64(n):
		a.Err = fmt.Errorf("%w: written, but on %d of %d only", ErrTooFewReplicas, got, n)
	}
	return a
}

// runWaiting runs a call that asks for replicas.
func (s *Script) runWaiting(ctx context.Context, c redis.Scripter, key string, args *Args) (Reply, error) {
	client, ok := c.(interface{ Pipeline() redis.Pipeliner })
	if !ok {
		return nil, fmt.Errorf("script %s: a %T cannot wait for replicas: it has no pipeline", s.name, c)
	}
	run := func(command, script string) Answer {
		pipe := client.Pipeline()
		cmd := s.command(ctx, command, script, key, []*Args{args})
		_ = pipe.Process(ctx, cmd) // only queues
		wait := WaitFor(ctx, pipe, key, args.replicas)
		_, _ = pipe.Exec(ctx) // each command keeps its own error
		return wait.Settle(s.Answers(cmd, 1)[0], args.replicas)
	}
	answer := run("evalsha", s.Hash())
	if redis.HasErrorPrefix(answer.Err, "NOSCRIPT") {
		answer = run("eval", s.source)
	}
	if errors.Is(answer.Err, ErrTooFewReplicas) {
		answer.Err = s.fault(answer.Err)
	}
	return answer.Reply, answer.Err
}
