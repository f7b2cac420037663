package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

const streamChunk = 1000

// AuditOf is [Ledger.Audit] for one operation. It reads the stream back to since
// (zero: to its beginning), in chunks that never block Redis.
func (l *Ledger) AuditOf(ctx context.Context, dep jobs.Dependency, id jobs.ID, since time.Time, limit int64) ([]AuditEntry, error) {
	from, upto := "-", "+"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	var out []AuditEntry
	for {
		messages, err := l.rdb.XRevRangeN(ctx, l.key(dep, "audit"), upto, from, streamChunk).Result()
		if err != nil {
			return nil, fmt.Errorf("read audit of %s: %w", dep, err)
		}
		for _, m := range messages {
			if e := auditEntry(dep, m); e.Operation == id.String() && int64(len(out)) < limit {
				out = append(out, e)
			}
		}
		if len(messages) < streamChunk || int64(len(out)) >= limit {
			slices.Reverse(out)
			return out, nil
		}
		upto = "(" + messages[len(messages)-1].ID
	}
}

// Change is an operation that entered a state.
type Change struct {
	At         *jobs.Instant   `json:"at"`
	Dependency jobs.Dependency `json:"dependency"`
	Operation  string          `json:"operation"`
	State      string          `json:"state"`
	Reason     string          `json:"reason"`

	Cursor string `json:"-"` // where to go on after it, see [Ledger.ChangesAfter]
}

// Changes follows the changes of dependencies. Each [Changes.Next] continues where
// the one before ended. Not safe for concurrent use.
type Changes struct {
	ledger   *Ledger
	after    map[jobs.Dependency]string // id of the last entry seen
	lookedAt time.Time                  // when [Changes.Rewind] was last called; zero: it was not
}

// Changes starts at the present end of the streams. Handing over to a worker and
// back is not among the changes, and the streams are capped: who reads too slowly
// misses some. No promise rests on them.
func (l *Ledger) Changes(ctx context.Context, deps []jobs.Dependency) (*Changes, error) {
	c := &Changes{ledger: l, after: map[jobs.Dependency]string{}}
	for _, dep := range deps {
		last, err := l.rdb.XRevRangeN(ctx, l.key(dep, "events"), "+", "-", 1).Result()
		if err != nil {
			return nil, fmt.Errorf("read changes of %s: %w", dep, err)
		}
		c.after[dep] = "0-0"
		if len(last) > 0 {
			c.after[dep] = last[0].ID
		}
	}
	return c, nil
}

// ErrBadCursor is returned for a cursor that no [Change] bore.
var ErrBadCursor = errors.New("no cursor of changes")

var cursorPart = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}=[0-9]{1,20}-[0-9]{1,20}$`)

// ChangesAfter goes on after the change that bore the cursor: nothing that the streams
// still hold is left out, and of changes that happened in one step some may come again.
// A dependency that the cursor does not name is told from its beginning.
func (l *Ledger) ChangesAfter(deps []jobs.Dependency, cursor string) (*Changes, error) {
	c := &Changes{ledger: l, after: map[jobs.Dependency]string{}}
	for _, dep := range deps {
		c.after[dep] = "0-0"
	}
	for _, part := range strings.Split(cursor, ",") {
		if !cursorPart.MatchString(part) {
			return nil, ErrBadCursor
		}
		name, id, _ := strings.Cut(part, "=")
		ms, n, _ := strings.Cut(id, "-")
		for _, number := range []string{ms, n} {
			if _, err := strconv.ParseUint(number, 10, 64); err != nil {
				return nil, ErrBadCursor // Redis would refuse it with every read
			}
		}
		if _, ok := c.after[jobs.Dependency(name)]; ok {
			c.after[jobs.Dependency(name)] = id
		}
	}
	return c, nil
}

// Cursor is where the next changes are looked for: [Ledger.ChangesAfter] goes on there. It is
// "" where no dependency is followed.
func (c *Changes) Cursor() string {
	parts := make([]string, 0, len(c.after))
	for _, dep := range slices.Sorted(maps.Keys(c.after)) {
		parts = append(parts, string(dep)+"="+c.after[dep])
	}
	return strings.Join(parts, ",")
}

// Next waits for changes, for at most wait, and returns them in the order of time;
// none when none came.
func (c *Changes) Next(ctx context.Context, wait time.Duration) ([]Change, error) {
	if time.Since(c.lookedAt) > rewindEvery {
		if _, err := c.Rewind(ctx); err != nil {
			return nil, err
		}
	}
	var names, ids []string
	byKey := map[string]jobs.Dependency{}
	for dep, id := range c.after {
		key := c.ledger.key(dep, "events")
		byKey[key] = dep
		names, ids = append(names, key), append(ids, id)
	}
	streams, err := c.ledger.rdb.XRead(ctx, &redis.XReadArgs{Streams: append(names, ids...), Count: streamChunk / 10, Block: wait}).Result()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	type told struct {
		Change
		entry string    // after which this change's dependency is told of whole
		order time.Time // never before that of an earlier entry, whatever the clock did
	}
	var all []told
	for _, s := range streams {
		dep, before, order := byKey[s.Stream], c.after[byKey[s.Stream]], time.Time{}
		for _, m := range s.Messages {
			text := func(name string) string { v, _ := m.Values[name].(string); return v }
			at := jobs.AtMS(number(text("at")))
			if at != nil && at.After(order) {
				order = at.Time
			}
			for line := range strings.Lines(text("ops")) { // operation, state, reason or nothing
				part := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
				if len(part) == 3 {
					all = append(all, told{Change{At: at, Dependency: dep, Operation: part[0], State: part[1], Reason: part[2]}, before, order})
				}
			}
			if n := len(all); n > 0 && all[n-1].Dependency == dep {
				all[n-1].entry = m.ID
			}
			before = m.ID
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { return a.order.Compare(b.order) })
	out := make([]Change, len(all))
	for i, t := range all {
		c.after[t.Dependency] = t.entry
		t.Cursor = c.Cursor()
		out[i] = t.Change
	}
	for _, s := range streams { // entries that told of nothing are behind us too
		c.after[byKey[s.Stream]] = s.Messages[len(s.Messages)-1].ID
	}
	return out, nil
}

func compareInstants(a, b *jobs.Instant) int {
	switch {
	case a == nil || b == nil:
		return 0
	default:
		return a.Compare(b.Time)
	}
}
