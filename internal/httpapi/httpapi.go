package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
)

// Bounds on what a stranger can hold: health is open to whoever reaches the port.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 16<<10 - 4<<10 // so that 16 KiB pass: net/http reads 4 KiB more than it is told, and 4 more on a connection that is used again
	maxInFlight    = 32
)

// Options are what a server shows. All fields but API, TLS and Log are required. The
// functions are called for each request, from several goroutines, and must not block.
type Options struct {
	AliveFunc func() error    // an error: only a restart can help
	ReadyFunc func() []string // why the worker cannot do its work now, a line each; none: it can
	Metrics   http.Handler

	API *API        // nil: nothing is served below /v1
	TLS *tls.Config // see [LoadTLS]; nil: without

	Log *slog.Logger // gets what net/http has to say; nil: silent
}

// Server is a running server.
type Server struct {
	http     *http.Server
	listener net.Listener
	log      *slog.Logger
	door     *door         // nil: no API
	done     chan struct{} // closed when serving has ended
}

// Serve serves l in the background until [Server.Close], which closes it.
func Serve(l net.Listener, o Options) *Server {
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	var d *door
	if o.API != nil {
		d = newDoor(*o.API, onLoopback(l.Addr()), log)
	}
	s := &Server{
		http: &http.Server{
			Handler:           apart(handler(o), d),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		listener: l,
		log:      log,
		door:     d,
		done:     make(chan struct{}),
	}
	s.http.TLSConfig = o.TLS.Clone() // net/http adds to it, and another server may use it too
	go s.serve()                     // ended by Close, which waits for done
	return s
}

// Access says in words who may use the API.
func (s *Server) Access() string {
	switch {
	case s.door == nil:
		return "not served"
	case len(s.door.Tokens) > 0:
		return "tokens"
	case s.door.access.loopback:
		return "whoever is on this machine"
	}
	return "refused: this address is reached from other machines, and there are no tokens"
}

func (s *Server) serve() {
	defer close(s.done)
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.log.LogAttrs(context.Background(), slog.LevelError, "health and metrics are no longer served", slog.Any("err", err))
	}
}

// Close takes no new request, waits for those under way until ctx ends, then cuts
// them. Idempotent.
func (s *Server) Close(ctx context.Context) error {
	if s.door != nil {
		s.door.close() // else its streams would last as long as ctx
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return err
}

// apart keeps paths from the mux that it would clean, by a redirect that is answered
// before anybody looked who asks. d may be nil.
func apart(mux *http.ServeMux, d *door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p := r.URL.Path; {
		case d != nil && (belowV1(p) || belowV1(path.Clean("/"+p))): // what cleans paths would lead there: it learns why not
			d.ServeHTTP(w, r)
		case p != path.Clean(p):
			http.NotFound(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func belowV1(p string) bool { return p == "/v1" || strings.HasPrefix(p, "/v1/") }

func handler(o Options) *http.ServeMux {
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
