package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// readyIn bounds how long a server may take to answer, loading included.
	readyIn = 10 * time.Second
	// stopIn bounds an orderly stop; then SIGKILL follows.
	stopIn = 10 * time.Second
	// maxSocketPath is the shortest limit of sun_path among the systems we run on.
	maxSocketPath = 103
	// databases lets Each give every client an empty database of its own.
	databases = 512
)

// Ports are drawn below the ranges that kernels use for outgoing connections
// (32768 on Linux, 49152 elsewhere), so that a port is still free at Restart.
const minPort, maxPort = 20000, 32000

// process is a redis-server with its folder.
type process struct {
	settings settings
	binary   string
	dir      string // configuration, data, log and socket
	socket   string
	port     int

	mu      sync.Mutex // guards running; held over start and stop, so that they take turns
	running *running   // nil while the server is down

	free freeDatabases
}

// running is one life of a process.
type running struct {
	pid    int
	proc   *os.Process
	exited chan struct{} // closed by the goroutine of launch when the server is gone
}

// newProcess starts a server in a folder of its own.
func newProcess(s settings) (*process, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("this test needs a real redis-server on PATH (%w); install it: %s", err, installLine())
	}
	dir, err := shortDir()
	if err != nil {
		return nil, err
	}
	p := &process{settings: s, binary: binary, dir: dir, socket: filepath.Join(dir, "s")}
	for range 5 { // another process may take the port between the draw and the start
		if p.port, err = drawPort(); err != nil {
			break
		}
		if err = p.writeConfig(); err != nil {
			break
		}
		if err = p.start(); err == nil || !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// installLine is the one command that installs redis-server here.
func installLine() string {
	if runtime.GOOS == "darwin" {
		return "brew install redis"
	}
	for _, m := range []struct{ tool, line string }{
		{"apt-get", "apt-get install -y redis-server"},
		{"apk", "apk add redis"},
		{"dnf", "dnf install -y redis"},
		{"brew", "brew install redis"},
	} {
		if _, err := exec.LookPath(m.tool); err == nil {
			return m.line
		}
	}
	return "see https://redis.io/docs/latest/operate/oss_and_stack/install/"
}

// shortDir makes a folder whose paths fit into a socket address: t.TempDir bears
// the test's name, which easily does not.
func shortDir() (string, error) {
	dir, err := os.MkdirTemp("", "rd")
	if err != nil {
		return "", fmt.Errorf("make a folder for redis-server: %w", err)
	}
	if len(filepath.Join(dir, "s")) <= maxSocketPath {
		return dir, nil
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp("/tmp", "rd"); err != nil {
		return "", fmt.Errorf("make a short folder for redis-server's socket: %w", err)
	}
	return dir, nil
}

func drawPort() (int, error) {
	var last error
	for range 50 {
		port := minPort + rand.IntN(maxPort-minPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port on 127.0.0.1: %w", last)
}

func (p *process) writeConfig() error {
	lines := []string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(p.port),
		"unixsocket " + p.socket,
		"dir " + p.dir,
		"daemonize no",
		"databases " + strconv.Itoa(databases),
		`save ""`,
		"appendonly yes",
		"appendfsync everysec",
		"maxmemory-policy noeviction",
	}
	if p.settings.password != "" {
		lines = append(lines, "requirepass "+p.settings.password)
	}
	lines = append(lines, p.settings.config...)
	return os.WriteFile(p.configFile(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (p *process) configFile() string { return filepath.Join(p.dir, "redis.conf") }
func (p *process) logFile() string    { return filepath.Join(p.dir, "redis.log") }

var errPortTaken = errors.New("port was taken by another process")

// start launches the server and waits until it answers.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked()
}

func (p *process) startLocked() error {
	// Its words go to standard output: a wrong directive is reported before a log
	// file of its own would be open.
	log, err := os.Create(p.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	r, err := launch(log, p.binary, append([]string{p.configFile()}, p.settings.args...))
	if err != nil {
		return fmt.Errorf("start %s: %w", p.binary, err)
	}
	p.running = r
	if err := p.awaitReady(r); err != nil {
		return errors.Join(err, p.killLocked())
	}
	return nil
}

// launch starts the server. Its goroutine ends with the server, which whoever
// ends the process awaits through exited.
func launch(log *os.File, binary string, args []string) (*running, error) {
	started := make(chan error, 1) // launch's goroutine sends once
	r := &running{exited: make(chan struct{})}
	go func() {
		// The kernel ties a child to the thread that forked it (see endWithParent).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = endWithParent()
		err := cmd.Start()
		if err == nil {
			r.proc, r.pid = cmd.Process, cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // how it ended is in its log, and no concern of ours
		close(r.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// awaitReady polls until the server answers on its socket and on its port.
func (p *process) awaitReady(r *running) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyIn)
	defer cancel()
	bySocket := redis.NewClient(clientOptions("unix", p.socket, p.settings.password, 0))
	defer bySocket.Close()
	var last error
	for {
		if last = answers(ctx, bySocket); last == nil {
			return nil
		}
		select {
		case <-r.exited:
			log := p.logTail()
			if bytes.Contains(log, []byte("Address already in use")) {
				return errPortTaken
			}
			return fmt.Errorf("redis-server ended at once; its log:\n%s", log)
		case <-ctx.Done():
			return fmt.Errorf("redis-server did not answer within %v: %w; its log:\n%s", readyIn, last, p.logTail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// answers reports whether the server serves commands. An error reply such as
// NOAUTH is an answer too; LOADING is not.
func answers(ctx context.Context, c *redis.Client) error {
	err := c.Ping(ctx).Err()
	var reply redis.Error
	if errors.As(err, &reply) && !strings.HasPrefix(reply.Error(), "LOADING") {
		return nil
	}
	return err
}

// logTail returns the end of the server's log.
func (p *process) logTail() []byte {
	log, err := os.ReadFile(p.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	const tail = 2 << 10
	return log[max(0, len(log)-tail):]
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return 0
	}
	return p.running.pid
}

// kill ends the server with SIGKILL; nothing happens when it is down.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killLocked()
}

func (p *process) killLocked() error {
	if p.running == nil {
		return nil
	}
	if err := p.running.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.running.exited // SIGKILL cannot be ignored, so this needs no bound
	p.running = nil
	return nil
}

// stop ends the server in order, by force when it does not obey.
func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopLocked()
}

func (p *process) stopLocked() error {
	if p.running == nil {
		return nil
	}
	if err := p.running.proc.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, p.killLocked())
	}
	select {
	case <-p.running.exited:
		p.running = nil
		return nil
	case <-time.After(stopIn):
		return errors.Join(fmt.Errorf("redis-server ignored SIGTERM for %v", stopIn), p.killLocked())
	}
}

func (p *process) restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stopLocked(); err != nil {
		return err
	}
	return p.startLocked()
}

// close kills the server and removes its folder: nobody needs its data any more.
func (p *process) close() error {
	return errors.Join(p.kill(), os.RemoveAll(p.dir))
}
