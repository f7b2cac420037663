package redrive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// followFor is how long one read of the event streams waits for something to happen.
	followFor = 2 * time.Second
	// lookEvery is how often a wait looks at its operation without an event: the streams
	// are capped, and somebody who reads too slowly misses some.
	lookEvery = 30 * time.Second
	// troubleWait is the pause after a read that failed.
	troubleWait = time.Second
)

// Event is an operation that entered a state.
type Event struct {
	At         time.Time
	Dependency string
	Kind       string
	Key        string
	State      State
	Reason     string // of a dead letter
	Cursor     string // where to go on after it: see [Client.Events]
}

// Events follows what happens to operations of all kinds known here, from now on, or on
// from after, the cursor of an earlier event. It blocks while nothing happens, and ends with
// ctx, with the loop, or with an error, which is its last element: of Redis, [ErrClosed], or
// [*Invalid] for a cursor that is none. ctx's own end is no error. Each range over it is a
// reader of its own. After a resumption some events may come again; the streams hold about
// the last 10,000 of each dependency, and what is older is missed. A hand-over to a
// worker and back is no event.
func (c *Client) Events(ctx context.Context, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		// Not under way while it yields: the loop's body may take for ever, or close the client.
		if err := c.underway.enter(ctx); err != nil {
			yield(Event{}, err)
			return
		}
		changes, err := c.follow(ctx, after)
		c.underway.leave()
		for err == nil && !c.underway.isClosed() {
			var some []ledger.Change
			if some, err = changes.Next(ctx, followFor); err != nil {
				break
			}
			for _, change := range some {
				if !yield(eventOf(change), nil) {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-c.underway.closed:
			yield(Event{}, ErrClosed)
		default:
			yield(Event{}, err)
		}
	}
}

func (c *Client) follow(ctx context.Context, after string) (*ledger.Changes, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	if after == "" {
		return c.ledger.Changes(ctx, c.dependencies())
	}
	changes, err := c.ledger.ChangesAfter(c.dependencies(), after)
	if err != nil {
		return nil, invalid(fmt.Errorf("cursor %q: %w", after, err))
	}
	return changes, nil
}

func eventOf(change ledger.Change) Event {
	e := Event{At: timeOf(change.At), Dependency: string(change.Dependency), State: State(change.State), Reason: change.Reason, Cursor: change.Cursor}
	if id, err := jobs.ParseID(change.Operation); err == nil {
		e.Kind, e.Key = string(id.Kind), string(id.Key)
	}
	return e
}

// Wait returns the operation once it has ended: succeeded, dead (a person may requeue it) or
// cancelled. Errors: [ErrNotFound] when there is none, [*Invalid] for an unknown kind or a key
// that cannot be, ctx's error, [ErrClosed]; while Redis cannot be read it waits, and the error
// that ends the wait names the trouble too. It does not ask again and again: all
// waits of a client share one reader of the event streams.
func (c *Client) Wait(ctx context.Context, kind, key string) (*Record, error) {
	if err := c.underway.enter(ctx); err != nil {
		return nil, err
	}
	defer c.underway.leave()
	if _, err := c.spec(kind); err != nil {
		return nil, invalid(err)
	}
	if _, err := nameOf(kind, key); err != nil {
		return nil, invalid(fmt.Errorf("key: %w", err))
	}
	changed, leave := c.hub.join(kind + "/" + key)
	defer leave()
	var trouble error // of the last look that ctx did not end
	for {
		every := lookEvery
		r, err := c.get(ctx, kind, key)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && r.State.Ended():
			return r, err
		case err != nil: // Redis is away: it comes back
			every = troubleWait
		}
		if ctx.Err() == nil {
			trouble = err
		}
		err = nil
		look := time.NewTimer(every)
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.underway.closed:
			err = ErrClosed
		}
		look.Stop()
		switch {
		case err != nil && trouble != nil:
			return nil, fmt.Errorf("%w; until then %s/%s could not be read: %w", err, kind, key, trouble)
		case err != nil:
			return nil, err
		}
	}
}

// hub tells waits of changes. It reads the streams for as long as somebody waits.
type hub struct {
	c       *Client
	running sync.WaitGroup

	mu      sync.Mutex // guards the rest
	waiting map[string]map[chan struct{}]bool
	cancel  context.CancelFunc // ends the reader; nil: there is none
	over    bool
}

func newHub(c *Client) *hub {
	return &hub{c: c, waiting: map[string]map[chan struct{}]bool{}}
}

// join makes changed ready whenever the operation has changed, until leave is called.
func (h *hub) join(name string) (changed <-chan struct{}, leave func()) {
	ch := make(chan struct{}, 1) // what is told twice needs one look
	ch <- struct{}{}             // the reader may not have begun: look once more
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[name] == nil {
		h.waiting[name] = map[chan struct{}]bool{}
	}
	h.waiting[name][ch] = true
	if h.cancel == nil && !h.over {
		ctx, cancel := context.WithCancel(context.Background())
		h.cancel = cancel
		h.running.Go(func() { h.read(ctx) }) // ends with ctx; stop waits
	}
	return ch, func() { h.leave(name, ch) }
}

func (h *hub) leave(name string, ch chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting[name], ch)
	if len(h.waiting[name]) == 0 {
		delete(h.waiting, name)
	}
	if len(h.waiting) == 0 && h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

func (h *hub) read(ctx context.Context) {
	var changes *ledger.Changes
	for ctx.Err() == nil {
		var err error
		if changes == nil {
			if changes, err = h.c.follow(ctx, ""); err == nil {
				h.tellAll() // what happened before is no event to us
			}
		} else {
			var some []ledger.Change
			some, err = changes.Next(ctx, followFor)
			h.tell(some)
		}
		if err != nil {
			changes = nil
			pause(ctx, troubleWait)
		}
	}
}

func (h *hub) tell(changes []ledger.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, change := range changes {
		if jobs.State(change.State).Ended() {
			poke(h.waiting[change.Operation])
		}
	}
}

func (h *hub) tellAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, waits := range h.waiting {
		poke(waits)
	}
}

func poke(waits map[chan struct{}]bool) {
	for ch := range waits {
		select {
		case ch <- struct{}{}:
		default: // it will look anyway
		}
	}
}

func (h *hub) stop() {
	h.mu.Lock()
	if h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
	h.over = true
	h.mu.Unlock()
	h.running.Wait()
}

// pause waits, for ctx at most.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
