package ledger

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// readsOf counts the records that a client reads whole, and the others.
type readsOf struct {
	mu           sync.Mutex
	whole, since int
}

func (r *readsOf) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (r *readsOf) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (r *readsOf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.mu.Lock()
		for _, c := range cmds {
			switch {
			case c.Name() == "hgetall":
				r.whole++
			case c.Name() == "hget" && c.Args()[2] == "since":
				r.since++
			}
		}
		r.mu.Unlock()
		return next(ctx, cmds)
	}
}

// A page of one once read the record of every operation that had ended.
func TestAPageReadsNoMoreOfTheLedgerThanItShows(t *testing.T) {
	t.Parallel()
	store, rdb := redistest.Mini(t)
	clock := time.Now()
	store.SetTime(clock)
	b := setup(t, rdb)
	b.unchecked = true
	const n = 600
	b.maxBacklog = n
	for i := range n {
		key := fmt.Sprintf("o%03d", i)
		b.add(key)
		if i%6 != 0 {
			b.cancel(key)
		}
		clock = clock.Add(time.Millisecond)
		store.SetTime(clock)
	}
	reads := &readsOf{}
	rdb.AddHook(reads)
	cost := func(f Filter) (items, whole, since int, next string) {
		t.Helper()
		reads.whole, reads.since = 0, 0
		f.Dependencies = []jobs.Dependency{dep}
		page, err := b.List(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items), reads.whole, reads.since, page.NextCursor
	}
	// Two indexes are asked: the first chunk of each is 20 at least.
	if items, whole, since, _ := cost(Filter{Limit: 1}); items != 1 || whole > 2*20 || since != n/6 {
		t.Errorf("a page of one: %d items, %d records and %d instants read; want one, at most 40, and %d", items, whole, since, n/6)
	}
	total, pages, f := 0, 0, Filter{Limit: 50, States: []jobs.State{jobs.Cancelled}}
	for {
		items, whole, since, next := cost(f)
		total += items
		pages++
		if whole > 53 || since != 0 {
			t.Errorf("page %d: %d records and %d instants read for %d items", pages, whole, since, items)
		}
		if f.Cursor = next; next == "" || pages > n {
			break
		}
	}
	if want := n - n/6; total != want || pages != want/50 {
		t.Errorf("%d operations on %d pages, want %d on %d", total, pages, want, want/50)
	}
	if _, whole, _, next := cost(Filter{States: []jobs.State{jobs.Cancelled}, KeyGlob: "nothing", Limit: 50, Most: 100}); whole > 100+2*listChunk || next == "" {
		t.Errorf("what nothing matches: %d records read, next cursor %q; want about 100 read and the rest for the next page", whole, next)
	}
	if items, whole, _, _ := cost(Filter{States: []jobs.State{jobs.Cancelled}, Since: b.now().Add(-10 * time.Millisecond), Limit: 50}); whole > 60 || items == 0 {
		t.Errorf("the newest alone: %d records read for %d items", whole, items)
	}
}

// listed is what lists show, from the records themselves.
func (b *bundle) listed(f Filter) []string {
	type place struct {
		name string
		at   int64
	}
	var places []place
	for name, record := range b.records() {
		at, _ := strconv.ParseInt(cmp.Or(record["since"], record["ended"]), 10, 64)
		_, key, _ := strings.Cut(name, "/")
		glob, _ := path.Match(cmp.Or(f.KeyGlob, "*"), key)
		if !glob || len(f.States) > 0 && !slices.Contains(f.States, jobs.State(record["state"])) ||
			!f.Since.IsZero() && time.UnixMilli(at).Before(f.Since) || !f.Until.IsZero() && !time.UnixMilli(at).Before(f.Until) {
			continue
		}
		places = append(places, place{name, at})
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.name, b.name)) })
	out := []string{}
	for _, p := range places {
		out = append(out, p.name)
	}
	return out
}

// However small the pages, and however little is looked at for each, together they are
// what the records say, in order and each once.
func TestPagesTogetherAreTheWholeList(t *testing.T) {
	t.Parallel()
	store, rdb := redistest.Mini(t)
	rapid.Check(t, func(rt *rapid.T) {
		store.FlushAll()
		b := setup(rt, rdb)
		for i := range rapid.IntRange(0, 30).Draw(rt, "operations") {
			key := fmt.Sprintf("o%02d", i)
			switch rapid.IntRange(0, 4).Draw(rt, "becomes") {
			case 0:
				b.add(key, notBefore(b.now().Add(hour))) // so that attempts of others are not kept waiting
			case 1:
				b.add(key)
				b.cancel(key)
			case 2:
				b.add(key)
				b.attempt(key, ends(jobs.ReasonPermanent))
			case 3:
				b.add(key)
				b.attempt(key, succeeded())
			case 4:
				b.add(key, b.sent("r"+key, jobs.OutcomeUnknown, time.Second), notBefore(b.now().Add(hour)))
			}
			if rapid.Bool().Draw(rt, "time passes") {
				b.pass(time.Duration(rapid.IntRange(1, 3).Draw(rt, "ms")) * time.Millisecond)
			}
		}
		states := append([]jobs.State{""}, jobs.States...)
		f := Filter{Dependencies: []jobs.Dependency{dep}, KeyGlob: rapid.SampledFrom([]string{"", "*", "o1*", "none"}).Draw(rt, "glob"),
			Limit: rapid.IntRange(0, 7).Draw(rt, "limit"), Most: rapid.IntRange(0, 5).Draw(rt, "most")}
		if s := rapid.SampledFrom(states).Draw(rt, "state"); s != "" {
			f.States = []jobs.State{s}
		}
		if rapid.Bool().Draw(rt, "since") {
			f.Since = b.now().Add(-time.Duration(rapid.IntRange(0, 40).Draw(rt, "since ms")) * time.Millisecond)
		}
		if rapid.Bool().Draw(rt, "until") {
			f.Until = b.now().Add(-time.Duration(rapid.IntRange(0, 40).Draw(rt, "until ms")) * time.Millisecond)
		}
		want, got := b.listed(f), []string{}
		for pages := 0; ; pages++ {
			page, err := b.List(b.Context(), f, nil)
			b.must(err)
			if f.Limit > 0 && len(page.Items) > f.Limit || pages > 40 {
				rt.Fatalf("page %d holds %d operations, the limit is %d", pages, len(page.Items), f.Limit)
			}
			for _, o := range page.Items {
				got = append(got, o.ID().String())
			}
			if f.Cursor = page.NextCursor; f.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("listed\n%v\nthe records say\n%v", got, want)
		}
	})
}
