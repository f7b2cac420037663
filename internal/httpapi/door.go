package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/wire"
)

// API is what is served below /v1. All fields but Version are required, where nothing
// else is said.
type API struct {
	Ledger *ledger.Ledger
	Kinds  []jobs.KindSpec // of the configuration, with their base URLs resolved
	Tokens []config.Token  // none: loopback alone is served
	Limits config.API

	// FitFunc says why nothing may be taken in now, a line each; none: it may. It is
	// called for each submission, from several goroutines, and must not block.
	FitFunc func() []string

	Version string // of the program, for the OpenAPI document; "": dev

	// For tests; 0: the constants.
	patience, lineTime, takeTime time.Duration
	mostChosen                   int
}

// Connections is how many connections to Redis an API of these limits may use at once.
func Connections(c config.API) int {
	const others = 2 + 8*maxBulk + maxExports // the hub and what it is caught up with; the hands of bulk actions
	return c.MaxRequests + importLanes*c.MaxImports + others
}

// door serves /v1.
type door struct {
	API
	access access
	log    *slog.Logger
	router *router
	kinds  *kinds
	clock  *clock
	rooms  *rooms
	hub    *hub
	acting *actions

	outcomes outcomes // of bulk actions

	requests, imports, streams, bulks, exports chan struct{} // one value per request under way; capacity: how many may be

	stop    sync.Once
	closing chan struct{} // closed by close
}

func newDoor(a API, loopback bool, log *slog.Logger) *door {
	d := &door{API: a, access: access{a.Tokens, loopback}, log: log, router: &router{}, kinds: newKinds(a.Ledger, a.Kinds), clock: &clock{ledger: a.Ledger}, rooms: newRooms(a.Ledger),
		requests: make(chan struct{}, a.Limits.MaxRequests), imports: make(chan struct{}, a.Limits.MaxImports),
		streams: make(chan struct{}, a.Limits.MaxEventStreams), bulks: make(chan struct{}, maxBulk), exports: make(chan struct{}, maxExports), acting: newActions(), closing: make(chan struct{})}
	d.hub = newHub(a.Ledger, d.kinds, log)
	d.register(humago.New(d.router, humaConfig(cmp.Or(a.Version, "dev"))))
	return d
}

// close ends streams, imports and bulk actions, and refuses new requests. Idempotent.
func (d *door) close() {
	d.stop.Do(func() {
		close(d.closing)
		d.hub.stop()
		d.acting.close()
	})
}

// ServeHTTP lets in who may come in.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &answer{ResponseWriter: w}
	out.Header().Set("Cache-Control", "no-store")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if err, ok := fault.(error); ok && (errors.Is(err, http.ErrAbortHandler) || r.Context().Err() != nil) {
			panic(http.ErrAbortHandler) // the client went away while it was answered
		}
		d.log.LogAttrs(r.Context(), slog.LevelError, "a request met a fault of ours", slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath()),
			slog.Any("err", fault), slog.String("stack", string(debug.Stack())))
		if out.begun {
			panic(http.ErrAbortHandler) // so that the client cannot take it for a whole answer
		}
		internalProblem.because("it is in the worker's log").write(out)
	}()
	who, p := d.access.admit(r)
	if p == nil {
		p = d.check(r)
	}
	if p != nil {
		p.write(out)
		return
	}
	d.router.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
}

// check finds what is wrong with a request whatever its route makes of it.
func (d *door) check(r *http.Request) *Problem {
	select {
	case <-d.closing:
		return closing.because("the worker ends: ask another")
	default:
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return malformed.at("query", errors.New("it is not percent-encoded as it must be"))
	}
	for name, values := range query {
		if len(values) > 1 {
			return invalid.at("query."+name, errors.New("it is given more than once"))
		}
	}
	return nil
}

// rule is what a route asks of a request.
type rule struct {
	role    config.Role // "": none, a token is enough
	also    config.Role // needed beside role; "": none is
	takes   string      // type of the body; "": there is none
	maxBody int64       // bytes
	decodes bool        // the route makes sure itself that its JSON can mean one thing alone
	gives   string      // type of the answer
	places  chan struct{}
	streams bool // it bounds its time itself
}

type bodyKey struct{}

// bodyOf is the body that a rule has read.
func bodyOf(ctx context.Context) []byte {
	body, _ := ctx.Value(bodyKey{}).([]byte)
	return body
}

