package rehearsal

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Arrival is one request that reached the gateway, whatever became of it.
type Arrival struct {
	Correlation string    // X-Correlation-Id: whose it is
	Inquiry     bool      // it only asks what became of it
	Attempt     string    // Redrive-Attempt; "": sent by the request path
	Key         string    // Idempotency-Key
	At          time.Time // its header was read
	Ended       time.Time // answered, cut, or given up by the client
}

// door stands in front of the gateway and writes down who comes. A request that a
// fault resets before it is read is in no ledger; here it is.
type door struct {
	gateway http.Handler

	mu       sync.Mutex // guards arrivals, inside
	arrivals []Arrival
	inside   int // requests that the gateway is still busy with
}

// ServeHTTP writes the request down and lets it through.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := d.arrive(r)
	// A client that gives up leaves at once; the gateway may go on for seconds.
	stop := context.AfterFunc(r.Context(), func() { d.end(i) })
	defer d.leave(i)
	defer stop()
	d.gateway.ServeHTTP(w, r)
}

func (d *door) arrive(r *http.Request) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside++
	d.arrivals = append(d.arrivals, Arrival{Correlation: r.Header.Get("X-Correlation-Id"), Inquiry: r.Method == http.MethodGet,
		Attempt: r.Header.Get("Redrive-Attempt"), Key: r.Header.Get("Idempotency-Key"), At: time.Now()})
	return len(d.arrivals) - 1
}

func (d *door) end(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := &d.arrivals[i]; a.Ended.IsZero() {
		a.Ended = time.Now()
	}
}

func (d *door) leave(i int) {
	d.end(i)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
}

// settled waits until the gateway is busy with nothing any more: what a client gave
// up on may still take effect.
func (d *door) settled(ctx context.Context) error {
	for {
		d.mu.Lock()
		inside := d.inside
		d.mu.Unlock()
		if inside == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway is still busy with %d requests: %w", inside, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// all returns what came so far, in order.
func (d *door) all() []Arrival {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Arrival(nil), d.arrivals...)
}

// count returns how many came so far.
func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.arrivals)
}
