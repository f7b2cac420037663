package ledger

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"redrive/internal/jobs"
)

const day = 24 * hour

// newAttemptOf links a submission to the one whose payment it tries again.
func newAttemptOf(key string) change {
	return func(s *jobs.Submission) { s.NewAttemptOf = "charge/" + key }
}

// declined puts an operation in that its dependency declines.
func (b *bundle) declined(key string, changes ...change) {
	b.Helper()
	b.add(key, changes...)
	b.attempt(key, ends(jobs.ReasonPermanent))
}

// passChains lets d go by for what is counted of chains.
func (b *bundle) passChains(d time.Duration) {
	b.Helper()
	ctx := b.Context()
	for _, key := range b.chains() {
		members, err := b.rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		b.must(err)
		left, err := b.rdb.PTTL(ctx, key).Result()
		b.must(err)
		if left <= d {
			b.must(b.rdb.Del(ctx, key).Err())
			continue
		}
		for _, m := range members {
			b.must(b.rdb.ZIncrBy(ctx, key, -float64(d.Milliseconds()), m.Member.(string)).Err())
		}
		b.must(b.rdb.PExpire(ctx, key, left-d).Err())
	}
}

func (b *bundle) chains() []string {
	b.Helper()
	keys, err := b.rdb.Keys(b.Context(), b.key(dep, "chain:*")).Result()
	b.must(err)
	return keys
}

// wantBarred demands that a submission is refused for its link, and says so, and that
// nothing of it was kept.
func (b *bundle) wantBarred(r jobs.Receipt, why string) {
	b.Helper()
	if r.Answer != jobs.Refused || !r.Barred || r.Later || !strings.Contains(text(r.Error), why) {
		b.Fatalf("%s, barred %v: %q, want refused for %q", r.Answer, r.Barred, text(r.Error), why)
	}
	if n := b.rdb.Exists(b.Context(), b.key(dep, "op:"+r.Operation.String()), b.key(dep, "request:"+r.Operation.String())).Val(); n != 0 {
		b.Fatalf("%s was refused, and %d keys of it exist", r.Operation, n)
	}
}

func (b *bundle) chainOf(key string) Chain {
	b.Helper()
	c, err := b.ChainOf(b.Context(), b.get(key), &b.spec)
	b.must(err)
	return c
}

// limits sets what new attempts of the kind are held to.
func (b *bundle) limits(limit int, within time.Duration, after jobs.AfterNever) {
	b.spec.NewAttempts = jobs.NewAttempts{Limit: limit, WithinMS: within.Milliseconds(), AfterNever: after}
}

func TestNewAttemptNeedsAnOriginalWithoutEffect(t *testing.T) {
	each(t, func(s *suite) {
		for _, c := range []struct {
			is    string
			make  func(*bundle)
			while string // "": it is let in
		}{
			{"declined", func(b *bundle) { b.declined("o1") }, ""},
			{"out of attempts", func(b *bundle) { b.add("o1"); b.attempt("o1", ends(jobs.ReasonAttempts)) }, ""},
			{"past its deadline", func(b *bundle) { b.add("o1", deadline("1m")); b.pass(2 * minute); b.sweep() }, ""},
			{"misconfigured", func(b *bundle) { b.add("o1"); b.attempt("o1", ends(jobs.ReasonMisconfigured)) }, ""},
			{"cancelled", func(b *bundle) { b.add("o1"); b.cancel("o1") }, ""},
			{"found not to be applied", func(b *bundle) {
				b.class(jobs.IdempotencyNone)
				b.add("o1")
				b.attempt("o1", unknown(0))
				b.pass(b.target.ClaimLease)
				b.wantDone(b.resolve("o1", ResolvedNotApplied), DoneOK, jobs.Dead)
			}, ""},
			{"a tombstone of a cancelled one", func(b *bundle) { b.add("o1"); b.cancel("o1"); b.pass(8 * day); b.retire() }, ""},

			{"not here", func(*bundle) {}, "charge/o1 is not known here"},
			{"waiting", func(b *bundle) { b.add("o1") }, "charge/o1 is waiting: still on its way"},
			{"released", func(b *bundle) { b.add("o1"); b.release("o1") }, "charge/o1 is released: still on its way"},
			{"attempting", func(b *bundle) { b.add("o1"); b.start("o1") }, "charge/o1 is attempting: still on its way"},
			{"succeeded", func(b *bundle) { b.add("o1"); b.attempt("o1", succeeded()) }, "charge/o1 succeeded"},
			{"a tombstone of a succeeded one", func(b *bundle) { b.add("o1"); b.attempt("o1", succeeded()); b.pass(8 * day); b.retire() }, "charge/o1 succeeded"},
			{"unresolved", func(b *bundle) { b.unresolved("o1") }, "charge/o1 is unresolved and may have taken effect: resolve it first"},
			{"dead with its outcome unknown", func(b *bundle) {
				b.class(jobs.IdempotencyNone)
				b.add("o1")
				b.attempt("o1", unknown(0))
			}, "charge/o1 is dead and may have taken effect: resolve it first"},
			{"written off", func(b *bundle) {
				b.class(jobs.IdempotencyNone)
				b.add("o1")
				b.attempt("o1", unknown(0))
				b.resolve("o1", WrittenOff)
			}, "charge/o1 is cancelled and may have taken effect: reconcile it first"},
			{"in conflict with another request", func(b *bundle) {
				b.add("o1")
				b.attempt("o1", with(ends(""), func(r *Result) { r.Step = StepConflict }))
			}, "charge/o1 is dead (conflict)"},
		} {
			s.test(c.is, func(b *bundle) {
				c.make(b)
				before := b.dump()
				r := b.submit("o2", newAttemptOf("o1"))
				if c.while == "" {
					b.wantAnswer(r, jobs.Accepted, jobs.Waiting)
					if of := b.get("o2").NewAttemptOf; of == nil || *of != id("o1") {
						b.Fatalf("new attempt of %v", of)
					}
					return
				}
				b.wantBarred(r, c.while)
				if after := b.dump(); after != before {
					b.Fatalf("a refusal changed the store:\n%s\nwas\n%s", after, before)
				}
				if len(b.chains()) != 0 {
					b.Fatal("a refusal was counted")
				}
			})
		}
	})
}

