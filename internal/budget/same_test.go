package budget

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

// play does a list of things to the gate at one instant, each told by a line of words.
var play = luascript.Must("play", `--[[ play: for tests
KEYS[1]  slot
ARGV     now (ms), acts (lines); gate
RETURNS  what each act answered
LIMIT    one gate
INVARIANT none
]]
local g, out = gate.load(arg('now')), {}
local function bool(b) return b and '1' or '0' end
local function maybe(n) return n and int(n) or '-1' end
local acts = {
  first = function(n) gate.first(g, n) return '' end,
  spend = function() return bool(gate.spend(g)) end,
  lane = function() if gate.lane(g) > 0 then gate.take_lane(g, 1) end return int(gate.lane(g)) end,
  rate = function(n) gate.take_rate(g, n) return maybe(gate.allowed(g)) end,
  released = function(n) gate.released(g, n) return maybe(gate.in_flight(g)) end,
  probe = function(id, span) return bool(gate.probe(g, 'k/' .. int(id), g.now + span)) end,
  probing = function(id) return bool(gate.probing(g, 'k/' .. int(id))) end,
  report = function(sign, back, id, hint, jitter)
    gate.report(g, ({'ok', 'declined', 'failed', 'slow', 'throttled', 'nothing'})[sign], g.generation - back, 'k/' .. int(id), hint, jitter)
    return ''
  end,
  flush = function(ok, failed, unsent, jitter) gate.flush(g, ok, failed + unsent, unsent, jitter) return '' end,
  look = function(due)
    local why, ms = gate.closed(g)
    return table.concat({bool(not gate.deferred(g, math.huge)), bool(gate.deferred(g, g.now - due)), int(gate.retries(g)), int(gate.permits(g)), why or '-'}, ' ')
  end,
}
for name, words in string.gmatch(A.acts, '(%l+)([^\n]*)\n') do
  local n = {}
  for w in string.gmatch(words, '%d+') do n[#n + 1] = tonumber(w) end
  out[#out + 1] = acts[name](unpack(n))
end
gate.save()
return out
`, luascript.Base, Library)

// closedFor is what [gate.closed] answers, in Go.
func closedFor(g Gate, now int64) string {
	switch {
	case g.held(now):
		return "paused"
	case g.ParkedUntilMS > now:
		return "rate_hint"
	case g.State == Open:
		return "breaker"
	}
	return "-"
}

// oracleAct does to the oracle what one line does to the store.
func oracleAct(g *Gate, now int64, p Params, name string, n []int64) string {
	b := func(b bool) string { return fmt.Sprint(bit(b)) }
	switch name {
	case "first":
		*g = g.First(n[0], now, p)
	case "spend":
		var ok bool
		*g, ok = g.Spend(now, p)
		return b(ok)
	case "lane":
		if g.Lane() > 0 {
			*g = g.TakeLane(1)
		}
		return fmt.Sprint(g.Lane())
	case "rate":
		*g = g.TakeRate(n[0], now, p)
		return fmt.Sprint(g.Rate(now, p))
	case "released":
		*g = g.Released(now, n[0])
		return fmt.Sprint(g.InFlight(now, p))
	case "probe":
		var ok bool
		*g, ok = g.Probe(fmt.Sprintf("k/%d", n[0]), now+n[1], p)
		return b(ok)
	case "probing":
		return b(g.Probing(fmt.Sprintf("k/%d", n[0])))
	case "report":
		*g = g.Report(Report{Sign: Signs[n[0]-1], Generation: g.Generation - n[1], ID: fmt.Sprintf("k/%d", n[2]), HintMS: n[3], Jitter: n[4]}, now, p)
	case "flush":
		*g = g.Flush(Flush{OK: n[0], Failed: n[1], Unsent: n[2], Jitter: n[3]}, now, p)
	case "look":
		return fmt.Sprintf("%s %s %d %d %s", b(g.Plain(now, p)), b(g.Deferred(now-n[0], now, p)), g.Retries(), g.Permits(p), closedFor(*g, now))
	}
	return ""
}

var signs = rapid.SampledFrom([]int64{1, 1, 1, 2, 3, 3, 3, 4, 5, 6})

func drawAct(t *rapid.T) (string, []int64) {
	id, jitter := rapid.Int64Range(1, 4), rapid.Int64Range(0, 1000)
	hint := rapid.SampledFrom([]int64{0, 0, 0, 1, 999, 20_000, 3_600_000, 86_400_000})
	switch name := rapid.SampledFrom([]string{"first", "spend", "spend", "lane", "rate", "released", "probe", "probe", "probing", "report", "report",
		"report", "report", "flush", "look"}).Draw(t, "act"); name {
	case "first", "rate", "released":
		return name, []int64{rapid.Int64Range(0, 60).Draw(t, "n")}
	case "probe":
		return name, []int64{id.Draw(t, "id"), rapid.SampledFrom([]int64{1, 3000, 30_000}).Draw(t, "lease")}
	case "probing":
		return name, []int64{id.Draw(t, "id")}
	case "report":
		return name, []int64{signs.Draw(t, "sign"), rapid.SampledFrom([]int64{0, 0, 0, 0, 1}).Draw(t, "generations back"), id.Draw(t, "id"),
			hint.Draw(t, "hint"), jitter.Draw(t, "jitter")}
	case "flush":
		return name, []int64{rapid.Int64Range(0, 30).Draw(t, "ok"), rapid.Int64Range(0, 30).Draw(t, "failed"), rapid.Int64Range(0, 3).Draw(t, "unsent"), jitter.Draw(t, "jitter")}
	case "look":
		return name, []int64{rapid.SampledFrom([]int64{0, 1, 1000, 60_000, 4_000_000}).Draw(t, "due ago")}
	default:
		return name, nil
	}
}

