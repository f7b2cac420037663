package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	heartbeatEvery = 15 * time.Second // keeps proxies from cutting a stream on which nothing happens
	takeTime       = 10 * time.Second // for a client to take what is written
	noWait         = -1               // of a read that does not wait for something to happen
	maxCursorBytes = 8 << 10
)

func (d *door) registerEvents(api huma.API) {
	text := func(name, tell string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: tell, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	change := api.OpenAPI().Components.Schemas.Schema(typeOf[ledger.Change](), true, "")
	d.handle(api, route{id: "events", method: http.MethodGet, path: "/v1/events", tag: "events",
		summary: "Follow what happens to operations (Server-Sent Events)",
		tell: "One event for each operation that enters a state, from now on or, with Last-Event-ID, on from the event that bore that id; after a resumption some may come again. " +
			"Hand-overs to a worker and back are no events. Redis keeps about the last 10,000 of each dependency; what is older is missed. " +
			"A client that reads too slowly is cut off, and comes back with the last id that it had.",
		rule: rule{role: config.RoleRead, gives: eventType, places: d.streams, streams: true}},
		map[string]*huma.Response{"200": {Description: "Events named change, each with an id and a Change as data", Content: map[string]*huma.MediaType{
			eventType: {Schema: &huma.Schema{Type: huma.TypeString}, Extensions: map[string]any{"x-data-schema": change}}}}},
		nil, []*huma.Param{text("dependency", "only of this dependency"), text("kind", "only of this kind"), text("operation", "only of this operation, KIND/KEY"),
			{Name: "Last-Event-ID", In: "header", Description: "go on after the event that bore this id", Schema: &huma.Schema{Type: huma.TypeString}}},
		d.events)
}

// wanted chooses changes.
type wanted struct{ dependency, kind, operation string }

func wantedOf(r *http.Request) (wanted, *Problem) {
	var out wanted
	for name, values := range r.URL.Query() {
		var err error
		switch name {
		case "dependency":
			out.dependency, err = values[0], jobs.CheckName(values[0])
		case "kind":
			out.kind, err = values[0], jobs.CheckName(values[0])
		case "operation":
			out.operation = values[0]
			_, err = jobs.ParseID(values[0])
		default:
			err = errors.New("unknown query parameter")
		}
		if err != nil {
			return out, invalid.at("query."+name, err)
		}
	}
	return out, nil
}

func (w wanted) has(c ledger.Change) bool {
	return (w.dependency == "" || w.dependency == string(c.Dependency)) && (w.operation == "" || w.operation == c.Operation) &&
		(w.kind == "" || strings.HasPrefix(c.Operation, w.kind+"/"))
}

func (d *door) events(w http.ResponseWriter, r *http.Request) {
	want, p := wantedOf(r)
	last := r.Header.Get("Last-Event-ID")
	var missed *ledger.Changes
	var back []jobs.Dependency // whose streams never came as far as the id
	if p == nil && last != "" {
		missed, p = d.changesAfter(r.Context(), last)
	}
	if p == nil && missed != nil {
		var err error
		if back, err = missed.Rewind(r.Context()); err != nil {
			p = d.problem(r.Context(), err)
		}
	}
	if p != nil {
		p.write(w)
		return
	}
	l := d.hub.join()
	defer d.hub.leave(l)
	if p := d.awaitReader(r.Context(), l); p != nil {
		p.write(w)
		return
	}
	s := &stream{w: w, control: http.NewResponseController(w), want: want, takeTime: cmp.Or(d.takeTime, takeTime)}
	_ = s.control.SetReadDeadline(time.Time{}) // nothing more comes in; a client that goes away still ends the request
	w.Header().Set("Content-Type", eventType)
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers events delays them
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead || s.comment("connected") != nil {
		return
	}
	for _, dep := range back {
		if s.comment("Last-Event-ID lies beyond the last event of "+string(dep)+": all that are kept come again") != nil {
			return
		}
	}
	// The hub tells of all that happens from here on: what came before is read once.
	if missed != nil && s.catchUp(r.Context(), missed) != nil {
		return
	}
	s.follow(r.Context(), l)
}

// awaitReader waits until the hub reads, so that who is told that it is connected misses
// nothing from then on, or cannot read.
func (d *door) awaitReader(ctx context.Context, l *listener) *Problem {
	patience := time.NewTimer(d.Limits.Timeout)
	defer patience.Stop()
	select {
	case <-l.begun.over:
		if err := l.begun.err; err != nil {
			return d.problem(ctx, err)
		}
		return nil
	case <-d.closing:
		return closing.because("the worker ends: ask another")
	case <-patience.C:
		return redisAway.because("changes cannot be read now")
	case <-ctx.Done():
		return closing.because("the client went away")
	}
}

// changesAfter goes on after the event that bore an id.
func (d *door) changesAfter(ctx context.Context, last string) (*ledger.Changes, *Problem) {
	if len(last) > maxCursorBytes {
		return nil, invalid.at("header.Last-Event-ID", ledger.ErrBadCursor)
	}
	deps, err := d.kinds.dependencies(ctx)
	if err != nil {
		return nil, d.problem(ctx, err)
	}
	changes, err := d.Ledger.ChangesAfter(deps, last)
	if err != nil {
		return nil, invalid.at("header.Last-Event-ID", err)
	}
	return changes, nil
}

// stream writes to one client.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	want    wanted

	takeTime time.Duration // for the client to take what is written

	seen string // cursor of the last change that was caught up with
}

// catchUp tells all that happened until now.
func (s *stream) catchUp(ctx context.Context, missed *ledger.Changes) error {
	for {
		some, err := missed.Next(ctx, noWait)
		if err != nil {
			return err // the client comes back
		}
		if len(some) == 0 {
			return nil
		}
		for _, c := range some {
			s.seen = c.Cursor
		}
		if err := s.tell(some); err != nil {
			return err
		}
	}
}

func (s *stream) follow(ctx context.Context, l *listener) {
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			err = s.comment("still here")
		case c, open := <-l.changes:
			if !open {
				return
			}
			if !behind(*c, s.seen) {
				err = s.tell([]ledger.Change{*c})
			}
		}
		if err != nil {
			return
		}
	}
}

// behind reports whether a change surely lies behind a cursor. Of one that happened in
// one step with others that is not always known: it is told again.
func behind(c ledger.Change, cursor string) bool {
	at, seen := place(c.Cursor, c.Dependency), place(cursor, c.Dependency)
	return at[0] < seen[0] || at[0] == seen[0] && at[1] < seen[1]
}

// place is where a cursor stands in the stream of a dependency; zero: nowhere.
func place(cursor string, dep jobs.Dependency) (out [2]uint64) {
	for _, part := range strings.Split(cursor, ",") {
		if id, ok := strings.CutPrefix(part, string(dep)+"="); ok {
			ms, n, _ := strings.Cut(id, "-")
			out[0], _ = strconv.ParseUint(ms, 10, 64)
			out[1], _ = strconv.ParseUint(n, 10, 64)
		}
	}
	return out
}

func (s *stream) tell(changes []ledger.Change) error {
	var out bytes.Buffer
	for _, c := range changes {
		if !s.want.has(c) {
			continue
		}
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "id: %s\nevent: change\ndata: %s\n\n", c.Cursor, text)
	}
	return s.write(out.Bytes())
}

func (s *stream) comment(text string) error { return s.write([]byte(": " + text + "\n\n")) }

func (s *stream) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.takeTime))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}
