package gateway

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errTooLate = errors.New("the send window is over")
	errEnded   = errors.New("the call has ended")
)

// counted counts the bytes that the kernel took from us. It lies below TLS.
type counted struct {
	net.Conn
	written atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// conn is the one connection of an exchange as the transport sees it: the TCP
// connection, or the TLS session on it. It decides whether the first application
// byte may still go, and how the connection ends.
type conn struct {
	net.Conn // what application bytes go through
	tcp      *counted
	late     func() bool          // may the first byte no longer go?
	timeLeft func() time.Duration // until the attempt's end
	given    func() bool          // has the attempt been given up?
	begun    chan struct{}        // closed under mu when the first write has returned, or by end

	mu sync.Mutex // guards everything below
	report
	released bool // begun is closed
	ended    bool
}

// report is what happened on a connection, application bytes only.
type report struct {
	started    bool  // the first write was let through
	tooLate    bool  // it was not
	below      int64 // bytes below when it was let through: the handshake's
	written    int64
	read       int64
	writeError error
	readError  error
}

// Write refuses the first byte when it is too late, so the check is as near to
// the kernel as it can be. A write that fails later does not fail here: the other
// side may have answered before it stopped reading, and the transport looks for
// that answer only while it believes in the connection.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.start(); err != nil {
		return 0, err
	}
	c.mu.Lock()
	failed := c.writeError != nil
	c.mu.Unlock()
	if failed {
		return len(p), nil
	}
	n, err := c.Conn.Write(p) // not under the lock: it blocks, and Close must get through
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written += int64(n)
	c.release()
	if err == nil {
		return n, nil
	}
	c.writeError = err
	if c.sent() == 0 {
		return n, err
	}
	return len(p), nil
}

// start lets the first write through, or refuses it for good.
func (c *conn) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.started:
		return nil
	case c.ended:
		return errEnded
	case c.tooLate:
		return errTooLate
	case c.late():
		c.tooLate = true
		return errTooLate
	}
	if tcp, ok := c.tcp.Conn.(syscall.Conn); ok {
		if err := setUserTimeout(tcp, c.timeLeft()); err != nil {
			c.writeError = err
			return err
		}
	}
	if c.late() { // setting the option took time too
		c.tooLate = true
		return errTooLate
	}
	c.started, c.below = true, c.tcp.written.Load()
	return nil
}

// release lets reads through. The caller holds mu.
func (c *conn) release() {
	if !c.released {
		c.released = true
		close(c.begun)
	}
}

// sent returns how many bytes of the request may have left. Part of a TLS record
// on the wire counts as well: it is worth nothing to the other side, but "not
// sent" must be beyond doubt. The caller holds mu.
func (c *conn) sent() int64 {
	if !c.started {
		return 0
	}
	if c.written > 0 {
		return c.written
	}
	return c.tcp.written.Load() - c.below
}

// Read holds back what comes before the first part of the request has left: the
// transport would take it for an answer to nothing and log it, or, with the write
// let through and not yet made, take it for the answer and cut the write. That the
// other side closed is passed on at once, for then nothing needs to be sent.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		<-c.begun
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read += int64(n)
	if err != nil && c.readError == nil {
		c.readError = err
	}
	return n, err
}

// Close is the transport's: it lets go of the connection as soon as the last byte
// of an answer is read, or when anything goes wrong, and cannot tell us which.
// How the connection ends is decided by [conn.end]; here pending reads and writes
// return at once, and what was given up is reset without waiting.
func (c *conn) Close() error {
	if c.given() {
		return c.end(false)
	}
	return c.tcp.SetDeadline(time.Unix(1, 0))
}

// end closes the connection once: politely after a whole answer to a whole
// request, otherwise by a reset, so that the kernel throws away what it has not
// delivered instead of delivering it after the claim has passed on.
func (c *conn) end(whole bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	c.release()
	if whole && c.writeError == nil {
		if err := c.tcp.SetDeadline(time.Time{}); err == nil {
			return c.Conn.Close()
		}
	}
	if tcp, ok := c.tcp.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // on failure the close below is all that is left to do
	}
	return c.tcp.Close()
}

// snapshot returns what happened so far and how many bytes were sent.
func (c *conn) snapshot() (report, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report, c.sent()
}
