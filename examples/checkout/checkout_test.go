package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/sandbox"
	"redrive/internal/worker"
)

var kills = flag.Int("kills", 12, "how often the service is killed")

const yaml = `redis: {url: '%s', namespace: money}
dependencies:
  payrail: {base_url: '%s', timeout: 400ms, min_response: 20ms, slots: 20, max_in_flight: 0, budget: {ratio: 1, cap: 1000, floor_per_second: 500},
    breaker: {window: 1s, min_calls: 1000000, consecutive: 0}, drain: {max_per_second: 500}}
operations:
  charge: {dependency: payrail, idempotency: keyed, backoff: {base: 50ms, cap: 200ms}, deadline: 2h, request: {method: POST, path: /v1/charges}}
`

// town is the service's process with all around it.
type town struct {
	*testing.T
	gateway *sandbox.Sandbox
	srv     *redistest.Redis
	ledger  *ledger.Ledger
	config  string
	binary  string
	address string
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{T: t, gateway: sandbox.New(sandbox.Options{Seed: 7}), srv: redistest.Server(t)}
	url, err := w.gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.gateway.Stop)
	dir := t.TempDir()
	w.config, w.binary = filepath.Join(dir, "redrive.yaml"), filepath.Join(dir, "checkout")
	if err := os.WriteFile(w.config, fmt.Appendf(nil, yaml, w.srv.URL(), url), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", w.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = l.Addr().String()
	l.Close()
	w.ledger = ledger.New(w.srv.Client(t), "money")
	return w
}

// start runs the service; kill is kill -9.
func (w *town) start(args ...string) (kill func()) {
	w.Helper()
	cmd := exec.Command(w.binary, append([]string{"--config", w.config, "--redis", w.srv.URL(), "--listen", w.address}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // ends with the process; kill waits
	kill = func() { _ = cmd.Process.Kill(); <-ended }
	w.Cleanup(kill)
	w.await("the service", func() bool {
		select {
		case <-ended:
			w.Fatalf("the service ended:\n%s", out.String())
		default:
		}
		conn, err := net.Dial("tcp", w.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return kill
}

func (w *town) await(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("waited a minute for %s", what)
		}
	}
}

func (w *town) work() {
	w.Helper()
	c, err := config.Load(w.config)
	if err != nil {
		w.Fatal(err)
	}
	var rdb redis.UniversalClient = w.srv.Client(w.T)
	one, err := worker.New(worker.Options{Ledger: w.ledger, Queue: rdb, Config: c, Sender: gateway.New(gateway.Options{})})
	if err != nil {
		w.Fatal(err)
	}
	if err := one.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(one.Stop)
}

// buy asks once; 0: there was no answer.
func (w *town) buy(ctx context.Context, order string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.address+"/checkout",
		bytes.NewReader(fmt.Appendf(nil, `{"order":%q,"amount":100,"currency":"GBP"}`, order)))
	if err != nil {
		return 0
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// state is "" for an order that the ledger does not know.
func (w *town) state(order string) jobs.State {
	d, err := w.ledger.Get(w.Context(), "payrail", jobs.ID{Kind: "charge", Key: jobs.Key(order)}, nil)
	if err != nil {
		return ""
	}
	return d.State
}

// TestKilledAtAnyMoment: a gateway that loses replies, a service that is killed again and
// again while customers wait, and customers of whom half never come back. Whatever the
// gateway saw is in the ledger and is charged once.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.work()
	share := 0.4
	if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.LostReplies, Share: &share}); err != nil {
		t.Fatal(err)
	}
	var orders, answered []string
	for round := range *kills {
		kill := w.start()
		var mu sync.Mutex
		var customers sync.WaitGroup
		for i := range 12 {
			order := fmt.Sprintf("order-%d-%d", round, i)
			orders = append(orders, order)
			customers.Go(func() { // ends with its answer, or with the service
				time.Sleep(rand.N(150 * time.Millisecond))
				if status := w.buy(t.Context(), order); status == http.StatusOK || status == http.StatusAccepted {
					mu.Lock()
					answered = append(answered, order)
					mu.Unlock()
				}
			})
		}
		time.Sleep(rand.N(250 * time.Millisecond))
		kill()
		customers.Wait()
	}
	w.start()
	back := orders[:len(orders)/2] // these ask again, for the same order
	for _, order := range back {
		w.await("an answer for "+order, func() bool { s := w.buy(t.Context(), order); return s == http.StatusOK || s == http.StatusAccepted })
	}
	if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.None}); err != nil {
		t.Fatal(err)
	}
	twice, lost, charged := 0, 0, 0
	seen := map[string]bool{}
	for _, e := range w.gateway.Ledger() {
		seen[e.Reference] = true
	}
	for _, order := range append(answered, back...) {
		seen[order] = true // what a customer was told of must be charged as well
	}
	for order := range seen {
		w.await("the end of "+order, func() bool { s := w.state(order); return s == "" || s.Ended() })
		if w.state(order) != jobs.Succeeded {
			lost++
			t.Errorf("%s is %q", order, w.state(order))
		}
		switch n := w.gateway.SideEffects("charges", order); {
		case n > 1:
			twice++
		case n == 1:
			charged++
		default:
			lost++
			t.Errorf("%s was never charged", order)
		}
	}
	t.Logf("%d kills, %d orders, %d answered before a kill, %d known: charged once %d, twice %d, lost %d",
		*kills, len(orders), len(answered), len(seen), charged, twice, lost)
	if twice > 0 || lost > 0 {
		t.Errorf("charged twice %d, lost %d", twice, lost)
	}
}

// TestBetweenSendAndHandOver kills the service while the gateway has the request: what is
// left of it is the difference between the two modes.
func TestBetweenSendAndHandOver(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		left jobs.State // in the ledger
	}{
		"durable": {nil, jobs.Attempting},
		"light":   {[]string{"--light"}, ""}, // no trace: this is what it risks
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			kill := w.start(tc.args...)
			always := 1.0
			if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.LostReplies, Share: &always, Latency: 300 * time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			var customer sync.WaitGroup
			customer.Go(func() { w.buy(t.Context(), "order-1") }) // ends with the service
			w.await("the request at the gateway", func() bool { return w.gateway.SideEffects("charges", "order-1") == 1 || w.gateway.Stats().Requests > 0 })
			kill()
			customer.Wait()
			if got := w.state("order-1"); got != tc.left {
				t.Fatalf("the ledger has it as %q, want %q", got, tc.left)
			}
			if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.None}); err != nil {
				t.Fatal(err)
			}
			w.work()
			if tc.left != "" {
				w.await("its rescue", func() bool { return w.state("order-1") == jobs.Succeeded })
			}
			if n := w.gateway.SideEffects("charges", "order-1"); n > 1 {
				t.Errorf("charged %d times", n)
			}
		})
	}
}
