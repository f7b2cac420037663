package budget

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

// probe looks at the bucket at an instant of the test's own, puts first attempts in
// and takes retries out, as the ledger's scripts do in one run.
var probe = luascript.Must("probe", `--[[ probe: for tests
KEYS[1]  slot
ARGV     now (ms), firsts, spends, peek; gate
RETURNS  tokens, rest, spends granted, retries, ms until one more
LIMIT    one bucket
INVARIANT none
]]
local g = gate.load(arg('now'))
for i = 1, arg('firsts') do gate.first(g, 1) end
local granted = 0
for i = 1, arg('spends') do
  if gate.spend(g) then granted = granted + 1 end
end
if not A.peek then gate.save(g) end
return {int(g.tokens), int(g.rest), int(granted), int(gate.retries(g)), int(gate.tokens_in(g, gate.retries(g) + 1))}
`, luascript.Base, Library)

const slot = "test:{d}"

type stored struct {
	tokens, rest, granted, retries, more int64
}

// tb is a test or one run of a property.
type tb interface {
	Helper()
	Fatal(...any)
	Context() context.Context
}

func look(t tb, c redis.UniversalClient, nowMS int64, p Params, firsts, spends int, peek bool) stored {
	t.Helper()
	args := p.Args(new(luascript.Args)).Int("now", nowMS).Int("firsts", int64(firsts)).Int("spends", int64(spends)).Flag("peek", peek)
	r, err := probe.Run(t.Context(), c, slot, args)
	if err != nil {
		t.Fatal(err)
	}
	return stored{r.Int(0), r.Int(1), r.Int(2), r.Int(3), r.Int(4)}
}

// oracle does to a gate what probe does to the store.
func oracle(b Gate, nowMS int64, p Params, firsts, spends int) (Gate, int64) {
	b = b.At(nowMS, p)
	for range firsts {
		b = b.First(1, nowMS, p)
	}
	granted := int64(0)
	for range spends {
		var ok bool
		if b, ok = b.Spend(nowMS, p); ok {
			granted++
		}
	}
	return b, granted
}

var params = rapid.Custom(func(t *rapid.T) Params {
	return Params{
		RatioMilli:          rapid.SampledFrom([]int64{0, 1, 100, 333, 1000, 2500}).Draw(t, "ratio"),
		Cap:                 rapid.SampledFrom([]int64{0, 1, 2, 10, 100, 1_000_000}).Draw(t, "cap"),
		FloorMilliPerSecond: rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 7, 333, 1000, 1500, 50_000, 10_000_000}), rapid.Int64Range(0, 5000)).Draw(t, "floor"),
	}
})

func TestALostOrGarbledBucketStartsLow(t *testing.T) {
	t.Parallel()
	p := Params{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 2000}
	const now = 1_796_000_000_000
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		set := func(fields ...any) {
			t.Helper()
			if err := c.Del(t.Context(), slot+":gate").Err(); err != nil {
				t.Fatal(err)
			}
			if len(fields) > 0 {
				if err := c.HSet(t.Context(), slot+":gate", fields...).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, garbage := range []string{"", "x", "-5", "1e9", "inf", "nan", "0x10", "12.5", " 7", "9999999999999999", "1\n"} {
			set("tokens", garbage, "filled_at", int64(now))
			if got := look(t, c, now, p, 0, 0, true); got.tokens != 2000 {
				t.Errorf("tokens %q: %d milli-tokens, want one second of floor", garbage, got.tokens)
			}
			set("tokens", 90_000, "filled_at", garbage)
			if got := look(t, c, now, p, 0, 0, true); got.tokens != 2000 {
				t.Errorf("filled_at %q: %d milli-tokens, want one second of floor", garbage, got.tokens)
			}
		}
		set()
		if got := look(t, c, now, p, 0, 0, true); got.tokens != 2000 {
			t.Errorf("no bucket: %d milli-tokens, want one second of floor", got.tokens)
		}
		set("tokens", 5000, "filled_at", int64(now), "hold", "paused", "hold_until", "nonsense")
		if got := look(t, c, now, p, 0, 0, true); got.tokens != 5000 {
			t.Errorf("garbage beside the bucket: %d milli-tokens, want 5000", got.tokens)
		}
		set("tokens", 999_999_999, "filled_at", int64(now))
		if got := look(t, c, now, p, 0, 0, true); got.tokens != 100_000 {
			t.Errorf("more than cap: %d milli-tokens, want cap", got.tokens)
		}
		set("tokens", 0, "filled_at", int64(now+7_200_000))
		if got := look(t, c, now, p, 0, 0, true); got.tokens != 0 || got.rest != 0 {
			t.Errorf("filled in the future: %+v, want nothing added", got)
		}
	})
}

