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
	"strings"
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
  payrail: {base_url: '%s', timeout: %s, min_response: 20ms, slots: 20, max_in_flight: 0, budget: {ratio: 1, cap: 1000, floor_per_second: 500},
    breaker: {window: 3s, min_calls: 1000000, consecutive: 0}, drain: {max_per_second: 500}}
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

	mu     sync.Mutex   // guards output
	output bytes.Buffer // of the services that were killed
}

// newTown has a gateway that may take so long as timeout.
func newTown(t *testing.T, timeout time.Duration) *town {
	t.Helper()
	w := &town{T: t, gateway: sandbox.New(sandbox.Options{Seed: 7}), srv: redistest.Server(t)}
	url, err := w.gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.gateway.Stop)
	dir := t.TempDir()
	w.config, w.binary = filepath.Join(dir, "redrive.yaml"), filepath.Join(dir, "checkout")
	if err := os.WriteFile(w.config, fmt.Appendf(nil, yaml, w.srv.URL(), url, timeout), 0o600); err != nil {
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
	var once sync.Once
	kill = func() {
		_ = cmd.Process.Kill()
		<-ended
		once.Do(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, _ = w.output.Write(out.Bytes())
		})
	}
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

// unwritten: a service said that it sent the order without having written it, because Redis
// did not answer in time.
func (w *town) unwritten(order string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.output.String(), `without being written ahead: the ledger does not answer" operation=charge/`+order+" ")
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

// Where too much was on its way already the customer was told of a mistake of theirs (400).
func TestAFullBacklogIsNotTheCustomersMistake(t *testing.T) {
	t.Parallel()
	w := newTown(t, short)
	text, err := os.ReadFile(w.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.config, bytes.Replace(text, []byte("slots: 20,"), []byte("slots: 20, max_backlog: 1,"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.Down}); err != nil {
		t.Fatal(err)
	}
	if got := w.buy(t.Context(), "order-1"); got != http.StatusAccepted {
		t.Fatalf("the first order: %d", got)
	}
	if got := w.buy(t.Context(), "order-2"); got != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", got)
	}
	if n := w.gateway.SideEffects("charges", "order-2"); n != 0 || w.state("order-2") != "" {
		t.Errorf("it took effect %d times, and is %s", n, w.state("order-2"))
	}
}

// short is how long an attempt takes where the service is killed again and again.
const short = 400 * time.Millisecond

// killed lets the service start and die again and again, while customers wait and the
// gateway loses replies: args are the service's. It returns all orders, and those whose
// customers had an answer: 200 or 202.
func (w *town) killed(args ...string) (orders []string, answers map[string]int) {
	w.Helper()
	share := 0.4
	if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.LostReplies, Share: &share, Latency: 30 * time.Millisecond}); err != nil {
		w.Fatal(err)
	}
	answers = map[string]int{}
	for round := range *kills {
		kill := w.start(args...)
		var mu sync.Mutex // guards answers
		var customers sync.WaitGroup
		for i := range 12 {
			order := fmt.Sprintf("order-%d-%d", round, i)
			orders = append(orders, order)
			customers.Go(func() { // ends with its answer, or with the service
				time.Sleep(rand.N(150 * time.Millisecond))
				if status := w.buy(w.Context(), order); status == http.StatusOK || status == http.StatusAccepted {
					mu.Lock()
					answers[order] = status
					mu.Unlock()
				}
			})
		}
		time.Sleep(rand.N(250 * time.Millisecond))
		kill()
		customers.Wait()
	}
	return orders, answers
}

func (w *town) heal() {
	w.Helper()
	if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.None}); err != nil {
		w.Fatal(err)
	}
}

func (w *town) buyAtLast(order string) {
	w.Helper()
	w.await("an answer for "+order, func() bool { s := w.buy(w.Context(), order); return s == http.StatusOK || s == http.StatusAccepted })
}

