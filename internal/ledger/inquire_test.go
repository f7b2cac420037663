package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

const (
	settleFor   = 30 * time.Second
	giveUpAfter = 72 * hour
)

// asks gives the kind an inquiry, as a worker whose configuration has one does.
func (b *bundle) asks() {
	b.Helper()
	b.spec.Inquiry = &jobs.InquirySpec{SettleMS: settleFor.Milliseconds(), GiveUpAfterMS: giveUpAfter.Milliseconds()}
	if b.voids {
		b.spec.Void = &jobs.VoidSpec{Kind: "void"}
	}
	b.must(b.PublishKinds(b.Context(), []jobs.KindSpec{b.spec}))
}

// inquire hands out every inquiry that is due.
func (b *bundle) inquire() Inquire {
	b.Helper()
	b.runs++
	r, err := b.Inquire(b.Context(), b.terms, b.kinds, 100, fmt.Sprintf("%016x%016x", b.runs, 1), 10*time.Second)
	b.must(err)
	b.check()
	return r
}

// question hands out the inquiry of key, which must be the only one due.
func (b *bundle) question(key string) Question {
	b.Helper()
	r := b.inquire()
	if len(r.Questions) != 1 || r.Questions[0].ID != id(key) {
		b.Fatalf("inquire gave %v (hold %q), want %s", r.Questions, r.Hold, key)
	}
	return r.Questions[0]
}

func (b *bundle) inquired(q Question, answer jobs.InquiryAnswer, changes ...func(*Inquired)) Finish {
	b.Helper()
	in := Inquired{Answer: answer, BaseURL: b.target.BaseURL, Status: 200, Delay: 5 * time.Second}
	for _, c := range changes {
		c(&in)
	}
	f, err := b.Inquired(b.Context(), b.terms, q, in)
	b.must(err)
	b.check()
	return f
}

// ask makes one inquiry.
func (b *bundle) ask(key string, answer jobs.InquiryAnswer, changes ...func(*Inquired)) Finish {
	b.Helper()
	return b.inquired(b.question(key), answer, changes...)
}

// unresolved brings key of class none to unresolved with one unknown attempt, whose
// settle time has not begun to pass.
func (b *bundle) unresolved(key string) {
	b.Helper()
	b.class(jobs.IdempotencyNone)
	b.asks()
	b.add(key, deadline("48h"))
	b.attempt(key, with(unknown(0), ask))
	b.want(key, "unresolved")
}

// settledTime lets so much go by that "not found" proves something.
func (b *bundle) settledTime() { b.Helper(); b.pass(b.target.ClaimLease + settleFor) }

func stayDead(in *Inquired)   { in.StayDead = true }
func notApplied(in *Inquired) { in.NotApplied = true }