// Properties of the bucket alone, on the oracle.
func TestBucketProperties(t *testing.T) {
	t.Parallel()
	type step struct {
		ms             int64
		firsts, spends int
	}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{rapid.Int64Range(-2000, 5000).Draw(t, "ms"), rapid.IntRange(0, 30).Draw(t, "firsts"), rapid.IntRange(0, 10).Draw(t, "spends")}
	}), 1, 40)
	play := func(steps []step, p Params) (granted, firsts, forward int64, last Gate) {
		var b Gate
		now := int64(1_796_000_000_000)
		for i, s := range steps {
			now += s.ms
			if i > 0 && s.ms > 0 {
				forward += s.ms
			}
			var n int64
			b, n = oracle(b, now, p, s.firsts, s.spends)
			granted, firsts = granted+n, firsts+int64(s.firsts)
		}
		return granted, firsts, forward, b
	}
	t.Run("grants never exceed what was put in", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			p := params.Draw(t, "params")
			granted, firsts, forward, _ := play(steps.Draw(t, "steps"), p)
			start := min(p.Cap*callMilli, p.FloorMilliPerSecond)
			if put := start + firsts*p.RatioMilli + forward*p.FloorMilliPerSecond/1000; granted*callMilli > put {
				t.Fatalf("%d granted, only %d milli-tokens were put in", granted, put)
			}
		})
	})
	t.Run("without ratio and floor there is no retry", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			if granted, _, _, _ := play(steps.Draw(t, "steps"), Params{Cap: 100}); granted != 0 {
				t.Fatalf("%d granted", granted)
			}
		})
	})
	t.Run("a step back adds nothing", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			p := params.Draw(t, "params")
			_, _, _, b := play(steps.Draw(t, "steps"), p)
			back := b.At(b.FilledAtMS-rapid.Int64Range(0, 1<<40).Draw(t, "back"), p)
			if back.TokensMilli > b.TokensMilli {
				t.Fatalf("%d milli-tokens became %d", b.TokensMilli, back.TokensMilli)
			}
		})
	})
	t.Run("more first attempts, floor or ratio never grant less", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			p, more := params.Draw(t, "params"), steps.Draw(t, "steps")
			for i := range more {
				more[i].ms = max(more[i].ms, 0)
			}
			base, _, _, _ := play(more, p)
			richer := p
			richer.RatioMilli += rapid.Int64Range(0, 500).Draw(t, "more ratio")
			richer.FloorMilliPerSecond += rapid.Int64Range(0, 500).Draw(t, "more floor")
			extra := append([]step(nil), more...)
			extra[rapid.IntRange(0, len(extra)-1).Draw(t, "where")].firsts += rapid.IntRange(0, 50).Draw(t, "more firsts")
			if got, _, _, _ := play(extra, richer); got < base {
				t.Fatalf("%d granted with more, %d with less", got, base)
			}
		})
	})
	t.Run("looking in between changes nothing", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			p := params.Draw(t, "params")
			_, _, _, b := play(steps.Draw(t, "steps"), p)
			at, between := b.FilledAtMS+rapid.Int64Range(0, 1<<33).Draw(t, "later"), rapid.Float64Range(0, 1).Draw(t, "where")
			half := b.FilledAtMS + int64(between*float64(at-b.FilledAtMS))
			if whole, split := b.At(at, p), b.At(half, p).At(at, p); whole.TokensMilli != split.TokensMilli || whole.RestMicro != split.RestMicro {
				t.Fatalf("%+v at once, %+v with a look in between", whole, split)
			}
		})
	})
}

// A refused retry is granted once the time that was told is over.
func TestTokensInIsNeverLateAndNeverInVain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		rapid.Check(t, func(t *rapid.T) {
			p := Params{Cap: rapid.Int64Range(1, 50).Draw(t, "cap"), FloorMilliPerSecond: rapid.Int64Range(1, 20_000).Draw(t, "floor")}
			now := int64(1_796_000_000_000)
			tokens, ago := rapid.Int64Range(0, 60_000).Draw(t, "tokens"), rapid.Int64Range(0, 1500).Draw(t, "filled ago")
			if err := c.HSet(t.Context(), slot+":gate", "tokens", tokens, "filled_at", now-ago).Err(); err != nil {
				t.Fatal(err)
			}
			got := look(t, c, now, p, 0, 0, true)
			if got.retries == p.Cap {
				return // full: it never holds one more
			}
			then := look(t, c, now+got.more, p, 0, 0, true)
			if then.retries <= got.retries {
				t.Fatalf("%d retries now, in %d ms %d", got.retries, got.more, then.retries)
			}
			if early := look(t, c, now+got.more-1, p, 0, 0, true); got.more > 20 && early.retries > got.retries {
				t.Fatalf("one more in %d ms already, told were %d", got.more-1, got.more)
			}
		})
	})
}

func TestHoldEndsByItself(t *testing.T) {
	t.Parallel()
	closed := luascript.Must("closed", `--[[ closed: for tests
KEYS[1]  slot
ARGV     now
RETURNS  why, ms
LIMIT    one
INVARIANT none
]]
local why, ms = gate.closed(gate.load(arg('now')))
return {why or '', int(ms or 0)}`, luascript.Base, Library)
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		for _, k := range []struct {
			until any
			now   int64
			want  string
		}{
			{0, 5000, "paused 1000"}, {9000, 5000, "paused 4000"}, {5000, 5000, " 0"}, {4000, 5000, " 0"}, {"x", 5000, "paused 1000"},
		} {
			if err := c.HSet(t.Context(), slot+":gate", "hold", "paused", "hold_until", k.until).Err(); err != nil {
				t.Fatal(err)
			}
			r, err := closed.Run(t.Context(), c, slot, new(luascript.Args).Int("now", k.now))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%s %d", r.At(0), r.Int(1)); got != k.want {
				t.Errorf("until %v at %d: %q, want %q", k.until, k.now, got, k.want)
			}
		}
	})
}
