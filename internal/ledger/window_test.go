package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

// A gateway knows the key since the first send that reached it, and forgets it a window
// after that one, whatever it answered. Nothing that is learnt later makes a resend
// after that safe.
func TestTheKeysWindowNeverStartsAnew(t *testing.T) {
	each(t, func(s *suite) {
		const safe = 19*hour + 12*minute // four fifths of a day
		lateUnknown := func(b *bundle, key string) {
			b.Helper()
			b.fillBucket()
			if f := b.attempt(key, unknown(time.Second)); f.State != jobs.Dead || f.Reason != jobs.ReasonUnsafe {
				b.Fatalf("%s %s, want dead unsafe: the key may be forgotten", f.State, f.Reason)
			}
		}
		s.test("after answers that refused it", func(b *bundle) {
			b.add("o1", deadline("100h"))
			b.attempt("o1", refused(time.Second))
			b.pass(safe - hour)
			b.fillBucket()
			g := b.start("o1")
			b.near("safe for", g.SafeFor, hour)
			b.finish(g, refused(time.Second))
			b.pass(2 * hour)
			lateUnknown(b, "o1")
		})
		s.test("after an unknown outcome that was settled by an answer", func(b *bundle) {
			b.add("o1", deadline("100h"))
			b.attempt("o1", unknown(time.Second))
			b.pass(2 * time.Second)
			b.fillBucket()
			b.attempt("o1", with(refused(time.Second), settles))
			b.pass(safe)
			lateUnknown(b, "o1")
		})
		s.test("after an inquiry that found nothing, twice", func(b *bundle) {
			b.asks()
			b.class(jobs.IdempotencyNone)
			b.unresolved("o1")
			sent := func() time.Duration { return b.now().Sub(b.get("o1").FirstSentAt.Time) }
			before := sent()
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "waiting")
			b.near("first sent ago", sent()-before, 2*(b.target.ClaimLease+settleFor)+4*time.Second)
		})
		s.test("with a send that the request path reports as refused", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeRefused, safe+minute), deadline("100h"))
			lateUnknown(b, "o1")
		})
		s.test("but a send of which no byte arrived does not begin it", func(b *bundle) {
			b.add("o1", deadline("100h"))
			res := refused(time.Second)
			res.Outcome, res.Counted = jobs.OutcomeNotSent, false
			b.attempt("o1", res)
			b.pass(safe + minute)
			b.fillBucket()
			g := b.start("o1")
			b.near("safe for", g.SafeFor, safe)
			b.abandon(Delivery{ID: id("o1"), Number: g.Delivery}, g.RunID, 0)
			b.pass(hour)
			b.fillBucket()
			b.near("safe for, after it was given back", b.start("o1").SafeFor, safe)
		})
	})
}