func TestAnUnknownOutcomeIsAskedAbout(t *testing.T) {
	each(t, func(s *suite) {
		for _, c := range []struct {
			answer jobs.InquiryAnswer
			change func(*Inquired)
			want   string
			apply  jobs.Applied
		}{
			{jobs.InquirySucceeded, func(*Inquired) {}, "succeeded", jobs.AppliedYes},
			{jobs.InquiryFailed, func(*Inquired) {}, "dead/permanent", jobs.AppliedNo},
			{jobs.InquiryFailed, notApplied, "waiting", jobs.AppliedNo},
			{jobs.InquiryPending, func(*Inquired) {}, "unresolved", jobs.AppliedUnknown},
			{jobs.InquiryNothing, func(*Inquired) {}, "unresolved", jobs.AppliedUnknown},
			{jobs.InquiryNotFound, func(*Inquired) {}, "unresolved", jobs.AppliedUnknown}, // once proves nothing
		} {
			s.test(fmt.Sprintf("%s leads to %s", c.answer, c.want), func(b *bundle) {
				b.unresolved("o1")
				b.settledTime()
				b.ask("o1", c.answer, c.change)
				b.want("o1", c.want)
				b.wantApplied("o1", c.apply)
				if d := b.get("o1"); d.Inquiries != 1 || d.Sends != 1 {
					b.Fatalf("%d inquiries, %d sends", d.Inquiries, d.Sends)
				}
			})
		}
		s.test("nothing is asked before the settle time is over, the claim's lease included", func(b *bundle) {
			b.unresolved("o1")
			b.pass(b.target.ClaimLease + settleFor - time.Second)
			if r := b.inquire(); len(r.Questions) != 0 {
				b.Fatalf("asked %v", r.Questions)
			}
			b.pass(time.Second)
			b.question("o1")
		})
		s.test("one under way is handed out again only when its lease is over, and nothing is counted", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			b.question("o1")
			if r := b.inquire(); len(r.Questions) != 0 {
				b.Fatalf("asked %v twice", r.Questions)
			}
			b.pass(11 * time.Second)
			if q := b.question("o1"); q.Tries != 2 {
				b.Fatalf("%d tries", q.Tries)
			}
		})
		s.test("pending and failed inquiries use up no attempt", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			for range 8 {
				b.ask("o1", jobs.InquiryPending)
				b.pass(6 * time.Second)
				b.ask("o1", jobs.InquiryNothing)
				b.pass(6 * time.Second)
			}
			b.ask("o1", jobs.InquiryFailed, notApplied)
			b.want("o1", "waiting")
			if d := b.get("o1"); d.Used != 1 || d.Inquiries != 17 {
				b.Fatalf("%d used, %d inquiries", d.Used, d.Inquiries)
			}
		})
		s.test("without an inquiry a person must look", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1")
			b.attempt("o1", with(unknown(0), ask))
			b.want("o1", "dead/unsafe")
		})
	})
}

