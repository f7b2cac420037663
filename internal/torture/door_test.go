package torture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"redrive/internal/sandbox"
)

// arrival is one request that reached the gateway and could have an effect.
type arrival struct {
	ref     string // X-Correlation-Id
	attempt string // Redrive-Attempt; "": sent by the shop
	key     string // Idempotency-Key
	digest  [sha256.Size]byte
	at      time.Time // its header was read
	ended   time.Time
	status  int  // of the answer; 0: cut
	left    bool // the client was gone before the answer was
	before  int  // effects under its reference when it arrived
}

func (a arrival) String() string {
	return fmt.Sprintf("%s attempt=%q key=%q status=%d left=%t effects before=%d took %s",
		a.at.UTC().Format("15:04:05.000"), a.attempt, a.key, a.status, a.left, a.before, a.ended.Sub(a.at).Round(time.Millisecond))
}

// mayHaveActed: the client cannot know better, unless it was refused for good.
func (a arrival) mayHaveActed() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return false
	case http.StatusTooManyRequests:
		return a.attempt != "" // this gateway has not acted then: the shop knows it, the workers are not told
	}
	return true
}

// reading is one inquiry that was answered.
type reading struct {
	ref       string
	at, ended time.Time
	status    int
	left      bool
	items     int // of data; -1: not readable
}

// notFound: this answer, if it arrived, says that there is nothing.
func (r reading) notFound() bool { return r.status == http.StatusOK && r.items == 0 && !r.left }

// found: this answer, if it arrived, says that there is something.
func (r reading) found() bool { return r.status == http.StatusOK && r.items > 0 && !r.left }

// door stands before the gateway and writes down who comes, also what a fault
// resets before it is read.
type door struct {
	gateway *sandbox.Sandbox

	mu       sync.Mutex // guards all below
	arrivals map[string][]*arrival
	readings map[string][]reading
	requests int
	inside   int
}

func newDoor(s *sandbox.Sandbox) *door {
	return &door{gateway: s, arrivals: map[string][]*arrival{}, readings: map[string][]reading{}}
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		d.gateway.Handler().ServeHTTP(w, r)
		return
	}
	out := &recorder{ResponseWriter: w}
	at := time.Now()
	d.enter(1)
	defer d.enter(-1)
	if r.Method != http.MethodPost {
		d.gateway.Handler().ServeHTTP(out, r)
		d.read(reading{ref: r.URL.Query().Get("reference"), at: at, ended: time.Now(), status: out.status, left: r.Context().Err() != nil, items: out.items()})
		return
	}
	a := &arrival{ref: r.Header.Get("X-Correlation-Id"), attempt: r.Header.Get("Redrive-Attempt"), key: r.Header.Get("Idempotency-Key"), at: at,
		before: d.gateway.SideEffects(strings.TrimPrefix(r.URL.Path, "/v1/"), r.Header.Get("X-Correlation-Id"))}
	// A client that breaks off leaves a body that the gateway finds short as well.
	body, err := io.ReadAll(r.Body)
	if err == nil {
		a.digest = sha256.Sum256(body)
	}
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), errorReader{err}))
	d.mu.Lock()
	d.requests++
	d.arrivals[a.ref] = append(d.arrivals[a.ref], a)
	d.mu.Unlock()
	// When the gateway takes the connection over, the context does not tell any more.
	stop := context.AfterFunc(r.Context(), func() { d.end(a, 0, true) })
	d.gateway.Handler().ServeHTTP(out, r)
	if stop() {
		d.end(a, out.status, false)
	}
}

func (d *door) enter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside += n
}

// end is how a request ended for its client: answered or cut, or by its own leaving.
func (d *door) end(a *arrival, status int, left bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.ended.IsZero() {
		a.ended, a.status, a.left = time.Now(), status, left
	}
}

func (d *door) read(r reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readings[r.ref] = append(d.readings[r.ref], r)
}

// busy returns how many requests the gateway is still at.
func (d *door) busy() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inside
}

// errorReader ends a body as it ended on the wire.
type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	return 0, io.EOF
}

// recorder notes the status of an answer, and its beginning.
type recorder struct {
	http.ResponseWriter
	status int
	body   []byte
}

// Unwrap lets the gateway take the connection over.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return w.ResponseWriter.Write(p)
}

func (w *recorder) items() int {
	var list struct {
		Data *[]json.RawMessage `json:"data"`
	}
	if json.Unmarshal(w.body, &list) != nil || list.Data == nil {
		return -1
	}
	return len(*list.Data)
}
