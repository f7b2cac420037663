package worker

import (
	"context"
	"sync"
	"time"
)

const (
	// maxPending is how many writes may wait for Redis before nothing is begun any
	// more. With answers of 16 KiB each it bounds the memory to some 20 MB.
	maxPending = 1000
	// pendingAtOnce are written at the same time once Redis is back.
	pendingAtOnce  = 16
	pendingTimeout = 2 * time.Second
	pendingPause   = 200 * time.Millisecond // after a round in which one failed
)

// pending holds the writes that Redis has not taken yet, outside any slot, and
// repeats them until it has: results of attempts, and give-backs. Each is
// idempotent by its run id. What is left when the process ends, the leases settle.
type pending struct {
	health *health
	more   chan struct{} // capacity 1: wakes loop
	eased  func()        // called when it is not full any more; must not block

	mu     sync.Mutex // guards writes, tried
	writes []func(context.Context) error
	tried  int // writes that a round holds
}

func newPending(h *health, eased func()) *pending {
	return &pending{health: h, more: make(chan struct{}, 1), eased: eased}
}

// add takes a write over. It never refuses: what comes when it is full was begun
// before it was.
func (p *pending) add(write func(context.Context) error) {
	p.mu.Lock()
	p.writes = append(p.writes, write)
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default: // loop is awake
	}
}

func (p *pending) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.writes) + p.tried
}

// full reports whether nothing may be begun: a new attempt could bring a result
// that has no place.
func (p *pending) full() bool { return p.len() >= maxPending }

// loop writes what there is, whenever Redis can be used. It ends with ctx.
func (p *pending) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.more:
		}
		for p.len() > 0 {
			if !p.health.await(ctx.Done()) {
				return
			}
			if !p.round(ctx, false) && !sleep(ctx, pendingPause) {
				return
			}
		}
	}
}

// flush writes what there is until nothing is left or ctx is done, whatever
// health says: it is the last chance.
func (p *pending) flush(ctx context.Context) (left int) {
	for p.len() > 0 && ctx.Err() == nil {
		if !p.round(ctx, true) && !sleep(ctx, pendingPause) {
			break
		}
	}
	return p.len()
}

// round tries every write once and keeps those that failed. Once Redis turns out to
// be in trouble it leaves the rest for later, unless last. It reports whether all
// were taken.
func (p *pending) round(ctx context.Context, last bool) bool {
	p.mu.Lock()
	writes := p.writes
	p.writes, p.tried = nil, len(writes)
	p.mu.Unlock()
	failed := make([]bool, len(writes))
	room := make(chan struct{}, pendingAtOnce)
	var all sync.WaitGroup
	for i, write := range writes {
		room <- struct{}{}
		if !last && p.health.trouble() != nil {
			<-room
			failed[i] = true
			continue
		}
		all.Add(1)
		go func() { // ends with its write, which is bounded; round waits
			defer all.Done()
			err := within(ctx, pendingTimeout, write)
			p.health.note(err)
			failed[i] = err != nil
			<-room
		}()
	}
	all.Wait()
	var kept []func(context.Context) error
	for i, write := range writes {
		if failed[i] {
			kept = append(kept, write)
		}
	}
	p.mu.Lock()
	wasFull := len(writes)+len(p.writes) >= maxPending
	p.writes, p.tried = append(kept, p.writes...), 0
	isFull := len(p.writes) >= maxPending
	p.mu.Unlock()
	if wasFull && !isFull {
		p.eased()
	}
	return len(kept) == 0
}
