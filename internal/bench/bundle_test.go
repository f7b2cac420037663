package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/redistest"
	"redrive/internal/worker"
)

// bundle is one namespace on one server, with dependencies d0, d1, … of one kind
// each (k0, k1, …).
type bundle struct {
	server *redistest.Redis
	rdb    redis.UniversalClient
	ledger *ledger.Ledger
	config *config.Config
	text   string // of the configuration
}

const payloadBytes = 500

// server is a redis-server with AOF that does not rewrite it while it is measured: a
// rewrite takes a core for as long as it pleases, and from either side.
func server(b *testing.B) *redistest.Redis {
	return redistest.Server(b, redistest.WithConfig("auto-aof-rewrite-percentage 0"))
}

func setup(b *testing.B, server *redistest.Redis, dependencies int, gate string) *bundle {
	b.Helper()
	var y strings.Builder
	fmt.Fprintf(&y, "redis: {url: 'unix://%s', namespace: b%d}\ndependencies:\n", server.Socket(), namespaces.Add(1))
	for i := range dependencies {
		fmt.Fprintf(&y, "  d%d: {base_url: 'http://127.0.0.1:1', slots: 50, max_in_flight: 0, timeout: 3s, max_backlog: 10000000, %s}\n", i, gate)
	}
	y.WriteString("operations:\n")
	for i := range dependencies {
		fmt.Fprintf(&y, "  k%d: {dependency: d%d, idempotency: keyed, request: {method: POST, path: /v1/charges}}\n", i, i)
	}
	c, err := config.Parse("bench.yaml", []byte(y.String()))
	if err != nil {
		b.Fatal(err)
	}
	rdb := connect(b, server)
	return &bundle{server: server, rdb: rdb, ledger: ledger.New(rdb, c.Redis.Namespace), config: c, text: y.String()}
}

var namespaces atomic.Int64

func connect(b *testing.B, server *redistest.Redis) redis.UniversalClient {
	b.Helper()
	rdb, err := ledger.Connect("unix://"+server.Socket(), ledger.ConnectOptions{PoolSize: 100})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rdb.Close() })
	return rdb
}

// body has exactly payloadBytes bytes of JSON.
func body(i int) []byte {
	head := fmt.Sprintf(`{"amount":%d,"currency":"GBP","reference":"order-%08d","note":"`, 100+i%9000, i)
	return []byte(head + strings.Repeat("x", payloadBytes-len(head)-2) + `"}`)
}

func (b *bundle) entries(t *testing.B, dep, from, n int, change func(*jobs.Submission)) []ledger.Entry {
	t.Helper()
	spec := b.spec(dep)
	out := make([]ledger.Entry, n)
	for i := range out {
		s := jobs.Submission{Kind: spec.Kind, Key: jobs.Key(fmt.Sprintf("order-%08d", from+i)), Body: body(from + i)}
		if change != nil {
			change(&s)
		}
		e, err := ledger.Prepare(&s, spec)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = e
	}
	return out
}

func (b *bundle) spec(dep int) jobs.KindSpec {
	for _, s := range b.config.KindSpecs() {
		if s.Kind == jobs.Kind("k"+strconv.Itoa(dep)) {
			return s
		}
	}
	panic("bench: no such kind")
}

func (b *bundle) terms(dep int) ledger.SubmitTerms {
	spec := b.spec(dep)
	return ledger.SubmitTerms{Terms: ledger.Terms{Dependency: spec.Dependency, Retention: spec.Retention}, By: "checkout@shop-1", MaxBacklog: spec.MaxBacklog,
		ClaimLease: policy.ClaimLease(ms(spec.TimeoutMS))}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// submit writes entries in batches from a few goroutines.
func (b *bundle) submit(t *testing.B, dep int, entries []ledger.Entry) {
	t.Helper()
	batches := make(chan []ledger.Entry)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for batch := range batches {
				if _, err := b.ledger.Submit(context.Background(), b.terms(dep), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for from := 0; from < len(entries); from += ledger.MaxBatch {
		batches <- entries[from:min(from+ledger.MaxBatch, len(entries))]
	}
	close(batches)
	wg.Wait()
}

// sender answers every call with 200 at once and tells seen of it.
type sender struct{ seen func(gateway.Call) }

func (s sender) Send(_ context.Context, call gateway.Call) gateway.Answer {
	s.seen(call)
	return gateway.Answer{Sample: policy.Sample{Phase: policy.PhaseAnswered, Status: 200, Body: []byte(`{"id":"ch_1"}`),
		Header: map[string][]string{"Content-Type": {"application/json"}}}, WireBytes: 1}
}

// work runs a worker until the benchmark ends or stop is called.
func (b *bundle) work(t *testing.B, seen func(gateway.Call)) (stop func()) {
	t.Helper()
	w, err := worker.New(worker.Options{Ledger: b.ledger, Queue: connect(t, b.server), Config: b.config, Sender: sender{seen}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() { once.Do(w.StopNow) }
	t.Cleanup(stop)
	return stop
}

// await polls until done or a minute has passed.
func await(t *testing.B, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// Ask finds nobody who can say anything.
func (sender) Ask(context.Context, gateway.Question) gateway.Answer { return gateway.Answer{} }
