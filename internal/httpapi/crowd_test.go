package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// pipes is a listener inside the process. 10,000 connections over TCP would need 20,000
// file descriptors where client and server are one process, which is more than many
// machines allow.
type pipes struct {
	dialled chan net.Conn // the server's ends, sent by dial
	closed  chan struct{} // closed by Close
	once    sync.Once
}

func newPipes() *pipes { return &pipes{dialled: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.dialled <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// held is what the process holds: memory of heap and stacks after a collection, and goroutines.
func held() (bytes int64, goroutines int) {
	runtime.GC()
	runtime.GC() // what pools keep goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// Ten thousand follow at once: as many as there are places are served, each of the
// others is told to come again, nobody else is kept waiting, and when they go nothing
// of them stays.
func TestACrowdOfTenThousandStreamsIsTurnedAwayBeyondThePlaces(t *testing.T) { // not parallel: it counts what the process holds
	const crowd, places, perConnection = 10_000, 100, 48 << 10
	l := newPipes()
	_, client := redistest.Mini(t)
	b := startOn(t, l, client, func(a *API) { a.Limits.MaxEventStreams = places }, nil)
	b.way.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }
	b.submit(`{"kind":"charge","key":"before","body":{}}`)
	before, goroutinesBefore := held()

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	conns := make([]net.Conn, crowd)
	var served, turnedAway, told atomic.Int64
	var coming, reading sync.WaitGroup
	next := make(chan int) // sent and closed below
	for range 32 {
		coming.Go(func() { // ends when next is closed; coming waits
			for i := range next {
				conn, in, err := follow(ctx, l)
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					continue
				}
				conns[i] = conn
				resp, err := http.ReadResponse(in, nil)
				switch {
				case err != nil:
					t.Errorf("connection %d: %v", i, err)
				case resp.StatusCode == http.StatusOK:
					served.Add(1)
					reading.Go(func() { // ends when the connection is closed; reading waits
						for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
							if strings.Contains(lines.Text(), "charge/meanwhile") {
								told.Add(1)
							}
						}
					})
				default:
					text, _ := io.ReadAll(resp.Body)
					got{resp.StatusCode, resp.Header, string(text)}.is(t, "one too many", busy)
					turnedAway.Add(1)
				}
			}
		})
	}
	for i := range crowd {
		next <- i
	}
	close(next)
	coming.Wait()
	if served.Load() != places || turnedAway.Load() != crowd-places {
		t.Errorf("%d served and %d turned away, want %d and %d", served.Load(), turnedAway.Load(), places, crowd-places)
	}
	if after, _ := held(); after-before > crowd*perConnection {
		t.Errorf("%d connections hold %d MiB, more than %d KiB each", crowd, (after-before)>>20, perConnection>>10)
	}
	b.submit(`{"kind":"charge","key":"meanwhile","body":{}}`) // nobody else is kept waiting
	b.until("every stream tells what happens", func() bool { return told.Load() == places })

	for _, conn := range conns {
		if conn != nil {
			conn.Close()
		}
	}
	clear(conns)
	reading.Wait()
	b.joined(0)
	b.freed("a place of streams", b.server.door.streams)
	b.until("all goroutines of the crowd end", func() bool { return runtime.NumGoroutine() <= goroutinesBefore+5 }) // connections of the bundle's client and of Redis'
	if after, _ := held(); after-before > 48<<20 {                                                                  // deadlines of closed pipes last until they pass
		t.Errorf("%d MiB are held of a crowd that is gone", (after-before)>>20)
	}
	conn, in, err := follow(ctx, l) // there is room again
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %v, %v", resp, err)
	}
}

// follow asks for events over a connection of its own.
func follow(ctx context.Context, l *pipes) (net.Conn, *bufio.Reader, error) {
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	_, err = fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", reader)
	return conn, bufio.NewReaderSize(conn, 512), err
}

// until waits for something that happens soon.
func (b *apiBundle) until(what string, happened func() bool) {
	b.t.Helper()
	for range 4000 {
		if happened() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.t.Errorf("never: %s", what)
}