func TestNewAttemptLooksAtTheWholeChain(t *testing.T) {
	each(t, func(s *suite) {
		s.test("one that is on its way bars all others, whichever they name", func(b *bundle) {
			b.declined("o1")
			b.add("o2", newAttemptOf("o1"))
			b.wantBarred(b.submit("o3", newAttemptOf("o1")), "charge/o2 is waiting")
			b.attempt("o2", ends(jobs.ReasonPermanent))
			b.declined("o3", newAttemptOf("o1"))
		})
		s.test("a request path that sends it itself is held to the same", func(b *bundle) {
			b.add("o1")
			if r, g := b.submitBegun("o2", "run-x", newAttemptOf("o1")); r.Answer != jobs.Refused || !r.Barred || g != nil {
				b.Fatalf("%+v, grant %v", r, g)
			}
			b.cancel("o1")
			r, g := b.submitBegun("o2", "run-y", newAttemptOf("o1"))
			b.wantAnswer(r, jobs.Accepted, jobs.Attempting)
			if g == nil || len(r.Warnings) != 0 {
				b.Fatalf("grant %v, warnings %q", g, r.Warnings)
			}
			b.wantBarred(b.submit("o3", newAttemptOf("o1")), "charge/o2 is attempting")
		})
		s.test("two in one call: the first is let in", func(b *bundle) {
			b.declined("o1")
			receipts, err := b.Submit(b.Context(), b.submitTerms(), []Entry{b.entry("o2", newAttemptOf("o1")), b.entry("o3", newAttemptOf("o1"))})
			b.must(err)
			b.check()
			b.wantAnswer(receipts[0], jobs.Accepted, jobs.Waiting)
			b.wantBarred(receipts[1], "charge/o2 is waiting")
		})
		s.test("of many at the same time one is let in", func(b *bundle) {
			b.declined("o1")
			var accepted sync.Map
			var all sync.WaitGroup
			for i := range 8 {
				e := b.entry(fmt.Sprintf("n%d", i), newAttemptOf("o1"))
				all.Go(func() { // ends with its call; waited for below
					receipts, err := b.Submit(b.Context(), b.submitTerms(), []Entry{e})
					if err == nil && receipts[0].Answer == jobs.Accepted {
						accepted.Store(i, true)
					}
				})
			}
			all.Wait()
			n := 0
			accepted.Range(func(any, any) bool { n++; return true })
			if n != 1 {
				b.Fatalf("%d were let in", n)
			}
			b.check()
		})
		s.test("a late success of an earlier member bars, and is a conflict", func(b *bundle) {
			b.add("o1")
			b.lose(b.start("o1"), with(lost(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonPoison }))
			b.pass(b.target.ClaimLease)
			b.wantDone(b.resolve("o1", ResolvedNotApplied), DoneOK, jobs.Dead)
			b.declined("o2", newAttemptOf("o1"))
			b.submit("o1", b.sent("req-9", jobs.OutcomeUnknown, time.Second), func(s *jobs.Submission) { s.IdempotencyKey = "" })
			b.wantBarred(b.submit("o3", newAttemptOf("o2")), "charge/o1 is dead and may have taken effect")
			b.wantDone(b.resolve("o1", ResolvedApplied), DoneOK, jobs.Succeeded)
			b.wantFlags("o1", jobs.FlagConflict)
			b.wantBarred(b.submit("o3", newAttemptOf("o2")), "charge/o1 succeeded")
		})
		s.test("one of which nothing is kept any more bars", func(b *bundle) {
			b.declined("o1")
			b.add("o2", newAttemptOf("o1"))
			b.attempt("o2", succeeded())
			b.pass(8 * day)
			b.retire()
			b.wantBarred(b.submit("o3", newAttemptOf("o1")), "charge/o2 succeeded")
			b.pass(2160 * hour)
			b.retire()
			b.wantBarred(b.submit("o3", newAttemptOf("o1")), "charge/o1 was tried again as charge/o2, of which nothing is kept any more")
		})
		s.test("a tombstone still knows what followed it", func(b *bundle) {
			b.add("o1")
			b.cancel("o1")
			b.add("o2", newAttemptOf("o1"), deadline("500h"))
			b.pass(8 * day)
			b.retire()
			b.wantBarred(b.submit("o3", newAttemptOf("o1")), "charge/o2 is waiting")
		})
		s.test("under the key of one that was declined it is refused", func(b *bundle) {
			b.declined("o1")
			r := b.submit("o2", newAttemptOf("o1"), func(s *jobs.Submission) { s.IdempotencyKey = "charge:o1" })
			if r.Answer != jobs.Refused || r.Barred || !strings.HasPrefix(text(r.Error), "idempotency_key: charge/o1 was sent under the same one") {
				b.Fatalf("%s, barred %v: %s", r.Answer, r.Barred, text(r.Error))
			}
		})
		s.test("what only the dependency knew has a free key of its own", func(b *bundle) {
			b.asks()
			_, err := b.Reconcile(b.Context(), b.spec, id("o1"), time.Time{}, ann)
			b.must(err)
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.pass(settleFor + time.Second)
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "cancelled")
			b.wantBarred(b.submit("o2", newAttemptOf("o1")), "charge/o1 was never sent from here: its key is free")
		})
	})
}

