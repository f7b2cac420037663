package httpapi

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// followFor is how long one read of the event streams waits for something to happen,
	// and so how long the end of the hub may wait for it: Redis' client cannot be cut off.
	followFor   = 500 * time.Millisecond
	troubleWait = time.Second      // the pause after a read that failed
	relistEvery = 30 * time.Second // how often new dependencies are looked for
	// listenerRoom is how many changes may wait for one client. One that is further behind
	// is let go, and comes back with the id of the last that it had.
	listenerRoom = 1024
)

// hub reads the event streams once for all who follow them, for as long as somebody
// does.
type hub struct {
	ledger  *ledger.Ledger
	kinds   *kinds
	log     *slog.Logger
	running sync.WaitGroup

	mu        sync.Mutex // guards the rest
	listeners map[*listener]bool
	cancel    context.CancelFunc // ends the reader; nil: there is none
	begun     *begin             // of the reader
	over      bool
}

// begin is a reader's try to find out from where on it tells.
type begin struct {
	over chan struct{} // closed by the reader when it knows, or knows that it cannot
	err  error         // why it cannot; to be read when over is closed
}

func newBegin() *begin { return &begin{over: make(chan struct{})} }

// listener is one who follows.
type listener struct {
	// The hub sends, and closes it when the listener is too slow or the hub stops.
	changes chan *ledger.Change // pointers, shared by all: room for many costs little
	begun   *begin              // once it is over without an error, nothing that happens is missed any more
}

func newHub(l *ledger.Ledger, k *kinds, log *slog.Logger) *hub {
	return &hub{ledger: l, kinds: k, log: log, listeners: map[*listener]bool{}}
}

// join follows from now on, until leave.
func (h *hub) join() *listener {
	l := &listener{changes: make(chan *ledger.Change, listenerRoom)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		close(l.changes)
		return l
	}
	h.listeners[l] = true
	if h.cancel == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.cancel, h.begun = cancel, newBegin()
		begun := h.begun
		h.running.Go(func() { h.read(ctx, begun) }) // ends with ctx; stop waits
	}
	l.begun = h.begun
	return l
}

// leave is idempotent, and harmless for a listener that was let go.
func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(l)
	if len(h.listeners) == 0 && h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

// drop needs mu.
func (h *hub) drop(l *listener) {
	if h.listeners[l] {
		delete(h.listeners, l)
		close(l.changes)
	}
}

// stop lets everybody go and waits for the reader.
func (h *hub) stop() {
	h.mu.Lock()
	h.over = true
	for l := range h.listeners {
		h.drop(l)
	}
	if h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
	h.mu.Unlock()
	h.running.Wait()
}

func (h *hub) read(ctx context.Context, begun *begin) {
	var changes *ledger.Changes
	var deps []jobs.Dependency
	var listed time.Time
	cursor := "" // behind the last change that was told
	for ctx.Err() == nil {
		if time.Since(listed) > relistEvery || changes == nil {
			found, err := h.kinds.dependencies(ctx)
			if err == nil && (changes == nil || !slices.Equal(found, deps)) {
				changes, err = h.follow(ctx, found, cursor)
				deps = found
			}
			if begun != nil {
				begun = h.end(begun, err)
			}
			if err != nil {
				h.trouble(ctx, err)
				continue
			}
			listed, cursor = time.Now(), changes.Cursor()
		}
		if len(deps) == 0 {
			pause(ctx, troubleWait)
			listed = time.Time{}
			continue
		}
		some, err := changes.Next(ctx, followFor)
		if err != nil {
			changes = nil
			h.trouble(ctx, err)
			continue
		}
		for _, c := range some {
			cursor = c.Cursor
			h.tell(c)
		}
	}
}

// end tells all who wait for a try what came of it. It returns the next one, which those
// who come from now on wait for; nil: there is no need of one.
func (h *hub) end(b *begin, err error) *begin {
	h.mu.Lock()
	defer h.mu.Unlock()
	b.err = err
	close(b.over)
	if err == nil {
		return nil
	}
	next := newBegin()
	if h.begun == b { // else another reader has taken over
		h.begun = next
	}
	return next
}

// follow goes on after cursor, or begins now.
func (h *hub) follow(ctx context.Context, deps []jobs.Dependency, cursor string) (*ledger.Changes, error) {
	if cursor == "" {
		return h.ledger.Changes(ctx, deps)
	}
	return h.ledger.ChangesAfter(deps, cursor)
}

func (h *hub) trouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	h.log.LogAttrs(ctx, slog.LevelDebug, "changes could not be read", slog.String("err", ledger.Explain(err)))
	pause(ctx, troubleWait)
}

func (h *hub) tell(c ledger.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		select {
		case l.changes <- &c:
		default:
			h.drop(l)
		}
	}
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
