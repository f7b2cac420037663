package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// BenchmarkSubmit: operations accepted per second, one at a time from eight
// goroutines and in batches, beside bare asynq enqueues of the same body.
func BenchmarkSubmit(b *testing.B) {
	const n = 20_000
	server := server(b)
	var single, batched, perSecond, perSecondBatched []float64
	for range 5 {
		bare := rate(n, func() { enqueueBare(b, server, n) })
		bundle := setup(b, server, 1, "budget: {ratio: 0.1}")
		entries := bundle.entries(b, 0, 0, n, nil)
		one := rate(n, func() { submitSingly(b, bundle, entries) })
		bundle = setup(b, server, 1, "budget: {ratio: 0.1}")
		many := rate(n, func() { bundle.submit(b, 0, entries) })
		single, batched = append(single, one/bare), append(batched, many/bare)
		perSecond, perSecondBatched = append(perSecond, one), append(perSecondBatched, many)
	}
	record(b, "submit, one at a time, 8 goroutines", fmt.Sprintf("%.0f/s, %.2f x bare asynq enqueue", median(perSecond), median(single)), "", nil)
	record(b, "submit, batches of 100 (what import does)", fmt.Sprintf("%.0f/s, %.2f x bare asynq enqueue", median(perSecondBatched), median(batched)),
		">= 15,000/s", met(median(perSecondBatched) >= 15_000))
}

func rate(n int, run func()) float64 {
	start := time.Now()
	run()
	return float64(n) / time.Since(start).Seconds()
}

func submitSingly(b *testing.B, bundle *bundle, entries []ledger.Entry) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(entries)); i = next.Add(1) - 1 {
				if _, err := bundle.ledger.Submit(context.Background(), bundle.terms(0), entries[i:i+1]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func enqueueBare(b *testing.B, server *redistest.Redis, n int) {
	client := asynq.NewClientFromRedisClient(connect(b, server))
	queue := fmt.Sprintf("bare%d", namespaces.Add(1))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if _, err := client.Enqueue(asynq.NewTask("t", body(int(i))), asynq.Queue(queue)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkMemory: what a waiting operation takes in Redis.
func BenchmarkMemory(b *testing.B) {
	const n = 20_000
	bundle := setup(b, server(b), 1, "budget: {ratio: 0.1}")
	entries := bundle.entries(b, 0, 0, n, nil)
	before := info(b, bundle.rdb, "memory", "used_memory")
	bundle.submit(b, 0, entries)
	perOperation := (info(b, bundle.rdb, "memory", "used_memory") - before) / n
	record(b, "Redis memory of a waiting operation, 500-byte body", fmt.Sprintf("%.0f B", perOperation), "<= 1,536 B", met(perOperation <= 1536))
}

func notBefore(at time.Time) func(*jobs.Submission) {
	return func(s *jobs.Submission) { s.NotBefore = at.UTC().Format(time.RFC3339Nano) }
}

// reportedRefused: the request path made the first attempt, so the next is a retry.
func reportedRefused(s *jobs.Submission) {
	s.Attempted = &jobs.Attempted{Outcome: jobs.OutcomeRefused, Class: jobs.Class503}
}

// BenchmarkLateness: from due to sent, 500 operations due per second.
func BenchmarkLateness(b *testing.B) {
	const n, perSecond = 5_000, 500
	bundle := setup(b, server(b), 1, "budget: {ratio: 0.1}")
	var mu sync.Mutex // guards sent
	sent := map[string]time.Time{}
	bundle.work(b, func(c gateway.Call) {
		at := time.Now()
		mu.Lock()
		sent[c.Request.IdempotencyKey] = at
		mu.Unlock()
	})
	start := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
	due := map[string]time.Time{}
	var entries []ledger.Entry
	for i := range n {
		at := start.Add(time.Duration(i) * time.Second / perSecond)
		entries = append(entries, bundle.entries(b, 0, i, 1, notBefore(at))...)
		due[fmt.Sprintf("k0:order-%08d", i)] = at.Truncate(time.Millisecond)
	}
	bundle.submit(b, 0, entries)
	if late := time.Now(); late.After(start) {
		b.Fatalf("submitting took until %s after the first was due", late.Sub(start))
	}
	await(b, "the last send", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(sent) == n
	})
	var lateness []time.Duration
	early := 0
	for key, at := range due {
		late := sent[key].Sub(at)
		if late < 0 {
			early++
		}
		lateness = append(lateness, late)
	}
	p99 := quantile(lateness, 0.99)
	record(b, "start lateness at 500 due/s", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, early %d", quantile(lateness, 0.5).Seconds()*1000, p99.Seconds()*1000, early),
		"p99 <= 50 ms, never early", met(p99 <= 50*time.Millisecond && early == 0))
}
