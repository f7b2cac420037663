package requestpath

import (
	"slices"
	"sync/atomic"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// counts are first attempts by how they ended, in the order of [jobs.Results].
type counts [3]int64

func (c counts) sum() int64 { return c[0] + c[1] + c[2] }

// batch is what one flush tells.
type batch struct {
	counts counts
	since  time.Time // nothing in it is older
}

func (b batch) empty() bool { return b.counts.sum() == 0 }

// tally is what was counted for one dependency. Any goroutine records, asks and reads
// the state; all else belongs to the one that flushes.
type tally struct {
	dependency jobs.Dependency
	spare      budget.Params
	keep       time.Duration

	counted [3]atomic.Int64 // since they were last collected
	asked   atomic.Bool     // somebody wants to know the state
	state   atomic.Pointer[State]

	collectedAt time.Time
	sealed      batch // flushed, or about to be, under seq: it changes no more until its fate is known
	seq         int64
	behind      batch // collected since
	forgotten   int64 // given up since the gate last answered
	failing     bool
}

func (t *tally) record(result jobs.Result) {
	i := slices.Index(jobs.Results, result)
	if i < 0 {
		i = slices.Index(jobs.Results, jobs.ResultFailed)
	}
	t.counted[i].Add(1)
}

// collect takes over what was recorded, and forgets what has waited too long. It returns
// what is new.
func (t *tally) collect(now time.Time) counts {
	var c counts
	for i := range c {
		c[i] = t.counted[i].Swap(0)
	}
	if c.sum() > 0 {
		if t.behind.empty() {
			t.behind.since = t.collectedAt
		}
		for i, n := range c {
			t.behind.counts[i] += n
		}
	}
	t.collectedAt = now
	for _, b := range []*batch{&t.sealed, &t.behind} {
		if !b.empty() && now.Sub(b.since) > t.keep {
			t.forgotten += b.counts.sum()
			*b = batch{}
		}
	}
	return c
}

// seal makes the next batch ready, and reports whether there is one to tell. What may
// have been lost on its way comes again, as it was, before anything newer. A batch of
// nothing asks for the state.
func (t *tally) seal(asked bool) bool {
	switch {
	case !t.sealed.empty():
	case !t.behind.empty() || asked:
		t.sealed, t.behind = t.behind, batch{}
		t.seq++
	default:
		return false
	}
	return true
}

// firsts is the sealed batch as the ledger takes it.
func (t *tally) firsts(process string, jitter int64) ledger.Firsts {
	c := t.sealed.counts
	return ledger.Firsts{Process: process, Seq: t.seq, OK: c[0], Failed: c[1], TimedOut: c[2], Jitter: jitter}
}

// answered takes the gate's answer in: it has the sealed batch, now or since an earlier
// flush whose answer was lost.
func (t *tally) answered(f ledger.FirstsTaken, at time.Time) {
	t.sealed = batch{}
	s := State{Breaker: f.State, Hold: f.Hold, At: at}
	if f.Hold != jobs.HoldNone && f.Wait > 0 {
		s.Until = at.Add(f.Wait)
	}
	t.state.Store(&s)
}
