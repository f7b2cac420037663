package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// testGateway answers 201 to every POST once it may, and counts them.
type testGateway struct {
	*httptest.Server
	mu    sync.Mutex // guards calls
	calls int
	hold  chan struct{} // closed: answer at once
	held  chan struct{} // gets a value from each call that waits for hold
}

func newGateway(t *testing.T) *testGateway {
	t.Helper()
	g := &testGateway{hold: make(chan struct{}), held: make(chan struct{}, 100)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		g.mu.Lock()
		g.calls++
		g.mu.Unlock()
		g.held <- struct{}{}
		select {
		case <-g.hold:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"ch_1"}`)
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *testGateway) release() { close(g.hold) }

func (g *testGateway) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// submit hands operations of a configuration's kind over, as enqueue would.
func submit(t *testing.T, srv *redistest.Redis, path string, kind jobs.Kind, n int) *ledger.Ledger {
	t.Helper()
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(srv.Client(t), c.Redis.Namespace)
	var entries []ledger.Entry
	for _, spec := range c.KindSpecs() {
		for i := range n {
			if spec.Kind != kind {
				continue
			}
			e, err := ledger.Prepare(&jobs.Submission{Kind: kind, Key: jobs.Key(fmt.Sprint("order-", i)), Body: []byte(`{"amount":1}`)}, spec)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
	}
	receipts, err := l.Submit(t.Context(), ledger.SubmitTerms{Terms: ledger.Terms{Dependency: "payrail"}, MaxBacklog: 1000}, entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Answer != jobs.Accepted {
			t.Fatalf("receipt %+v", r)
		}
	}
	return l
}

func states(t *testing.T, l *ledger.Ledger) map[jobs.State]int {
	t.Helper()
	page, err := l.List(t.Context(), ledger.Filter{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[jobs.State]int{}
	for _, o := range page.Items {
		out[o.State]++
	}
	return out
}

func awaitStates(t *testing.T, l *ledger.Ledger, state jobs.State, n int) {
	t.Helper()
	for range 1000 {
		if states(t, l)[state] == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("states %v, want %d %s", states(t, l), n, state)
}

var listening = regexp.MustCompile(`"listen":"([^"]+)"`)

// healthURL finds where the program serves health.
func healthURL(t *testing.T, b *testBundle) string {
	t.Helper()
	await(t, b.stderr, `"msg":"redelivering"`)
	m := listening.FindStringSubmatch(b.stderr.String())
	if m == nil {
		t.Fatalf("nobody says where health is served:\n%s", b.stderr)
	}
	return "http://" + m[1]
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestRunRedeliversAndShowsItself(t *testing.T) {
	t.Parallel()
	srv, g, b := redistest.Server(t), newGateway(t), setup(t)
	g.release()
	path := file(t, working, srv.URL(), g.URL)
	r := b.start(t, "run", "--config", path)
	url := healthURL(t, b)
	l := submit(t, srv, path, "charge", 20)
	awaitStates(t, l, jobs.Succeeded, 20)
	if g.count() != 20 {
		t.Errorf("%d calls for 20 operations", g.count())
	}
	if status, body := get(t, url+"/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, body := get(t, url+"/livez"); status != 200 {
		t.Errorf("/livez: %d %s", status, body)
	}
	status, body := get(t, url+"/metrics")
	for _, want := range []string{
		`redrive_operations{dependency="payrail",state="succeeded"} 20`,
		`redrive_calls_total{call="first",class="2xx",dependency="payrail",kind="charge"} 20`,
		`redrive_budget_cap{dependency="payrail"} 100`, `redrive_redis_durable 1`, `redrive_redis_up 1`, `redrive_slots{dependency="payrail"} 2`,
	} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("/metrics: %d without %q", status, want)
		}
	}
	if code := r.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, b.stderr)
	}
	if workers, err := l.Workers(t.Context()); err != nil || len(workers) != 0 {
		t.Errorf("after the stop workers %+v, %v: want none", workers, err)
	}
}

func TestTheFirstSignalLetsRunningAttemptsEnd(t *testing.T) {
	t.Parallel()
	srv, g, b := redistest.Server(t), newGateway(t), setup(t)
	path := file(t, strings.Replace(working, "timeout: 1s", "timeout: 20s", 1), srv.URL(), g.URL)
	path = withGrace(t, path, "30s")
	r := b.start(t, "run", "--config", path)
	healthURL(t, b)
	l := submit(t, srv, path, "payout", 1) // class none: a cut call could not be resent
	<-g.held
	r.ask()
	await(t, b.stderr, `"msg":"stopping`)
	g.release()
	if code := r.wait(t); code != exitDone {
		t.Fatalf("exit %d:\n%s", code, b.stderr)
	}
	if got := states(t, l); got[jobs.Succeeded] != 1 {
		t.Errorf("states %v: the attempt under way was not let end", got)
	}
}

func TestTheSecondSignalStopsAtOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	srv, g, b := redistest.Server(t), newGateway(t), setup(t)
	path := withGrace(t, file(t, strings.Replace(working, "timeout: 1s", "timeout: 50s", 1), srv.URL(), g.URL), "60s")
	r := b.start(t, "run", "--config", path)
	healthURL(t, b)
	l := submit(t, srv, path, "charge", 1)
	<-g.held
	began := time.Now()
	r.ask()
	await(t, b.stderr, `"msg":"stopping`)
	r.ask()
	if code := r.wait(t); code != exitDone {
		t.Fatalf("exit %d:\n%s", code, b.stderr)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s although it was asked twice", took)
	}
	page, err := l.List(t.Context(), ledger.Filter{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := page.Items[0]; o.State != jobs.Waiting || o.Applied != jobs.AppliedUnknown || o.Sends != 1 {
		t.Errorf("state %s, applied %s, %d sends: want a waiting charge with an unknown send", o.State, o.Applied, o.Sends)
	}
}

func withGrace(t *testing.T, path, grace string) string {
	t.Helper()
	return rewrite(t, path, "shutdown_grace: 2s", "shutdown_grace: "+grace)
}

func TestASignalDuringTheStartIsObeyed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.program.redisPatience = time.Minute
	r := b.start(t, "run", "--config", file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1"))
	await(t, b.stderr, "redis is not usable yet")
	if code := r.stop(t); code != exitDone {
		t.Errorf("exit %d, want 0: it was asked to stop\n%s", code, b.stderr)
	}
}

func TestRunWaitsForARedisThatComesLate(t *testing.T) {
	t.Parallel()
	srv, b := redistest.Server(t), setup(t)
	srv.Stop()
	b.program.redisPatience = 20 * time.Second
	r := b.start(t, "run", "--config", file(t, working, srv.URL(), "http://127.0.0.1:1"))
	await(t, b.stderr, "redis is not usable yet")
	srv.Restart()
	await(t, b.stderr, `"msg":"redelivering"`)
	if code := r.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, b.stderr)
	}
}

func TestARedisThatStopsBeingFitIsToldAndNotReady(t *testing.T) {
	t.Parallel()
	srv, b := redistest.Server(t), setup(t)
	r := b.start(t, "run", "--config", file(t, working, srv.URL(), "http://127.0.0.1:1"))
	url := healthURL(t, b)
	rdb := srv.Client(t)
	if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	await(t, b.stderr, `"finding":"eviction"`)
	status, body := get(t, url+"/readyz")
	if status != 503 || !strings.Contains(body, "maxmemory-policy is allkeys-lru") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if _, metrics := get(t, url+"/metrics"); !strings.Contains(metrics, "redrive_redis_durable 0") {
		t.Error("redis_durable is not 0")
	}
	if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	await(t, b.stderr, "redis is mended")
	if status, body := get(t, url+"/readyz"); status != 200 {
		t.Errorf("/readyz after it was mended: %d %s", status, body)
	}
	if code := r.stop(t); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

func TestWithoutCONFIGStandardWorksAndNamesWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig(`rename-command CONFIG ""`))
	for _, tc := range []struct{ durability, assume, says string }{
		{"standard", "", "could not read appendfsync: CONFIG is not allowed here; set redis.assume.persistence"},
		{"strict", "persistence: aof", "appendfsync is everysec (assumed)"},
		{"volatile", "", "durability is volatile: acknowledged operations may be lost"},
	} {
		b := setup(t)
		r := b.start(t, "run", "--config", file(t, keyedOnly, tc.durability, tc.assume, srv.URL()))
		healthURL(t, b)
		if code := r.stop(t); code != exitDone || !strings.Contains(b.stderr.String(), tc.says) {
			t.Errorf("%s: exit %d, and not %q in\n%s", tc.durability, code, tc.says, b.stderr)
		}
	}
}

func TestTheLogIsJSONWhereNobodyReadsItOnATerminal(t *testing.T) {
	t.Parallel()
	srv, b := redistest.Server(t), setup(t)
	r := b.start(t, "run", "--config", file(t, working, srv.URL(), "http://127.0.0.1:1"))
	healthURL(t, b)
	r.stop(t)
	for line := range strings.Lines(b.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestASecretIsNeverLogged(t *testing.T) {
	t.Parallel()
	srv, g, b := redistest.Server(t, redistest.WithPassword("s3cr3t-redis")), newGateway(t), setup(t)
	g.release()
	b.env["KEY"] = "s3cr3t-key"
	path := rewrite(t, file(t, working, srv.URL(), g.URL), "timeout: 1s", `headers: {Authorization: "Bearer ${KEY}"}, timeout: 1s`)
	r := b.start(t, "run", "--log-level", "debug", "--config", path)
	healthURL(t, b)
	l := submit(t, srv, path, "charge", 3)
	awaitStates(t, l, jobs.Succeeded, 3)
	r.stop(t)
	if strings.Contains(b.stderr.String(), "s3cr3t") {
		t.Errorf("a secret stands in the log:\n%s", b.stderr)
	}
}
