package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// entered are the indexes that stand in the order of lists: by when operations entered
// their state.
var entered = map[string]bool{"dead": true, "ended": true}

// sortChunk is how many names of another index are read at once.
const sortChunk = 2000

// entry is one operation in an index.
type entry struct {
	name string
	at   int64 // when it entered its state, ms
}

func namesOf(entries []entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.name
	}
	return out
}

// inOrder reads an index newest first by when operations entered their state. One that
// stands in another order is read whole first, but for its records: those are the
// operations on their way, which max_backlog bounds.
type inOrder struct {
	l              *Ledger
	dep            jobs.Dependency
	index          string
	newest, oldest int64 // ms, both included
	skip           int   // how many that entered at newest were read

	sorted []entry // of another index, what is left; nil: not read yet
}

// order begins behind a cursor, and keeps to the span of a filter.
func (l *Ledger) order(dep jobs.Dependency, index string, after cursor, f Filter) *inOrder {
	in := &inOrder{l: l, dep: dep, index: index, newest: math.MaxInt64}
	if after != (cursor{}) {
		in.newest = after.enteredMS
	}
	if !f.Until.IsZero() {
		in.newest = min(in.newest, f.Until.UnixMilli())
	}
	if !f.Since.IsZero() {
		in.oldest = max(f.Since.UnixMilli(), 0)
	}
	return in
}

// next returns the next n, or fewer at the end.
func (in *inOrder) next(ctx context.Context, n int) ([]entry, error) {
	if entered[in.index] {
		return in.nextByScore(ctx, n)
	}
	if in.sorted == nil {
		if err := in.sort(ctx); err != nil {
			return nil, err
		}
	}
	n = min(n, len(in.sorted))
	out := in.sorted[:n]
	in.sorted = in.sorted[n:]
	return out, nil
}

func (in *inOrder) nextByScore(ctx context.Context, n int) ([]entry, error) {
	newest := "+inf"
	if in.newest < math.MaxInt64 {
		newest = strconv.FormatInt(in.newest, 10)
	}
	found, err := in.l.rdb.ZRevRangeByScoreWithScores(ctx, in.l.key(in.dep, in.index),
		&redis.ZRangeBy{Max: newest, Min: strconv.FormatInt(in.oldest, 10), Offset: int64(in.skip), Count: int64(n)}).Result()
	if err != nil {
		return nil, fmt.Errorf("read index %s of %s: %w", in.index, in.dep, err)
	}
	out := make([]entry, len(found))
	for i, z := range found {
		name, _ := z.Member.(string)
		out[i] = entry{name, int64(z.Score)}
		if out[i].at != in.newest {
			in.newest, in.skip = out[i].at, 0
		}
		in.skip++
	}
	return out, nil
}

// sort reads the names and when they entered, and nothing else of them.
func (in *inOrder) sort(ctx context.Context) error {
	in.sorted = []entry{}
	for from := int64(0); ; from += sortChunk {
		names, err := in.l.rdb.ZRange(ctx, in.l.key(in.dep, in.index), from, from+sortChunk-1).Result()
		if err != nil {
			return fmt.Errorf("read index %s of %s: %w", in.index, in.dep, err)
		}
		pipe := in.l.rdb.Pipeline()
		since := make([]*redis.StringCmd, len(names))
		for i, name := range names {
			since[i] = pipe.HGet(ctx, in.l.key(in.dep, "op:"+name), "since")
		}
		if _, err := pipe.Exec(ctx); len(names) > 0 && err != nil && err != redis.Nil {
			return fmt.Errorf("read operations of %s: %w", in.dep, err)
		}
		for i, name := range names {
			at, err := since[i].Int64()
			if err == nil && at >= in.oldest && at <= in.newest { // else it has ended meanwhile
				in.sorted = append(in.sorted, entry{name, at})
			}
		}
		if len(names) < sortChunk {
			break
		}
	}
	slices.SortFunc(in.sorted, func(a, b entry) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.name, b.name)) })
	return nil
}
