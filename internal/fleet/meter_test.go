package fleet

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// workerAgent is how the workers' calls are told from the services'.
const workerAgent = "worker"

// meter stands in front of the gateway and counts what arrives, before any fault acts.
type meter struct {
	next http.Handler

	mu      sync.Mutex // guards the rest
	began   time.Time  // of the first call
	seconds []second
	total   second
}

// second is what arrived within one: first attempts of services, and everything else.
type second struct{ firsts, extras int }

// ServeHTTP counts a call and passes it on. A first attempt that a worker makes is none of
// the request path's, which alone fill the budget: it is counted as one beyond.
func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first := r.Header.Get("Redrive-Attempt") == "1" && r.UserAgent() != workerAgent
	m.count(first)
	m.next.ServeHTTP(w, r)
}

func (m *meter) count(first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		m.began = time.Now()
	}
	for at := int(time.Since(m.began) / time.Second); len(m.seconds) <= at; {
		m.seconds = append(m.seconds, second{})
	}
	now := &m.seconds[len(m.seconds)-1]
	if first {
		now.firsts, m.total.firsts = now.firsts+1, m.total.firsts+1
	} else {
		now.extras, m.total.extras = now.extras+1, m.total.extras+1
	}
}

// reading is what was counted up to an instant.
type reading struct {
	second
	span    time.Duration // since the first call
	seconds []second
}

func (m *meter) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reading{second: m.total, span: time.Since(m.began), seconds: append([]second(nil), m.seconds...)}
}

// late is how much earlier than in a window its tokens may have been earned and taken: a
// process tells of first attempts within a second, and a read pauses between its token and
// its call.
const late = 2

// check holds the reading against P4: over all of it, and over each window of whole
// seconds. spare are calls that the bound has room for beside: probes of the breaker.
func (r reading) check(b bound, spare int) error {
	var errs []error
	if most := b.of(r.firsts, r.span) + spare; r.extras > most {
		errs = append(errs, fmt.Errorf("%d calls beyond %d first attempts in %s: P4 allows %d", r.extras, r.firsts, r.span, most))
	}
	for from := range r.seconds {
		firsts, extras := 0, 0
		for i := max(0, from-late); i < from; i++ {
			firsts += r.seconds[i].firsts
		}
		for to := from; to < len(r.seconds); to++ {
			firsts, extras = firsts+r.seconds[to].firsts, extras+r.seconds[to].extras
			if most := b.of(firsts, time.Duration(to-from+1+late)*time.Second) + spare; extras > most {
				errs = append(errs, fmt.Errorf("seconds %d to %d: %d calls beyond the first, P4 allows %d", from, to, extras, most))
			}
		}
	}
	return errors.Join(errs...)
}

// bound are the parameters of P4.
type bound struct{ ratio, cap, floor float64 }

// of is how many calls beyond the first there may be.
func (b bound) of(firsts int, span time.Duration) int {
	return int(b.cap + b.ratio*float64(firsts) + b.floor*span.Seconds())
}

// inProcess carries calls to the gateway without a socket.
type inProcess struct{ gateway http.Handler }

var errReset = errors.New("connection reset by the gateway")

// RoundTrip implements [http.RoundTripper]. A connection that the gateway cuts is an error.
func (t inProcess) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			resp, err = nil, errReset
		default:
			panic(p)
		}
	}()
	arrived := req.Clone(req.Context())
	if arrived.Body == nil {
		arrived.Body = http.NoBody
	}
	defer arrived.Body.Close()
	w := httptest.NewRecorder()
	t.gateway.ServeHTTP(w, arrived)
	return w.Result(), nil
}
