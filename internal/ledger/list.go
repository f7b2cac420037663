package ledger

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// Filter chooses operations. Empty fields choose all; lists choose any of theirs.
type Filter struct {
	Dependencies []jobs.Dependency
	Kinds        []jobs.Kind
	States       []jobs.State
	Reasons      []jobs.Reason
	Classes      []jobs.Class
	Flags        []jobs.Flag
	Credentials  []string
	Batches      []string
	KeyGlob      string    // as in [path.Match]
	ErrorText    string    // part of the last error, in any case
	Unknown      bool      // only those with the unknown mark
	Since, Until time.Time // when it entered its present state; zero: open
	Limit        int       // 0: all
	Cursor       string    // of the page before
}

// Page is one page of a list, newest first by when an operation entered its
// present state.
type Page struct {
	Items      []jobs.Operation
	NextCursor string // "": nothing more
}

// stateIndexes says where the operations of a state are found: P2's function.
var stateIndexes = map[jobs.State][]string{
	jobs.Waiting:    {"waiting", "due:first", "due:retry", "aside"},
	jobs.Released:   {"released:first", "released:retry"},
	jobs.Attempting: {"claims"},
	jobs.Unresolved: {"unresolved"},
	jobs.Dead:       {"dead"},
	jobs.Succeeded:  {"done"},
	jobs.Cancelled:  {"done"},
}

const listChunk = 500

// ErrCursor is returned for a cursor that no list returned.
var ErrCursor = errors.New("not a cursor that a list returned")

// List returns the operations that match. It walks the indexes of the states
// asked for, newest dead letters first, in chunks that never block Redis, and
// keeps only what the page needs. An operation that changes its state meanwhile
// may be seen in either or, rarely, in none.
func (l *Ledger) List(ctx context.Context, f Filter, specs map[jobs.Kind]jobs.KindSpec) (Page, error) {
	if _, err := path.Match(f.KeyGlob, ""); err != nil {
		return Page{}, fmt.Errorf("key glob %q: %w", f.KeyGlob, err)
	}
	after, err := decodeCursor(f.Cursor)
	if err != nil {
		return Page{}, err
	}
	deps := f.Dependencies
	if len(deps) == 0 {
		if deps, err = l.Dependencies(ctx); err != nil {
			return Page{}, err
		}
	}
	states := f.States
	if len(states) == 0 {
		states = jobs.States
	}
	var found []jobs.Operation
	seen := map[string]bool{}
	for _, dep := range deps {
		for _, index := range indexesOf(states) {
			var matches []jobs.Operation // of this index, kept only where they can end the walk
			err := l.walk(ctx, dep, index, func(ops []jobs.Operation) bool {
				for _, o := range ops {
					name := string(dep) + " " + o.ID().String()
					if !seen[name] && slices.Contains(states, o.State) && f.matches(&o) && after.before(&o) {
						seen[name] = true
						found = append(found, o)
						if index == "dead" {
							matches = append(matches, o)
						}
					}
				}
				if f.Limit > 0 && len(found) > 4*(f.Limit+listChunk) {
					found = newest(found, f.Limit+1)
				}
				// Dead letters lie in the order of lists: once the page is full, older ones
				// cannot be on it. Those of the same millisecond still can.
				return f.Limit > 0 && len(matches) > f.Limit && len(ops) > 0 &&
					cursorOf(&ops[len(ops)-1]).enteredMS < cursorOf(&matches[f.Limit]).enteredMS
			}, f.ErrorText != "", specs)
			if err != nil {
				return Page{}, err
			}
		}
	}
	page := Page{Items: newest(found, 0)}
	if f.Limit > 0 && len(page.Items) > f.Limit {
		page.Items = page.Items[:f.Limit]
		page.NextCursor = cursorOf(&page.Items[f.Limit-1]).encode()
	}
	return page, l.addPayload(ctx, page.Items, specs)
}

func indexesOf(states []jobs.State) []string {
	var out []string
	for _, s := range states {
		for _, index := range stateIndexes[s] {
			if !slices.Contains(out, index) {
				out = append(out, index)
			}
		}
	}
	return out
}

// walk reads an index from its newest end in chunks, until visit says stop.
func (l *Ledger) walk(ctx context.Context, dep jobs.Dependency, index string, visit func([]jobs.Operation) (stop bool), withErrors bool, specs map[jobs.Kind]jobs.KindSpec) error {
	for from := int64(0); ; from += listChunk {
		names, err := l.rdb.ZRevRange(ctx, l.key(dep, index), from, from+listChunk-1).Result()
		if err != nil {
			return fmt.Errorf("read index %s of %s: %w", index, dep, err)
		}
		if len(names) == 0 {
			return nil
		}
		pipe := l.rdb.Pipeline()
		records := make([]*redis.MapStringStringCmd, len(names))
		texts := make([]*redis.StringCmd, len(names))
		for i, name := range names {
			records[i] = pipe.HGetAll(ctx, l.key(dep, "op:"+name))
			if withErrors {
				texts[i] = pipe.HGet(ctx, l.key(dep, "answers:"+name), "error")
			}
		}
		if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
			return fmt.Errorf("read operations of %s: %w", dep, err)
		}
		ops := make([]jobs.Operation, 0, len(names))
		for i, name := range names {
			id, err := jobs.ParseID(name)
			if err != nil || len(records[i].Val()) == 0 {
				continue // ended meanwhile, or a foreign entry
			}
			o := operation(dep, id, records[i].Val(), specOf(specs, id.Kind))
			if withErrors && texts[i].Val() != "" { // a long one
				o.Last = last(records[i].Val(), texts[i].Val())
			}
			ops = append(ops, o)
		}
		if visit(ops) || len(names) < listChunk {
			return nil
		}
	}
}

