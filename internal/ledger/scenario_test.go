package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// Failures that people reported of systems like this one, as far as the ledger
// alone decides them. T04, T05 and T37 stand in recover_test.go.

func TestT02NothingIsResentAfterTheKeysWindow(t *testing.T) {
	each(t, func(s *suite) {
		s.test("lost in flight, back after 30 h", func(b *bundle) {
			b.add("o1", deadline("72h"))
			g := b.start("o1")
			b.pass(30 * hour)
			b.recover(g, lost(0))
			b.want("o1", "dead/unsafe")
			b.sweep()
			if r := b.releaseUpTo(10); len(r.Deliveries) != 0 {
				b.Fatalf("released %v", r.Deliveries)
			}
			d := b.get("o1")
			if d.Applied != jobs.AppliedUnknown || text(d.Intent) != "waiting" || d.Last.Class != jobs.ClassWorkerLost {
				b.Fatalf("applied %s, intent %q, last %+v", d.Applied, text(d.Intent), d.Last)
			}
		})
		s.test("with an inquiry nothing but an inquiry is made, and in the end a person must look", func(b *bundle) {
			b.asks()
			b.add("o1", deadline("300h"))
			g := b.start("o1")
			b.pass(30 * hour)
			b.recover(g, lost(0)) // it says retry: the key no longer makes that safe
			b.want("o1", "unresolved")
			for range 3 {
				if r := b.releaseUpTo(10); len(r.Deliveries) != 0 {
					b.Fatalf("released %v", r.Deliveries)
				}
				b.pass(hour)
				b.ask("o1", jobs.InquiryNothing)
			}
			b.pass(giveUpAfter)
			b.sweep()
			b.want("o1", "dead/unresolved")
			b.wantApplied("o1", jobs.AppliedUnknown)
			b.wantOutcomes("o1", "1:unknown")
		})
		s.test("released before the window closed, begun after", func(b *bundle) {
			b.add("o1", deadline("72h"))
			b.attempt("o1", unknown(0))
			d := b.release("o1")
			b.pass(20 * hour)
			b.wantStatus(b.beginAs(d, "run"), BeginEnded)
			b.want("o1", "dead/unsafe")
		})
	})
}

func TestT28BracesInNamesAreRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	for _, name := range []struct{ kind, key, credential, field string }{
		{"charge", "order-{1}", "", "key"}, {"charge", "}", "", "key"}, {"{charge}", "o1", "", "kind"}, {"charge", "o1", "{m1}", "credential"},
	} {
		s := jobs.Submission{Kind: jobs.Kind(name.kind), Key: jobs.Key(name.key), Credential: name.credential, Body: []byte(`{}`)}
		_, err := Prepare(&s, jobs.KindSpec{Kind: "charge", Dependency: dep, Method: "POST", Path: "/v1", DeadlineMS: 1})
		var field *FieldError
		if !errors.As(err, &field) || field.Field != name.field {
			t.Errorf("%+v: %v, want the field %s named", name, err, name.field)
		}
	}
}

func TestT34DeadLettersAreNeverTrimmed(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Server(t).Client(t)) // one store: a limit of ours would show on either
	b.unchecked = true
	b.class(jobs.IdempotencyNone)
	b.maxBacklog = 20000
	const n = 10050
	entries := make([]Entry, 0, MaxBatch)
	for i := range n {
		entries = append(entries, b.entry(fmt.Sprintf("o%05d", i), b.sent("req", jobs.OutcomeUnknown, time.Second)))
		if len(entries) == MaxBatch || i == n-1 {
			_, err := b.Submit(b.Context(), b.submitTerms(), entries)
			b.must(err)
			entries = entries[:0]
		}
	}
	_, err := b.Retire(b.Context(), dep, b.terms.Retention)
	b.must(err)
	counts, err := b.Counts(b.Context(), dep)
	b.must(err)
	if len(counts) != 1 || counts[0] != (Count{Kind: "charge", State: jobs.Dead, Reason: jobs.ReasonUnsafe, N: n}) {
		b.Fatalf("counts %+v, want %d dead", counts, n)
	}
	page, err := b.List(b.Context(), Filter{Dependencies: []jobs.Dependency{dep}, States: []jobs.State{jobs.Dead}}, nil)
	b.must(err)
	if len(page.Items) != n {
		b.Fatalf("%d listed, want %d", len(page.Items), n)
	}
	for _, key := range []string{"o00000", "o05000", "o10049"} {
		b.wantDone(b.resolve(key, ResolvedNotApplied), DoneOK, jobs.Dead)
		b.wantDone(b.requeue(key, Requeue{DeadlineSpan: hour}).Done, DoneOK, jobs.Waiting)
	}
	if got := b.rdb.ZCard(b.Context(), b.key(dep, "dead")).Val(); got != n-3 {
		b.Fatalf("%d in the index after three were requeued, want %d", got, n-3)
	}
}

