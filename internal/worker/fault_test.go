package worker

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// lossy is a hook that loses answers of Redis after it has acted, as told.
type lossy struct {
	mu   sync.Mutex               // guards lose, seen
	lose func(script string) bool // called for each answer of a script of the ledger
	seen map[string]int           // runs by script
}

var scriptNames = func() map[string]string {
	names := map[string]string{hashEnqueue: "enqueue", hashDequeue: "dequeue", hashDone: "done"}
	for _, s := range ledger.Scripts {
		names[s.Hash()], names[s.Source()] = s.Name(), s.Name()
	}
	return names
}()

// scriptName is the name of the script that cmd ran, "" for other commands and for a
// script that Redis did not know: that one did not run, and comes again with its source.
func scriptName(cmd redis.Cmder) string {
	args := cmd.Args()
	if len(args) < 2 || args[0] != "evalsha" && args[0] != "eval" || redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		return ""
	}
	script, _ := args[1].(string)
	return scriptNames[script]
}

// loseFirst loses the first n answers of one script.
func loseFirst(script string, n int) *lossy {
	left := n
	return &lossy{lose: func(s string) bool {
		if s != script || left == 0 {
			return false
		}
		left--
		return true
	}}
}

func (l *lossy) look(cmds ...redis.Cmder) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first error
	for _, cmd := range cmds {
		name := scriptName(cmd)
		if name == "" {
			continue
		}
		if l.seen == nil {
			l.seen = map[string]int{}
		}
		l.seen[name]++
		if l.lose != nil && l.lose(name) {
			cmd.SetErr(io.EOF)
			first = io.EOF
		}
	}
	return first
}

func (l *lossy) runs(script string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[script]
}

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if lost := l.look(cmd); lost != nil {
			return lost
		}
		return err
	}
}

func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if lost := l.look(cmds...); lost != nil {
			return lost
		}
		return err
	}
}

// hooked puts a hook on both clients of a worker.
func hooked(h redis.Hook) func(*Options) {
	return func(o *Options) {
		o.Ledger.Client().AddHook(h)
		o.Queue.AddHook(h)
	}
}

// wire is a TCP proxy before Redis that can be cut: to a worker behind it Redis is
// gone, to Redis and all others the worker is.
type wire struct {
	listener net.Listener
	mu       sync.Mutex // guards conns, dead
	conns    []net.Conn
	dead     bool
}

func newWire(t testing.TB, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l}
	var all sync.WaitGroup
	all.Go(func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, err := net.Dial("tcp", to)
			if err != nil || !w.keep(c, r) {
				c.Close()
				continue
			}
			all.Go(func() { io.Copy(r, c); r.Close() })
			all.Go(func() { io.Copy(c, r); c.Close() })
		}
	})
	t.Cleanup(func() { w.cut(); all.Wait() })
	return w
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conns...)
	if w.dead {
		for _, c := range conns {
			c.Close()
		}
	}
	return !w.dead
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	w.listener.Close()
	for _, c := range w.conns {
		c.Close()
	}
}

// killable starts a worker behind a wire of its own. kill makes it a dead one:
// nothing it does reaches Redis any more.
func (b *testBundle) killable(change ...func(*Options)) (w *Worker, kill func()) {
	b.Helper()
	line := newWire(b, b.srv.Addr())
	connect := func() redis.UniversalClient {
		c, err := ledger.Connect("redis://"+line.listener.Addr().String(), ledger.ConnectOptions{PoolSize: 20, Timeout: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		return c
	}
	w = b.worker(append([]func(*Options){func(o *Options) {
		o.Ledger, o.Queue = ledger.New(connect(), b.namespace), connect()
	}}, change...)...)
	return w, line.cut
}

// expire ends the lease of an attempt under way, as the passing of time would.
func (b *testBundle) expire(kind jobs.Kind, i int) {
	b.Helper()
	id := fmt.Sprintf("%s/%s-%d", kind, kind, i)
	past := time.Now().Add(-10 * time.Millisecond).UnixMilli()
	pipe := b.rdb.TxPipeline()
	pipe.HSet(context.Background(), b.key("op:"+id), "lease", past)
	pipe.ZAddXX(context.Background(), b.key("claims"), redis.Z{Score: float64(past), Member: id})
	if _, err := pipe.Exec(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// lapse ends the lease of a release that nobody began.
func (b *testBundle) lapse(lane ledger.Lane, kind jobs.Kind, i int) {
	b.Helper()
	id := fmt.Sprintf("%s/%s-%d", kind, kind, i)
	past := time.Now().Add(-10 * time.Millisecond).UnixMilli()
	if err := b.rdb.ZAddXX(context.Background(), b.key("released:"+string(lane)), redis.Z{Score: float64(past), Member: id}).Err(); err != nil {
		b.Fatal(err)
	}
}
