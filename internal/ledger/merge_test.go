package ledger

import (
	"fmt"
	"testing"
	"time"

	"redrive/internal/jobs"
)

// report submits o1 again with another send of the request path.
func (b *bundle) report(req string, outcome jobs.Outcome, changes ...change) jobs.Receipt {
	b.Helper()
	return b.submit("o1", append([]change{b.sent(req, outcome, time.Second)}, changes...)...)
}

func (b *bundle) merged(req string, outcome jobs.Outcome, changes ...change) {
	b.Helper()
	if r := b.report(req, outcome, changes...); r.Answer != jobs.Duplicate || !r.Merged {
		b.Fatalf("report %s: %s, merged %v; want a merged duplicate", req, r.Answer, r.Merged)
	}
}

func TestMerge(t *testing.T) {
	each(t, func(s *suite) {
		s.test("the same report twice is added once", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeUnknown, time.Second))
			if r := b.report("req-1", jobs.OutcomeUnknown); r.Merged {
				b.Fatal("the report that came with the submission was added again")
			}
			b.merged("req-2", jobs.OutcomeUnknown)
			if r := b.report("req-2", jobs.OutcomeUnknown); r.Merged {
				b.Fatal("a report was added twice")
			}
			b.wantOutcomes("o1", "1:unknown 2:unknown")
		})
		s.test("a report without an id is known by what it says", func(b *bundle) {
			b.add("o1", keyGiven)
			same := b.sent("", jobs.OutcomeRefused, time.Minute)
			at := b.now().Add(-minute).UTC().Format(time.RFC3339)
			fixed := func(s *jobs.Submission) { same(s); s.Attempted.FirstSentAt = at }
			for i, want := range []bool{true, false} {
				if r := b.submit("o1", fixed); r.Merged != want {
					b.Fatalf("report %d: merged %v", i+1, r.Merged)
				}
			}
		})
		s.test("an unknown send under the id of a harmless report is not dropped", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeRefused, time.Second))
			b.merged("req-1", jobs.OutcomeUnknown)
			b.wantApplied("o1", jobs.AppliedUnknown)
		})
		s.test("a conflicting submission's unknown send makes a resend unsafe", func(b *bundle) {
			b.add("o1", keyGiven)
			r := b.report("req-1", jobs.OutcomeUnknown, body(`{"amount":1}`))
			if r.Answer != jobs.Conflict || !r.Merged || len(r.Differs) != 1 {
				b.Fatalf("%+v, want a merged conflict", r)
			}
			b.want("o1", "dead/unsafe")
		})
		s.test("a conflicting submission's harmless send is not this operation's", func(b *bundle) {
			b.add("o1", keyGiven)
			if r := b.report("req-1", jobs.OutcomeRefused, body(`{"amount":1}`)); r.Answer != jobs.Conflict || r.Merged {
				b.Fatalf("%+v, want a plain conflict", r)
			}
			b.want("o1", "waiting")
		})
		s.test("reports of many sends keep the history bounded", func(b *bundle) {
			b.unchecked = true
			b.class(jobs.IdempotencyNatural)
			b.add("o1", keyGiven)
			for i := range 150 {
				b.merged(fmt.Sprint("req-", i), jobs.OutcomeRefused, func(s *jobs.Submission) { s.Attempted.Attempts = 50 })
			}
			if n := len(b.get("o1").Timeline); n > 60 {
				b.Fatalf("%d lines in the timeline", n)
			}
		})
	})
}

