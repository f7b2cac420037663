package httpapi

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// roomFresh is for how long the pace of a dependency is told without asking, so that a
	// crowd before a full backlog is no crowd of reads.
	roomFresh = time.Second
	// roomUnknown is the wait before a full backlog of which nobody knows how fast it
	// shrinks; roomMost is the longest, and that before one that does not shrink.
	roomUnknown = 30 * time.Second
	roomMost    = 5 * time.Minute
	roomShare   = 100 // a hundredth of the backlog is to be free when a client comes again
)

// rooms knows how fast the backlogs of dependencies shrink.
type rooms struct {
	ledger *ledger.Ledger

	mu    sync.Mutex // guards known
	known map[jobs.Dependency]paceAt
}

type paceAt struct {
	pace   *budget.Pace // nil: no worker ever said what the gate is to be
	readAt time.Time
}

func newRooms(l *ledger.Ledger) *rooms {
	return &rooms{ledger: l, known: map[jobs.Dependency]paceAt{}}
}

// full is a problem of a full backlog, with how long to wait.
func (r *rooms) full(ctx context.Context, p *Problem, spec jobs.KindSpec) *Problem {
	p.retryIn = roomIn(r.pace(ctx, spec.Dependency), spec.MaxBacklog, rand.Float64())
	return p
}

// pace is nil where it is not known, or cannot be read now.
func (r *rooms) pace(ctx context.Context, dep jobs.Dependency) *budget.Pace {
	r.mu.Lock()
	at := r.known[dep]
	r.mu.Unlock()
	if time.Since(at.readAt) < roomFresh {
		return at.pace
	}
	state, err := r.ledger.Gate(ctx, dep)
	if err != nil {
		return nil // the submission was answered: this is but a hint
	}
	at = paceAt{readAt: time.Now()}
	pace := state.Gate.Pace(state.ReadAt.UnixMilli(), state.Params)
	if pace.Stuck || state.Params != (budget.Params{}) {
		at.pace = &pace
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[dep] = at
	return at.pace
}

// roomIn is how long a client waits before a full backlog of at most so many operations:
// until a hundredth of it has left, from 1 s to [roomMost]. random, from 0 to 1, spreads
// those who were refused at once over half as long again.
func roomIn(p *budget.Pace, maxBacklog int64, random float64) time.Duration {
	wait := roomUnknown
	if p != nil {
		wait = min(p.ETA(max(maxBacklog/roomShare, 1)), roomMost*2/3)
	}
	return max(wait+time.Duration(random*float64(wait)/2), time.Second)
}
