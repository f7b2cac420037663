package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestGateIsShownAndAnOverrideEndsWithoutAnyProcess: one dependency is held by its
// breaker, the other by its budget, which a person widens for five seconds. All workers
// are killed meanwhile.
func TestGateIsShownAndAnOverrideEndsWithoutAnyProcess(t *testing.T) {
	t.Parallel()
	const n, span = 200, 5 * time.Second
	server, down, thin := redisServer(t), startGateway(t), startGateway(t)
	s := newGateSetting(t, server, map[string]string{
		"down": fmt.Sprintf("base_url: '%s', breaker: {open: 4s, max_open: 4s}", down.url),
		"thin": fmt.Sprintf("base_url: '%s', budget: {ratio: 0, floor_per_second: 0.001, cap: 10}, drain: {max_per_second: 0}, breaker: {min_calls: 1000000, consecutive: 0}", thin.url),
	}, "backoff: {base: 100ms, cap: 200ms}")
	workers := s.gateWorkers(t, server, 2)
	for kind, g := range map[string]gateway{"down": down, "thin": thin} {
		g.fault(t, `{"mode":"down"}`)
		newTraffic(time.Now().Add(-time.Hour)).submit(t, s, kind, n)
	}
	await(t, 30*time.Second, "gate to show the open breaker, and what it holds", func() bool {
		g := s.gate(t, "down")
		return g.Breaker.State == "open" && g.Breaker.Why != "" && g.Breaker.Since != nil && g.Breaker.Until != nil &&
			g.Backlog.HeldBy == "breaker" && g.Backlog.Due > 0
	})
	await(t, 30*time.Second, "the budget to hold every operation", func() bool {
		g := s.gate(t, "thin")
		return g.Backlog == due{Due: n, HeldBy: "budget"} && thin.calls(t).Unread >= n
	})

	thin.fault(t, `{"mode":"none"}`)
	began := time.Now()
	if _, code := s.enqueue(t, "gate", "override", "thin", "--floor", "20", "--for", span.String(), "--note", "they confirmed headroom"); code != 0 {
		t.Fatalf("gate override: exit %d", code)
	}
	if g := s.gate(t, "thin"); g.Override == nil || g.Override.Note != "they confirmed headroom" || g.Floor != 20 {
		t.Errorf("gate under the override: %+v", g)
	}
	await(t, span, "the override to let operations leave", func() bool { return thin.calls(t).Requests >= 10 })
	for _, w := range workers {
		w.kill()
	}
	await(t, 2*span, "the override to end", func() bool { return s.gate(t, "thin").Override == nil })
	if took := time.Since(began); took < span {
		t.Errorf("the override ended after %s, want %s", took, span)
	}
	if g := s.gate(t, "thin"); g.Floor != 0.001 {
		t.Errorf("after the override the floor is %g", g.Floor)
	}
	await(t, 10*time.Second, "gate to show a half-open breaker that nobody probes", func() bool {
		b := s.gate(t, "down").Breaker
		return b.State == "half_open" && b.Why != "" && b.Until == nil
	})
	out, code := s.enqueue(t, "audit", "thin")
	if code != 0 || !strings.Contains(out, "they confirmed headroom") || !strings.Contains(out, "until") {
		t.Errorf("audit: exit %d\n%s", code, out)
	}

	// A new worker asks for both, and of the one gets no more than the bucket still holds.
	probed := down.calls(t).Unread
	s.worker(t)
	await(t, 30*time.Second, "the new worker to probe the one, and the budget to hold the other", func() bool {
		g := s.gate(t, "thin")
		return down.calls(t).Unread > probed && g.Backlog.HeldBy == "budget" && g.Tokens < 1
	})
	if got, most := thin.calls(t).Requests, 20*int(span/time.Second)+10; got > most {
		t.Errorf("%d left under the override, want at most %d", got, most)
	}
}

// TestARefusedCredentialCostsNoOperation: three answers 401 pause the dependency; once
// the secret is rotated and a person resumes it, the same operations succeed.
func TestARefusedCredentialCostsNoOperation(t *testing.T) {
	t.Parallel()
	const n, renewed = 10, "Bearer renewed"
	server, g := redisServer(t), startGateway(t)
	target, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int64
	behind := httputil.NewSingleHostReverseProxy(target)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != renewed {
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	defer door.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	rotate := func(text string) {
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("Bearer expired")
	s := newGateSetting(t, server, map[string]string{
		"payrail": fmt.Sprintf("base_url: '%s', max_in_flight: 1, headers: {Authorization: '${file:%s}'}", door.URL, secret),
	}, "backoff: {base: 100ms, cap: 200ms}")
	s.gateWorkers(t, server, 2)
	newTraffic(time.Now().Add(-time.Hour)).submit(t, s, "payrail", n)
	await(t, 30*time.Second, "the dependency to pause itself", func() bool {
		g := s.gate(t, "payrail")
		return g.Paused != nil && g.Paused.Until == nil
	})
	rotate(renewed)
	// A worker that went on in spite of the pause would succeed now.
	paused := s.gate(t, "payrail")
	s.awaitStates(t, 10*time.Second, map[string]int{"waiting": n})
	if got := refused.Load(); got != 3 || g.calls(t).Requests != 0 {
		t.Errorf("%d calls were refused and %d let in before the resume, want 3 and none", got, g.calls(t).Requests)
	}
	t.Logf("paused by %s: %s", paused.Paused.By, paused.Paused.Note)
	if _, code := s.enqueue(t, "resume", "payrail", "--note", "the key is rotated"); code != 0 {
		t.Fatalf("resume: exit %d", code)
	}
	s.awaitStates(t, 30*time.Second, map[string]int{"succeeded": n})
	g.chargedOnceEach(t, n)
	if got := refused.Load(); got != 3 {
		t.Errorf("%d calls were refused in all, want 3", got)
	}
}
