package worker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// recorder passes everything through and notes the hashes of scripts.
type recorder struct {
	redis.UniversalClient
	mu     sync.Mutex // guards hashes
	hashes map[string]bool
}

func (r *recorder) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	r.mu.Lock()
	r.hashes[hash] = true
	r.mu.Unlock()
	return r.UniversalClient.EvalSha(ctx, hash, keys, args...)
}

// This fails when go.mod brings an asynq with other scripts: look at them, and at
// what package queue does in their place, before the hashes are changed.
func TestTheScriptsOfAsynqAreTheOnesThatAreKnown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := &recorder{UniversalClient: b.client(), hashes: map[string]bool{}}
	name := b.namespace + ":bare"
	done := make(chan struct{})
	server := asynq.NewServerFromRedisClient(r, asynq.Config{Queues: map[string]int{name: 1}, LogLevel: asynq.FatalLevel, TaskCheckInterval: time.Millisecond})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		close(done)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	if _, err := asynq.NewClientFromRedisClient(r).Enqueue(asynq.NewTask("x", nil), asynq.Queue(name)); err != nil {
		t.Fatal(err)
	}
	receive(b, "the task", done)
	server.Shutdown()
	for what, hash := range map[string]string{"enqueue": hashEnqueue, "dequeue": hashDequeue, "done": hashDone, "server state": hashServerState, "clear state": hashClearState} {
		if !r.hashes[hash] {
			t.Errorf("asynq ran no %s script of the known hash %s", what, hash)
		}
	}
}

func TestTheQueueLeavesAsynqsDataAsAsynqWould(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.worker()
	b.submit("charge", 100)
	b.ended(10*time.Second, jobs.Succeeded, 100)
	prefix := "asynq:{" + b.namespace + ":payrail}:"
	b.until(5*time.Second, "every task is done", func() bool {
		for _, list := range []string{"pending", "active"} {
			if n, err := b.rdb.LLen(t.Context(), prefix+list).Result(); err != nil || n != 0 {
				return false
			}
		}
		n, err := b.rdb.Keys(t.Context(), prefix+"t:*").Result()
		leases, err2 := b.rdb.ZCard(t.Context(), prefix+"lease").Result()
		return err == nil && err2 == nil && len(n) == 0 && leases == 0
	})
	if n, err := b.rdb.Get(t.Context(), prefix+"processed").Int(); err != nil || n < 100/maxTray || n > 100 {
		t.Errorf("asynq counted %d tasks, %v", n, err)
	}
	if member, err := b.rdb.SIsMember(t.Context(), "asynq:queues", b.namespace+":payrail").Result(); err != nil || !member {
		t.Errorf("the queue is not listed: %v", err)
	}
}

func TestScriptsThatRedisForgetsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.worker()
	for range 3 {
		b.submit("charge", 20, func(_ int, s *jobs.Submission) { s.Key += jobs.Key(time.Now().Format("150405.000000000")) })
		if err := b.rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.ended(10*time.Second, jobs.Succeeded, 60)
	if b.sender.most() != 1 {
		t.Errorf("%d sends of one operation", b.sender.most())
	}
}

func TestTheTaskTimeoutIsWholeSecondsAboveAllOurOwnBounds(t *testing.T) {
	t.Parallel()
	for _, attempt := range []time.Duration{time.Millisecond, 900 * time.Millisecond, 3 * time.Second, time.Hour} {
		got := taskTimeout(attempt)
		if got%time.Second != 0 || got < attempt+beginWithin+finishWithin+5*time.Second {
			t.Errorf("%s for an attempt of %s", got, attempt)
		}
	}
}

func TestNothingOfRedrivesWorkersIsWrittenToAsynqsServerLists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &tap{}
	b.worker(hooked(p))
	time.Sleep(200 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names["zadd"]+p.names["setex"] > 0 {
		t.Errorf("commands %v", p.names)
	}
}
