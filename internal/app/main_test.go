package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a buffer that a test may read while the program writes.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// testBundle is a program in the test's own process.
type testBundle struct {
	program        *program
	stdout, stderr *output
	signals        chan os.Signal
	env            map[string]string
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	b := &testBundle{stdout: &output{}, stderr: &output{}, signals: make(chan os.Signal, 2), env: map[string]string{}}
	b.program = &program{stdin: strings.NewReader(""), stdout: b.stdout, stderr: b.stderr, getenv: func(name string) string { return b.env[name] },
		signals:       func() (<-chan os.Signal, func()) { return b.signals, func() {} },
		redisPatience: 600 * time.Millisecond, fitnessEvery: 20 * time.Millisecond}
	return b
}

func (b *testBundle) run(t *testing.T, args ...string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	return b.program.run(ctx, args)
}

// running is a program in the background.
type running struct {
	b    *testBundle
	code chan int // gets the exit code once
}

// start runs the program in the background, until the test stops it.
func (b *testBundle) start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{b: b, code: make(chan int, 1)}
	go func() { r.code <- b.program.run(context.WithoutCancel(t.Context()), args) }() // ended by a signal; wait waits
	return r
}

// ask sends a signal.
func (r *running) ask() { r.b.signals <- syscall.SIGTERM }

// wait returns the exit code.
func (r *running) wait(t *testing.T) int {
	t.Helper()
	select {
	case c := <-r.code:
		return c
	case <-time.After(30 * time.Second):
		t.Fatalf("the program did not stop:\n%s", r.b.stderr)
		return -1
	}
}

// stop asks once and returns the exit code.
func (r *running) stop(t *testing.T) int {
	t.Helper()
	r.ask()
	return r.wait(t)
}

// await polls until the program wrote text.
func await(t *testing.T, o *output, text string) {
	t.Helper()
	for range 2000 {
		if strings.Contains(o.String(), text) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("nobody wrote %q:\n%s", text, o)
}

// file writes a configuration and returns its path. Each %s is one of args.
func file(t *testing.T, format string, args ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redrive.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// working is a configuration of one keyed and one unsafe kind: Redis, gateway.
const working = `redis: {url: "%s"}
listen: 127.0.0.1:0
shutdown_grace: 2s
dependencies:
  payrail: {base_url: "%s", timeout: 1s, slots: 2}
operations:
  charge: {dependency: payrail, request: {path: /v1/charges}, idempotency: keyed}
  payout: {dependency: payrail, request: {path: /v1/charges}}
`

// keyedOnly is one without kinds of class none or conditional: durability, assume, Redis.
const keyedOnly = `redis: {durability: %s, assume: {%s}, url: "%s"}
listen: 127.0.0.1:0
dependencies:
  payrail: {base_url: "http://127.0.0.1:1"}
operations:
  charge: {dependency: payrail, request: {path: /v1/charges}, idempotency: keyed}
`

// steady replaces what differs between runs: ports, folders, sizes and seconds.
func steady(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`127\.0\.0\.1:\d+`, "ADDR"},
		{`[^ ]*/001/redrive\.yaml`, "FILE"},
		{`\d+ MiB used`, "SIZE used"},
		{`tried for \d+s`, "tried for SECONDS"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// rewrite replaces a part of a configuration file.
func rewrite(t *testing.T, path, old, with string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not say %q", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, with, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
