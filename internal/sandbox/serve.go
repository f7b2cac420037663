package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// ErrServing is returned by [Sandbox.Serve] when the sandbox serves already.
var ErrServing = errors.New("sandbox serves already")

// life is the time between a start and a stop: what runs in it is counted, what
// waits in it is woken by its end.
type life struct {
	over chan struct{} // closed by end; nothing is sent

	mu    sync.Mutex     // guards ended, and orders enter before end
	ended bool           //
	busy  sync.WaitGroup // handlers that run
}

func newLife() *life { return &life{over: make(chan struct{})} }

// enter counts a handler in; false when the life is over.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.busy.Add(1)
	return true
}

// end wakes whoever waits and lets nobody in any more; idempotent.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.over)
	}
}

func (l *life) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// pause waits for d; false when the life ended first.
func (l *life) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}

// run is one listener being served.
type run struct {
	server   *http.Server
	listener net.Listener
	life     *life
	done     chan struct{} // closed when serving has ended
}

// halt makes serving end; idempotent, does not wait.
func (r *run) halt() {
	r.life.end()
	r.server.Close() // closes listener and connections; its error says only that one was closed before
}

// url returns where the run can be reached. A wildcard address is reached by
// loopback.
func (r *run) url() string {
	addr, ok := r.listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", addr.Port)
	}
	return "http://" + r.listener.Addr().String()
}

// begin registers a run on l. Called with s.mu held.
func (s *Sandbox) begin(l net.Listener) *run {
	if s.life.Load().isOver() {
		s.life.Store(newLife())
	}
	s.run = &run{
		server: &http.Server{
			Handler:           s.handler,
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
		},
		listener: l,
		life:     s.life.Load(),
		done:     make(chan struct{}),
	}
	return s.run
}

// serve blocks until r is halted and its handlers have ended.
func (s *Sandbox) serve(r *run) error {
	err := r.server.Serve(r.listener)
	r.halt()
	r.life.busy.Wait()
	s.mu.Lock()
	s.run = nil
	s.mu.Unlock()
	close(r.done)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve sandbox on %s: %w", r.listener.Addr(), err)
}

// Serve serves l until ctx ends or [Sandbox.Stop] is called, closes it, and
// returns nil once every handler has ended; requests under way are cut, as by a
// gateway that is killed. Ledger and fault stay. It returns [ErrServing], and
// closes l, when the sandbox serves already; otherwise an error of the listener.
func (s *Sandbox) Serve(ctx context.Context, l net.Listener) error {
	s.mu.Lock()
	if s.run != nil {
		s.mu.Unlock()
		l.Close()
		return fmt.Errorf("serve sandbox on %s: %w", l.Addr(), ErrServing)
	}
	r := s.begin(l)
	s.mu.Unlock()
	defer context.AfterFunc(ctx, r.halt)()
	return s.serve(r)
}

// Listen starts the sandbox on addr ("127.0.0.1:0" for a free port) in the
// background and returns its URL. While it serves, another Listen returns the
// same URL and does nothing; after [Sandbox.Stop] it starts again, with the
// ledger it had. It returns an error when addr cannot be listened on.
func (s *Sandbox) Listen(addr string) (url string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return s.run.url(), nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("start sandbox on %s: %w", addr, err)
	}
	r := s.begin(l)
	go func() { // ended by Stop, which waits for r.done
		if err := s.serve(r); err != nil {
			s.logger.LogAttrs(context.Background(), slog.LevelError, "sandbox ended", slog.Any("err", err))
		}
	}()
	return r.url(), nil
}

// Stop ends serving and waits for it: connections are closed and waiting requests
// cut, so that what follows meets a refused connection. Requests to
// [Sandbox.Handler] are cut from then on too, until Listen or Serve starts
// again. Idempotent, and legal before any start.
func (s *Sandbox) Stop() {
	s.mu.Lock()
	r, l := s.run, s.life.Load()
	s.mu.Unlock()
	l.end()
	if r != nil {
		r.halt()
		<-r.done
	}
	l.busy.Wait()
}
