package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// binaries is where TestMain built the programs.
var binaries string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "redrive-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-o", dir, "redrive/cmd/worker", "redrive/cmd/enqueue")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
			return 1
		}
		binaries = dir
		return m.Run()
	}())
}

// process is a running program of ours.
type process struct {
	cmd  *exec.Cmd
	out  lockedBuffer
	done chan struct{} // closed when it has ended
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a program until the test ends; it is killed by its own process id.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	return startWith(t, nil, program, args...)
}

// startWith is start with more in the environment.
func startWith(t *testing.T, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(filepath.Join(binaries, program), args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process; kill waits for it
		defer close(p.done)
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text := p.out.String()
			t.Logf("%s %s:\n%s", program, strings.Join(args, " "), text[max(0, len(text)-4000):])
		}
	})
	return p
}

// kill is kill -9, and waits until the process is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// enqueue runs one command to its end and returns stdout and the exit code.
func enqueue(t *testing.T, args ...string) (string, int) {
	t.Helper()
	stdout, _, code := enqueueWith(t, nil, args...)
	return stdout, code
}

// enqueueWith is enqueue with more in the environment; it returns stderr too.
func enqueueWith(t *testing.T, env []string, args ...string) (string, string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "enqueue"), args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatalf("enqueue %v: %v", args, err)
	}
	t.Logf("enqueue %s: exit %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), stderr.String())
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// address draws a free one on the loopback interface.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// await polls until ok or the bound has passed.
func await(t *testing.T, bound time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(bound); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", bound, what)
		}
	}
}

func get(url string, into any) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, res.Status)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// gateway is a running sandbox process.
type gateway struct{ url string }

func startGateway(t *testing.T, args ...string) gateway {
	t.Helper()
	at := address(t)
	start(t, "worker", append([]string{"sandbox", "--listen", at}, args...)...)
	g := gateway{url: "http://" + at}
	await(t, 20*time.Second, "the sandbox", func() bool { return get(g.url+"/livez", nil) == nil })
	return g
}

// entry is one line of the sandbox's ledger.
type entry struct {
	Route       string    `json:"route"`
	Reference   string    `json:"reference"`
	Requests    int       `json:"requests"`
	SideEffects int       `json:"side_effects"`
	Keys        []string  `json:"keys"`
	FirstAt     time.Time `json:"first_at"`
}

func (g gateway) ledger(t *testing.T) []entry {
	t.Helper()
	var page struct {
		Items      []entry `json:"items"`
		NextCursor string  `json:"next_cursor"`
	}
	if err := get(g.url+"/_sandbox/ledger?limit=10000", &page); err != nil {
		t.Fatal(err)
	}
	if page.NextCursor != "" {
		t.Fatal("the ledger has more than one page")
	}
	return page.Items
}

// totals sums requests and side effects over the ledger, and counts references
// with more than one effect.
func (g gateway) totals(t *testing.T) (requests, effects, twice int) {
	t.Helper()
	for _, e := range g.ledger(t) {
		requests += e.Requests
		effects += e.SideEffects
		if e.SideEffects > 1 {
			twice++
		}
	}
	return requests, effects, twice
}

func (g gateway) fault(t *testing.T, text string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, g.url+"/_sandbox/fault", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("set fault %s: %s", text, res.Status)
	}
}
