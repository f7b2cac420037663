package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func (b *bundle) wantAnswer(r jobs.Receipt, want jobs.Answer, state jobs.State) {
	b.Helper()
	if r.Answer != want || r.State != state {
		b.Fatalf("%s: answer %s, state %q (%s), want %s, %q", r.Operation, r.Answer, r.State, text(r.Error), want, state)
	}
}

func TestSubmit(t *testing.T) {
	each(t, func(s *suite) {
		s.test("a new operation waits and is due at once", func(b *bundle) {
			r := b.submit("o1")
			b.wantAnswer(r, jobs.Accepted, jobs.Waiting)
			if r.Applied != jobs.AppliedNo || r.Merged || r.NextAt.After(b.now()) {
				b.Fatalf("receipt %+v", r)
			}
			b.release("o1")
		})
		s.test("the same request again is a duplicate and changes nothing", func(b *bundle) {
			b.add("o1")
			before := fmt.Sprint(b.records())
			r := b.submit("o1", body(`{"currency": "GBP",  "amount": 4200}`), deadline("1h"))
			b.wantAnswer(r, jobs.Duplicate, jobs.Waiting)
			if after := fmt.Sprint(b.records()); after != before {
				b.Fatalf("a duplicate changed the record:\n%s\n%s", before, after)
			}
		})
		s.test("the same operation twice in one call is accepted once", func(b *bundle) {
			receipts, err := b.Submit(b.Context(), b.submitTerms(), []Entry{b.entry("o1"), b.entry("o1")})
			b.must(err)
			b.wantAnswer(receipts[0], jobs.Accepted, jobs.Waiting)
			b.wantAnswer(receipts[1], jobs.Duplicate, jobs.Waiting)
			b.check()
		})
		s.test("another request under the same key is a conflict that names the fields", func(b *bundle) {
			b.add("o1")
			r := b.submit("o1", body(`{"amount":9900,"currency":"GBP"}`), func(s *jobs.Submission) {
				s.Headers = map[string]string{"X-Account": "a1"}
				s.ContentType = "application/vnd.pay+json"
			})
			b.wantAnswer(r, jobs.Conflict, jobs.Waiting)
			if want := []string{"content_type", "headers", "body"}; !slices.Equal(r.Differs, want) {
				b.Fatalf("differs %v, want %v", r.Differs, want)
			}
			if strings.Contains(fmt.Sprint(r), "9900") {
				b.Fatalf("the receipt shows a value: %+v", r)
			}
		})
		s.test("not_before delays it, and a deadline span counts from there", func(b *bundle) {
			b.add("o1", notBefore(b.now().Add(3*hour)))
			d := b.get("o1")
			b.near("due in", d.NextAt.Sub(b.now()), 3*hour)
			b.near("deadline after next", d.DeadlineAt.Sub(d.NextAt.Time), 2*hour)
			b.wantHold(b.releaseUpTo(1), 0, jobs.HoldNone)
		})
		s.test("more than a hundred in one call are refused by the caller's side", func(b *bundle) {
			if _, err := b.Submit(b.Context(), b.submitTerms(), make([]Entry, MaxBatch+1)); err == nil {
				b.Fatal("101 entries were taken")
			}
		})
		s.test("an operation of another dependency is refused whole", func(b *bundle) {
			e := b.entry("o1")
			e.Dependency = "other"
			if _, err := b.Submit(b.Context(), b.submitTerms(), []Entry{b.entry("o2"), e}); err == nil {
				b.Fatal("an operation of another dependency was taken")
			}
			if _, err := b.Get(b.Context(), dep, id("o2"), nil); !errors.Is(err, ErrNotFound) {
				b.Fatalf("half of the call was written: %v", err)
			}
		})
	})
}

