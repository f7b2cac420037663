package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"redrive/internal/gateway"
	"redrive/internal/redistest"
)

// BenchmarkRedeliver: operations taken from the waiting room to succeeded per
// second, every guarantee on, a gateway that answers at once; in alternation with
// bare asynq on the same server, which enqueues and runs a handler that does
// nothing. One server with 50 slots on both sides.
func BenchmarkRedeliver(b *testing.B) {
	const n, rounds = 20_000, 5
	server := server(b)
	var ratios, ours, bare, oursCPU, bareCPU []float64
	for range rounds {
		before := 1e6 * redisCPU(b, connect(b, server))
		a := rate(n, func() { runBare(b, server, n) })
		between := 1e6 * redisCPU(b, connect(b, server))
		r, cpu := redeliver(b, server, n)
		ratios, ours, bare = append(ratios, r/a), append(ours, r), append(bare, a)
		oursCPU, bareCPU = append(oursCPU, cpu/n), append(bareCPU, (between-before)/n)
	}
	record(b, "CPU of Redis for one redelivered operation", fmt.Sprintf("%.0f us beside %.0f us of bare asynq", median(oursCPU), median(bareCPU)), "", nil)
	record(b, "redelivered / bare asynq (1 server, 50 slots)",
		fmt.Sprintf("%.2f (%.0f/s beside %.0f/s, medians of %d)", median(ratios), median(ours), median(bare), rounds),
		">= 1.0", met(median(ratios) >= 1))
}

// redeliver returns operations per second, and the CPU time that Redis took for all.
func redeliver(b *testing.B, server *redistest.Redis, n int) (perSecond, cpu float64) {
	bundle := setup(b, server, 1, "budget: {ratio: 0.1, cap: 1000000, floor_per_second: 10000}")
	bundle.submit(b, 0, bundle.entries(b, 0, 0, n, reportedRefused))
	time.Sleep(2 * time.Second) // past the backoff of the first retry, which is at most 1.1 s
	var sent atomic.Int64
	before := 1e6 * redisCPU(b, connect(b, server))
	took := rate(n, func() {
		bundle.work(b, func(gateway.Call) { sent.Add(1) })
		await(b, "all operations to succeed", func() bool {
			done, err := bundle.rdb.ZCard(context.Background(), bundle.config.Redis.Namespace+":{d0}:done").Result()
			return err == nil && done == int64(n)
		})
	})
	if sent.Load() != int64(n) {
		b.Errorf("%d sends for %d operations", sent.Load(), n)
	}
	return took, 1e6*redisCPU(b, connect(b, server)) - before
}

func runBare(b *testing.B, server *redistest.Redis, n int) {
	rdb := connect(b, server)
	queue := fmt.Sprintf("bare%d", namespaces.Add(1))
	client := asynq.NewClientFromRedisClient(rdb)
	s := asynq.NewServerFromRedisClient(rdb, asynq.Config{Concurrency: 50, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel})
	var done atomic.Int64
	if err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		done.Add(1)
		return nil
	})); err != nil {
		b.Fatal(err)
	}
	defer s.Shutdown()
	var next atomic.Int64
	for range 8 {
		go func() { // ends when n tasks are enqueued; await below waits for their handlers
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if _, err := client.Enqueue(asynq.NewTask("t", []byte("charge/order-00000001")), asynq.Queue(queue)); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	await(b, "bare asynq", func() bool { return done.Load() == int64(n) })
}
