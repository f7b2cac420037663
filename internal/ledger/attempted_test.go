package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

// saw is a report of a send just now whose answer is of this class.
func (b *bundle) saw(req string, outcome jobs.Outcome, class jobs.Class, more func(*jobs.Attempted)) change {
	sent := b.sent(req, outcome, time.Second)
	return func(s *jobs.Submission) {
		sent(s)
		s.Attempted.Class = class
		if more != nil {
			more(s.Attempted)
		}
	}
}

func atEnd(why jobs.Reason) func(*jobs.Attempted) {
	return func(a *jobs.Attempted) { a.Step, a.Reason = jobs.StepEnd, why }
}

func onto(step jobs.Step) func(*jobs.Attempted) { return func(a *jobs.Attempted) { a.Step = step } }

// A hand-over forgot what the answer meant: what had been taken, or had been sent where
// nothing is any more, was sent again.
func TestAHandOverGoesOnAsItsAnswerHasIt(t *testing.T) {
	each(t, func(s *suite) {
		s.test("an unknown outcome of class 2xx was taken, and is not sent again", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeUnknown, jobs.Class2xx, nil))
			b.want("o1", "dead/unsafe")
			b.asks()
			b.add("o2", b.saw("req-1", jobs.OutcomeUnknown, jobs.Class2xx, nil))
			b.want("o2", "unresolved")
			for range 3 { // that it is not listed does not settle what was taken
				b.settledTime()
				b.ask("o2", jobs.InquiryNotFound)
			}
			b.want("o2", "unresolved")
		})
		s.test("unless who saw the answer says that it may be", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeUnknown, jobs.Class2xx, onto(jobs.StepRetry)))
			b.want("o1", "waiting")
		})
		s.test("what is asked about stays with its gateway", func(b *bundle) {
			b.asks()
			b.add("o1", b.saw("req-1", jobs.OutcomeUnknown, jobs.Class5xx, onto(jobs.StepAsk)))
			b.want("o1", "unresolved")
		})
		s.test("an end is an end, past the deadline too", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, atEnd(jobs.ReasonMisconfigured)))
			b.want("o1", "dead/misconfigured")
			b.wantApplied("o1", jobs.AppliedNo)
			past := deadline(b.now().Add(-minute).UTC().Format(time.RFC3339))
			b.add("o2", past, b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, atEnd(jobs.ReasonDeadline)))
			b.want("o2", "dead/deadline")
			b.wantAnswer(b.submit("o3", past, b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, nil)), jobs.Refused, "")
		})
		s.test("an end of unknown outcome is settled first", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeUnknown, jobs.ClassOther, atEnd(jobs.ReasonPermanent)))
			b.want("o1", "dead/unsafe")
			b.asks()
			b.add("o2", b.saw("req-1", jobs.OutcomeUnknown, jobs.ClassOther, atEnd(jobs.ReasonPermanent)))
			b.want("o2", "unresolved")
		})
		s.test("an original is read, or a conflict", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.Class4xx, onto(jobs.StepConflict)))
			b.want("o1", "dead/conflict")
			b.asks()
			b.spec.Inquiry = &jobs.InquirySpec{}
			b.add("o2", b.saw("req-1", jobs.OutcomeRefused, jobs.Class4xx, onto(jobs.StepConflict)))
			b.want("o2", "unresolved")
			b.wantApplied("o2", jobs.AppliedUnknown)
		})
		s.test("a refused credential takes no attempt", func(b *bundle) {
			b.maxAttempts = 1
			b.add("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.Class4xx, func(a *jobs.Attempted) { a.RefusedCredential = true }))
			b.pass(minute)
			if g := b.start("o1"); g.Attempt != 2 || g.Refusals != 1 {
				b.Fatalf("%+v", g)
			}
		})
		s.test("told with the status", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, func(a *jobs.Attempted) { a.Status = 307 }))
			if last := b.get("o1").Last; last == nil || last.Status == nil || *last.Status != 307 {
				b.Fatalf("%+v", last)
			}
		})
		s.test("a duplicate's report ends what waits, but not for limits that are its own", func(b *bundle) {
			b.add("o1", keyGiven)
			b.report("req-1", jobs.OutcomeRefused, b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, atEnd(jobs.ReasonDeadline)))
			b.want("o1", "waiting")
			b.report("req-2", jobs.OutcomeUnknown, b.saw("req-2", jobs.OutcomeUnknown, jobs.ClassTimeout, atEnd(jobs.ReasonAttempts)))
			b.want("o1", "waiting")
			b.report("req-3", jobs.OutcomeUnknown, b.saw("req-3", jobs.OutcomeUnknown, jobs.Class2xx, nil))
			b.want("o1", "dead/unsafe")
			b.add("o2", keyGiven)
			b.submit("o2", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, atEnd(jobs.ReasonMisconfigured)))
			b.want("o2", "dead/misconfigured")
		})
		s.test("another request's answer means nothing to this one", func(b *bundle) {
			b.asks()
			b.add("o1", keyGiven)
			b.submit("o1", body(`{"amount":1}`), b.saw("req-1", jobs.OutcomeUnknown, jobs.Class4xx, onto(jobs.StepConflict)))
			b.want("o1", "unresolved")
		})
		s.test("what was taken stays so in an export", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeUnknown, jobs.ClassOther, func(a *jobs.Attempted) { a.Acted = true }))
			out, err := b.get("o1").Submission(&b.spec)
			b.must(err)
			if a := out.Attempted; a == nil || !a.Acted || a.Step != jobs.StepAsk {
				b.Fatalf("%+v", out.Attempted)
			}
		})
	})
}
