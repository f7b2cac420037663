package ledger

import (
	"errors"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func (b *bundle) submitBegun(key, run string, changes ...change) (jobs.Receipt, *Grant) {
	b.Helper()
	r, g, err := b.SubmitBegun(b.Context(), b.submitTerms(), b.target, b.entry(key, changes...), run)
	b.must(err)
	b.check()
	return r, g
}

func TestSubmitWithBegin(t *testing.T) {
	each(t, func(s *suite) {
		s.test("writes the attempt ahead and ends it by finish", func(b *bundle) {
			r, g := b.submitBegun("o1", "run-1")
			if r.Answer != jobs.Accepted || g == nil || g.Attempt != 1 || g.LeaseLeft <= 0 || g.DeadlineLeft <= hour || g.Begins != 1 {
				b.Fatalf("%v %+v", r, g)
			}
			b.want("o1", "attempting")
			if r := b.releaseUpTo(5); len(r.Deliveries) != 0 {
				b.Fatal("a worker got it too")
			}
			b.finish(g, unknown(0))
			b.want("o1", "waiting")
			if again := b.start("o1"); again.Attempt != 2 || !again.UnknownBefore || again.SafeFor <= 0 {
				b.Fatalf("%+v", again)
			}
		})
		s.test("of what is known is a duplicate, and nothing is sent", func(b *bundle) {
			b.add("o1")
			if r, g := b.submitBegun("o1", "run-1"); r.Answer != jobs.Duplicate || g != nil {
				b.Fatalf("%v %+v", r, g)
			}
			if r, g := b.submitBegun("o1", "run-1", body(`{"amount":1}`)); r.Answer != jobs.Conflict || g != nil {
				b.Fatalf("%v %+v", r, g)
			}
		})
		s.test("whose reply was lost gets the same grant, and another run none", func(b *bundle) {
			_, first := b.submitBegun("o1", "run-1")
			r, g := b.submitBegun("o1", "run-1")
			if r.Answer != jobs.Accepted || g == nil || g.Attempt != first.Attempt || b.get("o1").Sends != 1 {
				b.Fatalf("%v %+v", r, g)
			}
			if r, g := b.submitBegun("o1", "run-2"); r.Answer != jobs.Duplicate || g != nil {
				b.Fatalf("%v %+v", r, g)
			}
		})
		s.test("whose process died is lost like any attempt", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.asks()
			_, g := b.submitBegun("o1", "run-1")
			b.lose(g, with(lost(0), ask))
			b.want("o1", "unresolved")
		})
		s.test("that is given up before anything was sent goes to the workers", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			_, g := b.submitBegun("o1", "run-1")
			b.abandon(Delivery{ID: g.ID}, g.RunID, 0)
			b.want("o1", "waiting")
			b.attempt("o1", succeeded())
		})
		s.test("that is withdrawn was never there", func(b *bundle) {
			_, g := b.submitBegun("o1", "run-1")
			b.must(b.Withdraw(b.Context(), b.terms, g.ID, "run-2")) // not this run's: nothing happens
			b.want("o1", "attempting")
			b.must(b.Withdraw(b.Context(), b.terms, g.ID, g.RunID))
			if _, err := b.Get(b.Context(), dep, g.ID, nil); !errors.Is(err, ErrNotFound) {
				b.Fatalf("withdrawn: %v", err)
			}
			b.must(b.Withdraw(b.Context(), b.terms, g.ID, g.RunID)) // again
			b.add("o1")
			b.attempt("o1", succeeded())
		})
		s.test("that is a new attempt is cancelled when it is withdrawn: it was sent by a worker", func(b *bundle) {
			b.declined("o1")
			_, g := b.submitBegun("o2", "run-1", newAttemptOf("o1"))
			b.must(b.Withdraw(b.Context(), b.terms, g.ID, g.RunID))
			b.want("o2", "cancelled")
			b.must(b.Withdraw(b.Context(), b.terms, g.ID, g.RunID)) // again
			b.want("o2", "cancelled")
		})
		s.test("that somebody else submitted meanwhile is not withdrawn", func(b *bundle) {
			_, g := b.submitBegun("o1", "run-1")
			if r := b.submit("o1"); r.Answer != jobs.Duplicate {
				b.Fatalf("%+v", r)
			}
			b.must(b.Withdraw(b.Context(), b.terms, g.ID, g.RunID))
			b.want("o1", "waiting")
		})
		s.test("that is withdrawn keeps its number, and takes none of the attempts allowed", func(b *bundle) {
			b.maxAttempts = 1
			b.class(jobs.IdempotencyNone)
			_, g := b.submitBegun("o1", "run-1")
			b.submit("o1")
			b.must(b.Withdraw(b.Context(), b.terms, g.ID, g.RunID))
			if g := b.start("o1"); g.Attempt != 2 || g.Used != 1 || g.UnknownBefore {
				b.Fatalf("%+v", g)
			}
		})
		s.test("whose write-ahead comes late is none", func(b *bundle) {
			terms := b.submitTerms()
			terms.Expect = b.now().Add(-3 * time.Second)
			if _, _, err := b.SubmitBegun(b.Context(), terms, b.target, b.entry("o1"), "run-1"); !errors.Is(err, ErrClockStepped) {
				b.Fatal(err)
			}
			if _, err := b.Get(b.Context(), dep, b.entry("o1").ID, nil); !errors.Is(err, ErrNotFound) {
				b.Fatalf("it is there: %v", err)
			}
		})
		s.test("while the dependency is paused waits", func(b *bundle) {
			_, err := b.Pause(b.Context(), dep, 0, ann)
			b.must(err)
			if r, g := b.submitBegun("o1", "run-1"); r.Answer != jobs.Accepted || g != nil {
				b.Fatalf("%v %+v", r, g)
			}
			b.want("o1", "waiting")
		})
		s.test("whose record the store lost is written again by its result", func(b *bundle) {
			_, g := b.submitBegun("o1", "run-1")
			b.must(b.rdb.FlushDB(b.Context()).Err())
			f := b.finish(g, succeeded())
			b.wantHow(f, HowRecreated)
			b.want("o1", "succeeded")
		})
		s.test("fills the budget as one first attempt", func(b *bundle) {
			b.tokens(0)
			b.submitBegun("o1", "run-1")
			if got := b.rdb.HGet(b.Context(), b.key(dep, "gate"), "tokens").Val(); got < "100" {
				b.Fatalf("%s milli-tokens", got)
			}
		})
	})
}
