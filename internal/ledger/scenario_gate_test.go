package ledger

import (
	"fmt"
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
)

// second lets a second pass in which a worker asks, and returns what left.
func (b *bundle) second() []Delivery {
	b.Helper()
	b.pass(time.Second)
	return b.releaseUpTo(1000).Deliveries
}

func TestT39RetryAllDoesNotFloodTheDependency(t *testing.T) {
	each(t, func(s *suite) {
		s.test("it is held to the rate and the budget, first attempts pass it by, and pressing twice does nothing", func(b *bundle) {
			const letters, perSecond = 150, 10
			b.unchecked = true
			b.maxBacklog = 10_000
			b.terms.Gate.Cap = 1_000_000
			for i := range letters {
				key := fmt.Sprint("dead", i)
				b.add(key)
				b.fillBucket()
				b.attempt(key, ends(jobs.ReasonPermanent))
			}
			b.terms.Gate = budget.Params{RatioMilli: 100, Cap: 20, FloorMilliPerSecond: 3000, RateMilliPerSecond: perSecond * 1000, RateBurst: perSecond}
			b.tokens(0)
			for range 2 {
				for i := range letters {
					b.requeue(fmt.Sprint("dead", i), Requeue{RequestID: fmt.Sprint("all-", i), More: 5, DeadlineSpan: hour})
				}
			}
			b.tokens(0)
			retries, first, began := 0, 0, b.now()
			for second := range 30 {
				if second == 20 { // from now on the rate is what binds
					if took := 20*time.Second + b.now().Sub(began); retries > int(took.Seconds()*3)+4 || retries < 40 {
						b.Fatalf("%d of the requeued left in %v at three a second", retries, took)
					}
					b.terms.Gate.FloorMilliPerSecond, b.terms.Gate.Cap = 100_000, 1000
				}
				key := fmt.Sprint("fresh", second)
				b.add(key)
				left := b.second()
				if len(left) > perSecond+1 { // one more at the edge of two seconds
					b.Fatalf("second %d: %d left, the gateway bears %d", second, len(left), perSecond)
				}
				for _, d := range left {
					if d.Lane == LaneFirst {
						first++
					} else {
						retries++
					}
					b.finish(b.begin(d), succeeded())
				}
			}
			if first < 29 {
				b.Fatalf("%d of 30 first attempts left in their second", first)
			}
		})
	})
}

func TestT65ABudgetRefillsByItself(t *testing.T) {
	each(t, func(s *suite) {
		s.test("after an outage that drained it, to its cap, within what the floor needs", func(b *bundle) {
			b.terms.Gate.Cap, b.terms.Gate.FloorMilliPerSecond = 60, 1000
			b.releaseUpTo(0)
			b.tokens(0)
			b.add("o1")
			b.wantLane("o1", LaneFirst)
			b.pass(5 * time.Second)
			b.attempt("o1", refused(0)) // a retry is allowed again
			b.pass(minute + 5*time.Second)
			b.releaseUpTo(0)
			if got := b.gate().Gate.TokensMilli; got < 59_000 {
				b.Fatalf("%d milli-tokens a minute later, want 60 tokens", got)
			}
		})
	})
}

// wantLane brings an operation through an attempt that is refused, and looks at how it left.
func (b *bundle) wantLane(key string, want Lane) {
	b.Helper()
	d := b.release(key)
	if d.Lane != want {
		b.Fatalf("%s left by %s, want %s", key, d.Lane, want)
	}
	b.finish(b.begin(d), refused(time.Second))
}

