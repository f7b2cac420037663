package sandbox

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopCutsWhatWaitsBeforeItTakesEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Storm, Latency: time.Hour}); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 1) // sent once by the request, which the Stop ends
		go func() { done <- chargeInBubble(s, "order-1", "") }()
		synctest.Wait()
		began := time.Now()
		s.Stop()
		if got := <-done; got != 0 || time.Since(began) != 0 {
			t.Errorf("got status %d %s after the stop, want a cut at once", got, time.Since(began))
		}
		if got := chargeInBubble(s, "order-2", ""); got != 0 {
			t.Errorf("got status %d after the stop, want a cut", got)
		}
		if st := s.Stats(); st.Requests != 1 || st.SideEffects != 0 {
			t.Errorf("got %+v, want 1 request and no side effect", st)
		}
	})
}

func TestStopCutsASlowAnswerThatTookEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Slow, Latency: time.Hour}); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 2) // sent once by each request, which the Stop ends
		go func() { done <- chargeInBubble(s, "order-1", "") }()
		go func() {
			status, _ := inBubble(s, "GET", "/v1/charges?reference=order-1", "", "")
			done <- status
		}()
		synctest.Wait()
		s.Stop()
		if first, second := <-done, <-done; first != 0 || second != 0 {
			t.Errorf("got statuses %d and %d after the stop, want two cuts", first, second)
		}
		if st := s.Stats(); st.SideEffects != 1 {
			t.Errorf("got %d side effects, want the one before the stop", st.SideEffects)
		}
	})
}

func TestStopSettlesTheKeyOfAnEffectItInterrupts(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.setFault(Fault{Mode: Slow, Latency: time.Hour})
	cutOff := make(chan reply, 1) // sent once by the goroutine below, which the Stop ends
	go func() { cutOff <- tb.charge("order-1", "key-1") }()
	waitFor(t, func() bool { return tb.entry("order-1").SideEffects == 1 })
	tb.sandbox.Stop()
	wantCut(t, <-cutOff)
	tb.setFault(Fault{Mode: None})
	url, err := tb.sandbox.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tb.url = url
	if r := tb.charge("order-1", "key-1"); r.status != 201 || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %+v, want a replay of what was applied before the stop", r)
	}
	if e := tb.entry("order-1"); e.Requests != 2 || e.SideEffects != 1 {
		t.Errorf("got %+v, want 2 requests and 1 side effect", e)
	}
}

func TestStopAndServeWaitForHandlersThatRun(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*Sandbox){
		"Stop": (*Sandbox).Stop,
		"Serve": func(s *Sandbox) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := s.Serve(ctx, blockingListener{make(chan struct{})}); err != nil {
				t.Error(err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{})
			body, more := io.Pipe()
			handled := make(chan struct{}) // closed when the request is through
			go func() {
				defer close(handled)
				recorded(s, httptest.NewRequest("POST", "/v1/charges", body))
			}()
			synctest.Wait()
			stopped := make(chan struct{}) // closed when stop returned
			go func() { stop(s); close(stopped) }()
			synctest.Wait()
			select {
			case <-stopped:
				t.Errorf("%s returned while a request was being read", name)
			default:
			}
			if _, err := io.WriteString(more, chargeBody("order-1")); err != nil {
				t.Error(err)
			}
			more.Close()
			<-stopped
			<-handled
		})
	}
}

// blockingListener accepts nothing until it is closed.
type blockingListener struct{ closed chan struct{} }

func (l blockingListener) Addr() net.Addr { return &net.TCPAddr{} }
func (l blockingListener) Close() error   { close(l.closed); return nil }
func (l blockingListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}
