package outage

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/rehearsal"
	"redrive/internal/sandbox"
)

// short is a scenario with shorter parts and fewer customers.
func short(t *testing.T, name string, perMin int, normal, outage, recovered time.Duration) Scenario {
	t.Helper()
	s, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Parts, s.PerMin = course(normal, outage, recovered), perMin
	return s
}

// safe fails the test where a promise was broken. What depends on how fast this machine
// is does not count here.
func safe(t *testing.T, r *Report) {
	t.Helper()
	v := &verdict{Report: r, accounts: map[Client]*Account{}}
	for i := range r.Clients {
		v.accounts[r.Clients[i].Client] = &r.Clients[i]
	}
	for _, got := range nothingLost(v) {
		if !got.Reached {
			t.Errorf("seed %d: %s: got %s, want %s", r.Seed, got.Name, got.Got, got.Want)
		}
	}
}

func TestASlowGatewayIsRehearsedAgainstThreeClients(t *testing.T) {
	t.Parallel()
	var shown, last atomic.Int64
	const seed = 5
	r, err := Run(t.Context(), Options{Scenario: short(t, "slow", 600, 5*sec, 30*sec, 5*sec), Speed: 10, Seed: seed, Store: rehearsal.StoreRedis,
		ShowFunc: func(p Progress) { shown.Add(1); last.Store(int64(p.Calls[Stacked])) }})
	if err != nil {
		t.Fatal(err)
	}
	safe(t, r)
	if len(r.Clients) != 3 || !strings.HasPrefix(r.Store, "redis-server") || r.Gateway != "sandbox" || r.Outage != 5*sec || r.Seed != seed || r.Took < 40*sec {
		t.Errorf("%+v", r)
	}
	if shown.Load() < 10 || last.Load() == 0 {
		t.Errorf("shown %d times, %d calls at last", shown.Load(), last.Load())
	}
	for i, a := range r.Clients {
		if a.Client != Clients[i] || a.FirstAttempts != 400 || a.ChargedTwice != 0 || a.PeakConnections == 0 || a.HoldTime <= 0 {
			t.Errorf("%s: %d first attempts, %d charged twice, hold %s", a.Client, a.FirstAttempts, a.ChargedTwice, a.HoldTime)
		}
		calls := 0
		for _, s := range a.Samples {
			calls += s.Calls
		}
		if a.Calls < a.FirstAttempts || calls > a.Calls || calls < a.Calls-100 { // those in flight at the end have no sample
			t.Errorf("%s: %d calls, %d in the samples", a.Client, a.Calls, calls)
		}
	}
	naive, stacked, redrive := r.Clients[0], r.Clients[1], r.Clients[2]
	if naive.Unknowingly == 0 || naive.LoadFirstMinute <= redrive.LoadFirstMinute || stacked.LoadFirstMinute <= naive.LoadFirstMinute || naive.HoldTime <= redrive.HoldTime {
		t.Errorf("naive %+v", naive.LoadFirstMinute)
	}
	delays := 0
	for _, b := range r.Bands {
		delays += b.Delays
		if b.Judged && b.P < 1e-6 {
			t.Errorf("seed %d: %+v", seed, b)
		}
	}
	if delays < judgedAt {
		t.Errorf("%d delays", delays)
	}
	if g := r.Gate[len(r.Gate)-1]; g.Backlog != 0 || g.Refused["budget"] == 0 || math.IsNaN(g.Tokens) {
		t.Errorf("at the end the gate is %+v", g)
	}
	if len(r.Targets) < 10 || len(r.Alerts) != 6 || len(r.Setting) < 8 {
		t.Errorf("%d targets, %d alerts, %d settings", len(r.Targets), len(r.Alerts), len(r.Setting))
	}
}

func TestWorkersAreReplacedInTheOutageAndNothingIsLost(t *testing.T) {
	t.Parallel()
	s := short(t, "deploy_during_outage", 200, 5*sec, 45*sec, 5*sec)
	s.deploy = []deployment{{at: 25 * sec}, {at: 30 * sec, crash: true}}
	r, err := Run(t.Context(), Options{Scenario: s, Speed: 20, Seed: 6, Store: rehearsal.StoreRedis})
	if err != nil {
		t.Fatal(err)
	}
	safe(t, r)
	opened := false
	for _, g := range r.Gate {
		if g.At >= 50*sec {
			break
		}
		opened = opened || g.Breaker != "closed"
		if opened && g.Breaker == "closed" {
			t.Errorf("at %s the breaker is closed again", g.At)
		}
	}
	if !opened {
		t.Error("the breaker has not opened")
	}
}

func TestASandboxOfOnesOwnIsPlayedAgainst(t *testing.T) {
	t.Parallel()
	own := sandbox.New(sandbox.Options{Seed: 1})
	url, err := own.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	o := Options{Scenario: short(t, "slow", 300, 5*sec, 10*sec, 5*sec), Speed: 10, Seed: 7, Store: rehearsal.StoreRedis, Against: url}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	safe(t, r)
	if len(r.Clients) != 1 || r.Clients[0].Client != Redrive || r.Gateway != url || r.Clients[0].FirstAttempts != 100 {
		t.Errorf("%+v of %s", r.Clients[0].Client, r.Gateway)
	}
	if n := len(own.Ledger()); n == 0 || own.Fault().Mode != sandbox.None {
		t.Errorf("its ledger has %d entries, and it is %s", n, own.Fault().Mode)
	}
	before := own.Stats().Requests
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "its ledger is not empty") {
		t.Errorf("played over a ledger: %v", err)
	}
	if after := own.Stats().Requests; after != before {
		t.Errorf("%d charges were sent to a sandbox that is somebody's", after-before)
	}
}

func TestWhatIsNoSandboxIsSentNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"a page":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") },
		"another API":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[]}`) },
		"nothing there": http.NotFound,
		"a way to another": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:9/", http.StatusFound)
		},
	} {
		var other atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/_sandbox/ledger" || r.Method != http.MethodGet {
				other.Add(1)
			}
			answer(w, r)
		}))
		_, err := Run(t.Context(), Options{Scenario: short(t, "down", 300, sec, sec, sec), Store: rehearsal.StoreMemory, Against: s.URL})
		s.Close()
		if err == nil || !strings.Contains(err.Error(), "no sandbox answers there") || other.Load() != 0 {
			t.Errorf("%s: %v, and %d other requests", name, err, other.Load())
		}
	}
}

func TestARehearsalEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := make(chan struct{}, 1) // the first that is shown sends
	done := make(chan error, 1)     // Run's goroutine sends once
	go func() {
		_, err := Run(ctx, Options{Scenario: short(t, "recovery", 300, time.Minute, time.Hour, time.Minute), Store: rehearsal.StoreMemory, ShowFunc: func(p Progress) {
			if p.Calls[Naive] > 0 {
				select {
				case began <- struct{}{}:
				default:
				}
			}
		}})
		done <- err
	}()
	select {
	case <-began:
	case err := <-done:
		t.Fatalf("it ended before it began: %v", err)
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on after its context has ended")
	}
}
