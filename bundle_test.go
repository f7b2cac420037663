package redrive

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/sandbox"
	"redrive/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is a service with its client, a gateway, and a Redis.
type bundle struct {
	*testing.T
	*Client
	srv     *redistest.Redis
	gateway *sandbox.Sandbox
	url     string // of the gateway
	config  string
	spoolAt string
}

// yaml is the worker's file. refuses: the breaker and the budget are out of the way.
const yaml = `redis: {url: '%s', namespace: %s}
dependencies:
  payrail: {base_url: '%s', timeout: 500ms, min_response: 20ms, budget: {ratio: 1, cap: 1000, floor_per_second: 100},
    breaker: {window: 10s, min_calls: 1000000, consecutive: 0}}
operations:
  charge: {dependency: payrail, idempotency: keyed, backoff: {base: 100ms, cap: 500ms}, request: {method: POST, path: /v1/charges}, result: {id: body.id}}
  payout: {dependency: payrail, idempotency: none, backoff: {base: 100ms, cap: 500ms}, idempotency_key: {header: ''}, request: {method: POST, path: /v1/charges},
    inquiry: {settle: 500ms, backoff: {base: 100ms, cap: 500ms}, request: {method: GET, path: "/v1/charges?reference={key}"}, answers: [200], after_not_found: resend,
      succeeded: 'body.data.exists(c, c.status == "succeeded")', not_found: 'size(body.data) == 0'}}
`

func setup(t *testing.T, change func(*Options), own ...*redistest.Redis) *bundle {
	t.Helper()
	b := &bundle{T: t, gateway: sandbox.New(sandbox.Options{Seed: 1})}
	if len(own) > 0 {
		b.srv = own[0]
	} else {
		b.srv = redistest.Server(t, redistest.Shared())
	}
	var err error
	if b.url, err = b.gateway.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.gateway.Stop)
	dir := t.TempDir()
	b.config, b.spoolAt = filepath.Join(dir, "redrive.yaml"), filepath.Join(dir, "spool.jsonl")
	text := fmt.Sprintf(yaml, b.srv.URL(), fmt.Sprintf("t%08x", rand.Uint32()), b.url)
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Client = b.another(change)
	return b
}

// another makes a client as a second process would.
func (b *bundle) another(change func(*Options)) *Client {
	b.Helper()
	o := Options{RedisURL: b.srv.URL(), ConfigFile: b.config, Name: "checkout", Log: slog.New(slog.NewTextHandler(b.T.Output(), nil))}
	if change != nil {
		change(&o)
	}
	c, err := New(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// worker runs one until the test ends.
func (b *bundle) worker() {
	b.Helper()
	c, err := config.Load(b.config)
	if err != nil {
		b.Fatal(err)
	}
	rdb := b.srv.Client(b.T)
	w, err := worker.New(worker.Options{Ledger: ledger.New(rdb, c.Redis.Namespace), Queue: rdb, Config: c, Sender: gateway.New(gateway.Options{})})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
}

func (b *bundle) fault(mode sandbox.Mode) {
	b.Helper()
	always := 1.0
	if err := b.gateway.SetFault(sandbox.Fault{Mode: mode, Share: &always}); err != nil {
		b.Fatal(err)
	}
}

func charge(key string) Operation {
	return Operation{Kind: "charge", Key: key, Body: fmt.Appendf(nil, `{"amount":4200,"currency":"GBP","reference":"%s"}`, key)}
}

func payout(key string) Operation {
	o := charge(key)
	o.Kind = "payout"
	return o
}

// wantEffects holds what the other side counts.
func (b *bundle) wantEffects(reference string, want int) {
	b.Helper()
	if got := b.gateway.SideEffects("charges", reference); got != want {
		b.Errorf("%s took effect %d times, want %d", reference, got, want)
	}
}

func (b *bundle) awaitState(kind, key string, want State) *Record {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	r, err := b.Wait(ctx, kind, key)
	if err != nil {
		b.Fatal(err)
	}
	if r.State != want {
		b.Fatalf("%s/%s is %s (%s), want %s", kind, key, r.State, r.Reason, want)
	}
	return r
}

// scripted answers calls in turn.
type scripted struct {
	mu    sync.Mutex // guards calls
	calls int
	turn  []func() (Reply, error)
}

func (s *scripted) read(context.Context) (Reply, error) {
	s.mu.Lock()
	n := s.calls
	s.calls++
	s.mu.Unlock()
	return s.turn[min(n, len(s.turn)-1)]()
}

func status(n int, header ...string) func() (Reply, error) {
	return func() (Reply, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return Reply{Status: n, Header: h, Body: []byte(`{"id":"x"}`)}, nil
	}
}

// trips counts the round trips to Redis of calls whose context is marked, so that what the
// client does beside is not counted.
type trips struct{ n atomic.Int64 }

type marked struct{}

func (h *trips) mark(ctx context.Context) context.Context { return context.WithValue(ctx, marked{}, h) }

func (h *trips) saw(ctx context.Context) {
	if ctx.Value(marked{}) == h {
		h.n.Add(1)
	}
}

// DialHook implements [redis.Hook].
func (h *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.saw(ctx)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.saw(ctx)
		return next(ctx, cmds)
	}
}

// counted makes a client whose round trips are counted.
func (b *bundle) counted(mode Mode) (*Client, *trips) {
	b.Helper()
	rdb, err := ledger.Connect(b.srv.URL(), ledger.ConnectOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rdb.Close() })
	h := &trips{}
	rdb.AddHook(h)
	return b.another(func(o *Options) { o.RedisURL, o.Redis, o.Mode = "", rdb, mode }), h
}
