package ledger

import (
	"fmt"
	"strings"
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

// What a duplicate said of its answer was lost while the operation was being sent or asked
// about, and it was sent again after a decline, or after the other side had taken it.
func TestTheStrictestWordOfAllSendsCounts(t *testing.T) {
	decline := atEnd(jobs.ReasonPermanent)
	taken := func(a *jobs.Attempted) { a.Step, a.Acted, a.Status = jobs.StepAsk, true, 202 }
	each(t, func(s *suite) {
		for _, c := range []struct {
			name    string
			outcome jobs.Outcome
			says    func(*jobs.Attempted)
			want    string
		}{
			{"ask", jobs.OutcomeUnknown, onto(jobs.StepAsk), "dead/unsafe"},
			{"taken", jobs.OutcomeUnknown, taken, "dead/unsafe"},
			{"an end of unknown outcome", jobs.OutcomeUnknown, decline, "dead/unsafe"},
			{"cannot work", jobs.OutcomeUnknown, atEnd(jobs.ReasonMisconfigured), "dead/unsafe"},
			{"a conflict of unknown outcome", jobs.OutcomeUnknown, onto(jobs.StepConflict), "dead/conflict"},
			{"a conflict", jobs.OutcomeRefused, onto(jobs.StepConflict), "dead/conflict"},
			{"a decline", jobs.OutcomeRefused, decline, "dead/permanent"},
		} {
			s.test("while it is being sent: "+c.name, func(b *bundle) {
				b.add("o1", keyGiven)
				g := b.start("o1")
				b.merged("req-1", c.outcome, b.saw("req-1", c.outcome, jobs.ClassOther, c.says))
				b.want("o1", "attempting")
				b.finish(g, refused(0))
				b.want("o1", c.want)
				b.add("o2", keyGiven)
				d := b.release("o2")
				g = b.begin(d)
				b.submit("o2", b.saw("req-1", c.outcome, jobs.ClassOther, c.says))
				b.abandon(d, g.RunID, 0)
				b.want("o2", c.want)
				b.add("o3", keyGiven)
				g = b.start("o3")
				b.submit("o3", b.saw("req-1", c.outcome, jobs.ClassOther, c.says))
				b.finish(g, succeeded())
				b.want("o3", "succeeded")
			})
		}
		s.test("while it is being sent, and that outcome is unknown too", func(b *bundle) {
			b.asks()
			b.add("o1", keyGiven)
			g := b.start("o1")
			b.merged("req-1", jobs.OutcomeRefused, b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, decline))
			b.finish(g, unknown(0))
			b.want("o1", "unresolved")
			b.notFoundTwice("o1")
			b.want("o1", "dead/permanent")
		})
		s.test("while it is being sent: an original is read", func(b *bundle) {
			b.asks()
			b.add("o1", keyGiven)
			g := b.start("o1")
			b.merged("req-1", jobs.OutcomeRefused, b.saw("req-1", jobs.OutcomeRefused, jobs.Class4xx, onto(jobs.StepConflict)))
			b.finish(g, refused(0))
			b.want("o1", "unresolved")
		})
		s.test("a limit is the duplicate's own", func(b *bundle) {
			b.add("o1", keyGiven)
			g := b.start("o1")
			b.merged("req-1", jobs.OutcomeUnknown, b.saw("req-1", jobs.OutcomeUnknown, jobs.ClassTimeout, atEnd(jobs.ReasonDeadline)))
			b.finish(g, refused(0))
			b.want("o1", "waiting")
		})
		for _, outcome := range []jobs.Outcome{jobs.OutcomeRefused, jobs.OutcomeUnknown} {
			s.test("while it is asked about: a decline, "+string(outcome), func(b *bundle) {
				b.unresolved("o1")
				b.submit("o1", b.saw("req-1", outcome, jobs.ClassOther, decline), withoutKey)
				b.want("o1", "unresolved")
				b.notFoundTwice("o1")
				b.want("o1", "dead/permanent")
			})
		}
		s.test("while it is asked about: a person's cancel stays", func(b *bundle) {
			b.unresolved("o1")
			b.cancel("o1")
			b.submit("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, decline), withoutKey)
			b.notFoundTwice("o1")
			b.want("o1", "cancelled")
		})
		s.test("while it is asked about: nothing that was not sent", func(b *bundle) {
			b.unresolved("o1")
			b.submit("o1", b.saw("req-1", jobs.OutcomeNotSent, jobs.ClassConnect, decline), withoutKey)
			b.notFoundTwice("o1")
			b.want("o1", "waiting")
		})
		s.test("a dead letter that is asked about again ends as declined", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1")
			b.attempt("o1", unknown(0))
			b.want("o1", "dead/unsafe")
			b.submit("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, decline), withoutKey)
			if got := text(b.get("o1").Intent); got != "dead permanent" {
				b.Fatalf("intent %q", got)
			}
		})
	})
}

func withoutKey(s *jobs.Submission) { s.IdempotencyKey = "" }

// notFoundTwice brings what is asked about to its intent.
func (b *bundle) notFoundTwice(key string) {
	b.Helper()
	for range 2 {
		b.settledTime()
		b.ask(key, jobs.InquiryNotFound)
	}
}

// reports tells of n sends, each under an id of its own.
func (b *bundle) reports(name string, n int, changes ...change) {
	b.Helper()
	for n > 0 {
		var entries []Entry
		for ; n > 0 && len(entries) < 100; n-- {
			entries = append(entries, b.entry("o1", append([]change{b.sent(fmt.Sprint(name, "-", n), jobs.OutcomeUnknown, time.Second)}, changes...)...))
		}
		receipts, err := b.Submit(b.Context(), b.submitTerms(), entries)
		b.must(err)
		for i, r := range receipts {
			if r.Answer != jobs.Duplicate || !r.Merged {
				b.Fatalf("report %d: %s, merged %v", i, r.Answer, r.Merged)
			}
		}
	}
	b.check()
}

// size is what every script reads that loads the record.
func (b *bundle) size(key string) (fields, bytes int) {
	b.Helper()
	for name, value := range b.records()[id(key).String()] {
		fields++
		bytes += len(name) + len(value)
	}
	return fields, bytes
}

// A token that might submit stopped Redis for everybody: each report of an unknown send
// under a new id made the record longer, and each script that read it slower.
func TestReportsWithoutEndStopNobody(t *testing.T) {
	each(t, func(s *suite) {
		s.test("the record stays small", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", keyGiven)
			b.reports("first", 500)
			fields, bytes := b.size("o1")
			b.reports("more", 2500)
			if f, n := b.size("o1"); f > fields || n > bytes+1000 || n > 20_000 { // numbers have more digits, no more
				b.Fatalf("%d fields, %d bytes after 500 reports, %d and %d after 3,000", fields, bytes, f, n)
			}
			b.want("o1", "dead/unsafe")
			b.wantApplied("o1", jobs.AppliedUnknown)
			if n := b.get("o1").Sends; n != 3000 {
				b.Fatalf("%d sends on record", n)
			}
			b.pass(minute)
			b.wantDone(b.resolve("o1", ResolvedNotApplied), DoneOK, jobs.Dead)
			b.wantApplied("o1", jobs.AppliedNo)
		})
		s.test("and so it does of sends that were refused", func(b *bundle) {
			b.add("o1", keyGiven)
			harmless := func(s *jobs.Submission) { s.Attempted.Outcome = jobs.OutcomeRefused }
			b.reports("first", 500, harmless)
			fields, bytes := b.size("o1")
			b.reports("more", 1000, harmless)
			if f, n := b.size("o1"); f > fields || n > bytes+1000 {
				b.Fatalf("%d fields, %d bytes after 500 reports, %d and %d after 1,500", fields, bytes, f, n)
			}
			b.merged("unknown", jobs.OutcomeUnknown)
			b.wantApplied("o1", jobs.AppliedUnknown)
		})
		s.test("a send to another target is never the one that is left out", func(b *bundle) {
			b.class(jobs.IdempotencyNatural)
			b.asks()
			b.spec.BaseURL = "https://other.example"
			b.add("o1", b.sent("elsewhere", jobs.OutcomeUnknown, time.Second))
			b.spec.BaseURL = b.target.BaseURL
			b.reports("here", 300)
			b.want("o1", "unresolved")
			b.notFoundTwice("o1") // where it was asked nobody can know of the first
			b.want("o1", "unresolved")
		})
		s.test("a worker's own attempt may still bring its result", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", keyGiven)
			g := b.start("o1")
			b.lose(g, lost(0))
			b.want("o1", "dead/unsafe")
			b.reports("many", 300)
			if marks := b.field("o1", "unk"); !strings.HasPrefix(marks, "1,") {
				b.Fatalf("marks %s without the worker's attempt", marks)
			}
			if f := b.finish(g, refused(0)); f.How != HowLate {
				b.Fatalf("its own result is %s", f.How)
			}
			if marks := b.field("o1", "unk"); strings.HasPrefix(marks, "1,") || marks == "" {
				b.Fatalf("marks %q: only that of the attempt that was refused goes", marks)
			}
		})
		s.test("an answer does not settle what was reported after its attempt began", func(b *bundle) {
			b.class(jobs.IdempotencyNatural)
			b.add("o1", keyGiven)
			b.reports("before", 200)
			b.pass(minute)
			b.maxAttempts = 1000
			g := b.start("o1")
			b.reports("meanwhile", 1)
			res := refused(0)
			res.Settles = true
			b.finish(g, res)
			b.wantApplied("o1", jobs.AppliedUnknown)
		})
	})
}

