package ledger

import (
	"context"
	"fmt"
	"path"
	"slices"
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
	// Most is how many operations of each index are looked at for one page; 0: all. A page
	// that is not full then ends where it came to, and its cursor goes on from there.
	Most int
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
	jobs.Succeeded:  {"ended"},
	jobs.Cancelled:  {"ended"},
}

const listChunk = 500

// List returns the operations that match. It reads the indexes of the states asked for
// in the order of lists, in chunks that never block Redis, and no further than the page
// needs. An operation that changes its state meanwhile may be seen in either or, rarely,
// in none.
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
	if len(f.States) == 0 {
		f.States = jobs.States
	}
	g := &gathering{l: l, f: f, after: after, specs: specs, seen: map[string]bool{}}
	for _, dep := range deps {
		for _, index := range indexesOf(f.States) {
			if err := g.gather(ctx, dep, l.order(dep, index, after, f)); err != nil {
				return Page{}, err
			}
		}
	}
	page := g.page()
	return page, l.addPayload(ctx, page.Items, specs)
}

// gathering is one List.
type gathering struct {
	l     *Ledger
	f     Filter
	after cursor
	specs map[jobs.Kind]jobs.KindSpec

	seen  map[string]bool // by dependency and name: one that moves stands in two indexes
	found []jobs.Operation
	// upto: what entered its state at this instant or before it was not all looked at (ms);
	// 0: everything was.
	upto int64
}

// gather takes what matches of one index, until the page cannot need more of it.
func (g *gathering) gather(ctx context.Context, dep jobs.Dependency, in *inOrder) error {
	var matched []int64 // when those of this index entered their state, newest first
	looked, first := 0, int64(0)
	for size := g.chunk(); ; size = min(2*size, listChunk) {
		entries, err := in.next(ctx, size)
		if err != nil {
			return err
		}
		ops, err := g.l.records(ctx, dep, namesOf(entries), g.f.ErrorText != "", g.specs)
		if err != nil {
			return err
		}
		for i := range ops {
			if o := &ops[i]; g.take(o) {
				matched = append(matched, cursorOf(o).enteredMS)
			}
		}
		if len(entries) < size {
			return nil
		}
		if looked == 0 {
			first = entries[0].at
		}
		looked += len(entries)
		// Of one millisecond the order of an index is not that of lists: only what entered
		// before it is surely behind.
		last := entries[len(entries)-1].at
		if g.f.Limit > 0 && len(matched) > g.f.Limit && last < matched[g.f.Limit] {
			return nil
		}
		if g.f.Most > 0 && looked >= g.f.Most && last < first { // so that each page comes further
			g.upto = max(g.upto, last)
			return nil
		}
	}
}

// chunk is how many operations are read first: a page's, where all match, and beside it
// the last of the page before, the first of the page behind, and one that is older still.
func (g *gathering) chunk() int {
	if g.f.Limit == 0 {
		return listChunk
	}
	const least = 20
	return min(max(g.f.Limit+3, least), listChunk)
}

// take keeps an operation that belongs on the page, or on one behind it.
func (g *gathering) take(o *jobs.Operation) bool {
	name := string(o.Dependency) + " " + o.ID().String()
	if g.seen[name] || !slices.Contains(g.f.States, o.State) || !g.f.matches(o) || !g.after.before(o) {
		return false
	}
	g.seen[name] = true
	g.found = append(g.found, *o)
	if g.f.Limit > 0 && len(g.found) > 4*(g.f.Limit+listChunk) {
		g.found = newest(g.found, g.f.Limit+1)
	}
	return true
}

func (g *gathering) page() Page {
	page := Page{Items: newest(g.found, 0)}
	if g.upto > 0 {
		page.NextCursor = cursor{enteredMS: g.upto}.encode()
		page.Items = slices.DeleteFunc(page.Items, func(o jobs.Operation) bool { return cursorOf(&o).enteredMS <= g.upto })
	}
	if g.f.Limit > 0 && len(page.Items) > g.f.Limit {
		page.Items = page.Items[:g.f.Limit]
		page.NextCursor = cursorOf(&page.Items[g.f.Limit-1]).encode()
	}
	return page
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

// walk reads an index from its far end in chunks, until visit says stop.
func (l *Ledger) walk(ctx context.Context, dep jobs.Dependency, index string, visit func([]jobs.Operation) (stop bool)) error {
	for from := int64(0); ; from += listChunk {
		names, err := l.rdb.ZRevRange(ctx, l.key(dep, index), from, from+listChunk-1).Result()
		if err != nil {
			return fmt.Errorf("read index %s of %s: %w", index, dep, err)
		}
		ops, err := l.records(ctx, dep, names, false, nil)
		if err != nil {
			return err
		}
		if visit(ops) || len(names) < listChunk {
			return nil
		}
	}
}

// records reads operations. What is no operation's name, or has no record any more, is
// left out. withErrors: their last errors too, where they are long.
func (l *Ledger) records(ctx context.Context, dep jobs.Dependency, names []string, withErrors bool, specs map[jobs.Kind]jobs.KindSpec) ([]jobs.Operation, error) {
	if len(names) == 0 {
		return nil, nil
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
		return nil, fmt.Errorf("read operations of %s: %w", dep, err)
	}
	ops := make([]jobs.Operation, 0, len(names))
	for i, name := range names {
		id, err := jobs.ParseID(name)
		if err != nil || len(records[i].Val()) == 0 {
			continue
		}
		o := operation(dep, id, records[i].Val(), specOf(specs, id.Kind))
		if withErrors && texts[i].Val() != "" {
			o.Last = last(records[i].Val(), texts[i].Val())
		}
		ops = append(ops, o)
	}
	return ops, nil
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
