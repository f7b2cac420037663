package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"redrive"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/sandbox"
	"redrive/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dep = jobs.Dependency("payrail")

// The budget is as it is by default. The lane, which is beside the bound, is shut until
// the gateway is back. An outage of a minute must not use up the attempts of what is tried every other second.
const yaml = `redis: {url: '%s', namespace: fleet}
dependencies:
  payrail: {base_url: '%s', timeout: 2s, slots: 30, max_in_flight: 0, drain: {max_per_second: 0}%s}
operations:
  charge: {dependency: payrail, idempotency: keyed, max_attempts: 1000, backoff: {base: 200ms, cap: 2s}, request: {method: POST, path: /v1/charges}}
`

// noBreaker leaves the budget alone against the outage.
const noBreaker = `, breaker: {min_calls: 1000000, consecutive: 0}`

// aBreaker is one that is open for half a time, at least, and never longer than the time:
// the test has not the patience of the default.
const (
	aBreaker  = `, breaker: {open: 2s, max_open: 2s, ramp: 0s}`
	leastOpen = time.Second
)

// bundle is a gateway with its meter, a Redis, a worker, and services.
type bundle struct {
	*testing.T
	gateway *sandbox.Sandbox
	meter   *meter
	url     string // of the meter
	srv     *redistest.Redis
	ledger  *ledger.Ledger
	config  string

	mu    sync.Mutex // guards the rest
	stops map[redrive.Stop]int
	keys  []string // of the operations
	// spooled is how many of them Redis did not take in time.
	spooled int
}

func setup(t *testing.T, breaker string) *bundle {
	t.Helper()
	b := &bundle{T: t, gateway: sandbox.New(sandbox.Options{Seed: 1}), srv: redistest.Server(t), stops: map[redrive.Stop]int{}}
	b.meter = &meter{next: b.gateway.Handler()}
	server := httptest.NewServer(b.meter)
	t.Cleanup(server.Close)
	b.url = server.URL
	b.config = filepath.Join(t.TempDir(), "redrive.yaml")
	if err := os.WriteFile(b.config, fmt.Appendf(nil, yaml, b.srv.URL(), b.url, breaker), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(b.config)
	if err != nil {
		t.Fatal(err)
	}
	rdb := b.srv.Client(t)
	b.ledger = ledger.New(rdb, c.Redis.Namespace)
	w, err := worker.New(worker.Options{Ledger: b.ledger, Queue: rdb, Config: c, Sender: gateway.New(gateway.Options{UserAgent: workerAgent})})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return b
}

// service is a process of its own as far as Redis can tell: its own connections, its own
// run id.
type service struct {
	*bundle
	client *redrive.Client
	name   string
	http   *http.Client
	send   redrive.SendFunc // nil: the client's own
}

// service makes number n: every other one writes only what failed. A nil transport is
// sockets, for which the client sends by itself.
func (b *bundle) service(n int, transport http.RoundTripper) *service {
	b.Helper()
	s := &service{bundle: b, name: fmt.Sprintf("service-%d", n), http: &http.Client{Transport: transport}}
	o := redrive.Options{RedisURL: b.srv.URL(), ConfigFile: b.config, Name: s.name, Mode: redrive.Mode(n % 2), Reserve: 2 * time.Second,
		Spool: filepath.Join(b.TempDir(), s.name)}
	client, err := redrive.New(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	s.client = client
	if transport != nil {
		s.send = s.charge
		return s
	}
	sockets := &http.Transport{MaxIdleConnsPerHost: 10}
	b.Cleanup(sockets.CloseIdleConnections)
	s.http.Transport = sockets
	return s
}

// traffic is what a service does.
type traffic struct {
	calls     int // in all
	perSecond int
	reads     int // of so many calls as of says; the others are operations
	of        int
}

// atOnce is how many requests a service has under way at most: a machine that cannot keep
// the pace must not heap them up.
const atOnce = 50

// run makes the calls at their pace, or as fast as the machine can, and returns when all
// have ended.
func (s *service) run(t traffic) {
	var under sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	began := time.Now()
	for i := range t.calls {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(t.perSecond))))
		slots <- struct{}{}
		under.Go(func() { // ends with its tries, which the client bounds
			defer func() { <-slots }()
			// A request has a context of its own: what all share is a lock that all share.
			ctx := context.WithoutCancel(s.Context())
			if i%t.of < t.reads {
				s.read(ctx)
			} else {
				s.do(ctx, fmt.Sprintf("%s-%d", s.name, i))
			}
		})
	}
	under.Wait()
}

func (s *service) read(ctx context.Context) {
	tries := 0
	_, err := s.client.Call(ctx, string(dep), func(ctx context.Context) (redrive.Reply, error) {
		tries++
		return s.call(ctx, http.MethodGet, "?reference=x", http.Header{"Redrive-Attempt": {fmt.Sprint(tries)}}, nil)
	})
	var stopped *redrive.Stopped
	switch {
	case err == nil:
	case !errors.As(err, &stopped):
		s.Errorf("Call: %v", err)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stops[stopped.Reason]++
	}
}

// do charges. A hand-over that Redis did not take in time is in the service's spool.
func (s *service) do(ctx context.Context, key string) {
	o := redrive.Operation{Kind: "charge", Key: key, Body: fmt.Appendf(nil, `{"amount":4200,"currency":"GBP","reference":%q}`, key)}
	_, err := s.client.Do(ctx, o, s.send)
	var deferred *redrive.Deferred
	var kept *redrive.HandoverError
	spooled := errors.As(err, &kept) && kept.Spooled
	if err != nil && !errors.As(err, &deferred) && !spooled {
		s.Errorf("Do: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, key)
	if spooled {
		s.spooled++
	}
}

func (s *service) charge(ctx context.Context, a *redrive.Attempt) (redrive.Reply, error) {
	return s.call(ctx, http.MethodPost, "", a.Header, a.Operation.Body)
}

func (s *service) call(ctx context.Context, method, query string, header http.Header, body []byte) (redrive.Reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/v1/charges"+query, bytes.NewReader(body))
	if err != nil {
		return redrive.Reply{}, err
	}
	req.GetBody = nil // net/http has nothing to send again
	if len(body) == 0 {
		req.Body = io.NopCloser(bytes.NewReader(nil)) // of which net/http does not know that it is empty
	}
	req.Header = header
	resp, err := s.http.Do(req)
	if err != nil {
		return redrive.Reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return redrive.Reply{Status: resp.StatusCode, Header: resp.Header, Body: text}, err
}