func TestNewAttemptIsCounted(t *testing.T) {
	each(t, func(s *suite) {
		s.test("over the window of the chain, the first operation included", func(b *bundle) {
			b.limits(3, 30*day, jobs.AfterNeverRefuse)
			b.declined("o1")
			first := b.get("o1").CreatedAt
			b.pass(day)
			b.declined("o2", newAttemptOf("o1"))
			b.pass(day)
			b.declined("o3", newAttemptOf("o2"))
			if c := b.chainOf("o3"); c.Number != 3 || c.Terms.Limit != 3 || c.TriedAgainAs != nil {
				b.Fatalf("%+v", c)
			}
			if c := b.chainOf("o1"); c.Number != 0 || c.TriedAgainAs == nil || *c.TriedAgainAs != id("o2") {
				b.Fatalf("%+v", c)
			}
			r := b.submit("o4", newAttemptOf("o3"))
			since, next := jobs.At(first.Add(-2*day)), jobs.At(first.Add(28*day))
			b.wantBarred(r, fmt.Sprintf("3 attempts since %s, at most 3 in 720h0m0s are allowed: the next one from %s", since, next))
			b.pass(28*day + time.Second) // the first one has left the window
			b.declined("o4", newAttemptOf("o3"))
			if c := b.chainOf("o4"); c.Number != 3 {
				b.Fatalf("%+v", c)
			}
			b.wantBarred(b.submit("o5", newAttemptOf("o1")), "3 attempts since")
		})
		s.test("a duplicate counts once, a conflict and a refusal not at all", func(b *bundle) {
			b.limits(2, 30*day, jobs.AfterNeverRefuse)
			b.declined("o1")
			b.wantBarred(b.submit("o0", newAttemptOf("o9")), "charge/o9 is not known here")
			b.add("o2", newAttemptOf("o1"))
			count := func() int64 { return b.rdb.ZCard(b.Context(), b.key(dep, "chain:charge/o1")).Val() }
			for range 3 {
				b.wantAnswer(b.submit("o2", newAttemptOf("o1")), jobs.Duplicate, jobs.Waiting)
				b.wantAnswer(b.submit("o2", newAttemptOf("o1"), body(`{"amount":1}`)), jobs.Conflict, jobs.Waiting)
			}
			b.wantAnswer(b.submit("o2"), jobs.Duplicate, jobs.Waiting)
			if r := b.submit("o2", newAttemptOf("o7")); r.Answer != jobs.Conflict || fmt.Sprint(r.Differs) != "[new_attempt_of]" {
				b.Fatalf("%+v", r)
			}
			if count() != 2 {
				b.Fatalf("%d are counted", count())
			}
			b.attempt("o2", ends(jobs.ReasonPermanent))
			b.wantBarred(b.submit("o3", newAttemptOf("o2")), "2 attempts since")
			if count() != 2 {
				b.Fatalf("a refusal counts: %d", count())
			}
		})
		s.test("what retention let go of is still counted, and the count ends with the window", func(b *bundle) {
			b.limits(2, 30*day, jobs.AfterNeverRefuse)
			b.terms.Retention.DeadMS = day.Milliseconds()
			b.declined("o1")
			b.pass(hour)
			b.declined("o2", newAttemptOf("o1"))
			b.pass(day - minute)
			b.retire()
			if _, err := b.Get(b.Context(), dep, id("o1"), nil); err == nil {
				b.Fatal("o1 is still there")
			}
			b.wantBarred(b.submit("o3", newAttemptOf("o2")), "2 attempts since")
			left, err := b.rdb.PTTL(b.Context(), b.key(dep, "chain:charge/o1")).Result()
			b.must(err)
			b.near("what is counted lives for", left, 29*day+minute)
			b.pass(30 * day)
			if len(b.chains()) != 0 {
				b.Fatal("the count outlives its window")
			}
			b.add("o3", newAttemptOf("o2"))
		})
		s.test("a chain has an end, however slow it is", func(b *bundle) {
			b.unchecked = true
			b.limits(100, time.Second, jobs.AfterNeverRefuse)
			b.declined("n0")
			for i := 1; i < jobs.MaxChain; i++ {
				key := fmt.Sprintf("n%d", i)
				b.add(key, newAttemptOf(fmt.Sprintf("n%d", i-1)))
				b.cancel(key)
				b.passChains(time.Second)
			}
			b.wantBarred(b.submit("n100", newAttemptOf("n0")), "100 attempts at one payment")
			b.wantBarred(b.submit("n100", newAttemptOf("n99")), "100 attempts at one payment")
			b.wantAnswer(b.submit("n100", newAttemptOf("n0"), b.sent("req-1", jobs.OutcomeUnknown, time.Second)), jobs.Accepted, jobs.Dead)
			if last := b.chainOf("n99"); last.TriedAgainAs != nil {
				b.Fatalf("the last member was tried again as %s", last.TriedAgainAs)
			}
		})
		s.test("an operation without a link costs nothing more", func(b *bundle) {
			b.add("o1")
			for _, field := range []string{"of", "prev", "root", "tried", "again"} {
				if v := b.field("o1", field); v != "" {
					b.Fatalf("field %s is %q", field, v)
				}
			}
			if len(b.chains()) != 0 {
				b.Fatal("a chain of one")
			}
		})
	})
}

