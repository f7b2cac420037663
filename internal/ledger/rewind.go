package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// rewindEvery is how often it is looked whether a stream went back behind who follows it.
const rewindEvery = 30 * time.Second

// Rewind begins anew with those dependencies whose stream lies wholly behind where it is
// followed from, and returns them. It is so after Redis came back with an older state,
// where a clock ran ahead, and with a cursor that nobody was given: nothing would be told
// until the ids have caught up, if ever. What was missed cannot be known, so all that the
// stream still holds comes again. [Changes.Next] does the same now and then.
func (c *Changes) Rewind(ctx context.Context) ([]jobs.Dependency, error) {
	deps := slices.Sorted(maps.Keys(c.after))
	pipe := c.ledger.rdb.Pipeline()
	last := make([]*redis.XMessageSliceCmd, len(deps))
	for i, dep := range deps {
		last[i] = pipe.XRevRangeN(ctx, c.ledger.key(dep, "events"), "+", "-", 1)
	}
	if len(deps) > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("read the end of changes: %w", err)
		}
	}
	c.lookedAt = time.Now()
	var back []jobs.Dependency
	for i, dep := range deps {
		end := "0-0"
		if found := last[i].Val(); len(found) > 0 {
			end = found[0].ID
		}
		if beyond(c.after[dep], end) {
			c.after[dep] = "0-0"
			back = append(back, dep)
		}
	}
	return back, nil
}

// beyond reports whether the id of an entry is greater than another.
func beyond(id, other string) bool {
	a, b := entryID(id), entryID(other)
	return slices.Compare(a[:], b[:]) > 0
}

func entryID(s string) (out [2]uint64) {
	ms, n, _ := strings.Cut(s, "-")
	out[0], _ = strconv.ParseUint(ms, 10, 64)
	out[1], _ = strconv.ParseUint(n, 10, 64)
	return out
}