// A token that might submit ended what somebody else had handed in, by a report that
// nothing had been sent, and the audit did not name it.
func TestAReportOfAnotherEndsNothingUnseen(t *testing.T) {
	each(t, func(s *suite) {
		audit := func(b *bundle) string {
			b.Helper()
			entries, err := b.Audit(b.Context(), dep, time.Time{}, 10)
			b.must(err)
			var lines []string
			for _, e := range entries {
				lines = append(lines, fmt.Sprintf("%s %s by %s: %s to %s", e.Operation, e.Action, e.By, e.From, e.To))
			}
			return strings.Join(lines, "\n")
		}
		want := func(b *bundle, lines ...string) {
			b.Helper()
			if got := audit(b); got != strings.Join(lines, "\n") {
				b.Fatalf("audit:\n%s\nwant:\n%s", got, strings.Join(lines, "\n"))
			}
		}
		decline := atEnd(jobs.ReasonPermanent)
		for _, step := range []func(*jobs.Attempted){decline, atEnd(jobs.ReasonMisconfigured)} {
			s.test("not sent ends nothing", func(b *bundle) {
				b.by = "shop"
				b.add("o1", keyGiven)
				b.by = "mallory"
				b.submit("o1", b.saw("req-1", jobs.OutcomeNotSent, jobs.ClassConnect, step))
				b.want("o1", "waiting")
				g := b.start("o1")
				b.submit("o1", b.saw("req-2", jobs.OutcomeNotSent, jobs.ClassConnect, step))
				b.finish(g, refused(0))
				b.want("o1", "waiting")
				want(b)
				b.add("o2", b.saw("req-1", jobs.OutcomeNotSent, jobs.ClassConnect, atEnd(jobs.ReasonPermanent))) // its own is its own
				b.want("o2", "dead/permanent")
				want(b)
			})
		}
		s.test("a decline while it waits", func(b *bundle) {
			b.by = "shop"
			b.add("o1", keyGiven)
			b.by = "mallory"
			b.submit("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, decline))
			b.want("o1", "dead/permanent")
			want(b, "charge/o1 report by mallory: waiting to dead")
			b.submit("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, decline))
			want(b, "charge/o1 report by mallory: waiting to dead")
		})
		s.test("a decline while it is being sent", func(b *bundle) {
			b.by = "shop"
			b.add("o1", keyGiven)
			b.start("o1")
			b.submit("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, decline))
			want(b, "charge/o1 report by shop: attempting to pending")
		})
		s.test("a decline while it is asked about", func(b *bundle) {
			b.by = "shop"
			b.unresolved("o1")
			b.submit("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.ClassOther, decline), withoutKey)
			want(b, "charge/o1 report by shop: unresolved to unresolved")
		})
		s.test("another request of unknown outcome under its name", func(b *bundle) {
			b.by = "shop"
			b.add("o1", keyGiven)
			b.by = "mallory"
			b.submit("o1", b.sent("req-1", jobs.OutcomeUnknown, time.Second), body(`{"amount":1}`))
			b.want("o1", "dead/unsafe")
			want(b, "charge/o1 report by mallory: waiting to dead")
		})
		s.test("what goes on as before is no entry", func(b *bundle) {
			b.by = "shop"
			b.add("o1", keyGiven)
			b.release("o1")
			b.merged("req-1", jobs.OutcomeUnknown)
			b.want("o1", "waiting")
			want(b)
		})
	})
}