var anyParams = rapid.Custom(func(t *rapid.T) Params {
	p := params.Draw(t, "bucket")
	pick := func(name string, of ...int64) int64 { return rapid.SampledFrom(of).Draw(t, name) }
	p.DrainMilliPerSecond, p.RateMilliPerSecond = pick("drain", 0, 1, 500, 10_000, 66_000), pick("rate", 0, 0, 1, 500, 100_000)
	p.RateBurst, p.MaxInFlight, p.Slots = pick("burst", 0, 1, 50), pick("in flight", 0, 1, 40), pick("slots", 1, 10)
	p.Breaker = Breaker{WindowMS: pick("window", 0, 1000, 10_000, 600_000), MinCalls: pick("min calls", 0, 1, 5, 20), FailureRateMilli: pick("failure rate", 1, 500, 1000),
		Consecutive: pick("consecutive", 0, 1, 3, 5), OpenMS: pick("open", 1, 1000, 5000), MaxOpenMS: pick("max open", 5000, 60_000), Probes: pick("probes", 1, 3),
		RampMS: pick("ramp", 0, 1000, 60_000)}
	return p
})

// What the store decides and keeps is what the oracle does, for any sequence of calls
// with any parameters and any steps of the clock, on both stores.
func TestLuaEqualsTheOracle(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		rapid.Check(t, func(t *rapid.T) {
			if err := c.Del(t.Context(), slot+":gate").Err(); err != nil {
				t.Fatal(err)
			}
			var g Gate
			now, p := int64(1_796_000_000_000), anyParams.Draw(t, "params")
			for range rapid.IntRange(1, 12).Draw(t, "calls") {
				now += rapid.SampledFrom([]int64{0, 1, 3, 10, 999, 1000, 5000, 60_000, 86_400_000, -1, -500, -3_600_000}).Draw(t, "ms")
				switch rapid.IntRange(0, 9).Draw(t, "change") {
				case 0:
					p = anyParams.Draw(t, "params")
				case 1:
					g.Override = Override{UntilMS: now + rapid.SampledFrom([]int64{-1, 1, 30_000}).Draw(t, "override for"), Values: map[string]int64{
						rapid.SampledFrom(Overridable).Draw(t, "override"): rapid.SampledFrom([]int64{0, 1, 5, 30_000}).Draw(t, "value")}}
					c.HSet(t.Context(), slot+":gate", "override", g.Override.Text())
				case 2:
					g.Held, g.HeldUntilMS = true, max(now+rapid.SampledFrom([]int64{-5000, 1, 5000}).Draw(t, "hold for"), 0)
					c.HSet(t.Context(), slot+":gate", "hold", "paused", "hold_until", g.HeldUntilMS)
				}
				g = g.At(now, p)
				var lines strings.Builder
				var want []string
				for range rapid.IntRange(0, 8).Draw(t, "acts") {
					name, n := drawAct(t)
					fmt.Fprintln(&lines, name, strings.Trim(fmt.Sprint(n), "[]"))
					want = append(want, oracleAct(&g, now, p, name, n))
				}
				got, err := play.Run(t.Context(), c, slot, p.Args(new(luascript.Args)).Int("now", now).Str("acts", lines.String()))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Join(got, "|") != strings.Join(want, "|") {
					t.Fatalf("store answered %q, oracle %q, to\n%s", got, want, &lines)
				}
				stored, err := c.HGetAll(t.Context(), slot+":gate").Result()
				if err != nil {
					t.Fatal(err)
				}
				if stored["peak"] == "" {
					stored["peak"] = "0 0 0" // written once there is one
				}
				for name, value := range g.Fields() {
					if stored[name] != value {
						t.Fatalf("%s: store %q, oracle %q, after\n%s", name, stored[name], value, &lines)
					}
				}
				if again := Read(stored, false); !maps.Equal(again.Fields(), g.Fields()) {
					t.Fatalf("read back %v, want %v", again.Fields(), g.Fields())
				}
				if g.TokensMilli < 0 || g.TokensMilli > p.With(g.Override, now).Cap*callMilli {
					t.Fatalf("%d milli-tokens with a cap of %d tokens", g.TokensMilli, p.Cap)
				}
			}
		})
	})
}
