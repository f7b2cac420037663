package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// rememberFor is how long a process remembers the attempts that it began, to tell
	// the ledger again of those that the store has lost.
	rememberFor = 10 * time.Minute
	// maxRemembered and maxRememberedBytes bound it, per dependency: beyond them the
	// oldest are forgotten first.
	maxRemembered      = 50_000
	maxRememberedBytes = 32 << 20
)

// memory holds the entries that would report the attempts of the last minutes again.
type memory struct {
	mu     sync.Mutex // guards the rest
	begun  []*remembered
	byRun  map[string]*remembered
	bytes  int
	seen   int64     // highest count of attempts written ahead that was read
	rolled time.Time // the rollback that was answered last; zero: none
}

type remembered struct {
	at    time.Time
	run   string
	entry ledger.Entry
}

// begin remembers a granted attempt, whose outcome is unknown so far.
func (m *memory) begin(run string, entry ledger.Entry, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byRun == nil {
		m.byRun = map[string]*remembered{}
	}
	b := &remembered{now, run, entry}
	m.begun, m.byRun[run] = append(m.begun, b), b
	m.bytes += entry.Size()
	drop := 0
	for drop < len(m.begun) && (now.Sub(m.begun[drop].at) > rememberFor || len(m.begun)-drop > maxRemembered || m.bytes > maxRememberedBytes) {
		m.bytes -= m.begun[drop].entry.Size()
		delete(m.byRun, m.begun[drop].run)
		m.begun[drop] = nil
		drop++
	}
	m.begun = m.begun[drop:]
}

// finish remembers how an attempt ended.
func (m *memory) finish(run string, outcome jobs.Outcome, class jobs.Class) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.byRun[run]; b != nil {
		b.entry = b.entry.Outcome(outcome, class)
	}
}

// ofRun returns what reports the attempt of a run, if the store was rolled back since.
func (m *memory) ofRun(run string) []ledger.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.byRun[run]; b != nil && !m.rolled.IsZero() {
		return []ledger.Entry{b.entry}
	}
	return nil
}

// saw takes a count of attempts written ahead.
func (m *memory) saw(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = max(m.seen, n)
}

func (m *memory) highest() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// since reports since when the store is known to have lost attempts; zero: it has not.
func (m *memory) since() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rolled
}

// lost takes what a release says of a rollback. For one that is new here it returns all
// that is remembered.
func (m *memory) lost(at time.Time) []ledger.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Equal(m.rolled) {
		return nil
	}
	m.rolled = at
	if at.IsZero() {
		return nil // a person resumed
	}
	entries := make([]ledger.Entry, 0, len(m.begun))
	for _, b := range m.begun {
		if time.Since(b.at) <= rememberFor {
			entries = append(entries, b.entry)
		}
	}
	return entries
}

// terms are the dependency's, with what this process has seen of the store and of its clock.
func (c *conveyor) terms() ledger.Terms {
	t := c.d.terms
	t.Seen, t.Expect = c.memory.highest(), c.r.clock.now(time.Now())
	return t
}

// remember keeps a granted attempt in mind.
func (c *conveyor) remember(k *kind, g *ledger.Grant) {
	c.memory.saw(g.Begins)
	entry, err := g.Again(c.d.name, k.target)
	if err != nil {
		c.r.o.Log.LogAttrs(context.Background(), slog.LevelError, "attempt not remembered", append(about(c.d.name, g.ID, g.Attempt, ""), slog.Any("err", err))...)
		return
	}
	c.memory.begin(g.RunID, entry, time.Now())
}

// rolledBack answers a rollback of the store: what this process remembers is told
// again, so that nothing is sent as if it had never been.
func (c *conveyor) rolledBack(at time.Time) {
	was := c.memory.since()
	entries := c.memory.lost(at)
	switch {
	case at.IsZero() && !was.IsZero():
		c.r.o.Log.LogAttrs(context.Background(), slog.LevelInfo, "resumed after a rollback of the store", slog.String("dependency", string(c.d.name)))
	case !at.IsZero() && !at.Equal(was):
		c.r.o.Metrics.LedgerRollback()
		c.r.o.Log.LogAttrs(context.Background(), slog.LevelError, "redis lost attempts that it had acknowledged: only what is surely safe is sent until somebody resumes the dependency",
			slog.String("dependency", string(c.d.name)), slog.Int("remembered", len(entries)))
	}
	for len(entries) > 0 {
		batch := entries[:min(len(entries), ledger.MaxBatch)]
		entries = entries[len(batch):]
		c.tell(batch)
	}
}

// tellSuccess tells of a success whose attempt a rolled back store does not know: what
// was told of it while it was under way was that it is unknown.
func (c *conveyor) tellSuccess(run string) {
	if entries := c.memory.ofRun(run); len(entries) > 0 {
		c.tell(entries)
	}
}

// tell hands attempts in again, repeated until Redis has taken them.
func (c *conveyor) tell(batch []ledger.Entry) {
	spec := c.r.plan.specOf(c.d.name)
	terms := ledger.SubmitTerms{Terms: c.d.terms, MaxBacklog: spec.MaxBacklog, ClaimLease: c.d.terms.ClaimLease}
	terms.Retention = spec.Retention
	write := func(ctx context.Context) error {
		receipts, err := c.r.ledger.Submit(ctx, terms, batch)
		if err != nil {
			return err
		}
		for _, receipt := range receipts {
			if receipt.Answer == jobs.Accepted || receipt.Merged {
				c.r.o.Log.LogAttrs(ctx, slog.LevelWarn, "attempt that the store had lost is on record again",
					append(about(c.d.name, receipt.Operation, 0, ""), slog.String("state", string(receipt.State)))...)
			}
			if receipt.Answer == jobs.Refused {
				c.r.o.Log.LogAttrs(ctx, slog.LevelError, "attempt that the store had lost could not be recorded again",
					append(about(c.d.name, receipt.Operation, 0, ""), slog.String("reason", *receipt.Error))...)
			}
		}
		return nil
	}
	if err := within(context.Background(), redisTimeout, write); err != nil {
		c.r.health.note(err)
		c.r.pending.add(write)
	}
}
