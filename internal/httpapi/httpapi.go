// Package httpapi serves what a worker shows over HTTP on listen: /livez (the
// process runs), /readyz (it can do its work, or the reasons why not) and /metrics.
//
// These three tell nothing about operations and need no token, so they may listen
// on any address. What is ready, and the metrics, are handed in: the package knows
// neither Redis nor the worker.
package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds on what a stranger can hold: health is open to whoever reaches the port.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 16 << 10
	maxInFlight    = 32
)

// Options are what a server shows. All fields but Log are required. The functions
// are called for each request, from several goroutines, and must not block.
type Options struct {
	AliveFunc func() error    // an error: only a restart can help
	ReadyFunc func() []string // why the worker cannot do its work now, a line each; none: it can
	Metrics   http.Handler

	Log *slog.Logger // gets what net/http has to say; nil: silent
}

// Server is a running server.
type Server struct {
	http     *http.Server
	listener net.Listener
	log      *slog.Logger
	done     chan struct{} // closed when serving has ended
}

// Serve serves l in the background until [Server.Close], which closes it.
func Serve(l net.Listener, o Options) *Server {
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Server{
		http: &http.Server{
			Handler:           handler(o),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		listener: l,
		log:      log,
		done:     make(chan struct{}),
	}
	go s.serve() // ended by Close, which waits for done
	return s
}

func (s *Server) serve() {
	defer close(s.done)
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.log.LogAttrs(context.Background(), slog.LevelError, "health and metrics are no longer served", slog.Any("err", err))
	}
}

// Close takes no new request, waits for those under way until ctx ends, then cuts
// them. Idempotent.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return err
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { alive(w, o.AliveFunc()) })
	limited := limit(maxInFlight)
	mux.Handle("GET /readyz", limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ready(w, o.ReadyFunc()) })))
	mux.Handle("GET /metrics", limited(o.Metrics))
	return mux
}

// limit refuses what goes beyond n requests at once. Only /livez is never refused:
// a crowd at the door is no reason to kill the process.
func limit(n int) func(http.Handler) http.Handler {
	places := make(chan struct{}, n) // one value per request under way
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				next.ServeHTTP(w, r)
			default:
				w.Header().Set("Retry-After", "1")
				http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
			}
		})
	}
}

func alive(w http.ResponseWriter, err error) {
	answer := struct {
		Alive bool    `json:"alive"`
		Error *string `json:"error"`
	}{Alive: err == nil}
	if err != nil {
		text := err.Error()
		answer.Error = &text
	}
	writeJSON(w, statusOf(answer.Alive), answer)
}

func ready(w http.ResponseWriter, reasons []string) {
	answer := struct {
		Ready   bool     `json:"ready"`
		Reasons []string `json:"reasons"`
	}{len(reasons) == 0, append([]string{}, reasons...)}
	writeJSON(w, statusOf(answer.Ready), answer)
}

func statusOf(good bool) int {
	if good {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// writeJSON answers with v. That the client went away is not our concern.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