func TestNotFoundSettlesOnlyWhenSeenTwice(t *testing.T) {
	each(t, func(s *suite) {
		s.test("and then the operation goes on", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "unresolved")
			b.pass(settleFor + time.Second)
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "waiting")
			b.wantApplied("o1", jobs.AppliedNo)
			b.attempt("o1", succeeded())
			b.want("o1", "succeeded")
		})
		s.test("or stays dead where the kind says so, to be requeued by a person", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound, stayDead)
			b.pass(settleFor + time.Second)
			b.ask("o1", jobs.InquiryNotFound, stayDead)
			b.want("o1", "dead/unresolved")
			b.wantApplied("o1", jobs.AppliedNo)
			if r := b.requeue("o1", Requeue{}); r.Verdict != DoneOK {
				b.Fatalf("requeue: %s %s", r.Verdict, r.Detail)
			}
		})
		s.test("the second no earlier than the settle time after the first", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.must(b.rdb.ZAdd(b.Context(), b.key(dep, "unresolved"), zAt(b.now(), "charge/o1")).Err()) // too early
			b.pass(settleFor - 2*time.Second)
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "unresolved")
			b.pass(5 * time.Second)
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "waiting")
		})
		s.test("the first not before the settle time is over, whenever it was asked", func(b *bundle) {
			b.unresolved("o1")
			d, err := b.Reconcile(b.Context(), b.spec, id("o1"), time.Time{}, ann) // a person cannot wait
			b.must(err)
			if d.Verdict != DoneOK {
				b.Fatal(d)
			}
			b.ask("o1", jobs.InquiryNotFound)
			b.pass(b.target.ClaimLease + settleFor + time.Second)
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "unresolved")
		})
		for _, between := range []jobs.InquiryAnswer{jobs.InquiryPending, jobs.InquiryNothing} {
			s.test("with no other answer between: "+string(between), func(b *bundle) {
				b.unresolved("o1")
				b.settledTime()
				b.ask("o1", jobs.InquiryNotFound)
				b.pass(settleFor + time.Second)
				b.ask("o1", between)
				b.pass(6 * time.Second)
				b.ask("o1", jobs.InquiryNotFound)
				b.want("o1", "unresolved")
			})
		}
		s.test("and no send between", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.submit("o1", b.sentPlain("r1", jobs.OutcomeUnknown))
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.want("o1", "unresolved")
		})
		s.test("never where the other side has taken it", func(b *bundle) {
			b.class(jobs.IdempotencyKeyed)
			b.asks()
			b.add("o1", deadline("48h"))
			b.attempt("o1", with(unknown(0), ask, func(r *Result) { r.Acted, r.Verdict = true, jobs.VerdictPendingPoll }))
			b.settledTime()
			for range 5 {
				b.ask("o1", jobs.InquiryNotFound)
				b.pass(hour)
			}
			b.want("o1", "unresolved")
			b.ask("o1", jobs.InquiryFailed)
			b.want("o1", "dead/permanent")
		})
		s.test("where the answer says what the list of attempts is now", func(b *bundle) {
			// T83: an inquiry that lags: its answer is about the time before another send.
			b.unresolved("o1")
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.pass(settleFor + time.Second)
			lagging := b.question("o1")
			b.submit("o1", b.sentPlain("r1", jobs.OutcomeUnknown))
			if f := b.inquired(lagging, jobs.InquiryNotFound); f.How != HowKnown {
				b.Fatalf("taken as %s", f.How)
			}
			b.want("o1", "unresolved")
		})
		s.test("where every unknown attempt went: another base_url or credential knows nothing of it", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			for range 4 {
				for _, answer := range []jobs.InquiryAnswer{jobs.InquiryNotFound, jobs.InquiryFailed} {
					b.ask("o1", answer, func(in *Inquired) { in.BaseURL = "https://new.example" })
					b.want("o1", "unresolved")
					b.pass(hour)
				}
			}
			b.ask("o1", jobs.InquirySucceeded, func(in *Inquired) { in.BaseURL = "https://new.example" })
			b.want("o1", "succeeded")
		})
		s.test("each answer once", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			q := b.question("o1")
			b.inquired(q, jobs.InquiryNotFound)
			b.pass(2 * settleFor)
			if f := b.inquired(q, jobs.InquiryNotFound); f.How != HowKnown { // its reply was lost
				b.Fatalf("taken as %s", f.How)
			}
			b.want("o1", "unresolved")
		})
	})
}

// sentPlain reports a send of the request path under the operation's default key.
func (b *bundle) sentPlain(id string, outcome jobs.Outcome) change {
	return func(s *jobs.Submission) {
		s.Attempted = &jobs.Attempted{ID: id, Outcome: outcome, Class: likely[outcome], FirstSentAt: b.now().UTC().Format(time.RFC3339Nano)}
	}
}

// Found by the model: the gateway lists an earlier attempt as failed while the unknown
// one is still on its way to it.
func TestFailedProvesNothingBeforeTheSettleTimeIsOver(t *testing.T) {
	each(t, func(s *suite) {
		s.test("whenever it was asked", func(b *bundle) {
			b.unresolved("o1")
			_, err := b.Reconcile(b.Context(), b.spec, id("o1"), time.Time{}, ann)
			b.must(err)
			b.ask("o1", jobs.InquiryFailed, notApplied)
			b.want("o1", "unresolved")
			b.settledTime()
			b.ask("o1", jobs.InquiryFailed, notApplied)
			b.want("o1", "waiting")
		})
	})
}

func TestFailedProvesNothingOfWhatTheOtherSideTook(t *testing.T) {
	each(t, func(s *suite) {
		acted := with(unknown(0), ask, func(r *Result) { r.Acted, r.Verdict = true, jobs.VerdictPendingPoll })
		s.test("beside an earlier attempt that failed", func(b *bundle) {
			b.class(jobs.IdempotencyKeyed)
			b.asks()
			b.add("o1", deadline("48h"))
			b.attempt("o1", refused(0))
			b.attempt("o1", acted)
			b.settledTime()
			b.ask("o1", jobs.InquiryFailed, notApplied)
			b.want("o1", "unresolved")
		})
		s.test("but of the only attempt there is", func(b *bundle) {
			b.class(jobs.IdempotencyKeyed)
			b.asks()
			b.add("o1", deadline("48h"))
			b.attempt("o1", acted)
			b.settledTime()
			b.ask("o1", jobs.InquiryFailed)
			b.want("o1", "dead/permanent")
		})
	})
}

