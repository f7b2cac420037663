package ledger

import (
	"context"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// ReleaseLease is how long a released operation may wait for a worker slot before
// it returns to the waiting room: a lost queue entry costs at most this.
const ReleaseLease = 30 * time.Second

// Lane is what an operation left the waiting room for.
type Lane string

// The lanes.
const (
	LaneFirst Lane = "first" // a first attempt that is no backlog
	LaneRetry Lane = "retry" // for a token
	LaneDrain Lane = "lane"  // backlog, beside the tokens
	LaneProbe Lane = "probe" // for a permit of the half-open breaker
)

// Lanes lists the lanes.
var Lanes = []Lane{LaneFirst, LaneRetry, LaneDrain, LaneProbe}

// Delivery is one pass of an operation through the queue.
type Delivery struct {
	ID     jobs.ID
	Number int64
	Lane   Lane
	Losses int       // workers it lost in a row: above 0 it is a suspect
	DueAt  time.Time // by Redis' clock
}

// Held is a retry that came due and could not leave.
type Held struct {
	ID            jobs.ID
	Sends         int
	Class         jobs.Class // of the last attempt
	CorrelationID string
}

// NudgeChannel is where a submission says that it is due before anything else that
// waits; the message is how soon, in ms. It may be lost: it saves a releaser the
// rest of its second, no promise rests on it.
func (l *Ledger) NudgeChannel(dep jobs.Dependency) string { return l.key(dep, "nudge") }

// Release is what the gate let go.
type Release struct {
	Deliveries []Delivery
	Hold       jobs.Hold     // why nothing more left; none when the lanes are empty
	Next       time.Duration // when it is worth asking again; at most a second
	More       bool          // the limit of one call was met: ask at once
	Now        time.Time     // Redis' clock, as it is
	Begins     int64         // attempts written ahead, ever
	RolledBack time.Time     // since when the store is known to have lost attempts; zero: it has not, or a person resumed
	News       News
	Held       []Held  // retries that came due in this call and stay, for the reason in Hold; each is told of once
	Ended      []Ended // what could not make its deadline
}

// Release lets at most want due operations of the given kinds leave the waiting
// room. It changes nothing of those it holds.
func (l *Ledger) Release(ctx context.Context, t Terms, kinds []jobs.Kind, want int) (Release, error) {
	args := expectArgs(t.args(), t.Expect).Int("want", int64(want)).Str("kinds", words(kinds)).
		Int("release_lease", ReleaseLease.Milliseconds()).Int("lease", t.ClaimLease.Milliseconds())
	r, err := releaseScript.Run(ctx, l.rdb, l.slot(t.Dependency), args)
	if err != nil {
		return Release{}, err
	}
	if err := unstepped(r); err != nil {
		return Release{}, err
	}
	if len(r) < 7 {
		return Release{}, unexpected("release", r)
	}
	out := Release{Hold: jobs.Hold(r[0]), Next: ms(r.Int(1)), More: r[2] == "1", Now: time.UnixMilli(r.Int(3)).UTC(), Begins: r.Int(4), News: news(r[6])}
	if at := r.Int(5); at > 0 {
		out.RolledBack = time.UnixMilli(at).UTC()
	}
	i := 7
	for ; i+5 < len(r) && r[i] == "give"; i += 6 {
		id, err := jobs.ParseID(r[i+1])
		if err != nil {
			return Release{}, err
		}
		out.Deliveries = append(out.Deliveries, Delivery{ID: id, Number: r.Int(i + 2), Lane: Lane(r[i+3]), Losses: int(r.Int(i + 4)),
			DueAt: time.UnixMilli(r.Int(i + 5)).UTC()})
	}
	for ; i+1 < len(r) && r[i] == "held"; i += 2 {
		f := strings.SplitN(r[i+1], " ", 4)
		if len(f) < 4 {
			return Release{}, unexpected("release", r)
		}
		id, err := jobs.ParseID(f[0])
		if err != nil {
			return Release{}, err
		}
		out.Held = append(out.Held, Held{ID: id, Sends: int(luascript.Reply{f[1]}.Int(0)), Class: jobs.Class(dash(f[2])), CorrelationID: dash(f[3])})
	}
	out.Ended = ended(r, i)
	return out, nil
}

// words joins names so that a script finds ' name ' in them.
func words[T ~string](names []T) string {
	var b strings.Builder
	b.WriteByte(' ')
	for _, n := range names {
		b.WriteString(string(n))
		b.WriteByte(' ')
	}
	return b.String()
}