// What had lain in a spool for longer than its deadline was refused, and seen by nobody.
func TestWhatWasHandedInAfterItsDeadlineVanished(t *testing.T) {
	each(t, func(s *suite) {
		over := func(b *bundle, created, by time.Duration) change {
			return func(s *jobs.Submission) {
				s.CreatedAt = b.now().Add(-created).UTC().Format(time.RFC3339Nano)
				s.Deadline = b.now().Add(-by).UTC().Format(time.RFC3339Nano)
			}
		}
		for _, outcome := range []jobs.Outcome{jobs.OutcomeNotSent, jobs.OutcomeRefused} {
			s.test("it was taken over in time: "+string(outcome), func(b *bundle) {
				b.wantAnswer(b.submit("o1", b.sent("req-1", outcome, time.Minute), over(b, time.Minute, time.Second)), jobs.Accepted, jobs.Dead)
				if r := b.records()[id("o1").String()]; r["reason"] != string(jobs.ReasonDeadline) {
					b.Fatalf("%v", r)
				}
				b.wantAnswer(b.submit("o1", b.sent("req-1", outcome, time.Minute), over(b, time.Minute, time.Second)), jobs.Duplicate, jobs.Dead)
				if r := b.releaseUpTo(1); len(r.Deliveries) != 0 {
					b.Fatalf("%v is on its way", r.Deliveries)
				}
			})
			s.test("it was too late before it was taken over: "+string(outcome), func(b *bundle) {
				for _, late := range []change{over(b, time.Second, time.Minute), deadline(b.now().Add(-time.Second).Format(time.RFC3339))} {
					if r := b.submit("o1", b.sent("req-1", outcome, time.Minute), late); r.Answer != jobs.Refused {
						b.Fatalf("%s, want refused", r.Answer)
					}
				}
			})
		}
		s.test("nobody took it over", func(b *bundle) {
			if r := b.submit("o1", over(b, time.Minute, time.Second)); r.Answer != jobs.Refused {
				b.Fatalf("%s, want refused", r.Answer)
			}
		})
	})
}

func TestSubmitRefuses(t *testing.T) {
	each(t, func(s *suite) {
		refuses := func(b *bundle, part string, changes ...change) {
			b.Helper()
			r := b.submit("o1", changes...)
			if r.Answer != jobs.Refused || !strings.Contains(text(r.Error), part) {
				b.Fatalf("%s (%s), want refused for its %s", r.Answer, text(r.Error), part)
			}
			if len(b.records()) != 0 {
				b.Fatal("a refused submission left a record")
			}
		}
		s.test("a deadline in the past", func(b *bundle) {
			refuses(b, "deadline", deadline(b.now().Add(-time.Second).Format(time.RFC3339)))
		})
		s.test("a deadline at or before not_before", func(b *bundle) {
			at := b.now().Add(hour).Truncate(time.Second)
			refuses(b, "not_before", notBefore(at), deadline(at.Format(time.RFC3339)))
		})
		s.test("what is older than the dedupe window", func(b *bundle) {
			old := b.now().Add(-2161 * hour)
			refuses(b, "dedupe window", func(s *jobs.Submission) { s.CreatedAt = old.Format(time.RFC3339) })
			refuses(b, "in the past", deadline(old.Format(time.RFC3339))) // the plainer reason first
			refuses(b, "dedupe window", b.sent("req-1", jobs.OutcomeRefused, 2161*hour))
		})
		s.test("a full backlog, but for a tenth more of unknown outcomes", func(b *bundle) {
			b.maxBacklog = 10
			for i := range 10 {
				b.add(fmt.Sprint("full", i))
			}
			if r := b.submit("o1"); r.Answer != jobs.Refused || !strings.Contains(text(r.Error), "backlog full") {
				b.Fatalf("%s (%s), want backlog full", r.Answer, text(r.Error))
			}
			b.add("unknown1", b.sent("req-1", jobs.OutcomeUnknown, time.Second))
			if r := b.submit("unknown2", b.sent("req-2", jobs.OutcomeUnknown, time.Second)); r.Answer != jobs.Refused {
				b.Fatalf("%s, want refused: the tenth is used up", r.Answer)
			}
			b.wantAnswer(b.submit("full1"), jobs.Duplicate, jobs.Waiting)
			for _, d := range b.releaseUpTo(2).Deliveries {
				b.finish(b.begin(d), succeeded())
			}
			b.add("o1")
		})
	})
}