func TestT67RetriesThatComeDueTogetherDoNotBurst(t *testing.T) {
	each(t, func(s *suite) {
		s.test("their share is bounded in every second, the rest is held, none is lost", func(b *bundle) {
			const cohort = 200
			b.unchecked = true
			b.maxAttempts, b.maxBacklog = 100, 10_000
			b.terms.Gate = budget.Params{RatioMilli: 200, Cap: 1_000_000, FloorMilliPerSecond: 1000}
			b.releaseUpTo(0)
			b.tokens(0)
			var granted []*Grant
			for i := range cohort {
				b.add(fmt.Sprint("o", i))
			}
			for range 2 {
				for _, d := range b.releaseUpTo(cohort + b.promised()).Deliveries {
					granted = append(granted, b.begin(d))
				}
			}
			for _, g := range granted {
				b.finish(g, refused(5*time.Second))
			}
			b.terms.Gate.Cap = 10 // what the cohort itself put in is capped, as it would have been
			b.pass(6 * time.Second)
			total, held, began := 0, false, b.now()
			for range 10 {
				r := b.releaseUpTo(1000)
				held = held || r.Hold == jobs.HoldBudget
				total += len(r.Deliveries)
				for _, d := range r.Deliveries {
					b.finish(b.begin(d), refused(time.Minute))
				}
				b.pass(time.Second)
			}
			took := 10*time.Second + b.now().Sub(began) // pass moves what is stored, the clock goes on
			if most := 10 + int(took.Seconds()) + 1; total > most || !held {
				b.Fatalf("%d retries in %v, cap and floor allow %d; held %v", total, took, most, held)
			}
			if n := b.rdb.ZCard(b.Context(), b.key(dep, "due:retry")).Val() + b.rdb.ZCard(b.Context(), b.key(dep, "waiting")).Val(); n != cohort {
				b.Fatalf("%d operations are held, want all %d", n, cohort)
			}
		})
	})
}

func TestT68LowTrafficIsNeitherStarvedNorBlind(t *testing.T) {
	each(t, func(s *suite) {
		s.test("one operation an hour is retried by the floor", func(b *bundle) {
			b.breaker()
			b.pass(hour)
			b.tokens(0)
			b.add("o1")
			b.attempt("o1", with(refused(2*time.Second), says(budget.SignFailed)))
			b.pass(3 * time.Second)
			if r := b.releaseUpTo(1); len(r.Deliveries) != 1 {
				b.Fatalf("held by %q", r.Hold)
			}
		})
		s.test("an outage of ten minutes at one operation a minute opens the breaker, and nothing is dead by attempts", func(b *bundle) {
			b.breaker()
			b.terms.Gate.Breaker.MinCalls = 20
			calls, opened := 0, false
			for i := range 10 {
				b.add(fmt.Sprint("o", i))
				for range 6 { // every ten seconds somebody looks
					for _, d := range b.releaseUpTo(10).Deliveries {
						answer := b.beginAs(d, fmt.Sprint("run", calls))
						if answer.Status != BeginGranted {
							continue
						}
						calls++
						if f := b.finish(answer.Grant, with(refused(10*time.Second), says(budget.SignFailed))); f.State != jobs.Waiting {
							b.Fatalf("%s %s after %d calls", f.State, f.Reason, calls)
						}
					}
					opened = opened || b.gate().Gate.State != budget.Closed
					b.pass(10 * time.Second)
				}
			}
			if !opened || calls > 40 { // without a breaker some hundreds
				b.Fatalf("opened %v, %d calls in ten minutes of outage", opened, calls)
			}
		})
	})
}

