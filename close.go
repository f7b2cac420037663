package redrive

import (
	"context"
	"errors"
	"sync"
	"time"
)

// closeWait is how long [Client.Close] waits for calls under way: longer than a write-ahead,
// an attempt of the default timeout and its result take together.
const closeWait = 10 * time.Second

// underway counts the calls of a client that have begun, so that what they need is there
// until the last of them has written what it must.
type underway struct {
	closed chan struct{} // closed by end; nothing is sent
	idle   chan struct{} // closed once closed is and nothing is under way; nothing is sent

	mu   sync.Mutex // guards the rest
	n    int
	over bool
	last func() // what the last call has to do when it leaves; nil: Close does it
}

func newUnderway() *underway {
	return &underway{closed: make(chan struct{}), idle: make(chan struct{})}
}

// enter begins a call, which must leave; an error says why it must not begin.
func (u *underway) enter(ctx context.Context) error {
	if ctx == nil {
		return invalid(errors.New("ctx is nil"))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return ErrClosed
	}
	u.n++
	return nil
}

func (u *underway) leave() {
	u.mu.Lock()
	u.n--
	var last func()
	if u.over && u.n == 0 {
		close(u.idle)
		last = u.last
	}
	u.mu.Unlock()
	if last != nil {
		last()
	}
}

// end lets nothing begin any more.
func (u *underway) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	close(u.closed)
	if u.n == 0 {
		close(u.idle)
	}
}

// settle waits for what is under way, and returns how many calls are left after that. If
// there are any, the last of them does last.
func (u *underway) settle(wait time.Duration, last func()) int {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-u.idle:
	case <-timer.C:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n > 0 {
		u.last = last
	}
	return u.n
}

// isClosed: Close has begun.
func (u *underway) isClosed() bool {
	select {
	case <-u.closed:
		return true
	default:
		return false
	}
}

// Close ends the client. From the moment that it begins every method returns [ErrClosed], and
// nothing is sent: a call that has not begun is not made, and [Client.Call] does not try again.
// What had begun before goes on, writes its result or spools it: Close waits up to ten seconds
// for it, then tells what is left, for some seconds at most, and ends what [New] started. Where
// a sender takes longer than that, Close returns, and the last call to end does the rest: a
// process that exits before leaves what a killed one does. A Redis of one's own must not be
// closed before that. Closing twice does nothing more.
func (c *Client) Close() {
	c.closing.Do(func() {
		c.underway.end()
		c.hub.stop()
		if n := c.underway.settle(c.closeWait, c.finish); n > 0 {
			c.o.Log.Warn("closed while calls are under way: the last of them ends the client", "calls", n)
			return
		}
		c.finish()
	})
}

// finish ends what New started. Nothing is under way any more.
func (c *Client) finish() {
	c.late.stop()
	if c.spool != nil {
		c.spool.stop()
	}
	c.path.Stop()
	c.close()
}

func (c *Client) close() {
	if c.spool != nil {
		if err := c.spool.close(); err != nil {
			c.o.Log.Error("spool not closed: hand-overs that stood in it may be lost", "spool", c.spool.path, "err", err)
		}
	}
	if c.ownRDB {
		_ = c.rdb.Close() // every call has ended
	}
}
