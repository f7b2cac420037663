package outage

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// arrival is one request as the gateway saw it. Instants are on the scenario's clock.
type arrival struct {
	reference string // X-Correlation-Id: whose it is
	inquiry   bool   // it only asks
	at, ended time.Duration
	status    int  // 0: cut
	late      bool // the client had left before the answer
}

// declined: the gateway works, and does not want this one.
func declined(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusPaymentRequired
}

// failed: it brought no answer in time that ends the matter.
func (c *arrival) failed() bool {
	return c.late || c.status/100 != 2 && !declined(c.status)
}

// door stands in front of a client's gateway and writes down who comes, also what
// a fault resets before it is read.
type door struct {
	gateway http.Handler
	clock   clock

	mu     sync.Mutex // guards calls, inside
	calls  []arrival
	inside int // requests that the gateway is still busy with
}

// ServeHTTP writes the request down and lets it through.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := d.arrive(r)
	// A client that gives up leaves at once; the gateway may go on for seconds.
	stop := context.AfterFunc(r.Context(), func() { d.end(i, 0, true) })
	watched := &watched{ResponseWriter: w}
	defer func() {
		stop()
		d.end(i, watched.status, false)
		d.mu.Lock()
		d.inside--
		d.mu.Unlock()
	}()
	d.gateway.ServeHTTP(watched, r)
}

func (d *door) arrive(r *http.Request) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside++
	d.calls = append(d.calls, arrival{reference: r.Header.Get("X-Correlation-Id"), inquiry: r.Method == http.MethodGet, at: d.clock.now(), ended: -1})
	return len(d.calls) - 1
}

// end writes down how a call ended, unless that is known.
func (d *door) end(i, status int, late bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := &d.calls[i]; c.ended < 0 {
		c.ended, c.status, c.late = d.clock.now(), status, late
	}
}

// count returns how many came so far.
func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.calls)
}

// settled waits until the gateway is busy with nothing any more, and returns what
// came: what a client gave up on may still take effect until then.
func (d *door) settled(ctx context.Context) ([]arrival, error) {
	for {
		d.mu.Lock()
		inside, calls := d.inside, d.calls
		d.mu.Unlock()
		if inside == 0 {
			return calls, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the gateway is still busy with %d requests: %w", inside, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// watched is an answer whose status is seen. Of a connection that is taken over
// nobody knows one.
type watched struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write is for answers that name no status.
func (w *watched) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets a fault take the connection over.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
