package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// Count is how many operations of a kind are in a state (and, dead, for a reason).
type Count struct {
	Kind   jobs.Kind
	State  jobs.State
	Reason jobs.Reason
	N      int64
}

// Counts returns the counts of a dependency, kept in the same step as the indexes.
func (l *Ledger) Counts(ctx context.Context, dep jobs.Dependency) ([]Count, error) {
	raw, err := l.rdb.HGetAll(ctx, l.key(dep, "counts")).Result()
	if err != nil {
		return nil, fmt.Errorf("read counts of %s: %w", dep, err)
	}
	out := make([]Count, 0, len(raw))
	for field, v := range raw {
		f := strings.Split(field, " ")
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || len(f) < 2 {
			continue
		}
		c := Count{Kind: jobs.Kind(f[0]), State: jobs.State(f[1]), N: n}
		if len(f) > 2 {
			c.Reason = jobs.Reason(f[2])
		}
		out = append(out, c)
	}
	return out, nil
}

// Snapshot is the state of a dependency at one instant, read in O(1) from index
// sizes.
type Snapshot struct {
	Dependency  jobs.Dependency
	Counts      []Count
	DueFirst    int64
	DueRetry    int64
	OldestDueAt time.Time // when the operation at the head of the lanes came due, roughly: entered its state; zero: none due
	TokensMilli int64     // as last written; -1: never
	TokensAt    time.Time // until when the floor's tokens are in TokensMilli; zero: never
	ReadAt      time.Time // by Redis' clock
	Paused      bool
	PausedUntil time.Time // zero while Paused: until resumed
	PausedBy    string
	PausedNote  string
	Begins      int64 // attempts begun, ever

	RolledBackAt       time.Time // since when the store is known to have lost attempts; zero: it has not, or a person resumed
	OldestUnresolvedAt time.Time // since when the first that will be given up has been unresolved; zero: none is

	Submitted []Submitted // one for each kind and answer that was ever given
}

// Submitted is how often the submit script gave an answer to operations of a kind,
// since the store is in use. It knows neither [jobs.Unsure], which is accepted and only
// not on enough replicas yet, nor what is refused before it comes to Redis.
type Submitted struct {
	Kind   jobs.Kind
	Answer jobs.Answer
	N      int64
}

// submitted reads the hash that submit.lua counts in.
func submitted(raw map[string]string) []Submitted {
	out := make([]Submitted, 0, len(raw))
	for field, n := range raw {
		if kind, answer, ok := strings.Cut(field, " "); ok {
			out = append(out, Submitted{Kind: jobs.Kind(kind), Answer: jobs.Answer(answer), N: number(n)})
		}
	}
	return out
}

// Snapshot reads the state of a dependency without touching any operation but the
// heads of its lanes.
func (l *Ledger) Snapshot(ctx context.Context, dep jobs.Dependency) (Snapshot, error) {
	pipe := l.rdb.Pipeline()
	first := pipe.ZCard(ctx, l.key(dep, "due:first"))
	retry := pipe.ZCard(ctx, l.key(dep, "due:retry"))
	headFirst := pipe.ZRange(ctx, l.key(dep, "due:first"), 0, 0)
	headRetry := pipe.ZRange(ctx, l.key(dep, "due:retry"), 0, 0)
	unresolved := pipe.ZRange(ctx, l.key(dep, "giveup"), 0, 0)
	gate := pipe.HGetAll(ctx, l.key(dep, "gate"))
	seq := pipe.Get(ctx, l.key(dep, "seq"))
	answers := pipe.HGetAll(ctx, l.key(dep, "submitted"))
	now := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
		return Snapshot{}, fmt.Errorf("read state of %s: %w", dep, err)
	}
	counts, err := l.Counts(ctx, dep)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Dependency: dep, Counts: counts, DueFirst: first.Val(), DueRetry: retry.Val(), TokensMilli: -1, Begins: number(seq.Val()),
		ReadAt: now.Val().UTC(), Submitted: submitted(answers.Val())}
	g := gate.Val()
	if _, err := strconv.ParseInt(g["tokens"], 10, 64); err == nil {
		s.TokensMilli = number(g["tokens"])
		s.TokensAt = time.UnixMilli(number(g["filled_at"])).UTC()
	}
	if at := number(g["rolled"]); at > 0 {
		s.RolledBackAt = time.UnixMilli(at).UTC()
		s.Paused, s.PausedBy = true, "redrive"
		s.PausedNote = "Redis lost attempts that it had acknowledged (" + s.RolledBackAt.Format(time.RFC3339) + "): look at what is unknown, then resume"
	}
	if until := number(g["hold_until"]); g["hold"] != "" && (until == 0 || until > now.Val().UnixMilli()) {
		s.Paused, s.PausedBy, s.PausedNote = true, g["hold_by"], g["hold_note"]
		if until > 0 {
			s.PausedUntil = time.UnixMilli(until).UTC()
		}
	}
	for _, head := range unresolved.Val() {
		if v, err := l.rdb.HGet(ctx, l.key(dep, "op:"+head), "since").Result(); err == nil {
			s.OldestUnresolvedAt = time.UnixMilli(number(v)).UTC()
		}
	}
	for _, head := range append(headFirst.Val(), headRetry.Val()...) {
		v, err := l.rdb.HGet(ctx, l.key(dep, "op:"+head), "next").Result()
		if err != nil {
			continue // it moved on meanwhile
		}
		if at := time.UnixMilli(number(v)).UTC(); s.OldestDueAt.IsZero() || at.Before(s.OldestDueAt) {
			s.OldestDueAt = at
		}
	}
	return s, nil
}

// AuditEntry is one line of the audit stream.
type AuditEntry struct {
	At         *jobs.Instant   `json:"at"`
	Dependency jobs.Dependency `json:"dependency"`
	Operation  string          `json:"operation"` // "-" for a dependency
	Action     string          `json:"action"`
	By         string          `json:"by"`
	Note       string          `json:"note"`
	From       string          `json:"from"`
	To         string          `json:"to"`
	Batch      string          `json:"batch"`
}

// Audit returns who did what at a dependency since an instant, oldest first, at
// most limit entries (the newest ones).
func (l *Ledger) Audit(ctx context.Context, dep jobs.Dependency, since time.Time, limit int64) ([]AuditEntry, error) {
	from := "-"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	messages, err := l.rdb.XRevRangeN(ctx, l.key(dep, "audit"), "+", from, limit).Result()
	if err != nil {
		return nil, fmt.Errorf("read audit of %s: %w", dep, err)
	}
	out := make([]AuditEntry, len(messages))
	for i, m := range messages {
		out[len(messages)-1-i] = auditEntry(dep, m)
	}
	return out, nil
}

func auditEntry(dep jobs.Dependency, m redis.XMessage) AuditEntry {
	text := func(name string) string { s, _ := m.Values[name].(string); return s }
	return AuditEntry{At: jobs.AtMS(number(text("at"))), Dependency: dep, Operation: text("op"), Action: text("action"),
		By: text("by"), Note: text("note"), From: text("from"), To: text("to"), Batch: text("batch")}
}

// Note adds an entry to the audit stream: a bulk action is one entry with its
// filter and count.
func (l *Ledger) Note(ctx context.Context, dep jobs.Dependency, operation, action string, who Actor) error {
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	return l.rdb.XAdd(ctx, &redis.XAddArgs{Stream: l.key(dep, "audit"), Values: []any{"op", operation, "action", action,
		"by", who.By, "note", who.Note, "from", "", "to", "", "batch", who.Batch, "at", now.UnixMilli()}}).Err()
}
