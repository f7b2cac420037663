package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mccutchen/go-httpbin/v2/httpbin"
)

// TestAgainstHTTPBin: each status of a server that we did not write ends in the
// right state, and no 4xx but 429 is ever sent again.
func TestAgainstHTTPBin(t *testing.T) {
	var mu sync.Mutex // guards seen
	seen := map[string]int{}
	bin := httpbin.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		mu.Unlock()
		if r.URL.Path == "/status/429" {
			w.Header().Set("Retry-After", "1")
		}
		bin.ServeHTTP(w, r)
	}))
	defer server.Close()

	// Half of what it answers is a failure: the breaker would decide how soon the third retry comes.
	s := newSetting(t, redisServer(t).URL(), "money", server.URL, ", breaker: {min_calls: 1000000, consecutive: 0}")
	statuses := map[string]string{"200": "", "400": "dead permanent", "404": "dead permanent", "429": "waiting", "500": "waiting", "503": "waiting"}
	appendKinds(t, s, statuses)
	s.worker(t)
	s.awaitKinds(t)
	for status := range statuses {
		if _, code := s.enqueue(t, "add", "s"+status+"/one", "--body", `{"n":1}`, "--deadline", "1h"); code != 0 {
			t.Fatalf("add s%s: exit %d", status, code)
		}
	}
	if _, code := s.enqueue(t, "add", "anything/one", "--body", `{"n":1}`); code != 0 {
		t.Fatalf("add anything: exit %d", code)
	}
	count := func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[path]
	}
	await(t, 30*time.Second, "retries of 429, 500 and 503", func() bool {
		return count("/status/429") >= 3 && count("/status/500") >= 3 && count("/status/503") >= 3
	})
	for status, want := range statuses {
		if want == "" {
			continue // an empty 200 is no proof of success: see the kind "anything"
		}
		out, code := s.enqueue(t, "show", "s"+status+"/one", "-o", "json")
		state, reason, _ := strings.Cut(want, " ")
		ok := code == 0 && (strings.Contains(out, fmt.Sprintf(`"state": %q`, state)) || state == "waiting" && !strings.Contains(out, `"ended_at": "`))
		if reason != "" {
			ok = ok && strings.Contains(out, fmt.Sprintf(`"reason": %q`, reason))
		}
		if !ok {
			t.Errorf("status %s: want %s\n%s", status, want, out)
		}
	}
	if out, _ := s.enqueue(t, "show", "anything/one", "-o", "json"); !strings.Contains(out, `"state": "succeeded"`) {
		t.Errorf("200 with a body: %s", out)
	}
	for _, path := range []string{"/status/400", "/status/404", "/anything"} {
		if n := count(path); n != 1 {
			t.Errorf("%s was sent %d times, want once", path, n)
		}
	}
}

func appendKinds(t *testing.T, s setting, statuses map[string]string) {
	t.Helper()
	var b strings.Builder
	for status := range statuses {
		fmt.Fprintf(&b, "  s%s: {dependency: payrail, idempotency: keyed, backoff: {base: 200ms, cap: 500ms}, request: {method: POST, path: /status/%s}}\n", status, status)
	}
	b.WriteString("  anything: {dependency: payrail, idempotency: keyed, request: {method: POST, path: /anything}}\n")
	appendFile(t, s.config, b.String())
}
