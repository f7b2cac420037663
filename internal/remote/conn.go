package remote

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// askedConn is a connection on which nothing is heard before something was asked. What
// greets whoever comes, as SSH and mail servers do, is then the answer to the request,
// and told as one; net/http would write it to the log of the program, or not, as it
// happens to arrive.
type askedConn struct {
	net.Conn
	asked, closed func() // close the channels, once
	onAsk, onEnd  chan struct{}
	ended         atomic.Bool // the other side sends no more, and that was read
}

func newAskedConn(c net.Conn) *askedConn {
	out := &askedConn{Conn: c, onAsk: make(chan struct{}), onEnd: make(chan struct{})} // nothing is sent on them: they are closed, by Write and Close
	out.asked = sync.OnceFunc(func() { close(out.onAsk) })
	out.closed = sync.OnceFunc(func() { close(out.onEnd) })
	return out
}

// Read waits for the first Write, or for Close.
func (c *askedConn) Read(p []byte) (int, error) {
	select {
	case <-c.onAsk:
		n, err := c.Conn.Read(p)
		if errors.Is(err, io.EOF) {
			c.ended.Store(true)
		}
		return n, err
	case <-c.onEnd:
		return 0, io.ErrClosedPipe
	}
}

// endedEarly reports whether a connection of the client was read to its end.
func endedEarly(c net.Conn) bool {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	asked, ok := c.(*askedConn)
	return ok && asked.ended.Load()
}

// Write lets reads go on.
func (c *askedConn) Write(p []byte) (int, error) {
	defer c.asked()
	return c.Conn.Write(p)
}

// Close ends the connection, and a Read that waits.
func (c *askedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
