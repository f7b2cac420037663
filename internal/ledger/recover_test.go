package ledger

import (
	"fmt"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestRecover(t *testing.T) {
	each(t, func(s *suite) {
		s.test("lists an attempt only when its lease has run out", func(b *bundle) {
			b.add("o1", func(s *jobs.Submission) { s.CorrelationID = "checkout-77" })
			b.start("o1")
			if l := b.lostAttempts(); len(l) != 0 {
				b.Fatalf("%+v while the lease runs", l)
			}
			b.pass(b.target.ClaimLease + time.Second)
			l := b.lostAttempts()
			if len(l) != 1 || l[0].ID != id("o1") || l[0].Attempt != 1 || l[0].Used != 1 || l[0].Idempotency != jobs.IdempotencyKeyed ||
				l[0].UnknownBefore || l[0].CorrelationID != "checkout-77" || l[0].SafeFor <= 0 || l[0].DeadlineLeft <= 0 || l[0].Losses != 0 {
				b.Fatalf("lost %+v", l)
			}
			b.near("age", b.target.ClaimLease+2*time.Second, l[0].Age+time.Second)
			grace, err := b.LostAttempts(b.Context(), dep, minute, time.Time{})
			b.must(err)
			if len(grace) != 0 {
				b.Fatalf("%+v listed before the grace was over", grace)
			}
		})
		s.test("counts own losses in a row, and forgets them after an answer", func(b *bundle) {
			b.add("o1", deadline("48h"))
			for want := range 2 {
				g := b.start("o1")
				if g.Losses != want {
					b.Fatalf("%d losses, want %d", g.Losses, want)
				}
				b.lose(g, lost(0))
				b.fillBucket()
			}
			b.attempt("o1", refused(0))
			if g := b.start("o1"); g.Losses != 0 {
				b.Fatalf("%d losses after an answer, want 0", g.Losses)
			}
		})
		s.test("a process that does not know the kind may only put it back", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1")
			b.start("o1")
			b.pass(2 * minute)
			res := with(lost(minute), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonPoison })
			f, err := b.FinishLost(b.Context(), b.terms, Target{}, b.lostAttempts()[0], res, true)
			b.must(err)
			b.wantHow(f, HowOwn)
			b.want("o1", "waiting")
			b.wantApplied("o1", jobs.AppliedUnknown)
			b.pass(minute)
			b.wantHold(b.releaseUpTo(1), 0, jobs.HoldNone) // one that knows the kind settles it
			b.want("o1", "dead/unsafe")
		})
		s.test("100 a call", func(b *bundle) {
			b.unchecked = true
			for i := range 130 {
				b.add(fmt.Sprintf("o%03d", i))
			}
			for {
				r := b.releaseUpTo(100)
				for _, d := range r.Deliveries {
					b.begin(d)
				}
				if len(r.Deliveries) == 0 {
					break
				}
			}
			b.pass(minute)
			seen := map[jobs.ID]bool{}
			for _, want := range []int{100, 30} {
				l := b.lostAttempts()
				if len(l) != want {
					b.Fatalf("listed %d, want %d", len(l), want)
				}
				for _, lostOne := range l {
					_, err := b.FinishLost(b.Context(), b.terms, b.target, lostOne, lost(hour), false)
					b.must(err)
					seen[lostOne.ID] = true
				}
			}
			if len(seen) != 130 {
				b.Fatalf("%d operations recovered, want 130", len(seen))
			}
			b.unchecked = false
			b.check()
		})
	})
}

// T04: several recoverers pick the same expired lease.
func TestT04EachLostAttemptIsRecoveredOnce(t *testing.T) {
	each(t, func(s *suite) {
		s.test("five recoverers, one wins", func(b *bundle) {
			b.add("o1")
			g := b.start("o1")
			b.pass(b.target.ClaimLease + time.Second)
			var lists [][]Lost
			for range 5 {
				lists = append(lists, b.lostAttempts())
			}
			own := 0
			for _, l := range lists {
				f, err := b.FinishLost(b.Context(), b.terms, b.target, l[0], lost(0), false)
				b.must(err)
				b.check()
				if f.How == HowOwn {
					own++
				} else if f.How != HowKnown && f.How != HowStale {
					b.Fatalf("how %s", f.How)
				}
			}
			if own != 1 {
				b.Fatalf("recovered %d times, want once", own)
			}
			next := b.start("o1")
			if next.Attempt != g.Attempt+1 || next.Used != 2 {
				b.Fatalf("attempt %d, used %d; want 2, 2", next.Attempt, next.Used)
			}
			f, err := b.FinishLost(b.Context(), b.terms, b.target, lists[0][0], lost(0), false)
			b.must(err)
			b.want("o1", "attempting")
			b.wantOutcomes("o1", "1:unknown 2:open")
			if f.How == HowOwn {
				b.Fatal("a recoverer of attempt 1 closed attempt 2")
			}
		})
	})
}

// T05: recovery must not overwrite a completion that landed a moment earlier.
func TestT05RecoveryDoesNotOverwriteACompletion(t *testing.T) {
	each(t, func(s *suite) {
		s.test("the worker's own result came first", func(b *bundle) {
			b.add("o1")
			g := b.start("o1")
			b.pass(b.target.ClaimLease + time.Second)
			list := b.lostAttempts()
			b.finish(g, succeeded())
			f, err := b.FinishLost(b.Context(), b.terms, b.target, list[0], lost(0), false)
			b.must(err)
			b.wantHow(f, HowStale)
			b.want("o1", "succeeded")
			b.wantFlags("o1")
			if r := b.releaseUpTo(10); len(r.Deliveries) != 0 {
				b.Fatalf("released again: %v", r.Deliveries)
			}
		})
		s.test("recovery came first, and the worker's success is kept as late", func(b *bundle) {
			b.add("o1")
			g := b.start("o1")
			b.lose(g, lost(0))
			b.wantHow(b.finish(g, succeeded()), HowLate)
			b.want("o1", "succeeded")
		})
		s.test("a recoverer whose list is older than a new claim's lease changes nothing", func(b *bundle) {
			b.add("o1")
			b.start("o1")
			b.pass(b.target.ClaimLease + time.Second)
			l := b.lostAttempts()[0]
			b.recover(&Grant{ID: l.ID}, lost(0))
			b.start("o1")
			l.RunID, l.Attempt = b.field("o1", "run"), 2 // even with the claim that holds now
			f, err := b.FinishLost(b.Context(), b.terms, b.target, l, lost(0), false)
			b.must(err)
			b.wantHow(f, HowStale)
			b.want("o1", "attempting")
		})
	})
}

// T37: a crash uses up the last attempt.
func TestT37ACrashOnTheLastAttemptKeepsTheUnknownOutcome(t *testing.T) {
	each(t, func(s *suite) {
		s.test("it is not just out of attempts", func(b *bundle) {
			b.maxAttempts = 1
			b.add("o1")
			g := b.start("o1")
			res := with(lost(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts })
			f := b.lose(g, res)
			b.want("o1", "dead/unsafe")
			d := b.get("o1")
			if text(d.Intent) != "dead attempts" || d.Last.Class != jobs.ClassWorkerLost || len(f.Ended) != 1 {
				b.Fatalf("intent %q, last %+v, told of %v", text(d.Intent), d.Last, f.Ended)
			}
			b.wantHow(b.finish(g, succeeded()), HowLate)
			b.want("o1", "succeeded")
		})
	})
}