func TestMergeByState(t *testing.T) {
	each(t, func(s *suite) {
		s.test("waiting: a safe resend goes on waiting, as a retry", func(b *bundle) {
			b.add("o1", keyGiven)
			b.sweep() // into the lane of first attempts
			b.merged("req-1", jobs.OutcomeUnknown)
			b.want("o1", "waiting")
			if d := b.release("o1"); d.Lane != LaneRetry {
				b.Fatalf("lane %s, want retry", d.Lane)
			}
		})
		s.test("waiting and released: settled when a resend is not safe", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", keyGiven)
			d := b.release("o1")
			b.merged("req-1", jobs.OutcomeUnknown)
			b.want("o1", "dead/unsafe")
			if got := b.beginAs(d, "run").Status; got != BeginStale {
				b.Fatalf("begin: %s, want stale", got)
			}
		})
		s.test("released: the delivery becomes stale", func(b *bundle) {
			for i, outcome := range []jobs.Outcome{jobs.OutcomeUnknown, jobs.OutcomeRefused, jobs.OutcomeNotSent} {
				if i == 0 {
					b.add("o1", keyGiven)
				}
				d := b.release("o1")
				b.merged(fmt.Sprint("req-", i), outcome)
				if got := b.beginAs(d, "run").Status; got != BeginStale {
					b.Fatalf("%s: begin %s, want stale", outcome, got)
				}
			}
		})
		s.test("attempting: the claim keeps its own attempt, finish decides with the mark", func(b *bundle) {
			b.add("o1", keyGiven)
			d := b.release("o1")
			g := b.begin(d)
			b.merged("req-1", jobs.OutcomeUnknown)
			again := b.beginAs(d, g.RunID)
			if again.Status != BeginGranted || again.Grant.Attempt != 1 || !again.Grant.UnknownBefore {
				b.Fatalf("the same run asking again got %+v, want its attempt 1, and the mark", again.Grant)
			}
			b.pass(b.target.ClaimLease + time.Second)
			if l := b.lostAttempts(); len(l) != 1 || l[0].Attempt != 1 || !l[0].UnknownBefore {
				b.Fatalf("lost attempts %+v, want attempt 1", l)
			}
			b.recover(g, lost(0))
			b.wantOutcomes("o1", "1:unknown 2:unknown")
			b.want("o1", "waiting")
		})
		s.test("attempting: an answer does not settle a send that was reported after it began", func(b *bundle) {
			b.add("o1", keyGiven)
			g := b.start("o1")
			b.merged("req-1", jobs.OutcomeUnknown)
			res := refused(0)
			res.Settles = true
			b.finish(g, res)
			b.wantApplied("o1", jobs.AppliedUnknown)
		})
		s.test("attempting: settled at the end when a resend is not safe", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", keyGiven)
			g := b.start("o1")
			b.merged("req-1", jobs.OutcomeUnknown)
			b.finish(g, refused(0))
			b.want("o1", "dead/unsafe")
		})
		s.test("attempting: a success beside a keyless send is flagged", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", keyGiven)
			g := b.start("o1")
			b.merged("req-1", jobs.OutcomeUnknown)
			b.finish(g, succeeded())
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagConflict)
		})
		s.test("dead: the mark is set and the end it had is the intent", func(b *bundle) {
			b.add("o1", keyGiven)
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.merged("req-1", jobs.OutcomeRefused)
			b.want("o1", "dead/permanent")
			b.merged("req-2", jobs.OutcomeUnknown)
			b.want("o1", "dead/unsafe")
			b.merged("req-3", jobs.OutcomeUnknown)
			if got := text(b.get("o1").Intent); got != "dead permanent" {
				b.Fatalf("intent %q, want dead permanent", got)
			}
		})
		s.test("cancelled: dead and unsafe", func(b *bundle) {
			b.add("o1", keyGiven)
			b.cancel("o1")
			b.merged("req-1", jobs.OutcomeUnknown)
			b.want("o1", "dead/unsafe")
			if got := text(b.get("o1").Intent); got != "cancelled" {
				b.Fatalf("intent %q, want cancelled", got)
			}
		})
		s.test("succeeded: recorded and flagged", func(b *bundle) {
			b.add("o1", keyGiven)
			b.attempt("o1", succeeded())
			b.merged("req-1", jobs.OutcomeUnknown)
			b.want("o1", "succeeded")
			b.wantApplied("o1", jobs.AppliedYes)
			b.wantFlags("o1", jobs.FlagConflict)
			b.wantOutcomes("o1", "1:succeeded 2:unknown")
		})
	})
}

func TestMergeKeepsTheKeysWindow(t *testing.T) {
	each(t, func(s *suite) {
		s.test("it counts from the earlier of both sends", func(b *bundle) {
			b.add("o1", keyGiven)
			b.attempt("o1", unknown(minute))
			b.submit("o1", b.sent("req-1", jobs.OutcomeUnknown, 10*hour))
			b.near("key safe for", b.get("o1").KeySafeUntil.Sub(b.now()), 9*hour+12*minute) // 0.8 x 24 h - 10 h
			b.want("o1", "waiting")
		})
		s.test("a later send does not make it longer", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeUnknown, 10*hour))
			b.merged("req-2", jobs.OutcomeUnknown)
			b.near("key safe for", b.get("o1").KeySafeUntil.Sub(b.now()), 9*hour+12*minute)
		})
		s.test("a send under another target ends safe resends", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeUnknown, hour))
			b.spec.BaseURL = "https://other.example"
			b.merged("req-2", jobs.OutcomeUnknown)
			b.want("o1", "dead/unsafe")
		})
	})
}
