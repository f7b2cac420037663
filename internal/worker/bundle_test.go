package worker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/policy"
	"redrive/internal/redistest"
)

const dep = jobs.Dependency("payrail")

// testBundle is one namespace on a real Redis with a configuration of one
// dependency and four kinds, one of each idempotency class that matters here.
type testBundle struct {
	*testing.T
	srv       *redistest.Redis
	url       string // of the store
	namespace string
	rdb       redis.UniversalClient
	ledger    *ledger.Ledger
	config    *config.Config
	sender    *counter
	metrics   *metrics.Metrics
	log       *logbook
}

// setup gives a bundle on a server that all tests share, unless a test brings its
// own because it breaks it.
func setup(t *testing.T, own ...*redistest.Redis) *testBundle {
	t.Helper()
	b := &testBundle{T: t, namespace: fmt.Sprintf("t%08x", rand.Uint32()), sender: newCounter(), log: &logbook{}}
	if len(own) > 0 {
		b.srv = own[0]
	} else {
		b.srv = redistest.Server(t, redistest.Shared())
	}
	b.url = b.srv.URL()
	b.rdb = b.srv.Client(t)
	return b.outfit()
}

// outfit gives a bundle with a store all the rest.
func (b *testBundle) outfit() *testBundle {
	b.ledger = ledger.New(b.rdb, b.namespace)
	b.config = config.Default()
	b.config.Redis.Namespace = b.namespace
	b.config.ShutdownGrace = 5 * time.Second
	d := config.NewDependency(dep, "http://127.0.0.1:1")
	d.Timeout, d.Slots, d.MaxInFlight, d.MinResponse = time.Second, 10, 0, 10*time.Millisecond
	d.Budget = config.Budget{RatioMilli: 1000, Cap: 100_000, FloorMilliPerSecond: 1_000_000}
	// Tests of the gate turn it on; to the others failures are something to be tried again.
	d.Breaker.Consecutive, d.Breaker.MinCalls = 0, 1_000_000
	b.config.Dependencies[dep] = d
	for name, class := range map[jobs.Kind]jobs.Idempotency{"charge": jobs.IdempotencyKeyed, "report": jobs.IdempotencyNatural, "payout": jobs.IdempotencyNone} {
		k := config.NewKind(name, d, "/v1/"+string(name)+"s")
		k.Idempotency = class
		k.Backoff = config.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond}
		b.config.Kinds[name] = k
	}
	b.metrics = metrics.New(metrics.Options{})
	return b
}