func TestNeverAgain(t *testing.T) {
	each(t, func(s *suite) {
		never := func(r *Result) { r.Again = jobs.AgainNever }
		s.test("on any member it bars for good", func(b *bundle) {
			b.declined("o1")
			b.add("o2", newAttemptOf("o1"))
			b.attempt("o2", with(ends(jobs.ReasonPermanent), never))
			if again := b.get("o2").Again; again == nil || *again != jobs.AgainNever {
				b.Fatalf("again %v", again)
			}
			b.pass(300 * day)
			for _, of := range []string{"o1", "o2"} {
				b.wantBarred(b.submit("o3", newAttemptOf(of)), "charge/o2 was declined with never again: no other attempt may follow")
			}
		})
		s.test("unless the configuration lets it in", func(b *bundle) {
			b.limits(10, 30*day, jobs.AfterNeverAllow)
			b.add("o1")
			b.attempt("o1", with(ends(jobs.ReasonPermanent), never))
			b.add("o2", newAttemptOf("o1"))
		})
		s.test("nor is it requeued", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", with(ends(jobs.ReasonPermanent), never))
			b.wantDone(b.requeue("o1", Requeue{}).Done, DoneRefused, jobs.Dead)
		})
	})
}

func TestOnlyTheLastAttemptIsRequeued(t *testing.T) {
	each(t, func(s *suite) {
		s.test("one that was tried again is not", func(b *bundle) {
			b.declined("o1")
			b.declined("o2", newAttemptOf("o1"))
			for _, dry := range []bool{true, false} {
				r := b.requeue("o1", Requeue{DryRun: dry})
				b.wantDone(r.Done, DoneRefused, jobs.Dead)
				if r.Detail != "it was tried again as charge/o2: that goes on in its place" {
					b.Fatal(r.Detail)
				}
			}
			b.wantDone(b.requeue("o2", Requeue{}).Done, DoneOK, jobs.Waiting)
		})
		s.test("nor the last one while an earlier one may have taken effect", func(b *bundle) {
			b.declined("o1")
			b.declined("o2", newAttemptOf("o1"))
			b.submit("o1", b.sent("req-9", jobs.OutcomeUnknown, time.Second), func(s *jobs.Submission) { s.IdempotencyKey = "" })
			r := b.requeue("o2", Requeue{})
			b.wantDone(r.Done, DoneRefused, jobs.Dead)
			if !strings.Contains(r.Detail, "charge/o1 is dead and may have taken effect") {
				b.Fatal(r.Detail)
			}
		})
	})
}

