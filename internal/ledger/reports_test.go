package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

// anonymous is a report that tells neither an id nor when it was sent.
func anonymous(outcome jobs.Outcome) change {
	return func(s *jobs.Submission) {
		s.Attempted = &jobs.Attempted{Outcome: outcome, Class: jobs.ClassTimeout}
	}
}

func (b *bundle) wantMerged(r jobs.Receipt, want bool) {
	b.Helper()
	if r.Answer != jobs.Duplicate || r.Merged != want {
		b.Fatalf("%s, merged %v; want a duplicate, merged %v", r.Answer, r.Merged, want)
	}
}

// A report without id and instant was told already if one like it ever was: the second
// send was forgotten, and another one followed it.
func TestASecondSendThatLooksLikeTheFirstIsForgotten(t *testing.T) {
	each(t, func(s *suite) {
		s.test("once the first is settled it is another send", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", anonymous(jobs.OutcomeUnknown))
			b.pass(minute)
			b.wantDone(b.resolve("o1", ResolvedNotApplied), DoneOK, jobs.Dead)
			b.requeue("o1", Requeue{})
			b.want("o1", "waiting")
			b.wantMerged(b.submit("o1", anonymous(jobs.OutcomeUnknown)), true)
			b.want("o1", "dead/unsafe")
			b.wantApplied("o1", jobs.AppliedUnknown)
			b.wantMerged(b.submit("o1", anonymous(jobs.OutcomeUnknown)), false)
			b.wantOutcomes("o1", "1:unknown 2:unknown")
		})
		s.test("while the first is unknown time counts from the last one told", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.asks()
			b.add("o1", anonymous(jobs.OutcomeUnknown))
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.settledTime()
			q := b.question("o1")
			b.wantMerged(b.submit("o1", anonymous(jobs.OutcomeUnknown)), false)
			b.inquired(q, jobs.InquiryNotFound) // asked before that send may have arrived
			b.want("o1", "unresolved")
			if due := b.inquire(); len(due.Questions) != 0 {
				b.Fatalf("asked before its settle time: %+v", due.Questions)
			}
		})
		s.test("of what succeeded it may be a second effect", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", anonymous(jobs.OutcomeUnknown))
			b.resolve("o1", ResolvedApplied)
			b.wantMerged(b.submit("o1", anonymous(jobs.OutcomeUnknown)), true)
			b.wantFlags("o1", jobs.FlagConflict)
		})
		s.test("what may be done any number of times has no second effect", func(b *bundle) {
			b.class(jobs.IdempotencyNatural)
			b.add("o1", anonymous(jobs.OutcomeUnknown))
			b.pass(minute)
			b.attempt("o1", succeeded())
			b.wantMerged(b.submit("o1", anonymous(jobs.OutcomeUnknown)), false)
			b.wantFlags("o1")
		})
		s.test("in the same second a timeout and a 202", func(b *bundle) {
			at := b.now().Add(-time.Second).UTC().Format(time.RFC3339)
			second := func(c change) change {
				return func(s *jobs.Submission) { c(s); s.Attempted.FirstSentAt = at }
			}
			timeout := second(b.saw("", jobs.OutcomeUnknown, jobs.ClassTimeout, nil))
			b.add("o1", timeout)
			b.wantMerged(b.submit("o1", timeout), false)
			b.want("o1", "waiting")
			b.wantMerged(b.submit("o1", second(b.saw("", jobs.OutcomeUnknown, jobs.Class2xx, nil))), true)
			b.want("o1", "dead/unsafe")
		})
		s.test("with another request under the same name", func(b *bundle) {
			at := b.sent("", jobs.OutcomeUnknown, time.Second)
			var first string
			b.add("o1", at, func(s *jobs.Submission) { first = s.Attempted.FirstSentAt })
			same := func(s *jobs.Submission) { s.Attempted.FirstSentAt = first }
			r := b.submit("o1", at, same, body(`{"amount":1}`))
			if r.Answer != jobs.Conflict || !r.Merged {
				b.Fatalf("%s, merged %v", r.Answer, r.Merged)
			}
			b.want("o1", "dead/unsafe")
			if r := b.submit("o1", at, same, body(`{"amount":1}`)); r.Answer != jobs.Conflict || r.Merged {
				b.Fatalf("told again: %s, merged %v", r.Answer, r.Merged)
			}
		})
	})
}
