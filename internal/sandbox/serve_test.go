package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestListenIsIdempotentAndStopLetsItStartAgainWithItsLedger(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	again, err := tb.sandbox.Listen("127.0.0.1:0")
	if err != nil || again != tb.url {
		t.Fatalf("got %q, %v from a second Listen, want %q", again, err, tb.url)
	}
	tb.charge("order-1", "").want(t, http.StatusCreated)
	tb.sandbox.Stop()
	tb.sandbox.Stop()
	if r := tb.charge("order-2", ""); !errors.Is(r.err, syscall.ECONNREFUSED) {
		t.Errorf("got %+v after a stop, want a refused connection", r)
	}
	restarted, err := tb.sandbox.Listen(strings.TrimPrefix(tb.url, "http://"))
	if err != nil || restarted != tb.url {
		t.Fatalf("got %q, %v, want to listen on %q again", restarted, err, tb.url)
	}
	tb.charge("order-3", "").want(t, http.StatusCreated)
	if got := len(tb.sandbox.Ledger()); got != 2 {
		t.Errorf("got %d entries, want those before and after the stop", got)
	}
}

func TestStopBeforeListenIsLegal(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	s.Stop()
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	resp, err := http.Get(url + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "{\"status\":\"ok\"}\n" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
}

func TestListenSaysWhichAddressIsTaken(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	addr := strings.TrimPrefix(tb.url, "http://")
	if _, err := New(Options{}).Listen(addr); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v, want an error that names %s", err, addr)
	}
}

func TestWildcardAddressIsShownAsLoopback(t *testing.T) {
	t.Parallel()
	r := run{listener: fakeListener{&net.TCPAddr{IP: net.IPv6unspecified, Port: 9900}}}
	if got := r.url(); got != "http://127.0.0.1:9900" {
		t.Errorf("got %q", got)
	}
}

type fakeListener struct{ addr net.Addr }

func (l fakeListener) Addr() net.Addr            { return l.addr }
func (l fakeListener) Accept() (net.Conn, error) { return nil, errAccept }
func (l fakeListener) Close() error              { return nil }

var errAccept = errors.New("accept is broken")

func TestServeReturnsTheListenersError(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	if err := s.Serve(t.Context(), fakeListener{&net.TCPAddr{}}); !errors.Is(err, errAccept) {
		t.Errorf("got %v, want the error of accept", err)
	}
	if url, err := s.Listen("127.0.0.1:0"); err != nil || url == "" {
		t.Errorf("got %q, %v: a broken listener must leave the sandbox usable", url, err)
	}
	s.Stop()
}

func TestServeEndsWithItsContextAndServesOneListenerAtATime(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1) // sent once by the goroutine, which cancel ends
	go func() { served <- s.Serve(ctx, l) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + l.Addr().String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), second); !errors.Is(err, ErrServing) {
		t.Errorf("got %v from a second Serve, want ErrServing", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("got %v after the context ended, want nil", err)
	}
}

// TestStartAndStopInAnyOrderNeitherHangNorLeak is run with -race; goleak sees
// what is left over.
func TestStartAndStopInAnyOrderNeitherHangNorLeak(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	if err := s.SetFault(Fault{Mode: Slow, Latency: time.Minute}); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 25 {
				url, err := s.Listen("127.0.0.1:0")
				if err != nil {
					t.Error(err)
					return
				}
				wg.Go(func() { // ends with the next Stop, which cuts it
					resp, err := client.Post(url+"/v1/charges", "", strings.NewReader(chargeBody(fmt.Sprint(i, "-", j))))
					if err == nil {
						resp.Body.Close()
					}
				})
				s.Stop()
			}
		})
	}
	stopped := make(chan struct{}) // closed when all are through
	go func() { wg.Wait(); close(stopped) }()
	for {
		select {
		case <-stopped:
			s.Stop()
			return
		case <-time.After(50 * time.Millisecond):
			s.Stop() // for a request that was accepted after the last stop of its own loop
		}
	}
}
