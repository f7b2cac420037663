package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

// Many calls in one run decide what they would decide one after the other: the same
// answers, and the same store afterwards.
func TestManyCallsInOneRunAreDecidedAsOneAfterTheOther(t *testing.T) {
	start := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	stores := [2]*miniredis.Miniredis{}
	ledgers := [2]*Ledger{}
	for i := range stores {
		store, rdb := redistest.Mini(t)
		stores[i], ledgers[i] = store, New(rdb, "test")
	}
	rapid.Check(t, func(rt *rapid.T) {
		var pair [2]*bundle
		for i, store := range stores {
			store.FlushAll()
			store.SetTime(start)
			pair[i] = setup(rt, ledgers[i].rdb)
			pair[i].unchecked = true
			pair[i].terms.Gate.Cap = 2
		}
		both := func(f func(b *bundle)) { f(pair[0]); f(pair[1]) }
		var ds []Delivery
		both(func(b *bundle) {
			for _, key := range []string{"o1", "o2", "o3"} {
				b.add(key)
				b.attempt(key, unknown(minute))
			}
		})
		for _, store := range stores {
			store.SetTime(start.Add(minute))
		}
		both(func(b *bundle) {
			b.add("o0")
			ds = b.releaseUpTo(10).Deliveries
			b.tokens(1500)
		})
		n := rapid.IntRange(2, 8).Draw(rt, "begins")
		var one []string
		var many captured
		grants := map[string]*Grant{}
		for range n {
			d := rapid.SampledFrom(ds).Draw(rt, "delivery")
			run := fmt.Sprint("run", rapid.IntRange(0, 5).Draw(rt, "run"))
			answer := pair[0].beginAs(d, run)
			one = append(one, string(answer.Status)+" "+string(answer.Hold))
			if answer.Grant != nil {
				grants[run+" "+d.ID.String()] = answer.Grant
			}
			many.begin(pair[1], d, run)
		}
		compare(rt, pair, one, many.run(pair[1], beginScript), func(r luascript.Reply) string {
			if r.At(0) == "held" {
				return "held " + r.At(1)
			}
			return r.At(0) + " "
		})
		if len(grants) == 0 {
			return
		}
		one = nil
		for range rapid.IntRange(2, 6).Draw(rt, "results") {
			g := grants[rapid.SampledFrom(sortedKeys(grants)).Draw(rt, "grant")]
			res := drawResult(rt, false)
			one = append(one, string(pair[0].finish(g, res).How))
			many.finish(pair[1], g, res)
		}
		compare(rt, pair, one, many.run(pair[1], finishScript), func(r luascript.Reply) string { return r.At(2) })
	})
}

func compare(rt *rapid.T, pair [2]*bundle, one []string, many []luascript.Answer, word func(luascript.Reply) string) {
	for i, want := range one {
		if many[i].Err != nil || word(many[i].Reply) != want {
			rt.Fatalf("call %d of %v: %q (%v) in one run", i, one, many[i].Reply, many[i].Err)
		}
	}
	if a, b := pair[0].dump(), pair[1].dump(); a != b {
		rt.Fatalf("one after the other:\n%s\nin one run:\n%s", a, b)
	}
	for _, b := range pair {
		if broken := b.broken(); len(broken) > 0 {
			rt.Fatalf("%v", broken)
		}
	}
}

// dump is all that decides anything: records, indexes, counts, gate, begins.
func (b *bundle) dump() string {
	b.Helper()
	out := fmt.Sprintln(b.records())
	for _, name := range everyIndex {
		out += fmt.Sprintln(name, b.index(name))
	}
	ctx := b.Context()
	return out + fmt.Sprintln(b.rdb.HGetAll(ctx, b.key(dep, "counts")).Val(), b.rdb.HGetAll(ctx, b.key(dep, "gate")).Val(), b.rdb.Get(ctx, b.key(dep, "seq")).Val())
}
