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
