package redistest

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Redis is a running redis-server as one test sees it.
type Redis struct {
	t      testing.TB
	p      *process
	shared bool
}

// Server starts a real redis-server and ends it when the test is over. It returns
// once the server answers, and fails the test when there is no redis-server or it
// does not answer within ten seconds.
func Server(t testing.TB, opts ...Option) *Redis {
	t.Helper()
	var s settings
	for _, opt := range opts {
		opt(&s)
	}
	var p *process
	var err error
	if s.shared {
		p, err = acquireShared(s)
	} else {
		p, err = newProcess(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end := p.close
		if s.shared {
			end = func() error { return releaseShared(s) }
		}
		if err := end(); err != nil {
			t.Errorf("end redis-server: %v", err)
		}
	})
	return &Redis{t: t, p: p, shared: s.shared}
}

// Addr returns host:port of the TCP listener. It stays the same over Restart.
func (r *Redis) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.p.port))
}

// Socket returns the path of the unix socket. It stays the same over Restart.
func (r *Redis) Socket() string { return r.p.socket }

// URL returns the server as a redis:// URL with the password, if there is one,
// and database 0.
func (r *Redis) URL() string {
	u := url.URL{Scheme: "redis", Host: r.Addr(), Path: "/0"}
	if r.p.settings.password != "" {
		u.User = url.UserPassword("", r.p.settings.password)
	}
	return u.String()
}

// Client returns a client of database 0 over the unix socket, closed at the end
// of t. It never retries by itself, so that a test sees each failure once.
func (r *Redis) Client(t testing.TB) redis.UniversalClient {
	t.Helper()
	return newClient(t, clientOptions("unix", r.p.socket, r.p.settings.password, 0))
}

// PID returns the process id of the server that runs now, 0 when it is down.
func (r *Redis) PID() int { return r.p.pid() }

// Kill9 ends the server with SIGKILL and returns when it is gone. What it has
// acknowledged survives: before, it is told to write and sync first, as everysec
// postpones the write itself, past the answer, while the disk is slow to sync. One
// that does not answer, such as a frozen one, is killed as it is.
func (r *Redis) Kill9() {
	r.t.Helper()
	r.own("Kill9")
	o := clientOptions("unix", r.p.socket, r.p.settings.password, 0)
	o.DialTimeout, o.ReadTimeout = time.Second, 5*time.Second
	c := redis.NewClient(o)
	_ = c.ConfigSet(context.Background(), "appendfsync", "always").Err() // the file it starts from again says what it said
	_ = c.Close()
	if err := r.p.kill(); err != nil {
		r.t.Fatalf("kill redis-server: %v", err)
	}
}

// Stop ends the server in order (SIGTERM) and returns when it is gone.
func (r *Redis) Stop() {
	r.t.Helper()
	r.own("Stop")
	if err := r.p.stop(); err != nil {
		r.t.Fatalf("stop redis-server: %v", err)
	}
}

// Restart starts the server again on the same port, socket and data, and returns
// once it answers. A server that still runs is stopped first.
func (r *Redis) Restart() {
	r.t.Helper()
	r.own("Restart")
	if err := r.p.restart(); err != nil {
		r.t.Fatalf("restart redis-server: %v", err)
	}
}

func (r *Redis) own(what string) {
	r.t.Helper()
	if r.shared {
		r.t.Fatalf("redistest: %s on a shared server would break the other tests that use it", what)
	}
}

// newClient opens a client that is closed at the end of t.
func newClient(t testing.TB, o *redis.Options) redis.UniversalClient {
	t.Helper()
	c := redis.NewClient(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil && err != redis.ErrClosed {
			t.Errorf("close redis client: %v", err)
		}
	})
	return c
}

// clientOptions are those of every client here: no hidden retry (0 would mean
// three), and nothing sent that a test did not ask for.
func clientOptions(network, addr, password string, db int) *redis.Options {
	return &redis.Options{
		Network:         network,
		Addr:            addr,
		Password:        password,
		DB:              db,
		MaxRetries:      -1,
		Protocol:        2,
		DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
}

// sharedProcess is a server and how many tests hold it.
type sharedProcess struct {
	p       *process
	holders int
}

var (
	sharedMu sync.Mutex // guards shared
	shared   = map[string]*sharedProcess{}
)

func acquireShared(s settings) (*process, error) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	entry := shared[s.key()]
	if entry == nil {
		p, err := newProcess(s)
		if err != nil {
			return nil, err
		}
		entry = &sharedProcess{p: p}
		shared[s.key()] = entry
	}
	entry.holders++
	return entry.p, nil
}

func releaseShared(s settings) error {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	entry := shared[s.key()]
	entry.holders--
	if entry.holders > 0 {
		return nil
	}
	delete(shared, s.key())
	return entry.p.close()
}