// Found by the model: a person sees nothing at the gateway yet, honestly.
func TestNotAppliedIsBelievedOnlyWhenNoSendCanTakeEffectAnyMore(t *testing.T) {
	each(t, func(s *suite) {
		s.test("with an inquiry: after the settle time", func(b *bundle) {
			b.unresolved("o1")
			b.pass(b.target.ClaimLease + settleFor - time.Second)
			if d := b.resolve("o1", ResolvedNotApplied); d.Verdict != DoneRefused {
				b.Fatal(d)
			}
			b.pass(time.Second)
			if d := b.resolve("o1", ResolvedNotApplied); d.Verdict != DoneOK {
				b.Fatal(d)
			}
		})
		s.test("without one: after the claim's lease", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1")
			b.attempt("o1", with(unknown(0), ask))
			if d := b.resolve("o1", ResolvedNotApplied); d.Verdict != DoneRefused {
				b.Fatal(d)
			}
			b.pass(b.target.ClaimLease)
			if d := b.resolve("o1", ResolvedNotApplied); d.Verdict != DoneOK {
				b.Fatal(d)
			}
		})
		s.test("what the request path reports is over when it is recorded", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", b.sentPlain("r1", jobs.OutcomeUnknown))
			if d := b.resolve("o1", ResolvedNotApplied); d.Verdict != DoneOK {
				b.Fatal(d)
			}
		})
	})
}

func TestTheIntentHappensOnceAllIsSettledAsNotApplied(t *testing.T) {
	each(t, func(s *suite) {
		settled := func(b *bundle) {
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.pass(settleFor + time.Second)
			b.ask("o1", jobs.InquiryNotFound)
		}
		s.test("cancelled", func(b *bundle) {
			b.unresolved("o1")
			b.cancel("o1")
			b.want("o1", "unresolved")
			settled(b)
			b.want("o1", "cancelled")
		})
		s.test("dead for want of attempts", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.asks()
			b.add("o1", deadline("48h"))
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
			b.want("o1", "unresolved")
			settled(b)
			b.want("o1", "dead/attempts")
		})
		s.test("waiting, but past its deadline: dead", func(b *bundle) {
			b.unresolved("o1")
			b.pass(48 * hour)
			b.ask("o1", jobs.InquiryNotFound)
			b.pass(settleFor + time.Second)
			b.ask("o1", jobs.InquiryNotFound)
			b.sweep()
			b.sweep()
			b.want("o1", "dead/deadline")
		})
		s.test("by a person: not applied", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			if d := b.resolve("o1", ResolvedNotApplied); d.Verdict != DoneOK {
				b.Fatal(d)
			}
			b.want("o1", "waiting")
		})
		s.test("by a person: applied, written off", func(b *bundle) {
			b.unresolved("o1")
			b.resolve("o1", ResolvedApplied)
			b.want("o1", "succeeded")
			b.unresolved("o2")
			b.resolve("o2", WrittenOff)
			b.want("o2", "cancelled")
			b.wantApplied("o2", jobs.AppliedUnknown)
		})
		s.test("by the lost worker's own late result", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.asks()
			b.add("o1", deadline("48h"))
			g := b.start("o1")
			b.lose(g, with(lost(0), ask))
			b.want("o1", "unresolved")
			b.finish(g, refused(0))
			b.want("o1", "waiting")
			b.wantApplied("o1", jobs.AppliedNo)
		})
	})
}