// guard makes a rule of a route's middleware.
func (d *door) guard(u rule) func(huma.Context, func(huma.Context)) {
	return func(c huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(c)
		p := u.refuse(r)
		if p == nil && u.takes != "" && r.ContentLength > u.maxBody {
			leaveBody(w) // nor is the client told to go on that asked with Expect
			p = tooLarge.because("%d bytes, at most %d are read", r.ContentLength, u.maxBody)
		}
		if p != nil {
			p.write(w)
			return
		}
		select {
		case u.places <- struct{}{}:
			defer func() { <-u.places }()
		default:
			busy.because("%d are being answered already", cap(u.places)).write(w)
			return
		}
		ctx := context.WithValue(c.Context(), looksKey{}, looks(r.Method))
		if u.streams {
			next(huma.WithContext(c, ctx))
			return
		}
		ctx, cancel := context.WithTimeout(context.WithValue(ctx, lateKey{}, d.late(r.Method)), d.Limits.Timeout)
		defer cancel()
		control := http.NewResponseController(w)
		now := time.Now()
		_ = control.SetWriteDeadline(now.Add(d.Limits.Timeout + writeTimeout)) // where there is no connection, there is no slow one
		if u.takes != "" {
			_ = control.SetReadDeadline(now.Add(d.Limits.Timeout))
			body, p := readBody(w, r, u.maxBody)
			if p != nil {
				p.write(w)
				return
			}
			// Behind the body net/http reads on, to see the client leave: a deadline that
			// passed there would be taken for that.
			_ = control.SetReadDeadline(time.Time{})
			if u.takes == jsonType && !u.decodes {
				if p := checkJSON(body); p != nil {
					p.write(w)
					return
				}
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			ctx = context.WithValue(ctx, bodyKey{}, body)
		}
		next(huma.WithContext(c, ctx))
	}
}

type lateKey struct{}

// looksKey leads to whether a request changes nothing.
type looksKey struct{}

func looks(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// late is how a request is answered that ran out of time.
func (d *door) late(method string) *Problem {
	if looks(method) {
		return timedOut.because("it took longer than api.timeout, which is %s: narrow the filter, or ask for fewer at a time", d.Limits.Timeout)
	}
	return timedOut.because("it took longer than api.timeout, which is %s: it may have been made all the same", d.Limits.Timeout)
}

// lateOf returns how a request is answered whose time is over; nil: it is not.
func lateOf(ctx context.Context) *Problem {
	end, bounded := ctx.Deadline()
	if !bounded || time.Now().Before(end) {
		return nil
	}
	late, _ := ctx.Value(lateKey{}).(*Problem)
	return late
}

// needs says in the OpenAPI document who may ask.
func (u rule) needs() string {
	switch {
	case u.role == "":
		return "Role: any."
	case u.also != "":
		return fmt.Sprintf("Roles: %s and %s.", u.role, u.also)
	}
	return fmt.Sprintf("Role: %s.", u.role)
}

func (u rule) refuse(r *http.Request) *Problem {
	for _, role := range []config.Role{u.role, u.also} {
		if who := callerOf(r.Context()); role != "" && !who.may(role) {
			return forbidden.because("token %s has not the role %s", who.name, role)
		}
	}
	if !accepts(r.Header["Accept"], u.gives) {
		return notAcceptable.at("header.Accept", fmt.Errorf("the answer is %s", u.gives))
	}
	if u.takes == "" {
		return nil
	}
	if types := r.Header["Content-Type"]; len(types) != 1 || !isType(types[0], u.takes) {
		return badMediaType.at("header.Content-Type", fmt.Errorf("want %s", u.takes))
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return badMediaType.at("header.Content-Encoding", errors.New("bodies are read as they are"))
	}
	return nil
}

// restTime is how long net/http may read on behind an answer that does not need the rest
// of a body, so that a client which is still sending gets to it before it is cut off.
const restTime = time.Second

// leaveBody leaves the rest of a body unread, and has the connection closed behind the
// answer, which is to be written next or is being written. After an answer in full duplex
// net/http takes up a connection again whose body it reads to the end by itself, and meets
// the read that it began there: a panic. Before any other it waits for the rest of the
// body, if that is small. Over HTTP/2 it is the stream that ends.
func leaveBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTime))
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = inner.Unwrap()
	}
	// A limit that is passed is how net/http is told to close a connection when it may be
	// too late for a header.
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader(" ")), 0).Read(make([]byte, 1))
}

func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, *Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, bodyProblem(err)
	}
	return body, nil
}

// checkJSON refuses a body that is no JSON object, or one that readers could differ about.
func checkJSON(body []byte) *Problem {
	var wrong *wire.Error
	if err := wire.CheckObject(body); errors.As(err, &wrong) {
		return decodeProblem(wrong)
	}
	return nil
}

// bodyProblem says why a body could not be read.
func bodyProblem(err error) *Problem {
	var large *http.MaxBytesError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &large):
		return tooLarge.because("more than %d bytes", large.Limit)
	case errors.As(err, &timeout) && timeout.Timeout():
		return tooSlow.because("the body did not come in time")
	}
	return malformed.because("the body ends before its end")
}

// answer knows whether its answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
