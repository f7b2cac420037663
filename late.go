package redrive

import (
	"context"
	"sync"
	"time"
)

const (
	// maxLate is how many writes wait for a Redis that does not answer. What is beyond is
	// left to the lease of its claim: the outcome is unknown then, and asked about.
	maxLate   = 10_000
	lateEvery = 250 * time.Millisecond
	lateTry   = 2 * time.Second
	lateStop  = 2 * time.Second // for the last try, when the client is closed
)

// late repeats writes that Redis did not take in time, until it takes them.
type late struct {
	c       *Client
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards writes
	writes []func(context.Context) error
}

func newLate(c *Client) *late { return &late{c: c} }

func (l *late) add(write func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.writes) < maxLate {
		l.writes = append(l.writes, write)
		return
	}
	l.c.o.Log.Warn("too many results wait for redis: this one is left to its lease, as of unknown outcome")
}

func (l *late) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.running.Go(func() { // ends with ctx; stop waits
		for ctx.Err() == nil {
			pause(ctx, lateEvery)
			l.round(ctx)
		}
	})
}

// round tries each write once, in order, up to the first that fails.
func (l *late) round(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		if len(l.writes) == 0 {
			l.mu.Unlock()
			return
		}
		write := l.writes[0]
		l.mu.Unlock()
		try, cancel := context.WithTimeout(ctx, lateTry)
		err := write(try)
		cancel()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.writes = l.writes[1:]
		l.mu.Unlock()
	}
}

func (l *late) stop() {
	l.cancel()
	l.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), lateStop)
	defer cancel()
	l.round(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.writes); n > 0 {
		l.c.o.Log.Warn("closed before redis took all results: they are left to their leases, as of unknown outcome", "results", n)
	}
}