func TestGivingUp(t *testing.T) {
	each(t, func(s *suite) {
		s.test("after its time a person must look, and the mark stays", func(b *bundle) {
			b.unresolved("o1")
			b.pass(giveUpAfter)
			b.sweep()
			b.want("o1", "dead/unresolved")
			b.wantApplied("o1", jobs.AppliedUnknown)
			if r := b.requeue("o1", Requeue{}); r.Verdict != DoneRefused {
				b.Fatalf("requeue: %s", r.Verdict)
			}
			if d := b.discard("o1"); d.Verdict != DoneRefused {
				b.Fatalf("discard: %s", d.Verdict)
			}
		})
		s.test("a kind whose inquiry nobody has for an hour", func(b *bundle) {
			b.unresolved("o1")
			b.sweep()
			b.want("o1", "unresolved")
			terms := b.rdb.HGet(b.Context(), b.key(dep, "kinds"), "charge").Val()
			seen := b.now().Add(-61 * minute).UnixMilli()
			b.must(b.rdb.HSet(b.Context(), b.key(dep, "kinds"), "charge", terms[:strings.LastIndex(terms, " ")]+fmt.Sprintf(" %d", seen)).Err())
			b.sweep()
			b.want("o1", "dead/unsafe")
		})
	})
}

func TestReconcile(t *testing.T) {
	each(t, func(s *suite) {
		reconcile := func(b *bundle, key string) Done {
			b.Helper()
			d, err := b.Reconcile(b.Context(), b.spec, id(key), time.Time{}, ann)
			b.must(err)
			b.check()
			return d
		}
		twice := func(b *bundle, key string) {
			b.Helper()
			b.settledTime()
			b.ask(key, jobs.InquiryNotFound)
			b.pass(settleFor + time.Second)
			b.ask(key, jobs.InquiryNotFound)
		}
		s.test("of one is asked before all that waits for its turn", func(b *bundle) {
			for _, key := range []string{"a1", "a2", "a3"} {
				b.unresolved(key)
			}
			b.pass(hour)
			reconcile(b, "a3")
			r, err := b.Inquire(b.Context(), b.terms, b.kinds, 1, "run", minute)
			b.must(err)
			if len(r.Questions) != 1 || r.Questions[0].ID != id("a3") {
				b.Fatalf("asked %v", r.Questions)
			}
		})
		s.test("of one that only the gateway knows, found", func(b *bundle) {
			b.asks()
			reconcile(b, "x1")
			b.want("x1", "unresolved")
			b.pass(settleFor)
			b.ask("x1", jobs.InquirySucceeded)
			b.want("x1", "succeeded")
			if r := b.submit("x1"); r.Answer != jobs.Conflict {
				b.Fatalf("the same key: %s", r.Answer)
			}
		})
		s.test("of one that nobody knows: cancelled, and its key is free again", func(b *bundle) {
			b.asks()
			reconcile(b, "x1")
			twice(b, "x1")
			b.want("x1", "cancelled")
			b.wantApplied("x1", jobs.AppliedNo)
			b.add("x1")
			b.attempt("x1", succeeded())
			b.want("x1", "succeeded")
		})
		s.test("of a dead letter goes back to what it was", func(b *bundle) {
			b.asks()
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			if d := reconcile(b, "o1"); d.Verdict != DoneOK {
				b.Fatal(d)
			}
			b.want("o1", "unresolved")
			twice(b, "o1")
			b.want("o1", "dead/permanent")
		})
		s.test("of one whose outcome was unsafe goes on as it was meant to", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", deadline("48h"))
			b.attempt("o1", with(unknown(0), ask))
			b.want("o1", "dead/unsafe")
			if d := reconcile(b, "o1"); d.Verdict != DoneRefused {
				b.Fatalf("without an inquiry: %v", d)
			}
			b.asks()
			reconcile(b, "o1")
			twice(b, "o1")
			b.want("o1", "waiting")
		})
		s.test("in other states", func(b *bundle) {
			b.asks()
			b.add("o1")
			b.start("o1")
			if d := reconcile(b, "o1"); d.Verdict != DoneRefused {
				b.Fatalf("attempting: %v", d)
			}
			b.add("o2")
			reconcile(b, "o2")
			b.want("o2", "unresolved")
			if r := b.inquire(); len(r.Questions) != 1 {
				b.Fatalf("not asked at once: %v", r)
			}
		})
		s.test("a dead letter without unknown outcome that nobody can say anything of is what it was", func(b *bundle) {
			b.asks()
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			reconcile(b, "o1")
			b.pass(giveUpAfter)
			b.sweep()
			b.want("o1", "dead/permanent")
			b.wantApplied("o1", jobs.AppliedNo)
		})
	})
}