// client returns a client of the bundle's Redis, closed at the end of the test.
func (b *testBundle) client() redis.UniversalClient {
	b.Helper()
	c, err := ledger.Connect(b.url, ledger.ConnectOptions{PoolSize: 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// options are those of one more worker of the bundle, on clients of its own.
func (b *testBundle) options() Options {
	b.Helper()
	return Options{Ledger: ledger.New(b.client(), b.namespace), Queue: b.client(), Config: b.config, Sender: b.sender, Metrics: b.metrics,
		Log: slog.New(b.log), Rand: rand.New(rand.NewPCG(1, 2)), Version: "test"}
}

// worker starts one more worker, stopped at the end of the test.
func (b *testBundle) worker(change ...func(*Options)) *Worker {
	b.Helper()
	o := b.options()
	for _, f := range change {
		f(&o)
	}
	w, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.StopNow)
	return w
}

// submit puts n operations of a kind in, named kind-0 and so on. change may alter
// each submission.
func (b *testBundle) submit(kind jobs.Kind, n int, change ...func(i int, s *jobs.Submission)) {
	b.Helper()
	if err := b.ledger.PublishKinds(b.Context(), b.config.KindSpecs()); err != nil {
		b.Fatal(err)
	}
	var batch []ledger.Entry
	for i := range n {
		if batch = append(batch, b.entry(kind, i, change...)); len(batch) < ledger.MaxBatch && i < n-1 {
			continue
		}
		receipts, err := b.handIn(batch...)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range receipts {
			if r.Answer != jobs.Accepted {
				b.Fatalf("submit %s: %s %v", r.Operation, r.Answer, r.Error)
			}
		}
		batch = nil
	}
}

// entry prepares the submission of kind-i.
func (b *testBundle) entry(kind jobs.Kind, i int, change ...func(i int, s *jobs.Submission)) ledger.Entry {
	b.Helper()
	var spec jobs.KindSpec
	for _, s := range b.config.KindSpecs() {
		if s.Kind == kind {
			spec = s
		}
	}
	s := &jobs.Submission{Kind: kind, Key: jobs.Key(fmt.Sprintf("%s-%d", kind, i)), Body: []byte(`{"amount":1}`), Deadline: "1h", CorrelationID: fmt.Sprintf("corr-%d", i)}
	for _, f := range change {
		f(i, s)
	}
	e, err := ledger.Prepare(s, spec)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// handIn submits at most [ledger.MaxBatch] entries.
func (b *testBundle) handIn(entries ...ledger.Entry) ([]jobs.Receipt, error) {
	b.Helper()
	p, err := newPlan(b.config)
	if err != nil {
		b.Fatal(err)
	}
	terms := ledger.SubmitTerms{Terms: p.dependencies[dep].terms, MaxBacklog: 1_000_000, ClaimLease: policy.ClaimLease(time.Second)}
	return b.ledger.Submit(b.Context(), terms, entries)
}

// states counts the operations by state.
func (b *testBundle) states() map[jobs.State]int64 {
	b.Helper()
	counts, err := b.ledger.Counts(context.Background(), dep)
	if err != nil {
		return nil // Redis may be down just now
	}
	m := map[jobs.State]int64{}
	for _, c := range counts {
		m[c.State] += c.N
	}
	return m
}

// until polls ok, and fails the test when it does not become true in time.
func (b *testBundle) until(within time.Duration, what string, ok func() bool) {
	b.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			b.Fatalf("not within %s: %s; states %v, sends %d", within, what, b.states(), b.sender.total())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ended waits until n operations are in a state, and nothing is anywhere else.
func (b *testBundle) ended(within time.Duration, state jobs.State, n int64) {
	b.Helper()
	b.until(within, fmt.Sprintf("%d operations %s", n, state), func() bool {
		s := b.states()
		return s[state] == n && len(s) == 1
	})
}

func (b *testBundle) get(kind jobs.Kind, i int) *ledger.Detail {
	b.Helper()
	d, err := b.ledger.Get(context.Background(), dep, jobs.ID{Kind: kind, Key: jobs.Key(fmt.Sprintf("%s-%d", kind, i))}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// key returns a Redis key of the dependency.
func (b *testBundle) key(name string) string { return b.namespace + ":{" + string(dep) + "}:" + name }

// counter is a gateway that counts calls by operation and answers as told.
type counter struct {
	mu     sync.Mutex // guards the rest
	sends  map[string]int
	flying map[string]int
	doubly int       // calls that began while another of the same operation was under way
	first  time.Time // when the first call came
	script func(ctx context.Context, call gateway.Call) gateway.Answer
	asked  map[string]int // inquiries by path
	says   func(path string) gateway.Answer
}

func newCounter() *counter {
	return &counter{sends: map[string]int{}, flying: map[string]int{},
		script: func(context.Context, gateway.Call) gateway.Answer { return answered(200) }}
}

// answered is an answer with a status and a body that fits it.
func answered(status int) gateway.Answer {
	a := gateway.Answer{Sample: policy.Sample{Phase: policy.PhaseAnswered, Status: status, Body: []byte(`{"id":"ch_1","status":"succeeded"}`),
		Header: map[string][]string{"Content-Type": {"application/json"}}, WireBytes: 100, ReceivedAt: time.Now()}, WireBytes: 100, Duration: time.Millisecond}
	if status >= 300 {
		a.Err = fmt.Sprintf("the gateway answered %d", status)
	}
	return a
}

// in is an answer of a phase that is no answer.
func in(phase policy.Phase, wireBytes int64) gateway.Answer {
	return gateway.Answer{Sample: policy.Sample{Phase: phase, WireBytes: wireBytes}, WireBytes: wireBytes, Err: string(phase)}
}

func (c *counter) answer(f func(ctx context.Context, call gateway.Call) gateway.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script = f
}

// name of the operation that a call is for, as its default idempotency key says.
func name(call gateway.Call) string { return call.Request.IdempotencyKey }

// Send implements Sender.
func (c *counter) Send(ctx context.Context, call gateway.Call) gateway.Answer {
	c.mu.Lock()
	c.sends[name(call)]++
	if c.flying[name(call)]++; c.flying[name(call)] > 1 {
		c.doubly++
	}
	if c.first.IsZero() {
		c.first = time.Now()
	}
	script := c.script
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.flying[name(call)]--
		c.mu.Unlock()
	}()
	return script(ctx, call)
}

// Ask implements Sender.
func (c *counter) Ask(_ context.Context, q gateway.Question) gateway.Answer {
	c.mu.Lock()
	if c.asked == nil {
		c.asked = map[string]int{}
	}
	c.asked[q.Path]++
	says := c.says
	c.mu.Unlock()
	if says == nil {
		return in(policy.PhaseNoAnswer, 10)
	}
	return says(q.Path)
}

// saysBody is what the gateway says of every operation: a status and a body.
func (c *counter) saysBody(status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.says = func(string) gateway.Answer {
		a := answered(status)
		a.Sample.Body = []byte(body)
		return a
	}
}

func (c *counter) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, v := range c.asked {
		n += v
	}
	return n
}

func (c *counter) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, v := range c.sends {
		n += v
	}
	return n
}

func (c *counter) of(kind jobs.Kind, i int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sends[fmt.Sprintf("%s:%s-%d", kind, kind, i)]
}

// most returns the greatest number of sends of one operation.
func (c *counter) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, v := range c.sends {
		n = max(n, v)
	}
	return n
}

// logbook keeps log lines.
type logbook struct {
	mu    sync.Mutex // guards lines
	lines []map[string]string
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	line := map[string]string{"msg": r.Message, "level": r.Level.String()}
	r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logbook) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logbook) WithGroup(string) slog.Handler      { return l }

// with returns the lines that have the message and all of the pairs.
func (l *logbook) with(msg string, pairs ...string) []map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]string
lines:
	for _, line := range l.lines {
		if line["msg"] != msg {
			continue
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			if line[pairs[i]] != pairs[i+1] {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// value reads a metric, written name{label="value",...} with the labels sorted.
func (b *testBundle) value(metric string) float64 {
	b.Helper()
	families, err := b.metrics.Gatherer().Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := f.GetName()
			if labels := m.GetLabel(); len(labels) > 0 {
				var pairs []string
				for _, l := range labels {
					pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
				text += "{" + strings.Join(pairs, ",") + "}"
			}
			if text == metric {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	b.Fatalf("no metric %s", metric)
	return 0
}

// receive waits for ch, and fails the test when nothing comes in time.
func receive[T any](b *testBundle, what string, ch <-chan T) (v T) {
	b.Helper()
	select {
	case v = <-ch:
	case <-time.After(30 * time.Second):
		b.Fatalf("not within 30 s: %s; states %v, sends %d", what, b.states(), b.sender.total())
	}
	return v
}
