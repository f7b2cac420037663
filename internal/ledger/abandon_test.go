package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestAbandon(t *testing.T) {
	each(t, func(s *suite) {
		s.test("before begin was applied: back to waiting, and a begin applied later is stale", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			b.abandon(d, "run", 0)
			b.want("o1", "waiting")
			b.wantStatus(b.beginAs(d, "run"), BeginStale)
			again := b.release("o1")
			b.wantStatus(b.beginAs(d, "run"), BeginStale)
			if g := b.begin(again); g.Attempt != 1 || again.Lane != LaneFirst {
				b.Fatalf("attempt %d in lane %s, want the first", g.Attempt, again.Lane)
			}
		})
		s.test("after begin: the attempt is closed as not sent and not counted", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			g := b.begin(d)
			b.abandon(d, g.RunID, 0)
			b.want("o1", "waiting")
			b.wantApplied("o1", jobs.AppliedNo)
			b.wantOutcomes("o1", "1:not_sent")
			b.wantStatus(b.beginAs(d, g.RunID), BeginStale)
			if g := b.start("o1"); g.Attempt != 2 || g.Used != 1 {
				b.Fatalf("attempt %d, used %d; want 2, 1", g.Attempt, g.Used)
			}
		})
		s.test("it keeps the mark of an earlier attempt and its window", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", unknown(0))
			until := b.get("o1").KeySafeUntil.String()
			d := b.release("o1")
			g := b.begin(d)
			b.abandon(d, g.RunID, 0)
			b.wantApplied("o1", jobs.AppliedUnknown)
			if got := b.get("o1").KeySafeUntil.String(); got != until {
				b.Fatalf("safe until %s, want %s", got, until)
			}
		})
		s.test("of a delivery or run that is not current it changes nothing", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			old := d
			old.Number = 7
			b.abandon(old, "run", 0)
			b.want("o1", "released")
			g := b.begin(d)
			b.abandon(d, "other", 0)
			b.want("o1", "attempting")
			b.finish(g, succeeded())
			b.abandon(d, g.RunID, 0)
			b.want("o1", "succeeded")
			b.abandon(Delivery{ID: id("ghost"), Number: 1}, "run", 0)
		})
		s.test("it waits as long as asked, and is still ended by its deadline", func(b *bundle) {
			b.add("o1", deadline("1h"))
			b.abandon(b.release("o1"), "run", minute)
			b.near("next in", b.get("o1").NextAt.Sub(b.now()), minute)
			b.pass(minute)
			b.abandon(b.release("o1"), "run", 30*hour)
			b.pass(hour)
			b.sweep()
			b.want("o1", "dead/deadline")
		})
		s.test("a cancellation asked for meanwhile happens", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			g := b.begin(d)
			b.cancel("o1")
			b.abandon(d, g.RunID, 0)
			b.want("o1", "cancelled")
		})
		s.test("with a send reported meanwhile that nobody may repeat it is settled", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", keyGiven)
			d := b.release("o1")
			g := b.begin(d)
			b.merged("req-1", jobs.OutcomeUnknown)
			b.abandon(d, g.RunID, 0)
			b.want("o1", "dead/unsafe")
		})
	})
}

func TestAbandonOfAKindTheWorkerDoesNotKnow(t *testing.T) {
	each(t, func(s *suite) {
		orphan := func(b *bundle, key string) {
			b.Helper()
			_, err := b.Abandon(b.Context(), b.terms, b.release(key), "run", 0, true)
			b.must(err)
			b.check()
		}
		s.test("it waits five seconds at first, nothing counted", func(b *bundle) {
			b.add("o1")
			orphan(b, "o1")
			b.near("next in", b.get("o1").NextAt.Sub(b.now()), 5*time.Second)
			b.wantOutcomes("o1", "")
		})
		s.test("after an hour without a worker that knows it, it is undeliverable", func(b *bundle) {
			b.add("o1")
			live := b.kinds
			b.kinds = nil
			for range 62 {
				b.sweep()
				b.pass(minute)
			}
			b.sweep()
			b.want("o1", "dead/undeliverable")
			b.kinds = live
			b.fillBucket()
			if r := b.requeue("o1", Requeue{}); r.Verdict != DoneOK {
				b.Fatalf("requeue: %s (%s)", r.Verdict, r.Detail)
			}
			b.start("o1")
		})
		s.test("one that knows it in between starts the hour anew", func(b *bundle) {
			b.add("o1")
			live := b.kinds
			for i := range 80 {
				b.kinds = nil
				if i == 40 {
					b.kinds = live
				}
				b.sweep()
				b.pass(minute)
			}
			b.want("o1", "waiting")
		})
		s.test("with an unknown outcome it is settled, not just undeliverable", func(b *bundle) {
			b.add("o1", deadline("48h"))
			b.attempt("o1", unknown(0))
			b.kinds = nil
			for range 63 {
				b.sweep()
				b.pass(minute)
			}
			b.want("o1", "dead/unsafe")
			if got := text(b.get("o1").Intent); got != "dead undeliverable" {
				b.Fatalf("intent %q, want dead undeliverable", got)
			}
		})
	})
}