func TestNewsOfTheRequestPathWhileAsking(t *testing.T) {
	each(t, func(s *suite) {
		s.test("a dead letter whose duplicate reports an unknown send is asked about", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.asks()
			b.add("o1", deadline("48h"))
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.submit("o1", b.sentPlain("r1", jobs.OutcomeUnknown))
			b.want("o1", "unresolved")
			b.settledTime()
			b.ask("o1", jobs.InquiryFailed)
			b.want("o1", "dead/permanent")
		})
		s.test("an operation handed over as unknown without its key is asked about, never sent", func(b *bundle) {
			b.asks()
			b.add("o1", func(s *jobs.Submission) {
				s.Attempted = &jobs.Attempted{ID: "r1", Outcome: jobs.OutcomeUnknown, Class: jobs.ClassTimeout}
			})
			b.want("o1", "unresolved")
			if r := b.releaseUpTo(10); len(r.Deliveries) != 0 {
				b.Fatal("it was sent")
			}
		})
	})
}

func TestLateSuccessOfAnInquiry(t *testing.T) {
	each(t, func(s *suite) {
		s.test("past the deadline it is flagged, and undone where the kind says so", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.spec.Void = &jobs.VoidSpec{Kind: "void"}
			b.asks()
			b.add("o1", deadline("1h"))
			b.attempt("o1", with(unknown(0), ask))
			b.pass(2 * hour)
			b.ask("o1", jobs.InquirySucceeded)
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagLate)
			voids, err := b.Voids(b.Context(), dep)
			b.must(err)
			if !slices.Equal(voids, []jobs.ID{id("o1")}) {
				b.Fatalf("to void: %v", voids)
			}
			b.must(b.VoidLater(b.Context(), dep, id("o1"), minute))
			if voids, _ = b.Voids(b.Context(), dep); len(voids) != 0 {
				b.Fatalf("to void: %v", voids)
			}
			b.pass(minute)
			b.must(b.Voided(b.Context(), dep, id("o1"), jobs.ID{Kind: "void", Key: "charge:o1"}))
			if voids, _ = b.Voids(b.Context(), dep); len(voids) != 0 {
				b.Fatalf("to void: %v", voids)
			}
		})
		s.test("in time it is neither", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			b.ask("o1", jobs.InquirySucceeded, func(in *Inquired) { in.Values = map[string]string{"id": "ch_1"} })
			b.wantFlags("o1")
			if r := b.get("o1").Result; r["id"] != "ch_1" {
				b.Fatalf("result %v", r)
			}
		})
		s.test("that comes when the operation is on its way again still counts", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			q := b.question("o1")
			b.resolve("o1", ResolvedNotApplied)
			f := b.inquired(q, jobs.InquirySucceeded)
			b.wantHow(f, HowLate)
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagLate)
		})
		s.test("that contradicts another success is a conflict", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			q := b.question("o1")
			b.resolve("o1", ResolvedNotApplied)
			b.attempt("o1", with(succeeded(), paidAs("ch_2")))
			f := b.inquired(q, jobs.InquirySucceeded, func(in *Inquired) { in.Values = map[string]string{"id": "ch_1"} })
			if !f.Conflict {
				b.Fatal("no conflict told")
			}
			b.wantFlags("o1", jobs.FlagConflict)
		})
	})
}