func TestT71AHalfOpenBreakerIsNeverStuck(t *testing.T) {
	each(t, func(s *suite) {
		halfOpen := func(b *bundle) []Delivery {
			b.Helper()
			b.breaker()
			b.trip()
			b.letHalfOpen()
			probes := b.releaseUpTo(10).Deliveries
			if len(probes) != 2 {
				b.Fatalf("%d probes, want 2", len(probes))
			}
			return probes
		}
		again := func(b *bundle, within time.Duration) {
			b.Helper()
			for passed := time.Duration(0); passed <= within; passed += time.Second {
				if lanesOf(b.releaseUpTo(10+b.promised())) != "" {
					return
				}
				b.pass(time.Second)
			}
			b.Fatalf("no probe within %v", within)
		}
		s.test("a probe fails at low volume", func(b *bundle) {
			b.finish(b.begin(halfOpen(b)[0]), with(refused(time.Second), says(budget.SignFailed)))
			again(b, 10*time.Second) // twice the first open time
		})
		s.test("it is cancelled by us", func(b *bundle) {
			for _, d := range halfOpen(b) {
				b.finish(b.begin(d), with(refused(time.Second), uncounted, says(budget.SignNothing)))
			}
			again(b, 2*time.Second)
		})
		s.test("its worker is killed before it begins", func(b *bundle) {
			halfOpen(b)
			again(b, ReleaseLease+time.Second)
		})
		s.test("its worker is killed while it is under way", func(b *bundle) {
			for _, d := range halfOpen(b) {
				b.begin(d)
			}
			again(b, b.target.ClaimLease+time.Second)
		})
		s.test("its deadline passes", func(b *bundle) {
			b.breaker()
			b.trip()
			b.letHalfOpen()
			b.releaseUpTo(10)
			b.pass(2 * hour)
			b.sweep()
			b.add("fresh")
			again(b, 2*time.Second)
		})
		s.test("a single 400 neither closes nor opens it (T74)", func(b *bundle) {
			b.finish(b.begin(halfOpen(b)[0]), with(ends(jobs.ReasonPermanent), says(budget.SignDeclined)))
			b.wantState(budget.HalfOpen)
			if g := b.gate().Gate; g.ProbesOK != 0 || g.Neutral != 1 {
				b.Fatalf("%d successes and %d neutral answers counted of one 400", g.ProbesOK, g.Neutral)
			}
		})
	})
}

func TestT72TheWholeFleetSendsAsManyProbesAsThereArePermits(t *testing.T) {
	each(t, func(s *suite) {
		s.test("of five processes with 200 operations waiting, while a probe takes its time", func(b *bundle) {
			b.unchecked = true
			b.breaker()
			b.terms.Gate.Breaker.Probes = 1
			b.trip()
			for i := range 200 {
				b.add(fmt.Sprint("o", i))
			}
			b.letHalfOpen()
			sent := 0
			for range 4 { // two seconds, and what the machine takes: less than the probe's lease
				for range 5 {
					for _, d := range b.releaseUpTo(100).Deliveries {
						b.begin(d)
						sent++
					}
				}
				b.pass(500 * time.Millisecond)
			}
			if sent != 1 {
				b.Fatalf("%d calls while the probe was under way, want 1", sent)
			}
		})
	})
}

func TestT74ClientErrorsNeitherTripNorHealTheBreaker(t *testing.T) {
	each(t, func(s *suite) {
		s.test("a thousand declines, and our own cancels between them", func(b *bundle) {
			b.unchecked = true
			b.breaker()
			for range 20 {
				b.flushOf(50, 0) // to the request path a decline is an answer
			}
			for i := range 20 {
				key := fmt.Sprint("o", i)
				b.add(key)
				sign := budget.SignDeclined
				if i%2 == 0 {
					sign = budget.SignNothing
				}
				b.finish(b.start(key), with(ends(jobs.ReasonPermanent), says(sign)))
			}
			b.wantState(budget.Closed)
			if w := b.gate().Gate.Window(); w.Failed != 0 {
				b.Fatalf("%d failures counted", w.Failed)
			}
		})
	})
}

func TestOneDependencysTrafficNeverChangesAnothersGate(t *testing.T) {
	each(t, func(s *suite) {
		s.test("whatever becomes of it", func(b *bundle) {
			b.breaker()
			other := b.terms
			other.Dependency = "elsewhere"
			release := func() {
				_, err := b.Release(b.Context(), other, b.kinds, 1)
				b.must(err)
			}
			release()
			before, err := b.Gate(b.Context(), "elsewhere")
			b.must(err)
			b.trip()
			b.tokens(0)
			_, err = b.Override(b.Context(), dep, map[string]int64{budget.OverrideCap: 1}, hour, ann)
			b.must(err)
			after, err := b.Gate(b.Context(), "elsewhere")
			b.must(err)
			if after.Gate.State != budget.Closed || after.InForce != before.InForce || after.Gate.TokensMilli < before.Gate.TokensMilli {
				b.Fatalf("%+v became %+v", before.Gate, after.Gate)
			}
		})
	})
}
