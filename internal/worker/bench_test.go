package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/redistest"
)

// bench measures how fast this package moves operations over a gateway that answers
// at once, with every guarantee on, and in alternation how fast bare asynq moves as
// many tasks through the same Redis: enqueue from eight goroutines, one server, a
// handler that does nothing. Only the ratio of a round says something; the machine
// and its other load cancel out of it.
type bench struct {
	// Connect returns a client of a Redis that nobody else uses; it is flushed. It is
	// called several times, and every client is closed. Required.
	Connect func() (redis.UniversalClient, error)

	Operations int // per round; 0: 10,000
	Slots      int // 0: 50
	Rounds     int // 0: 3
}

// benchRound is one round of a [bench]: operations and tasks per second.
type benchRound struct {
	Redelivered float64
	BareAsynq   float64
}

// Ratio is how many operations are redelivered in the time that bare asynq takes
// for a task.
func (r benchRound) Ratio() float64 { return r.Redelivered / r.BareAsynq }

const benchDependency = jobs.Dependency("bench")

// Run measures. It returns the rounds done so far with an error when Redis fails or
// ctx ends.
func (b bench) Run(ctx context.Context) ([]benchRound, error) {
	if b.Operations == 0 {
		b.Operations = 10_000
	}
	if b.Slots == 0 {
		b.Slots = 50
	}
	if b.Rounds == 0 {
		b.Rounds = 3
	}
	var rounds []benchRound
	for range b.Rounds {
		var round benchRound
		var err error
		if round.BareAsynq, err = b.bare(ctx); err == nil {
			round.Redelivered, err = b.redelivered(ctx)
		}
		if err != nil {
			return rounds, err
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// flushed returns an empty Redis.
func (b bench) flushed(ctx context.Context) (redis.UniversalClient, error) {
	c, err := b.Connect()
	if err != nil {
		return nil, err
	}
	if err := c.FlushDB(ctx).Err(); err != nil {
		_ = c.Close() // the flush's error says more
		return nil, fmt.Errorf("flush the database of the benchmark: %w", err)
	}
	return c, nil
}

func (b bench) bare(ctx context.Context) (float64, error) {
	c, err := b.flushed(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close() // measured already
	var done atomic.Int64
	all := make(chan struct{})
	server := asynq.NewServerFromRedisClient(c, asynq.Config{Concurrency: b.Slots, LogLevel: asynq.ErrorLevel, TaskCheckInterval: time.Millisecond})
	startedAt := time.Now()
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if done.Add(1) == int64(b.Operations) {
			close(all)
		}
		return nil
	})); err != nil {
		return 0, err
	}
	defer server.Shutdown()
	const enqueuers = 8
	client := asynq.NewClientFromRedisClient(c)
	errs := make(chan error, enqueuers)
	var enqueuing sync.WaitGroup
	for e := range enqueuers {
		enqueuing.Go(func() {
			for i := e; i < b.Operations; i += enqueuers {
				if _, err := client.Enqueue(asynq.NewTask(taskType, []byte("retry 0 1764490000000")), asynq.TaskID(fmt.Sprintf("charge/order-%d#1", i))); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	enqueuing.Wait()
	select {
	case err := <-errs:
		return 0, fmt.Errorf("enqueue to bare asynq: %w", err)
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-all:
		return float64(b.Operations) / time.Since(startedAt).Seconds(), nil
	}
}

// at200 answers every call at once.
type at200 struct{}

// Send implements [Sender].
func (at200) Send(context.Context, gateway.Call) gateway.Answer {
	return gateway.Answer{WireBytes: 1, Sample: policy.Sample{Phase: policy.PhaseAnswered, Status: 200, WireBytes: 1,
		Header: map[string][]string{"Content-Type": {"application/json"}}, Body: []byte(`{"id":"ch_1"}`)}}
}

func (b bench) config() *config.Config {
	c := config.Default()
	c.Redis.Namespace = "bench"
	d := config.NewDependency(benchDependency, "http://127.0.0.1:1")
	d.Slots, d.MaxInFlight = b.Slots, 0
	d.Breaker.Consecutive, d.Breaker.MinCalls = 0, 1_000_000
	c.Dependencies[d.Name] = d
	k := config.NewKind("charge", d, "/v1/charges")
	k.Idempotency = jobs.IdempotencyKeyed
	c.Kinds[k.Name] = k
	return c
}

func (b bench) redelivered(ctx context.Context) (float64, error) {
	c, err := b.flushed(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close() // measured already
	queue, err := b.Connect()
	if err != nil {
		return 0, err
	}
	defer queue.Close() // measured already
	cfg := b.config()
	l := ledger.New(c, cfg.Redis.Namespace)
	w, err := New(Options{Ledger: l, Queue: queue, Config: cfg, Sender: at200{}})
	if err != nil {
		return 0, err
	}
	if err := b.submit(ctx, l, w.plan); err != nil {
		return 0, err
	}
	startedAt := time.Now()
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	defer w.Stop()
	for sleep(ctx, 10*time.Millisecond) {
		counts, err := l.Counts(ctx, benchDependency)
		if err != nil {
			return 0, err
		}
		if len(counts) == 1 && counts[0].State == jobs.Succeeded && counts[0].N == int64(b.Operations) {
			return float64(b.Operations) / time.Since(startedAt).Seconds(), nil
		}
	}
	return 0, ctx.Err()
}

func (b bench) submit(ctx context.Context, l *ledger.Ledger, p *plan) error {
	if err := l.PublishKinds(ctx, p.specs); err != nil {
		return err
	}
	d := p.dependencies[benchDependency]
	terms := ledger.SubmitTerms{Terms: d.terms, MaxBacklog: int64(b.Operations) + 1, ClaimLease: policy.ClaimLease(d.timeout)}
	var batch []ledger.Entry
	for i := range b.Operations {
		e, err := ledger.Prepare(&jobs.Submission{Kind: "charge", Key: jobs.Key(fmt.Sprintf("order-%d", i)), Body: []byte(`{"amount":4200,"currency":"GBP"}`)}, p.specs[0])
		if err != nil {
			return err
		}
		if batch = append(batch, e); len(batch) < ledger.MaxBatch && i < b.Operations-1 {
			continue
		}
		if _, err := l.Submit(ctx, terms, batch); err != nil {
			return err
		}
		batch = batch[:0]
	}
	return nil
}

// BenchmarkRedelivery reports rates and their ratio; ns/op says nothing here.
func BenchmarkRedelivery(b *testing.B) {
	srv := redistest.Server(b)
	for b.Loop() {
		rounds, err := bench{Connect: func() (redis.UniversalClient, error) { return srv.Client(b), nil }, Rounds: 1}.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(rounds[0].Redelivered, "redelivered/s")
		b.ReportMetric(rounds[0].BareAsynq, "asynq/s")
		b.ReportMetric(rounds[0].Ratio(), "ratio")
	}
}

// BenchmarkLateness submits operations that come due one every 2 ms and reports how
// late each was sent, by Redis' clock, which is this machine's.
func BenchmarkLateness(b *testing.B) {
	srv := redistest.Server(b)
	for b.Loop() {
		late, err := lateness(b.Context(), srv.Client(b), srv.Client(b), 500, 4*time.Second)
		if err != nil {
			b.Fatal(err)
		}
		slices.Sort(late)
		b.ReportMetric(float64(late[len(late)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(late[0].Microseconds())/1000, "earliest-ms")
	}
}

// whenSent notes when each operation was sent.
type whenSent struct {
	at200
	mu sync.Mutex // guards at
	at map[string]time.Time
}

func (w *whenSent) Send(ctx context.Context, call gateway.Call) gateway.Answer {
	now := time.Now()
	w.mu.Lock()
	w.at[call.Request.IdempotencyKey] = now
	w.mu.Unlock()
	return w.at200.Send(ctx, call)
}

func lateness(ctx context.Context, c, queue redis.UniversalClient, perSecond int, span time.Duration) ([]time.Duration, error) {
	if err := c.FlushDB(ctx).Err(); err != nil {
		return nil, err
	}
	cfg := bench{Slots: 50}.config()
	sent := &whenSent{at: map[string]time.Time{}}
	l := ledger.New(c, cfg.Redis.Namespace)
	w, err := New(Options{Ledger: l, Queue: queue, Config: cfg, Sender: sent})
	if err != nil {
		return nil, err
	}
	if err := w.Start(ctx); err != nil {
		return nil, err
	}
	defer w.Stop()
	n := perSecond * int(span/time.Second)
	firstAt := time.Now().Add(time.Second).Truncate(time.Millisecond)
	due := map[string]time.Time{}
	d := w.plan.dependencies[benchDependency]
	terms := ledger.SubmitTerms{Terms: d.terms, MaxBacklog: int64(n) + 1, ClaimLease: policy.ClaimLease(d.timeout)}
	var batch []ledger.Entry
	for i := range n {
		key := fmt.Sprintf("order-%d", i)
		at := firstAt.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		due["charge:"+key] = at
		e, err := ledger.Prepare(&jobs.Submission{Kind: "charge", Key: jobs.Key(key), Body: []byte(`{}`), NotBefore: at.UTC().Format(time.RFC3339Nano)}, w.plan.specs[0])
		if err != nil {
			return nil, err
		}
		if batch = append(batch, e); len(batch) == ledger.MaxBatch || i == n-1 {
			if _, err := l.Submit(ctx, terms, batch); err != nil {
				return nil, err
			}
			batch = batch[:0]
		}
	}
	for sleep(ctx, 10*time.Millisecond) {
		sent.mu.Lock()
		done := len(sent.at) == n
		sent.mu.Unlock()
		if done {
			break
		}
	}
	var late []time.Duration
	for name, at := range due {
		late = append(late, sent.at[name].Sub(at))
	}
	return late, ctx.Err()
}

// Ask finds nobody who can say anything.
func (at200) Ask(context.Context, gateway.Question) gateway.Answer { return gateway.Answer{} }

// Ask finds nobody who can say anything.
func (*whenSent) Ask(context.Context, gateway.Question) gateway.Answer { return gateway.Answer{} }
