package sandbox

import (
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// action is what becomes of one request.
type action int

const (
	serve      action = iota // applied and answered well
	drop                     // connection reset before the body is read; not recorded
	reset                    // recorded, not applied, connection reset
	refuse                   // recorded, not applied, answered with plan.status
	decline                  // leaves a failed object, answered 402
	lose                     // applied, connection cut
	badGateway               // applied, answered 502
	garble                   // answered with garbage, applied unless it is an HTML page
)

// garbage is the sort of broken answer.
type garbage int

const (
	invalidStatus garbage = iota
	htmlPage              // as from a proxy in front of the gateway: nothing was applied
	truncatedJSON
	wrongLength
	garbageSorts // how many there are
)

// plan is what a fault does to one request, drawn when it arrives.
type plan struct {
	act        action
	hit        bool // false: the fault lets it through
	status     int  // of refuse
	retryAfter string
	garbage    garbage
	abort      bool          // lose: by a reset rather than by an orderly close
	before     time.Duration // wait before it is applied or refused
	after      time.Duration // wait between the effect and the answer
}

// armed is a fault in force.
type armed struct {
	fault Fault     // filled
	until time.Time // zero: until it is changed
	meter meter     // of rate_limit and storm
}

// armedSlot holds the fault in force, read without a lock by every request.
type armedSlot struct{ p atomic.Pointer[armed] }

func (s *armedSlot) arm(f Fault, now time.Time) {
	a := &armed{fault: f}
	if f.For > 0 {
		a.until = now.Add(f.For)
	}
	if f.PerSecond > 0 {
		a.meter.interval = time.Duration(float64(time.Second) / f.PerSecond)
	}
	s.p.Store(a)
}

// at returns the fault in force at now, nil when there is none.
func (s *armedSlot) at(now time.Time) *armed {
	a := s.p.Load()
	if a.fault.Mode == None || !a.until.IsZero() && !now.Before(a.until) {
		return nil
	}
	return a
}

// readLag is how old an object must be at now to be seen.
func (s *armedSlot) readLag(now time.Time) time.Duration {
	a := s.p.Load()
	if !a.until.IsZero() && !now.Before(a.until) {
		return 0
	}
	return a.fault.ReadLag
}

func (s *armedSlot) inForce(now time.Time) Fault {
	a := s.at(now)
	if a == nil {
		return Fault{Mode: None, ReadLag: s.readLag(now)}
	}
	f := a.fault
	f.Share, f.RetryAfter = new(*f.Share), new(*f.RetryAfter) // the caller may write to them
	if !a.until.IsZero() {
		f.For = max(a.until.Sub(now).Round(time.Millisecond), time.Millisecond) // 0 would say: for ever
	}
	return f
}

// dice returns the source of the n-th request's draws. A source per request
// makes each draw depend on its position alone, without a lock around it.
func dice(seed, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }

// plan draws what becomes of a request that arrives now.
func (a *armed) plan(r *rand.Rand, now time.Time) plan {
	f := a.fault
	chosen := r.Float64() < *f.Share
	p := plan{hit: true, retryAfter: *f.RetryAfter}
	switch f.Mode {
	case RateLimit:
		// The whole stream is metered; share decides among what is above the rate.
		_, within := a.meter.reserve(now, max(0, time.Second-a.meter.interval))
		if within || !chosen {
			return plan{}
		}
		p.act, p.status, p.before = refuse, http.StatusTooManyRequests, f.Latency
		return p
	case Storm:
		if !chosen {
			return plan{}
		}
		wait, ok := a.meter.reserve(now, StormPatience)
		if !ok {
			p.act, p.status = refuse, http.StatusServiceUnavailable
			return p
		}
		p.before = wait + f.Latency
		return p
	}
	if !chosen {
		return plan{}
	}
	switch f.Mode {
	case Slow:
		p.after = lognormal(r, f.Latency)
	case Down:
		p.act, p.before = drop, f.Latency
	case Refuse:
		p.act, p.status, p.before = refuse, http.StatusServiceUnavailable, f.Latency
	case LostReplies:
		p.act, p.abort, p.after = lose, r.IntN(2) == 0, f.Latency
	case Decline:
		p.act, p.after = decline, f.Latency
	case Garbage:
		p.act, p.garbage = garble, garbage(r.IntN(int(garbageSorts)))
		if p.garbage == htmlPage {
			p.before = f.Latency
		} else {
			p.after = f.Latency
		}
	case Flaky:
		switch r.IntN(6) {
		case 0:
			p.act, p.status = refuse, http.StatusInternalServerError
		case 1:
			p.act = badGateway
		case 2:
			p.act, p.status = refuse, http.StatusServiceUnavailable
		case 3:
			p.act = reset
		case 4:
			p.act, p.abort = lose, r.IntN(2) == 0
		case 5:
			p.after = lognormal(r, f.Latency)
		}
	}
	return p
}

// lognormal draws a latency around median: sigma 0.5 puts nine of ten between
// 0.44 and 2.3 times the median, the long tail that a slow dependency has.
func lognormal(r *rand.Rand, median time.Duration) time.Duration {
	const sigma = 0.5
	factor := math.Exp(sigma * r.NormFloat64())
	return time.Duration(float64(median) * min(max(factor, 0.25), 4))
}

// meter hands out places in a queue that is served at a fixed rate.
type meter struct {
	interval time.Duration // between two places

	mu   sync.Mutex // guards next
	next time.Time  // when the next free place comes up
}

// reserve takes the next place and says how long it is until then; ok is false,
// and nothing is taken, when that is longer than patience.
func (m *meter) reserve(now time.Time, patience time.Duration) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next.Before(now) {
		m.next = now
	}
	wait = m.next.Sub(now)
	if wait > patience {
		return 0, false
	}
	m.next = m.next.Add(m.interval)
	return wait, true
}
