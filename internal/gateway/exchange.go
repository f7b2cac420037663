package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// stage is where opening the connection failed.
type stage int

const (
	stageNone stage = iota
	stageConnect
	stageTLS
)

// exchange is one call under way: at most one connection, and what became of it.
type exchange struct {
	client   *Client
	late     func() bool
	timeLeft func() time.Duration
	given    func() bool

	dialling sync.WaitGroup // the dial under way; Add happens under mu, before ended

	mu        sync.Mutex // guards everything below
	ended     bool
	dials     int
	conn      *conn
	failedAt  stage
	dialError error
}

// newExchange prepares a call whose attempt lives as long as ctx.
func (c *Client) newExchange(ctx context.Context, call Call) *exchange {
	return &exchange{
		client: c,
		late: func() bool {
			mono, wall := c.elapsedFunc(call.StartedAt)
			return mono > call.SendBy || wall > call.SendBy
		},
		timeLeft: func() time.Duration {
			end, _ := ctx.Deadline()
			return time.Until(end)
		},
		given: func() bool { return ctx.Err() != nil },
	}
}

// transport returns a transport for this exchange alone: no connection of another
// call can get into it, and none of its own survives it. ctx bounds the dial: the
// transport itself would let it run on after the request was given up.
func (x *exchange) transport(ctx context.Context) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:              protocols,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: MaxHeaderBytes,
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			return x.dial(ctx, addr, false)
		},
		DialTLSContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			return x.dial(ctx, addr, true)
		},
	}
}

// dial opens the one connection of the exchange. A second one is refused: it
// could only serve to send the request again.
func (x *exchange) dial(ctx context.Context, addr string, secure bool) (net.Conn, error) {
	x.mu.Lock()
	x.dials++
	if x.ended || x.dials > 1 {
		x.mu.Unlock()
		return nil, errEnded
	}
	x.dialling.Add(1)
	x.mu.Unlock()
	defer x.dialling.Done()

	dialer := net.Dialer{Resolver: x.client.resolver, KeepAlive: -1}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, x.dialFailed(stageConnect, err)
	}
	tcp := &counted{Conn: raw}
	c := &conn{Conn: tcp, tcp: tcp, late: x.late, timeLeft: x.timeLeft, given: x.given, begun: make(chan struct{})}
	if secure {
		session, err := x.handshake(ctx, tcp, addr)
		if err != nil {
			raw.Close()
			return nil, x.dialFailed(stageTLS, err)
		}
		c.Conn = session
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = c
	if x.ended {
		c.end(false)
		return nil, errEnded
	}
	return c, nil
}

func (x *exchange) handshake(ctx context.Context, tcp net.Conn, addr string) (*tls.Conn, error) {
	config := x.client.tls.Clone()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("split %q: %w", addr, err)
		}
		config.ServerName = host
	}
	session := tls.Client(tcp, config)
	return session, session.HandshakeContext(ctx)
}

func (x *exchange) dialFailed(at stage, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failedAt, x.dialError = at, err
	return err
}

// connected reports whether the connection was ever open.
func (x *exchange) connected() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn != nil
}

// settle lets no further connection be opened and waits for a dial under way,
// whose context must have ended.
func (x *exchange) settle() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.dialling.Wait()
}

// end closes the connection, if there is one, and returns how many bytes of the
// request were handed to the kernel. No byte leaves after end has returned.
func (x *exchange) end(whole bool) (sent int64) {
	x.settle()
	if x.conn == nil {
		return 0
	}
	_ = x.conn.end(whole) // the connection is gone either way
	_, sent = x.conn.snapshot()
	return sent
}