func TestT41RequeueOfWhatIsSettledIsRefused(t *testing.T) {
	each(t, func(s *suite) {
		s.test("settled while the page was stale", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1")
			g := b.start("o1")
			b.lose(g, lost(0))
			b.want("o1", "dead/unsafe") // what the page shows
			b.finish(g, succeeded())
			r := b.requeue("o1", Requeue{DeadlineSpan: hour, More: 5})
			if r.Verdict != DoneRefused || r.Detail != "already settled: succeeded" {
				b.Fatalf("%s (%s), want refused as settled", r.Verdict, r.Detail)
			}
			b.wantAudit("charge/o1 requeue succeeded>refused")
			if r := b.releaseUpTo(10); len(r.Deliveries) != 0 {
				b.Fatalf("released %v", r.Deliveries)
			}
		})
	})
}

// T42: what is dead neither swallows a submission of its key nor takes over another request.
func TestT42ADeadLetterAnswersForItsKey(t *testing.T) {
	each(t, func(s *suite) {
		s.test("the same and another request", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.wantAnswer(b.submit("o1"), jobs.Duplicate, jobs.Dead)
			r := b.submit("o1", body(`{"amount":1,"currency":"GBP"}`))
			b.wantAnswer(r, jobs.Conflict, jobs.Dead)
			if fmt.Sprint(r.Differs) != "[body]" {
				b.Fatalf("differs %v, want the body", r.Differs)
			}
			b.want("o1", "dead/permanent")
		})
	})
}

func TestT43ARequeuedOperationDoesNotDieAtOnce(t *testing.T) {
	each(t, func(s *suite) {
		s.test("died at its last attempt", func(b *bundle) {
			b.maxAttempts = 2
			b.add("o1")
			b.attempt("o1", refused(0))
			b.attempt("o1", ends(jobs.ReasonAttempts))
			r := b.requeue("o1", Requeue{AtLeast: 3, DeadlineSpan: hour})
			if r.AttemptsLeft != 3 {
				b.Fatalf("%d attempts granted, want 3", r.AttemptsLeft)
			}
			b.attempt("o1", refused(0))
			b.want("o1", "waiting")
			if d := b.get("o1"); d.Sends != 3 || d.MaxAttempts != 8 {
				b.Fatalf("%d sends of %d, want 3 in all of 5 + 3", d.Sends, d.MaxAttempts)
			}
		})
		s.test("died of lost workers", func(b *bundle) {
			b.add("o1", deadline("48h"))
			for range 2 {
				b.lose(b.start("o1"), lost(0))
				b.fillBucket()
			}
			b.lose(b.start("o1"), with(lost(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonPoison }))
			b.want("o1", "dead/unsafe")
			b.wantDone(b.requeue("o1", Requeue{AtLeast: 2}).Done, DoneOK, jobs.Waiting)
			b.fillBucket()
			if g := b.start("o1"); g.Losses != 0 {
				b.Fatalf("%d losses after the requeue, want 0", g.Losses)
			}
		})
	})
}

func TestT56NothingIsSentAfterTheDeadline(t *testing.T) {
	each(t, func(s *suite) {
		s.test("deadline in 2 s, picked up after 6", func(b *bundle) {
			b.add("o1", deadline("2s"))
			d := b.release("o1")
			b.pass(6 * time.Second)
			b.wantStatus(b.beginAs(d, "run"), BeginEnded)
			b.want("o1", "dead/deadline")
			b.wantOutcomes("o1", "")
			b.wantApplied("o1", jobs.AppliedNo)
		})
		s.test("with an earlier unknown attempt an inquiry is still made", func(b *bundle) {
			b.asks()
			b.add("o1", deadline("2s"), b.sent("req-1", jobs.OutcomeUnknown, time.Second))
			b.pass(6 * time.Second)
			b.sweep()
			b.want("o1", "unresolved")
			b.settledTime()
			b.ask("o1", jobs.InquirySucceeded)
			b.want("o1", "succeeded")
		})
		s.test("with an earlier unknown attempt it is not forgotten", func(b *bundle) {
			b.add("o1", deadline("2s"), b.sent("req-1", jobs.OutcomeUnknown, time.Second))
			b.pass(6 * time.Second)
			b.sweep()
			b.want("o1", "dead/unsafe")
		})
	})
}

