package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// setting is one namespace: a configuration file, and how enqueue reaches it
// without that file.
type setting struct {
	config    string
	redis     string
	namespace string
}

// newSetting writes a configuration for a gateway. extra is added to the dependency.
func newSetting(t *testing.T, redisURL, namespace, gatewayURL, extra string) setting {
	t.Helper()
	text := fmt.Sprintf(`redis: {url: '%s', namespace: %s}
listen: 127.0.0.1:0
shutdown_grace: 5s
log: {level: info, format: json}
dependencies:
  payrail: {base_url: '%s', timeout: 2s, slots: 20, max_in_flight: 0, budget: {ratio: 0.5, cap: 1000, floor_per_second: 200}%s}
operations:
  charge: {dependency: payrail, idempotency: keyed, backoff: {base: 200ms, cap: 1s}, request: {method: POST, path: /v1/charges}, columns: {amount: /amount}}
  refund: {dependency: payrail, idempotency: keyed, request: {method: POST, path: /v1/refunds}}
  payout: {dependency: payrail, idempotency: none, backoff: {base: 200ms, cap: 1s}, idempotency_key: {header: ''}, request: {method: POST, path: /v1/charges}}
`, redisURL, namespace, gatewayURL, extra)
	file := filepath.Join(t.TempDir(), "redrive.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return setting{config: file, redis: redisURL, namespace: namespace}
}

func (s setting) worker(t *testing.T) *process {
	t.Helper()
	return start(t, "worker", "run", "--config", s.config)
}

// enqueue runs a command that knows neither the file nor any secret.
func (s setting) enqueue(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return enqueue(t, append(args, "--redis", s.redis, "--namespace", s.namespace)...)
}

// states returns the totals by state.
func (s setting) states(t *testing.T) map[string]int {
	t.Helper()
	out, code := s.enqueue(t, "stats", "-o", "json")
	if code != 0 {
		t.Fatalf("stats: exit %d", code)
	}
	var stats struct {
		States map[string]int `json:"states"`
	}
	if err := json.Unmarshal([]byte(out), &stats); err != nil {
		t.Fatalf("stats: %v\n%s", err, out)
	}
	return stats.States
}

// awaitKinds waits until a worker has made its kinds known.
func (s setting) awaitKinds(t *testing.T) {
	t.Helper()
	await(t, 30*time.Second, "a worker to publish its kinds", func() bool {
		out, code := s.enqueue(t, "stats", "-o", "json")
		return code == 0 && strings.Contains(out, "payrail")
	})
}

// awaitStates waits until exactly these states are left (zero counts are ignored).
func (s setting) awaitStates(t *testing.T, bound time.Duration, want map[string]int) {
	t.Helper()
	var got map[string]int
	deadline := time.Now().Add(bound)
	for {
		got = map[string]int{}
		for state, n := range s.states(t) {
			if n > 0 {
				got[state] = n
			}
		}
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the states are %v, want %v", bound, got, want)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// charges writes a file of n submissions, changed by change where it is not nil.
func charges(t *testing.T, n int, change func(i int, line map[string]any)) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "charges.jsonl")
	var b strings.Builder
	for i := range n {
		line := map[string]any{"kind": "charge", "key": fmt.Sprintf("order-%04d", i),
			"body": map[string]any{"amount": 100 + i, "currency": "GBP", "reference": fmt.Sprintf("order-%04d", i)}}
		if change != nil {
			change(i, line)
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// answers is what import counts.
type answers struct {
	Accepted  int `json:"accepted"`
	Duplicate int `json:"duplicate"`
	Conflict  int `json:"conflict"`
	Refused   int `json:"refused"`
}

func (s setting) importFile(t *testing.T, file string) (a answers, exit int) {
	t.Helper()
	out, code := s.enqueue(t, "import", file, "-o", "json")
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	return a, code
}

func redisServer(t *testing.T, opts ...redistest.Option) *redistest.Redis {
	t.Helper()
	return redistest.Server(t, opts...)
}

func appendFile(t *testing.T, file, text string) {
	t.Helper()
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(old, text...), 0o600); err != nil {
		t.Fatal(err)
	}
}