func TestAnAttemptThatWasSentAgainstTheRulesIsKept(t *testing.T) {
	each(t, func(s *suite) {
		sent := func(b *bundle, of string) jobs.Receipt {
			return b.submit("o2", newAttemptOf(of), b.sent("req-1", jobs.OutcomeUnknown, time.Second))
		}
		s.test("and nothing more is sent for it, also once it is known not to be applied", func(b *bundle) {
			b.class(jobs.IdempotencyNatural)
			b.asks()
			b.add("o1")
			b.attempt("o1", succeeded())
			r := sent(b, "o1")
			b.wantAnswer(r, jobs.Accepted, jobs.Unresolved)
			if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "nothing more is sent for it: charge/o1 succeeded") {
				b.Fatalf("warnings %q", r.Warnings)
			}
			b.settledTime()
			b.ask("o2", jobs.InquiryNotFound)
			b.pass(settleFor + time.Second)
			b.ask("o2", jobs.InquiryNotFound)
			b.want("o2", "dead/permanent")
			b.wantDone(b.requeue("o2", Requeue{DeadlineSpan: hour}).Done, DoneRefused, jobs.Dead)
		})
		s.test("where nobody can be asked a person must look", func(b *bundle) {
			b.add("o1")
			b.wantAnswer(sent(b, "o1"), jobs.Accepted, jobs.Dead)
			b.want("o2", "dead/unsafe")
			if why := b.get("o2").ResendUnsafe(&b.spec, b.now()); !strings.Contains(why, "new attempt") {
				b.Fatal(why)
			}
		})
		s.test("where it is known to have been refused nothing is kept", func(b *bundle) {
			b.add("o1")
			b.wantBarred(b.submit("o2", newAttemptOf("o1"), b.sent("req-1", jobs.OutcomeRefused, time.Second)), "charge/o1 is waiting")
		})
		s.test("in order it is one like any other", func(b *bundle) {
			b.declined("o1")
			b.wantAnswer(sent(b, "o1"), jobs.Accepted, jobs.Waiting)
		})
	})
}

func TestPrepareRefusesALinkThatCannotBe(t *testing.T) {
	t.Parallel()
	spec := jobs.KindSpec{Kind: "charge", Dependency: dep, Method: "POST", Path: "/v1/charges"}
	for _, of := range []string{"charge/o1", "charge", "Charge/o2", "charge/", "charge/a b"} {
		_, err := Prepare(&jobs.Submission{Kind: "charge", Key: "o1", Body: []byte(`1`), NewAttemptOf: of}, spec)
		if f, ok := err.(*FieldError); !ok || f.Field != "new_attempt_of" {
			t.Errorf("%q: %v", of, err)
		}
	}
	e, err := Prepare(&jobs.Submission{Kind: "charge", Key: "o1", Body: []byte(`1`), NewAttemptOf: "old/o1"}, spec)
	if want := (link{Of: "old/o1", Limit: 10, WithinMS: 2_592_000_000, AfterNever: "refuse"}); err != nil || e.meta.link != want {
		t.Errorf("%+v, %v", e.meta.link, err)
	}
}