// TestKilledAtAnyMoment: half of the customers never come back. Whatever the gateway saw
// is in the ledger and is charged once; but for what was sent while Redis did not answer,
// as a machine that is busy enough has it.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newTown(t, short)
	w.work()
	orders, answers := w.killed()
	w.start()
	back := orders[:len(orders)/2] // these ask again, for the same order
	for _, order := range back {
		w.buyAtLast(order)
	}
	w.heal()
	twice, lost, charged, unwritten := 0, 0, 0, 0
	seen := map[string]bool{}
	for _, e := range w.gateway.Ledger() {
		seen[e.Reference] = true
	}
	for order := range answers {
		seen[order] = true // what a customer was told of must be charged as well
	}
	for _, order := range back {
		seen[order] = true
	}
	for order := range seen {
		w.await("the end of "+order, func() bool { s := w.state(order); return s == "" || s.Ended() })
		switch state := w.state(order); {
		case state == "" && w.unwritten(order):
			unwritten++
		case state != jobs.Succeeded:
			lost++
			t.Errorf("%s is %q", order, state)
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
	t.Logf("%d kills, %d orders, %d answered before a kill, %d known: charged once %d, twice %d, lost %d; without the ledger %d",
		*kills, len(orders), len(answers), len(seen), charged, twice, lost, unwritten)
	if twice > 0 || lost > 0 {
		t.Errorf("charged twice %d, lost %d", twice, lost)
	}
}

// TestKilledAtAnyMomentInLightMode counts what light mode gives up: money that has moved,
// of which neither the ledger nor the customer knows. Who asks again for the same order
// finds it, because the kind is keyed; nobody else does.
func TestKilledAtAnyMomentInLightMode(t *testing.T) {
	t.Parallel()
	w := newTown(t, short)
	w.work()
	orders, answers := w.killed("--light")
	w.heal()
	var lost []string
	charged := 0
	for _, e := range w.gateway.Ledger() {
		if e.SideEffects > 0 {
			charged++
		}
		if answers[e.Reference] == 0 && w.state(e.Reference) == "" {
			lost = append(lost, e.Reference)
		}
	}
	t.Logf("%d kills, %d orders, %d answered before a kill, %d charged: %d of these nobody knows of", *kills, len(orders), len(answers), charged, len(lost))
	for order, status := range answers {
		if status == http.StatusAccepted { // the promise of a hand-over holds in light mode too
			w.await("the end of "+order, func() bool { return w.state(order).Ended() })
			if state := w.state(order); state != jobs.Succeeded {
				t.Errorf("%s was handed over and is %q", order, state)
			}
		}
	}
	w.start("--light")
	for _, order := range lost {
		w.buyAtLast(order)
	}
	for _, order := range orders {
		if n := w.gateway.SideEffects("charges", order); n > 1 {
			t.Errorf("%s was charged %d times", order, n)
		}
	}
}

// TestBetweenSendAndHandOver kills the service when the gateway has charged and not yet
// answered: what is left of it is the difference between the two modes.
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
			const long = 3 * time.Second // the answer takes longer, so that the kill comes before it
			w := newTown(t, long)
			kill := w.start(tc.args...)
			always := 1.0
			if err := w.gateway.SetFault(sandbox.Fault{Mode: sandbox.LostReplies, Share: &always, Latency: 2 * long}); err != nil {
				t.Fatal(err)
			}
			answer := make(chan int, 1)                             // the customer sends, the test reads, once
			go func() { answer <- w.buy(t.Context(), "order-1") }() // ends with the service
			w.await("the charge at the gateway", func() bool { return w.gateway.SideEffects("charges", "order-1") == 1 })
			kill()
			if status := <-answer; status != 0 {
				t.Fatalf("the customer had answer %d: the service was not killed in time", status)
			}
			if got := w.state("order-1"); got != tc.left {
				t.Fatalf("the ledger has it as %q, want %q", got, tc.left)
			}
			w.heal()
			w.work()
			if tc.left != "" {
				w.await("its rescue", func() bool { return w.state("order-1") == jobs.Succeeded })
			} else if counts, err := w.ledger.Counts(t.Context(), "payrail"); err != nil || len(counts) > 0 {
				t.Errorf("the ledger knows of %v, %v: want nothing, which is the loss", counts, err)
			}
			if n := w.gateway.SideEffects("charges", "order-1"); n != 1 {
				t.Errorf("charged %d times", n)
			}
		})
	}
}