func TestInquiriesAndRetriesTakeTurns(t *testing.T) {
	each(t, func(s *suite) {
		s.test("for one token after the other", func(b *bundle) {
			b.terms.Gate.FloorMilliPerSecond = 0
			b.class(jobs.IdempotencyNone)
			b.asks()
			for i := range 6 {
				b.add(fmt.Sprintf("u%d", i), deadline("48h"))
				b.attempt(fmt.Sprintf("u%d", i), with(unknown(0), ask))
				b.add(fmt.Sprintf("r%d", i), deadline("48h"))
				b.attempt(fmt.Sprintf("r%d", i), refused(hour))
			}
			b.pass(hour)
			b.sweep() // puts the due retries into their lane
			asked, retried := 0, 0
			for range 6 {
				b.tokens(1000)
				asked += len(b.inquire().Questions)
				for _, d := range b.releaseUpTo(100).Deliveries {
					b.attemptOf(d)
					retried++
				}
			}
			if asked != 3 || retried != 3 {
				b.Fatalf("%d inquiries and %d retries for 6 tokens, want 3 of each", asked, retried)
			}
		})
	})
}

// attemptOf ends a delivery with a success.
func (b *bundle) attemptOf(d Delivery) { b.Helper(); b.finish(b.begin(d), succeeded()) }

// Found by a stranger: a success within its deadline, learnt late because its worker
// stood still, was voided; one that a person had cancelled was not.
func TestOnlyASuccessThatNobodyWaitsForIsUndone(t *testing.T) {
	each(t, func(s *suite) {
		voided := func(b *bundle) bool {
			b.Helper()
			voids, err := b.Voids(b.Context(), dep)
			b.must(err)
			return len(voids) > 0
		}
		for _, c := range []struct {
			name string
			play func(b *bundle)
			want bool
		}{
			{"a late result within the deadline", func(b *bundle) {
				b.add("o1", deadline("48h"))
				g := b.start("o1")
				b.lose(g, with(lost(0), ask))
				b.finish(g, succeeded())
			}, false},
			{"an inquiry within the deadline", func(b *bundle) {
				b.unresolved("o1")
				b.settledTime()
				b.ask("o1", jobs.InquirySucceeded)
			}, false},
			{"past the deadline", func(b *bundle) {
				b.unresolved("o1")
				b.pass(50 * hour)
				b.ask("o1", jobs.InquirySucceeded)
			}, true},
			{"a person had cancelled it meanwhile", func(b *bundle) {
				b.unresolved("o1")
				b.cancel("o1")
				b.settledTime()
				b.ask("o1", jobs.InquirySucceeded)
			}, true},
			{"it had been given up", func(b *bundle) {
				b.unresolved("o1")
				b.pass(giveUpAfter)
				b.sweep()
				_, err := b.Reconcile(b.Context(), b.spec, id("o1"), time.Time{}, ann)
				b.must(err)
				b.ask("o1", jobs.InquirySucceeded)
			}, true},
			{"it was written off", func(b *bundle) {
				b.unresolved("o1")
				b.resolve("o1", WrittenOff)
				_, err := b.Reconcile(b.Context(), b.spec, id("o1"), time.Time{}, ann)
				b.must(err)
				b.settledTime()
				b.ask("o1", jobs.InquirySucceeded)
			}, true},
			{"one that only the gateway knew", func(b *bundle) {
				_, err := b.Reconcile(b.Context(), b.spec, id("o1"), time.Time{}, ann)
				b.must(err)
				b.settledTime()
				b.ask("o1", jobs.InquirySucceeded)
			}, false},
		} {
			s.test(c.name, func(b *bundle) {
				b.class(jobs.IdempotencyNone)
				b.voids = true
				b.asks()
				c.play(b)
				b.want("o1", "succeeded")
				if got := voided(b); got != c.want {
					b.Fatalf("voided: %v, want %v; flags %v", got, c.want, b.get("o1").Flags)
				}
			})
		}
	})
}