func TestSubmitReportsSends(t *testing.T) {
	each(t, func(s *suite) {
		s.test("known not to have acted: it waits, the send is counted", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeRefused, time.Second), func(s *jobs.Submission) { s.Attempted.Attempts = 3 })
			b.wantApplied("o1", jobs.AppliedNo)
			d := b.release("o1")
			if d.Lane != LaneRetry {
				b.Fatalf("lane %s, want retry", d.Lane)
			}
			g := b.begin(d)
			if g.Attempt != 4 || g.Used != 4 || g.UnknownBefore {
				b.Fatalf("attempt %d, used %d, unknown before %v; want 4, 4, false", g.Attempt, g.Used, g.UnknownBefore)
			}
		})
		s.test("neither not_sent nor 429 uses up an attempt", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeNotSent, time.Second))
			b.add("o2", b.sent("req-2", jobs.OutcomeRefused, time.Second), func(s *jobs.Submission) { s.Attempted.Class = jobs.Class429 })
			for _, key := range []string{"o1", "o2"} {
				if g := b.start(key); g.Used != 1 {
					b.Fatalf("%s: used %d, want 1", key, g.Used)
				}
			}
		})
		s.test("unknown under a key inside its window: it waits for a resend", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeUnknown, hour))
			b.want("o1", "waiting")
			b.wantApplied("o1", jobs.AppliedUnknown)
			g := b.start("o1")
			if !g.UnknownBefore {
				b.Fatal("the grant does not say that an earlier attempt is unknown")
			}
			b.near("safe for", g.SafeFor, 19*hour+12*minute-hour)
		})
		s.test("unknown, and a resend not safe: a person must look", func(b *bundle) {
			b.add("window", b.sent("req-1", jobs.OutcomeUnknown, 20*hour))
			nokey := b.submit("nokey", b.sent("req-2", jobs.OutcomeUnknown, time.Second), func(s *jobs.Submission) { s.IdempotencyKey = "" })
			if len(nokey.Warnings) != 1 {
				b.Fatalf("warnings %v, want one: it will never be resent", nokey.Warnings)
			}
			b.class(jobs.IdempotencyNone)
			b.add("none", b.sent("req-3", jobs.OutcomeUnknown, time.Second))
			b.class(jobs.IdempotencyConditional)
			b.add("conditional", b.sent("req-4", jobs.OutcomeUnknown, time.Second))
			for _, key := range []string{"window", "nokey", "none", "conditional"} {
				b.want(key, "dead/unsafe")
				b.wantApplied(key, jobs.AppliedUnknown)
				if intent := b.get(key).Intent; text(intent) != "waiting" {
					b.Fatalf("%s: intent %q, want waiting", key, text(intent))
				}
			}
		})
		s.test("unknown of a natural kind needs no key", func(b *bundle) {
			b.class(jobs.IdempotencyNatural)
			b.add("o1", b.sent("req-1", jobs.OutcomeUnknown, time.Second), func(s *jobs.Submission) { s.IdempotencyKey = "" })
			if g := b.start("o1"); g.SafeFor != Always {
				b.Fatalf("safe for %v, want always", g.SafeFor)
			}
		})
		s.test("unknown is taken after its deadline, and never resent when older than the window", func(b *bundle) {
			past := deadline(b.now().Add(-hour).Format(time.RFC3339))
			b.add("late", b.sent("req-1", jobs.OutcomeUnknown, 2*hour), past)
			b.sweep()
			b.want("late", "dead/unsafe")
			if got := text(b.get("late").Intent); got != "dead deadline" {
				b.Fatalf("intent %q, want dead deadline", got)
			}
			b.class(jobs.IdempotencyNatural)
			b.add("old", b.sent("req-2", jobs.OutcomeUnknown, 2161*hour))
			b.want("old", "dead/unsafe")
			if r := b.requeue("old", Requeue{DeadlineSpan: hour}); r.Verdict != DoneRefused {
				b.Fatalf("requeue: %s, want refused", r.Verdict)
			}
		})
		s.test("a first send in the future is cut to now", func(b *bundle) {
			b.add("o1", b.sent("req-1", jobs.OutcomeUnknown, -hour))
			if first := b.get("o1").FirstSentAt; first.After(b.now()) {
				b.Fatalf("first sent at %v", first)
			}
		})
		s.test("it fills the budget as one first attempt, unless counted, not sent, or long ago", func(b *bundle) {
			b.terms.Gate.FloorMilliPerSecond = 0
			fills := func(key string, want string, changes ...change) {
				b.Helper()
				b.tokens(0)
				b.add(key, changes...)
				if got := b.rdb.HGet(b.Context(), b.key(dep, "gate"), "tokens").Val(); got != want {
					b.Fatalf("%s left %s milli-tokens, want %s", key, got, want)
				}
			}
			fills("o1", "100", b.sent("req-1", jobs.OutcomeUnknown, time.Second))
			fills("o2", "0", b.sent("req-2", jobs.OutcomeUnknown, time.Minute))
			fills("o3", "0", b.sent("req-3", jobs.OutcomeNotSent, time.Second))
			fills("o4", "0", b.sent("req-4", jobs.OutcomeUnknown, time.Second), func(s *jobs.Submission) { s.Attempted.Counted = true })
			fills("o5", "0")
		})
	})
}
