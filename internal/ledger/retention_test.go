package ledger

import (
	"fmt"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func (b *bundle) wantRetired(r Retired, bodies, keys, expired int) {
	b.Helper()
	if r.Bodies != bodies || r.Keys != keys || len(r.Expired) != expired {
		b.Fatalf("bodies %d, keys %d, dead %d; want %d, %d, %d", r.Bodies, r.Keys, len(r.Expired), bodies, keys, expired)
	}
}

func TestRetention(t *testing.T) {
	each(t, func(s *suite) {
		s.test("bodies go, the tombstone answers, then the key is free again", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeRefused, time.Second))
			b.attempt("o1", with(succeeded(), paidAs("ch_1")))
			b.wantRetired(b.retire(), 0, 0, 0)
			b.pass(168*hour + time.Second)
			b.wantRetired(b.retire(), 1, 0, 0)
			b.wantRetired(b.retire(), 0, 0, 0)

			d := b.get("o1")
			if !d.Tombstone || d.State != jobs.Succeeded || d.Applied != jobs.AppliedYes || d.Sends != 2 || d.FirstSentAt == nil ||
				d.EndedAt == nil || d.Result["id"] != "ch_1" || len(d.Request.Body) != 0 || len(d.Answers) != 0 {
				b.Fatalf("tombstone %+v", d)
			}
			b.wantAnswer(b.submit("o1", keyGiven), jobs.Duplicate, jobs.Succeeded)
			r := b.submit("o1", keyGiven, body(`{"amount":1}`))
			b.wantAnswer(r, jobs.Conflict, jobs.Succeeded)
			if fmt.Sprint(r.Differs) != "[body]" {
				b.Fatalf("differs %v", r.Differs)
			}
			if r := b.report("req-1", jobs.OutcomeRefused); r.Merged {
				b.Fatal("the tombstone forgot a report")
			}

			b.pass((2160 - 168) * hour)
			b.wantRetired(b.retire(), 0, 1, 0)
			b.add("o1", keyGiven)
			b.want("o1", "waiting")
		})
		s.test("cancelled operations have their own span, and 0 keeps for ever", func(b *bundle) {
			b.terms.Retention.CancelledMS = hour.Milliseconds()
			b.terms.Retention.SucceededMS = 0
			b.add("o1")
			b.cancel("o1")
			b.add("o2")
			b.attempt("o2", succeeded())
			b.pass(2 * hour)
			b.wantRetired(b.retire(), 1, 0, 0)
			b.pass(100000 * hour)
			b.wantRetired(b.retire(), 0, 1, 0)
			b.want("o2", "succeeded")
		})
		s.test("keys kept for ever", func(b *bundle) {
			b.terms.Retention.KeysMS = 0
			b.add("o1")
			b.attempt("o1", succeeded())
			b.pass(1000 * hour)
			b.wantRetired(b.retire(), 1, 0, 0)
			b.pass(100000 * hour)
			b.wantRetired(b.retire(), 0, 0, 0)
			b.wantAnswer(b.submit("o1"), jobs.Duplicate, jobs.Succeeded)
		})
		s.test("a tombstone takes an unknown report: it is never lost", func(b *bundle) {
			b.add("o1", keyGiven)
			b.cancel("o1")
			b.pass(169 * hour)
			b.wantRetired(b.retire(), 1, 0, 0)
			b.merged("req-1", jobs.OutcomeUnknown)
			b.want("o1", "dead/unsafe")
			b.pass(100000 * hour)
			b.wantRetired(b.retire(), 0, 0, 0)
			b.wantDone(b.resolve("o1", ResolvedNotApplied), DoneOK, jobs.Cancelled) // what it was meant to be
		})
		s.test("one that came back for a report and ended again is kept as long as any", func(b *bundle) {
			b.add("o1", keyGiven)
			b.cancel("o1")
			b.pass(169 * hour)
			b.wantRetired(b.retire(), 1, 0, 0)
			b.merged("req-1", jobs.OutcomeUnknown)
			b.resolve("o1", ResolvedApplied)
			b.pass(169 * hour)
			for range 2 {
				b.wantRetired(b.retire(), 0, 0, 0)
			}
			b.wantAnswer(b.submit("o1", keyGiven), jobs.Duplicate, jobs.Succeeded)
			b.pass((2160 - 169) * hour)
			b.wantRetired(b.retire(), 0, 1, 0)
		})
		s.test("a record with an unknown outcome never expires", func(b *bundle) {
			b.terms.Retention.DeadMS = hour.Milliseconds()
			b.class(jobs.IdempotencyNone)
			b.add("dead")
			b.attempt("dead", with(unknown(0), ask))
			b.add("written")
			b.attempt("written", with(unknown(0), ask))
			b.resolve("written", WrittenOff)
			b.pass(100000 * hour)
			for range 3 {
				b.wantRetired(b.retire(), 0, 0, 0)
			}
			b.want("dead", "dead/unsafe")
			b.wantApplied("written", jobs.AppliedUnknown)
			b.wantAnswer(b.submit("written"), jobs.Duplicate, jobs.Cancelled)
		})
		s.test("dead letters stay for ever unless a span is given, and are named when they go", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.pass(100000 * hour)
			b.wantRetired(b.retire(), 0, 0, 0)
			b.terms.Retention.DeadMS = hour.Milliseconds()
			r := b.retire()
			b.wantRetired(r, 0, 0, 1)
			if r.Expired[0].ID != id("o1") || r.Expired[0].Reason != jobs.ReasonPermanent {
				b.Fatalf("expired %+v", r.Expired)
			}
		})
		s.test("dead letters that must stay do not hide those that may go", func(b *bundle) {
			b.unchecked = true
			b.terms.Retention.DeadMS = hour.Milliseconds()
			b.class(jobs.IdempotencyNone)
			for i := range 120 {
				b.add(fmt.Sprintf("stay%03d", i), b.sent("req", jobs.OutcomeUnknown, time.Second))
			}
			b.pass(time.Second)
			b.add("go")
			b.attempt("go", ends(jobs.ReasonPermanent))
			b.pass(2 * hour)
			expired := 0
			for range 4 {
				expired += len(b.retire().Expired)
			}
			if expired != 1 {
				b.Fatalf("%d expired, want the one that may", expired)
			}
			b.unchecked = false
			b.check()
		})
		s.test("the audit is kept by time", func(b *bundle) {
			b.terms.Retention.AuditMS = hour.Milliseconds()
			stream := b.key(dep, "audit")
			for i := range 300 {
				at := fmt.Sprintf("%d-%d", b.now().Add(-2*hour).UnixMilli(), i+1)
				b.must(b.rdb.Do(b.Context(), "XADD", stream, at, "op", "-", "action", "old").Err())
			}
			b.add("o1")
			b.cancel("o1")
			b.retire()
			entries, err := b.Audit(b.Context(), dep, time.Time{}, 1000)
			b.must(err)
			if n := len(entries); n < 1 || n > 110 || entries[n-1].Action != "cancel" {
				b.Fatalf("%d entries left of 301", n) // whole nodes go, of 100 entries
			}
		})
	})
}