func TestT57ARetryThatCannotHappenEndsAtOnceWithTheRealError(t *testing.T) {
	each(t, func(s *suite) {
		s.test("next retry in 10 min, deadline in 5", func(b *bundle) {
			b.add("o1", deadline("5m"))
			b.attempt("o1", refused(10*minute))
			b.want("o1", "dead/deadline")
			d := b.get("o1")
			if text(d.Last.Error) != "503 overloaded" || d.Last.Class != jobs.Class503 {
				b.Fatalf("last %+v, want the real error", d.Last)
			}
		})
	})
}

func TestT60AKnownKeyStaysADuplicate(t *testing.T) {
	each(t, func(s *suite) {
		s.test("through 26 h of waiting, and after the success", func(b *bundle) {
			b.add("o1", deadline("48h"))
			b.attempt("o1", refused(26*hour))
			for _, d := range []time.Duration{minute, hour - minute, 24 * hour} {
				b.pass(d)
				b.sweep()
				b.wantAnswer(b.submit("o1"), jobs.Duplicate, jobs.Waiting)
			}
			b.pass(hour)
			b.fillBucket()
			b.attempt("o1", succeeded())
			b.pass(hour)
			b.retire()
			b.wantAnswer(b.submit("o1"), jobs.Duplicate, jobs.Succeeded)
			b.pass(1000 * hour)
			b.retire()
			b.wantAnswer(b.submit("o1"), jobs.Duplicate, jobs.Succeeded)
			if n := len(b.records()); n != 1 {
				b.Fatalf("%d operations, want 1", n)
			}
		})
	})
}

// T61: at whatever step the worker dies, the operation ends, and its key is never
// blocked by anything but its own record.
func TestT61ADeadWorkerBlocksNoKey(t *testing.T) {
	steps := []struct {
		name string
		die  func(b *bundle)
	}{
		{"before release", func(*bundle) {}},
		{"after release", func(b *bundle) { b.release("o1") }},
		{"after begin", func(b *bundle) { b.start("o1") }},
		{"after a failed attempt", func(b *bundle) { b.attempt("o1", refused(0)) }},
		{"in the second attempt", func(b *bundle) { b.attempt("o1", unknown(0)); b.start("o1") }},
	}
	each(t, func(s *suite) {
		for _, step := range steps {
			s.test(step.name, func(b *bundle) {
				b.add("o1", deadline("48h"))
				step.die(b)
				b.pass(minute) // release lease and claim lease are over
				b.sweep()
				for _, l := range b.lostAttempts() {
					_, err := b.FinishLost(b.Context(), b.terms, b.target, l, lost(0), false)
					b.must(err)
				}
				b.fillBucket()
				b.attempt("o1", succeeded())
				b.want("o1", "succeeded")
				b.wantAnswer(b.submit("o1"), jobs.Duplicate, jobs.Succeeded)
				if n := len(b.lostAttempts()); n != 0 {
					b.Fatalf("%d orphan claims", n)
				}
			})
		}
	})
}

func TestT63ARetryIsNotItsOwnDuplicate(t *testing.T) {
	each(t, func(s *suite) {
		s.test("it runs on time beside another kind's operation of the same key", func(b *bundle) {
			b.kinds = []jobs.Kind{"charge", "refund"}
			b.add("o1")
			b.add("o1", kind("refund"))
			r := b.releaseUpTo(10)
			for _, d := range r.Deliveries {
				b.finish(b.begin(d), refused(minute))
			}
			b.pass(minute)
			if again := b.releaseUpTo(10); len(r.Deliveries) != 2 || len(again.Deliveries) != 2 {
				b.Fatalf("released %v, then %v; want both twice", r.Deliveries, again.Deliveries)
			}
		})
	})
}
