package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"redrive/internal/jobs"
)

// faultServer is a gateway that misbehaves on the level of TCP, TLS and bytes. It
// keeps what it received: its count is the judge of what was on the wire.
type faultServer struct {
	t       testing.TB
	ln      net.Listener
	tls     *tls.Config
	handler func(*peer)

	running sync.WaitGroup

	mu       sync.Mutex // guards everything below
	received []*bytes.Buffer
	open     map[net.Conn]bool
}

// peer is one connection as the server's handler sees it.
type peer struct {
	net.Conn
	raw *net.TCPConn
	in  *bufio.Reader
}

// recorder keeps every byte that the server's program read from a connection.
type recorder struct {
	net.Conn
	s  *faultServer
	to *bytes.Buffer
}

func (r recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.to.Write(p[:n])
	return n, err
}

// startFault starts a server on 127.0.0.1 that handles each connection with
// handler and ends with the test. conf nil: plain TCP.
func startFault(t testing.TB, conf *tls.Config, handler func(*peer)) *faultServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &faultServer{t: t, ln: ln, tls: conf, handler: handler, open: map[net.Conn]bool{}}
	s.running.Add(1)
	go s.accept() // ended by closing the listener; stop waits for it
	t.Cleanup(s.stop)
	return s
}

func (s *faultServer) accept() {
	defer s.running.Done()
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[c] = true
		s.mu.Unlock()
		s.running.Add(1)
		go s.serve(c) // ended by its handler or by stop, which waits for it
	}
}

func (s *faultServer) serve(c net.Conn) {
	defer s.running.Done()
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	top := c
	if s.tls != nil {
		session := tls.Server(c, s.tls)
		if session.Handshake() != nil {
			return
		}
		top = session
	}
	buf := &bytes.Buffer{}
	s.mu.Lock()
	s.received = append(s.received, buf)
	s.mu.Unlock()
	rec := recorder{Conn: top, s: s, to: buf}
	s.handler(&peer{Conn: rec, raw: c.(*net.TCPConn), in: bufio.NewReader(rec)})
	if s.tls != nil {
		_ = top.Close()
	}
}

func (s *faultServer) stop() {
	s.ln.Close()
	s.mu.Lock()
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// seen returns how many connections brought bytes that hold the text.
func (s *faultServer) seen(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, buf := range s.received {
		n += bytes.Count(buf.Bytes(), []byte(text))
	}
	return n
}

// wantRequests waits until the server has read n requests; the last one may still
// be on its way when Send returns.
func (s *faultServer) wantRequests(n int) {
	s.t.Helper()
	for until := time.Now().Add(2 * time.Second); s.seen(wire) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			s.t.Errorf("the server saw %d requests, want %d", s.seen(wire), n)
			return
		}
	}
}

func (s *faultServer) url() string {
	if s.tls != nil {
		return "https://" + s.ln.Addr().String()
	}
	return "http://" + s.ln.Addr().String()
}

// readRequest reads one whole request; nil when the connection ended before.
func (p *peer) readRequest() *http.Request {
	req, err := http.ReadRequest(p.in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return req
}

func (p *peer) say(text string) { _, _ = io.WriteString(p.Conn, text) }

// reset makes the kernel send RST when the connection is closed.
func (p *peer) reset() {
	_ = p.raw.SetLinger(0)
	p.raw.Close()
}

// untilGone blocks until the other side has closed, and says how it did.
func (p *peer) untilGone() error {
	_, err := io.Copy(io.Discard, p.in)
	return err
}

// afterRequest is a handler that reads one request and then does what it says.
func afterRequest(do func(*peer)) func(*peer) {
	return func(p *peer) {
		if p.readRequest() != nil {
			do(p)
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"id\":\"ch_1\"}"

// patience is the timeout of a call whose end another thing decides: however slow the machine, it is not the timeout.
const patience = 20 * time.Second

// testCall is a charge to the server, begun now.
func testCall(base string) Call {
	return Call{
		Request: jobs.Request{Method: "POST", Path: "/v1/charges", ContentType: "application/json",
			Body: []byte(`{"amount":4200}`), IdempotencyKey: "charge:order-1001"},
		Attempt: 2, BaseURL: base, KeyHeader: "Idempotency-Key",
		StartedAt: time.Now(), SendBy: patience, Timeout: patience,
	}
}

// wire is what every request of testCall has on the wire once.
const wire = "\r\nRedrive-Attempt: "

func bigBody(n int) []byte { return []byte(strings.Repeat("a", n)) }