func specOf(specs map[jobs.Kind]jobs.KindSpec, kind jobs.Kind) *jobs.KindSpec {
	if s, ok := specs[kind]; ok {
		return &s
	}
	return nil
}

// addPayload fills columns and the last error of the operations of one page.
func (l *Ledger) addPayload(ctx context.Context, ops []jobs.Operation, specs map[jobs.Kind]jobs.KindSpec) error {
	for from := 0; from < len(ops); from += listChunk {
		chunk := ops[from:min(from+listChunk, len(ops))]
		pipe := l.rdb.Pipeline()
		requests := make([]*redis.StringCmd, len(chunk))
		texts := make([]*redis.StringCmd, len(chunk))
		for i := range chunk {
			requests[i] = pipe.Get(ctx, l.key(chunk[i].Dependency, "request:"+chunk[i].ID().String()))
			texts[i] = pipe.HGet(ctx, l.key(chunk[i].Dependency, "answers:"+chunk[i].ID().String()), "error")
		}
		if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
			return fmt.Errorf("read requests: %w", err)
		}
		for i := range chunk {
			if text := texts[i].Val(); text != "" && chunk[i].Last != nil {
				chunk[i].Last.Error = &text
			}
			if r, err := decodeRequest([]byte(requests[i].Val())); err == nil {
				chunk[i].Columns = columns(specOf(specs, chunk[i].Kind), r.Body)
			}
		}
	}
	return nil
}

func (f *Filter) matches(o *jobs.Operation) bool {
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, o.Kind) {
		return false
	}
	if len(f.Reasons) > 0 && (o.Reason == nil || !slices.Contains(f.Reasons, *o.Reason)) {
		return false
	}
	if len(f.Classes) > 0 && (o.Last == nil || !slices.Contains(f.Classes, o.Last.Class)) {
		return false
	}
	if len(f.Flags) > 0 && !slices.ContainsFunc(o.Flags, func(flag jobs.Flag) bool { return slices.Contains(f.Flags, flag) }) {
		return false
	}
	if len(f.Credentials) > 0 && !slices.Contains(f.Credentials, o.Credential) {
		return false
	}
	if len(f.Batches) > 0 && (o.Batch == nil || !slices.Contains(f.Batches, *o.Batch)) {
		return false
	}
	if f.KeyGlob != "" {
		if ok, _ := path.Match(f.KeyGlob, string(o.Key)); !ok {
			return false
		}
	}
	if f.ErrorText != "" && (o.Last == nil || o.Last.Error == nil || !strings.Contains(strings.ToLower(*o.Last.Error), strings.ToLower(f.ErrorText))) {
		return false
	}
	if f.Unknown && o.Applied != jobs.AppliedUnknown {
		return false
	}
	if !f.Since.IsZero() && (o.EnteredAt == nil || o.EnteredAt.Before(f.Since)) {
		return false
	}
	return f.Until.IsZero() || o.EnteredAt == nil || o.EnteredAt.Before(f.Until)
}

// cursor is the place of the last operation of a page in the order of lists.
type cursor struct {
	enteredMS int64
	name      string
}

func cursorOf(o *jobs.Operation) cursor {
	c := cursor{name: string(o.Dependency) + " " + o.ID().String()}
	if o.EnteredAt != nil {
		c.enteredMS = o.EnteredAt.UnixMilli()
	}
	return c
}

// compare orders newest first, then by name.
func (c cursor) compare(d cursor) int {
	return cmp.Or(cmp.Compare(d.enteredMS, c.enteredMS), cmp.Compare(c.name, d.name))
}

// before reports whether o comes after the cursor; everything does after none.
func (c cursor) before(o *jobs.Operation) bool {
	return c == cursor{} || c.compare(cursorOf(o)) < 0
}

func (c cursor) encode() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.enteredMS, 10) + " " + c.name))
}

func decodeCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	at, name, ok := strings.Cut(string(b), " ")
	n, errN := strconv.ParseInt(at, 10, 64)
	if err != nil || errN != nil || !ok {
		return cursor{}, fmt.Errorf("%w: %q", ErrCursor, s)
	}
	return cursor{enteredMS: n, name: name}, nil
}

// newest sorts newest first and keeps at most n (0: all).
func newest(ops []jobs.Operation, n int) []jobs.Operation {
	slices.SortFunc(ops, func(a, b jobs.Operation) int { return cursorOf(&a).compare(cursorOf(&b)) })
	if n > 0 && len(ops) > n {
		ops = ops[:n]
	}
	return ops
}
