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
	writes []lateWrite
}

type lateWrite struct {
	do    func(context.Context) error
	after time.Time // not before it
}

func newLate(c *Client) *late { return &late{c: c} }

func (l *late) add(do func(context.Context) error) { l.addAfter(0, do) }

func (l *late) addAfter(wait time.Duration, do func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.writes) < maxLate {
		l.writes = append(l.writes, lateWrite{do, time.Now().Add(wait)})
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
			l.round(ctx, false)
			l.c.clock.refresh(ctx, l.c)
		}
	})
}

// round tries each write that is due once. One that fails goes behind the others, and
// ends the round: it is Redis that fails, most likely.
func (l *late) round(ctx context.Context, all bool) {
	l.mu.Lock()
	n := len(l.writes)
	l.mu.Unlock()
	for range n {
		l.mu.Lock()
		write := l.writes[0]
		l.writes = l.writes[1:]
		l.mu.Unlock()
		var err error
		due := all || !time.Now().Before(write.after)
		if due {
			try, cancel := context.WithTimeout(ctx, lateTry)
			err = write.do(try)
			cancel()
		}
		if !due || err != nil {
			l.mu.Lock()
			l.writes = append(l.writes, write)
			l.mu.Unlock()
		}
		if err != nil || ctx.Err() != nil {
			return
		}
	}
}

func (l *late) stop() {
	l.cancel()
	l.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), lateStop)
	defer cancel()
	l.round(ctx, true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.writes); n > 0 {
		l.c.o.Log.Warn("closed before redis took all results: they are left to their leases, as of unknown outcome", "results", n)
	}
}
