package ledger

import (
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
)

func TestSpend(t *testing.T) {
	each(t, func(s *suite) {
		ask := func(b *bundle, said Said, generation int64) Spent {
			b.Helper()
			spent, err := b.Spend(b.Context(), dep, budget.Params{}, said, generation)
			b.must(err)
			return spent
		}
		s.test("draws on the bucket of everybody, and on nothing that was promised", func(b *bundle) {
			b.tokens(3_000)
			b.add("o1")
			b.attempt("o1", refused(0)) // costs nothing: it was the first
			b.tokens(2_000)
			d := b.release("o1") // one of two tokens is promised to its retry
			if got := ask(b, Said{}, 0); got.Hold != jobs.HoldNone {
				b.Fatalf("got %+v", got)
			}
			if got := ask(b, Said{}, 0); got.Hold != jobs.HoldBudget || got.Wait <= 0 {
				b.Fatalf("got %+v, want held by the budget", got)
			}
			b.finish(b.begin(d), succeeded()) // and the retry has its token
		})
		s.test("opens the breaker by how its retries end, and stops at an open one", func(b *bundle) {
			b.breaker()
			b.tokens(100_000)
			b.releaseUpTo(0)
			var got Spent
			for range 50 {
				got = ask(b, Said{Sign: budget.SignFailed}, got.Generation)
				if got.Hold != jobs.HoldNone {
					break
				}
			}
			if got.Hold != jobs.HoldBreaker || got.Wait <= 0 || got.Wait > time.Minute {
				b.Fatalf("got %+v, want held by the breaker", got)
			}
		})
		s.test("tells how the last one ended without asking for more", func(b *bundle) {
			b.tokens(5_000)
			b.releaseUpTo(0)
			before := b.gate().Gate.TokensMilli
			b.must(b.Tell(b.Context(), dep, budget.Params{}, Said{Sign: budget.SignOK}, b.gate().Gate.Generation))
			if after := b.gate().Gate.TokensMilli; after < before {
				b.Fatalf("it cost %d milli-tokens", before-after)
			}
		})
		s.test("goes nowhere while the dependency is paused", func(b *bundle) {
			b.tokens(5_000)
			_, err := b.Pause(b.Context(), dep, 0, ann)
			b.must(err)
			if got := ask(b, Said{}, 0); got.Hold != jobs.HoldPaused {
				b.Fatalf("got %+v", got)
			}
		})
	})
}

// A customer who was told of a decline needs nobody else to look at it.
func TestADeclineThatWasToldIsNoDeadLetter(t *testing.T) {
	each(t, func(s *suite) {
		s.test("it is cancelled", func(b *bundle) {
			b.add("o1")
			told := ends(jobs.ReasonPermanent)
			told.Told = true
			b.attempt("o1", told)
			b.want("o1", "cancelled")
		})
		s.test("what else ends it needs a person", func(b *bundle) {
			b.add("o1")
			told := ends(jobs.ReasonMisconfigured)
			told.Told = true
			b.attempt("o1", told)
			b.want("o1", "dead/misconfigured")
		})
	})
}
