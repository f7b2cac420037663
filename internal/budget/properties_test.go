package budget

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// history is what left in a played stretch of time.
type history struct {
	at    []int64 // instants of the events below, in order
	spent []int64
	first []int64
	freed []int64 // probes' permits that came back without a success
	halfs int64   // half-open periods
}

// P4: in any window, calls beyond the first are bounded by cap, ratio, floor and probes,
// whatever the instances do, also when some of them die with a token in their hand or ask
// again because a reply was lost: they have no state of their own.
func TestP4HoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams.Draw(t, "params")
		p.DrainMilliPerSecond, p.RateMilliPerSecond = 0, 0 // the lane is beside the bound, the rate only lowers it
		var g Gate
		var h history
		now := int64(1_796_000_000_000)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += rapid.SampledFrom([]int64{0, 0, 1, 50, 900, 5000, 61_000}).Draw(t, "ms")
			before, out, ok := g.Generation, int64(len(g.Probes)), g.ProbesOK
			g = g.At(now, p)
			spent, first := int64(0), int64(0)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				first = rapid.Int64Range(0, 50).Draw(t, "firsts")
				g = g.First(first, now, p)
			case 1:
				for range rapid.IntRange(0, 30).Draw(t, "retries wanted") {
					var ok bool
					if g, ok = g.Spend(now, p); !ok {
						break
					}
					spent++
				}
			case 2:
				id := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "probe"))
				if had := g.Probing(id); !had {
					var given bool
					if g, given = g.Probe(id, now+3000, p); given {
						spent++
						out++
					}
				}
			case 3:
				g = g.Report(Report{Sign: rapid.SampledFrom(Signs).Draw(t, "sign"), Generation: g.Generation, ID: fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "reporter")),
					Jitter: rapid.Int64Range(0, 1000).Draw(t, "jitter")}, now, p)
			case 4:
				f := Flush{OK: rapid.Int64Range(0, 20).Draw(t, "ok"), Failed: rapid.Int64Range(0, 20).Draw(t, "failed")}
				first = f.OK + f.Failed
				g = g.Flush(f, now, p)
			}
			freed := int64(0)
			switch {
			case g.State == HalfOpen && g.Generation != before:
				h.halfs++
			case g.State == HalfOpen:
				freed = max(out-int64(len(g.Probes))-(g.ProbesOK-ok), 0)
			}
			h.freed = append(h.freed, freed)
			h.at, h.spent, h.first = append(h.at, now), append(h.spent, spent), append(h.first, first)
		}
		for a := range h.at {
			spent, first, freed := int64(0), int64(0), int64(0)
			for i := range a {
				freed += h.freed[i]
				if h.at[i] >= h.at[a]-1000 {
					first += h.first[i]
				}
			}
			for b := a; b < len(h.at); b++ {
				spent, first, freed = spent+h.spent[b], first+h.first[b], freed+h.freed[b]
				span := h.at[b] - h.at[a]
				most := p.Cap*1000 + p.RatioMilli*first + p.FloorMilliPerSecond*span/1000 + (p.Breaker.Probes*h.halfs+freed)*1000
				if spent*1000 > most {
					t.Fatalf("%d calls beyond the first in %d ms with %d first attempts: at most %d thousandths are allowed", spent, span, first, most)
				}
			}
		}
	})
}

// The breaker, watched over any history: it stays open for its time, neither fills nor
// spends meanwhile, has at most its permits out, and starts low when it closes.
func TestBreakerProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams.Draw(t, "params")
		p.Breaker.Consecutive = max(p.Breaker.Consecutive, 1)
		var g Gate
		now := int64(1_796_000_000_000)
		id := func() string { return fmt.Sprint("k/", rapid.IntRange(1, 5).Draw(t, "id")) }
		for range rapid.IntRange(1, 50).Draw(t, "events") {
			now += rapid.SampledFrom([]int64{0, 1, 50, 900, 2500, 5000, 61_000, -500}).Draw(t, "ms")
			was := g
			g = g.At(now, p)
			if was.State == Open && g.State != Open && now < was.UntilMS {
				t.Fatalf("left open %d ms early", was.UntilMS-now)
			}
			if was.State != Closed && was.State != "" && g.State == was.State && g.TokensMilli > was.TokensMilli {
				t.Fatalf("filled from %d to %d while %s", was.TokensMilli, g.TokensMilli, g.State)
			}
			before := g
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				var ok bool
				if g, ok = g.Spend(now, p); ok && before.State != Closed {
					t.Fatalf("spent while %s", before.State)
				}
			case 1:
				g, _ = g.Probe(id(), now+rapid.SampledFrom([]int64{1, 3000}).Draw(t, "lease"), p)
				if before.State == HalfOpen && int64(len(g.Probes))+g.ProbesOK > p.Breaker.Probes {
					t.Fatalf("%d permits out and %d done of %d", len(g.Probes), g.ProbesOK, p.Breaker.Probes)
				}
				if before.State != HalfOpen && len(g.Probes) > 0 {
					t.Fatalf("a permit while %s", before.State)
				}
			case 2:
				g = g.Report(Report{Sign: rapid.SampledFrom(Signs).Draw(t, "sign"), Generation: g.Generation, ID: id(), Jitter: rapid.Int64Range(0, 1000).Draw(t, "jitter")}, now, p)
			case 3:
				if g = g.First(rapid.Int64Range(0, 40).Draw(t, "firsts"), now, p); before.State != Closed && g.TokensMilli != before.TokensMilli {
					t.Fatalf("first attempts filled while %s", before.State)
				}
			}
			if before.State == HalfOpen && g.State == Closed {
				in := now + 1000
				later := g.At(in, p)
				most := p.FloorMilliPerSecond + max(callMilli, p.Cap*callMilli/10) + p.FloorMilliPerSecond*p.Breaker.RampMS/max(p.Breaker.RampMS, 1)
				if p.Breaker.RampMS >= 10_000 && later.TokensMilli > most {
					t.Fatalf("%d milli-tokens a second after it closed, at most %d", later.TokensMilli, most)
				}
			}
		}
	})
}

func TestALostProbeFreesItsPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams.Draw(t, "params")
		p.Breaker.Consecutive = 1
		now := int64(1_796_000_000_000)
		g := Gate{}.At(now, p)
		g = g.Report(Report{Sign: SignFailed, Generation: g.Generation}, now, p)
		now = g.UntilMS
		g = g.At(now, p)
		for i := range p.Breaker.Probes + 2 {
			g, _ = g.Probe(fmt.Sprint("k/", i), now+3000, p)
		}
		if g.Permits(p) != 0 {
			t.Fatalf("%d permits left", g.Permits(p))
		}
		if g = g.At(now+3000, p); g.Permits(p) != p.Breaker.Probes {
			t.Fatalf("%d permits after the leases ended, want %d", g.Permits(p), p.Breaker.Probes)
		}
	})
}

// A deleted key never yields more than one second of floor, whatever was in it.
func TestADeletedGateStartsLow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams.Draw(t, "params")
		now := int64(1_796_000_000_000)
		g := Gate{Begun: true}.At(now, p)
		if g.TokensMilli > p.FloorMilliPerSecond || g.Lane() > 0 || g.Rate(now, p) > 1 {
			t.Fatalf("%d milli-tokens, lane %d, rate %d", g.TokensMilli, g.Lane(), g.Rate(now, p))
		}
		if !g.Deferred(now-1, now, p) {
			t.Fatal("what was due is not backlog")
		}
	})
}

// Closed, with a floor: whoever waits alone gets a token within 1/floor and a second.
func TestABacklogNeverStarves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams.Draw(t, "params")
		p.FloorMilliPerSecond, p.Cap = max(p.FloorMilliPerSecond, 1), max(p.Cap, 1)
		now := int64(1_796_000_000_000)
		g := Gate{Known: true, FilledAtMS: now, TokensMilli: rapid.Int64Range(0, 999).Draw(t, "tokens")}
		wait := (1_000_000+p.FloorMilliPerSecond-1)/p.FloorMilliPerSecond + 1000
		for looked := int64(0); looked < 20; looked++ { // looking in between takes nothing away
			g = g.At(now+wait*looked/20, p)
		}
		if g = g.At(now+wait, p); g.Retries() == 0 {
			t.Fatalf("no token after %d ms", wait)
		}
	})
}

// 100,000 first attempts due at one instant on a healthy dependency leave at the rate:
// as no backlog, without a token, all within 1,010 s.
func TestAHundredThousandFirstAttemptsLeaveAtTheRate(t *testing.T) {
	t.Parallel()
	p := Params{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 1000, DrainMilliPerSecond: 10_000, RateMilliPerSecond: 100_000, Slots: 10,
		Breaker: Breaker{WindowMS: 10_000, MinCalls: 20, FailureRateMilli: 500, Consecutive: 5, OpenMS: 5000, MaxOpenMS: 60_000, Probes: 3, RampMS: 60_000}}
	now := int64(1_796_000_000_000)
	var g Gate
	g = g.At(now, p).Released(now, 0)
	due, left := now+1000, int64(100_000)
	for left > 0 {
		now += 100 // a releaser asks as often as the gate says; this is slower
		g = g.At(now, p).Released(now, 0)
		if now < due {
			continue
		}
		if g.Deferred(due, now, p) {
			t.Fatalf("backlog after %d ms", now-due)
		}
		n := min(g.Rate(now, p), left, 100)
		g = g.TakeRate(n, now, p).First(n, now, p)
		for range n {
			g = g.Report(Report{Sign: SignOK, Generation: g.Generation}, now, p)
		}
		left -= n
	}
	if took := now - due; took > 1_010_000 {
		t.Fatalf("all had left after %d ms, want 1,010 s at most", took)
	}
}

func FuzzReadIsNeverFooled(f *testing.F) {
	f.Add("closed 1 2 3 4 5 6 7 -", "1:2:3:4:5:6", "5=a/b", "1 2 3 4 5 6")
	f.Add("open 1", "x", "=", "-1 2")
	f.Fuzz(func(t *testing.T, breaker, window, probes, lane string) {
		const now = 1_796_000_000_000
		p := Params{RatioMilli: 100, Cap: 10, FloorMilliPerSecond: 1000, DrainMilliPerSecond: 1000, Breaker: Breaker{MinCalls: 1, Probes: 3, MaxOpenMS: 60_000}}
		g := Read(map[string]string{"breaker": breaker, "window": window, "probes": probes, "lane": lane}, true).At(now, p)
		if g.TokensMilli < 0 || g.TokensMilli > 10_000 || g.Permits(p) > 3 || g.UntilMS > now+60_000 || g.SinceMS > now {
			t.Fatalf("%+v", g)
		}
		if again := Read(g.Fields(), false); fmt.Sprint(again.Fields()) != fmt.Sprint(g.Fields()) {
			t.Fatalf("read back %v, want %v", again.Fields(), g.Fields())
		}
	})
}
