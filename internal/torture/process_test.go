package torture

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// slot is the place of one worker process: what dies in it is replaced.
type slot struct {
	t      *testing.T
	name   string
	config string
	link   *link
	log    *os.File

	running *process // only the test's own goroutine uses it
	starts  int
}

// process is one life of a worker.
type process struct {
	proc *os.Process
	born time.Time
	done chan struct{}    // closed by launch's goroutine when it has ended
	end  *os.ProcessState // valid when done is closed
}

// newSlot starts a worker and ends whatever then runs there with the test.
func newSlot(t *testing.T, n int, folder, config string, l *link) *slot {
	t.Helper()
	s := &slot{t: t, name: fmt.Sprintf("worker-%d", n), config: config, link: l}
	var err error
	if s.log, err = os.Create(filepath.Join(folder, s.name+".log")); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() {
		s.kill()
		s.log.Close()
		if t.Failed() {
			text, err := os.ReadFile(s.log.Name())
			if err != nil {
				t.Log(err)
			}
			t.Logf("%s:\n%s", s.name, text[max(0, len(text)-4000):])
		}
	})
	return s
}

func (s *slot) start() {
	s.t.Helper()
	s.starts++
	p, err := launch(s.log, filepath.Join(binaries, "worker"), "run", "--config", s.config, "--redis", s.link.url())
	if err != nil {
		s.t.Fatalf("start %s: %v", s.name, err)
	}
	s.running = p
}

// launch starts a program. The kernel ends it when this test binary dies without
// cleaning up, such as at its -timeout; the goroutine ends with the program, which
// kill and stop await.
func launch(log *os.File, program string, args ...string) (*process, error) {
	started := make(chan error, 1) // the goroutine sends once
	p := &process{born: time.Now(), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // the kernel ties a child to the thread that forked it
		defer runtime.UnlockOSThread()
		cmd := exec.Command(program, args...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = endWithParent()
		err := cmd.Start()
		if err == nil {
			p.proc = cmd.Process
		}
		started <- err
		if err != nil {
			return
		}
		cmd.Wait() // killed, mostly; how it ended is in its state
		p.end = cmd.ProcessState
		close(p.done)
	}()
	return p, <-started
}

// kill is kill -9, and waits until the process is gone. It reports whether there was
// one to kill.
func (s *slot) kill() bool {
	select {
	case <-s.running.done:
		return false
	default:
	}
	s.running.proc.Kill()
	<-s.running.done
	return true
}

// stop is SIGTERM, and says what is wrong with the end that follows; "" for nothing.
// Who is told to stop before he listens to signals ends by the signal, with nothing
// begun.
func (s *slot) stop() string {
	const bound = 20 * time.Second
	p := s.running
	young := time.Since(p.born) < 5*time.Second
	p.proc.Signal(syscall.SIGCONT) // one that is frozen takes no signal
	p.proc.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(bound):
		return fmt.Sprintf("%s still runs %s after SIGTERM", s.name, bound)
	}
	by, signalled := p.end.Sys().(syscall.WaitStatus)
	if p.end.ExitCode() == 0 || young && signalled && by.Signaled() && by.Signal() == syscall.SIGTERM {
		return ""
	}
	return fmt.Sprintf("%s, started %s before, ended badly on SIGTERM: %s", s.name, time.Since(p.born).Round(time.Millisecond), p.end)
}

// enqueue runs one command to its end with input, and returns what it said.
func enqueue(ctx context.Context, input []byte, args ...string) (stdout, stderr string, exit int, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "enqueue"), args...)
	var out, words bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &words
	err = cmd.Run()
	if _, exited := err.(*exec.ExitError); exited {
		err = nil
	}
	return out.String(), strings.TrimSpace(words.String()), cmd.ProcessState.ExitCode(), err
}

// moments notes instants for the judge.
type moments struct {
	mu      sync.Mutex // guards all
	kills   []time.Time
	outages []outage // of Redis
	done    map[action]int
}

// outage is a time without Redis.
type outage struct{ from, to time.Time }

func (m *moments) note(a action) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[a]++
}

func (m *moments) kill(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kills = append(m.kills, at)
}

func (m *moments) outage(from, to time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outages = append(m.outages, outage{from, to})
}
