package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/alicebob/miniredis/v2"

	"redrive/internal/ledger"
)

// StoreChoice says where a rehearsal keeps its operations.
type StoreChoice string

// The choices.
const (
	StoreAuto   StoreChoice = "auto"   // a redis-server if there is a fit one on PATH, else memory
	StoreRedis  StoreChoice = "redis"  // a redis-server, or an error
	StoreMemory StoreChoice = "memory" // miniredis
)

// StoreChoices lists the choices.
var StoreChoices = []StoreChoice{StoreAuto, StoreRedis, StoreMemory}

const (
	storeReadyIn = 10 * time.Second
	maxSocket    = 103 // bytes of a socket's path, the shortest limit among systems
)

// store is the embedded store: it lives as long as the rehearsal.
type store struct {
	url    string
	name   string // for people
	note   string // what they should know of it
	memory bool
	close  func() error
}

// openStore starts the store. Whoever closes it ends a child by its own process
// id and removes its folder.
func openStore(ctx context.Context, choice StoreChoice) (*store, error) {
	if choice == StoreMemory {
		return memoryStore("")
	}
	s, err := childStore(ctx)
	if err == nil || choice == StoreRedis || ctx.Err() != nil {
		return s, err
	}
	why := err.Error()
	if errors.Is(err, exec.ErrNotFound) {
		why = "no redis-server on PATH"
	}
	return memoryStore(why)
}

func memoryStore(why string) (*store, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start miniredis: %w", err)
	}
	note := "everything is gone when this ends"
	if why != "" {
		note += " (" + why + ")"
	}
	return &store{url: "redis://" + m.Addr() + "/0", name: "miniredis, in memory", note: note, memory: true, close: func() error { m.Close(); return nil }}, nil
}

// child is a redis-server that belongs to this process.
type child struct {
	dir    string
	held   *os.File // lock that says that the folder is in use
	proc   *os.Process
	log    *os.File
	exited chan struct{} // closed by launch's goroutine when the server is gone
}

func childStore(ctx context.Context) (*store, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	dir, held, err := newFolder("")
	if err != nil {
		return nil, err
	}
	c := &child{dir: dir, held: held, exited: make(chan struct{})}
	s, err := c.start(ctx, binary)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return s, nil
}

func (c *child) start(ctx context.Context, binary string) (*store, error) {
	socket := filepath.Join(c.dir, "redis.sock")
	if len(socket) > maxSocket {
		return nil, fmt.Errorf("start redis-server: the path of its socket is too long: %s (set TMPDIR to a shorter one)", socket)
	}
	log, err := os.Create(filepath.Join(c.dir, "redis.log"))
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	c.log = log
	if err := c.launch(binary, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", c.dir, "--daemonize", "no",
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	url := "unix://" + socket
	version, err := c.ready(ctx, url)
	if err != nil {
		return nil, err
	}
	return &store{url: url, name: "redis-server " + version, note: "with an append-only file, in a folder that is removed at the end", close: c.close}, nil
}

// launch starts the server. Its goroutine ends with the server, which close awaits.
func (c *child) launch(binary string, args ...string) error {
	started := make(chan error, 1) // the goroutine sends once
	go func() {
		// The kernel ties a child to the thread that forked it (see childAttr).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = c.log, c.log
		cmd.SysProcAttr = childAttr()
		err := cmd.Start()
		if err == nil {
			c.proc = cmd.Process
		}
		started <- err
		if err != nil {
			close(c.exited)
			return
		}
		_ = cmd.Wait() // killed, or its log says why it ended
		close(c.exited)
	}()
	return <-started
}

// ready waits until the server answers and looks whether it is fit.
func (c *child) ready(ctx context.Context, url string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeReadyIn)
	defer cancel()
	rdb, err := ledger.Connect(url, ledger.ConnectOptions{Timeout: time.Second})
	if err != nil {
		return "", err
	}
	defer rdb.Close()
	for {
		report, err := ledger.Fitness(ctx, rdb, ledger.FitnessOptions{Durability: ledger.DurabilityStandard})
		switch {
		case err == nil && report.Fit():
			return report.Value("version"), nil
		case err == nil && !report.Refusals()[0].Passing:
			return "", errors.New(report.Refusals()[0].Text)
		}
		select {
		case <-c.exited:
			return "", fmt.Errorf("redis-server ended at once: %s", c.lastWords())
		case <-ctx.Done():
			return "", fmt.Errorf("redis-server did not answer within %s: %s", storeReadyIn, ledger.Explain(err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// lastWords is the last line of the server's log.
func (c *child) lastWords() string {
	log, err := os.ReadFile(c.log.Name())
	if err != nil {
		return err.Error()
	}
	log = bytes.TrimSpace(log)
	return string(log[bytes.LastIndexByte(log, '\n')+1:])
}

// close kills the server and removes its folder: nobody needs its data any more.
func (c *child) close() error {
	var errs []error
	if c.proc != nil {
		if err := c.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("end redis-server %d: %w", c.proc.Pid, err))
		} else {
			<-c.exited // it cannot ignore SIGKILL
		}
	}
	if c.log != nil {
		errs = append(errs, c.log.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir), c.held.Close())...)
}
