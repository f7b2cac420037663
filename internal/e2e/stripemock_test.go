//go:build stripemock

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stripeMock starts the stand-in that Stripe publishes, named by STRIPE_MOCK, and
// returns its address.
func stripeMock(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	cmd := exec.CommandContext(ctx, os.Getenv("STRIPE_MOCK"), "-http-addr", address, "-strict-version-check=false")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start stripe-mock on port %s: %v", port, err)
	}
	t.Cleanup(func() {
		stop()
		cmd.Wait() // its exit says nothing: we ended it
	})
	await(t, 30*time.Second, "stripe-mock to listen", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// TestAgainstStripeMock: the preset stripe against a server that we did not write. A
// charge succeeds, one that cannot be is permanent, and without an API key nothing is
// lost: three refusals pause the dependency, and with the key in place all goes on.
func TestAgainstStripeMock(t *testing.T) {
	base := stripeMock(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("Bearer sk_test_123"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := redisServer(t).URL()
	file := filepath.Join(t.TempDir(), "redrive.yaml")
	text := fmt.Sprintf(`redis: {url: '%s', namespace: money}
listen: 127.0.0.1:0
log: {level: info, format: json}
dependencies:
  stripe: {base_url: '%s', preset: stripe, timeout: 3s, budget: {floor_per_second: 100}, headers: {Authorization: '${file:%s}'}}
operations:
  charge: {dependency: stripe, idempotency: keyed, backoff: {base: 200ms, cap: 500ms}, request: {method: POST, path: /v1/charges, content_type: application/x-www-form-urlencoded}, result: {id: body.id}}
`, redis, base, key)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := setting{config: file, redis: redis, namespace: "money"}
	s.worker(t)
	await(t, 30*time.Second, "the kinds to be published", func() bool {
		out, code := s.enqueue(t, "stats", "-o", "json")
		return code == 0 && strings.Contains(out, "stripe")
	})
	lines := filepath.Join(t.TempDir(), "charges.jsonl")
	write := func(names ...string) {
		t.Helper()
		var b strings.Builder
		for _, name := range names {
			body := "amount=2000&currency=usd&source=tok_visa"
			if strings.HasPrefix(name, "bad") {
				body = "amount=plenty&currency=usd&source=tok_visa"
			}
			fmt.Fprintf(&b, `{"kind":"charge","key":%q,"body_text":%q}`+"\n", name, body)
		}
		if err := os.WriteFile(lines, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, code := s.importFile(t, lines); code != 0 || a.Accepted != len(names) {
			t.Fatalf("import: %+v, exit %d", a, code)
		}
	}
	show := func(name string) string {
		t.Helper()
		out, code := s.enqueue(t, "show", "charge/"+name, "-o", "json")
		if code != 0 {
			t.Fatalf("show %s: exit %d", name, code)
		}
		return out
	}
	write("good", "bad")
	s.awaitStates(t, 30*time.Second, map[string]int{"succeeded": 1, "dead": 1})
	if out := show("good"); !strings.Contains(out, `"id": "ch_`) {
		t.Errorf("no id of the charge is kept:\n%s", out)
	}
	if out := show("bad"); !strings.Contains(out, `"reason": "permanent"`) {
		t.Errorf("not permanent:\n%s", out)
	}

	if err := os.WriteFile(key, []byte("Basic bm9ib2R5Og=="), 0o600); err != nil {
		t.Fatal(err)
	}
	write("one", "two", "three", "four")
	await(t, 40*time.Second, "the refused key to pause the dependency", func() bool {
		out, _ := s.enqueue(t, "stats", "-o", "json")
		return strings.Contains(out, `"by": "redrive"`)
	})
	if got := s.states(t); got["waiting"] != 4 || got["dead"] != 1 {
		t.Errorf("states %v, want all four to wait", got)
	}
	if err := os.WriteFile(key, []byte("Bearer sk_test_123"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code := s.enqueue(t, "resume", "stripe", "--note", "the key is there"); code != 0 {
		t.Fatalf("resume: exit %d", code)
	}
	s.awaitStates(t, 60*time.Second, map[string]int{"succeeded": 5, "dead": 1})
}
