package ledger

import (
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func (b *bundle) wantDone(d Done, verdict DoneVerdict, state jobs.State) {
	b.Helper()
	if d.Verdict != verdict || d.State != state {
		b.Fatalf("%s, state %s (%s); want %s, %s", d.Verdict, d.State, d.Detail, verdict, state)
	}
}

// lastAudit returns the newest entry as "action from>to by: note".
func (b *bundle) lastAudit() string {
	b.Helper()
	entries, err := b.Audit(b.Context(), dep, time.Time{}, 1)
	b.must(err)
	if len(entries) == 0 {
		return ""
	}
	e := entries[0]
	return e.Operation + " " + e.Action + " " + e.From + ">" + e.To + " " + e.By + ": " + e.Note
}

func (b *bundle) wantAudit(what string) {
	b.Helper()
	if got, want := b.lastAudit(), what+" ann@desk: called the bank"; got != want {
		b.Fatalf("audit %q, want %q", got, want)
	}
}

func TestCancel(t *testing.T) {
	each(t, func(s *suite) {
		s.test("waiting, released and dead without a mark are cancelled", func(b *bundle) {
			b.add("o1", deadline("1h"))
			d := b.release("o1")
			b.wantDone(b.cancel("o1"), DoneOK, jobs.Cancelled)
			b.wantAudit("charge/o1 cancel released>cancelled")
			b.wantStatus(b.beginAs(d, "run"), BeginStale)
			b.add("o2")
			b.wantDone(b.cancel("o2"), DoneOK, jobs.Cancelled)
			b.add("o3")
			b.attempt("o3", ends(jobs.ReasonPermanent))
			done := b.cancel("o3")
			b.wantDone(done, DoneOK, jobs.Cancelled)
			if len(done.Ended) != 1 || done.Ended[0].State != jobs.Cancelled {
				b.Fatalf("told of %+v", done.Ended)
			}
		})
		s.test("with the mark it needs a person, and keeps the intent", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", unknown(hour))
			b.wantDone(b.cancel("o1"), DoneOK, jobs.Dead)
			b.want("o1", "dead/unsafe")
			if got := text(b.get("o1").Intent); got != "cancelled" {
				b.Fatalf("intent %q, want cancelled", got)
			}
			b.wantDone(b.cancel("o1"), DoneRefused, jobs.Dead)
			b.wantAudit("charge/o1 cancel dead>refused")
			b.wantDone(b.discard("o1"), DoneRefused, jobs.Dead)
		})
		s.test("what has ended stays as it is", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", succeeded())
			b.wantDone(b.cancel("o1"), DoneRefused, jobs.Succeeded)
			b.add("o2")
			b.cancel("o2")
			b.wantDone(b.cancel("o2"), DoneRefused, jobs.Cancelled)
			b.wantDone(b.cancel("ghost"), DoneMissing, "")
		})
		s.test("discard is for dead letters", func(b *bundle) {
			b.add("o1")
			b.wantDone(b.discard("o1"), DoneRefused, jobs.Waiting)
			b.wantAudit("charge/o1 discard waiting>refused")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.wantDone(b.discard("o1"), DoneOK, jobs.Cancelled)
			b.wantAudit("charge/o1 discard dead>cancelled")
		})
	})
}

func TestResolve(t *testing.T) {
	each(t, func(s *suite) {
		unsafe := func(b *bundle) {
			b.Helper()
			b.class(jobs.IdempotencyNone)
			b.add("o1")
			b.attempt("o1", with(unknown(0), ask))
			b.want("o1", "dead/unsafe")
		}
		s.test("applied: succeeded, by whom and with what proof", func(b *bundle) {
			unsafe(b)
			b.wantDone(b.resolve("o1", ResolvedApplied), DoneOK, jobs.Succeeded)
			b.wantAudit("charge/o1 resolve applied dead>succeeded")
			d := b.get("o1")
			if d.Applied != jobs.AppliedYes || d.By != "ann@desk" || d.Ref != "ch_77" || d.FirstSentAt == nil || d.Intent != nil {
				b.Fatalf("%+v", d)
			}
		})
		s.test("not applied: stays dead without the mark, and may be requeued", func(b *bundle) {
			unsafe(b)
			if r := b.requeue("o1", Requeue{}); r.Verdict != DoneRefused || !strings.Contains(r.Detail, "resolve it first") {
				b.Fatalf("requeue before: %s (%s)", r.Verdict, r.Detail)
			}
			b.pass(b.target.ClaimLease)
			b.wantDone(b.resolve("o1", ResolvedNotApplied), DoneOK, jobs.Dead)
			b.wantApplied("o1", jobs.AppliedNo)
			b.wantDone(b.requeue("o1", Requeue{}).Done, DoneOK, jobs.Waiting)
			if g := b.start("o1"); g.UnknownBefore || g.Attempt != 2 {
				b.Fatalf("grant %+v", g)
			}
		})
		s.test("written off: cancelled, and keeps saying that it may have acted", func(b *bundle) {
			unsafe(b)
			b.wantDone(b.resolve("o1", WrittenOff), DoneOK, jobs.Cancelled)
			b.wantApplied("o1", jobs.AppliedUnknown)
		})
		s.test("only a dead letter with the mark is resolved", func(b *bundle) {
			b.add("o1")
			b.wantDone(b.resolve("o1", ResolvedApplied), DoneRefused, jobs.Waiting)
			b.wantAudit("charge/o1 resolve applied waiting>refused")
			b.attempt("o1", unknown(0))
			b.wantDone(b.resolve("o1", ResolvedApplied), DoneRefused, jobs.Waiting)
			b.attempt("o1", with(ends(jobs.ReasonPermanent), settles))
			b.wantDone(b.resolve("o1", ResolvedNotApplied), DoneRefused, jobs.Dead)
			b.wantDone(b.resolve("ghost", ResolvedApplied), DoneMissing, "")
		})
	})
}

func TestRequeue(t *testing.T) {
	each(t, func(s *suite) {
		s.test("a dead letter without the mark waits again, its history kept", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			r := b.requeue("o1", Requeue{Delay: minute})
			if r.Verdict != DoneOK || r.AttemptsLeft != 4 || r.Had != jobs.ReasonPermanent {
				b.Fatalf("%+v", r)
			}
			b.wantAudit("charge/o1 requeue dead permanent>waiting")
			b.near("next in", b.get("o1").NextAt.Sub(b.now()), minute)
			b.pass(minute)
			if g := b.start("o1"); g.Attempt != 2 {
				b.Fatalf("attempt %d, want 2", g.Attempt)
			}
		})
		s.test("the same request id again is harmless", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.wantDone(b.requeue("o1", Requeue{RequestID: "r1"}).Done, DoneOK, jobs.Waiting)
			b.wantDone(b.requeue("o1", Requeue{RequestID: "r1"}).Done, DoneAgain, jobs.Waiting)
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.wantDone(b.requeue("o1", Requeue{RequestID: "r1"}).Done, DoneAgain, jobs.Dead)
			b.wantDone(b.requeue("o1", Requeue{RequestID: "r2"}).Done, DoneOK, jobs.Waiting)
		})
		s.test("with the mark only while a resend is safe", func(b *bundle) {
			b.add("o1", deadline("1h"))
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
			b.want("o1", "dead/unsafe")
			b.wantDone(b.requeue("o1", Requeue{}).Done, DoneOK, jobs.Waiting)
			b.wantApplied("o1", jobs.AppliedUnknown)
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
			for name, change := range map[string]func(){
				"after the window": func() {},
				"another target":   func() { b.target.BaseURL = "https://other.example" },
			} {
				q := Requeue{DeadlineSpan: 48 * hour}
				if name == "after the window" {
					q.Delay = 19*hour + 13*minute
				}
				change()
				if r := b.requeue("o1", q); r.Verdict != DoneRefused {
					b.Fatalf("%s: %s, want refused", name, r.Verdict)
				}
				b.class(jobs.IdempotencyKeyed)
			}
			b.pass(20 * hour)
			b.wantDone(b.requeue("o1", Requeue{DeadlineSpan: hour}).Done, DoneRefused, jobs.Dead)
			b.wantAudit("charge/o1 requeue dead>refused")
		})
		s.test("an expired deadline must be extended, used-up attempts be granted", func(b *bundle) {
			b.maxAttempts = 1
			b.add("o1", deadline("1h"))
			b.attempt("o1", ends(jobs.ReasonAttempts))
			if r := b.requeue("o1", Requeue{}); r.Verdict != DoneRefused || !strings.Contains(r.Detail, "attempts") {
				b.Fatalf("%s (%s), want refused for attempts", r.Verdict, r.Detail)
			}
			b.pass(2 * hour)
			if r := b.requeue("o1", Requeue{More: 2}); r.Verdict != DoneRefused || !strings.Contains(r.Detail, "deadline") {
				b.Fatalf("%s (%s), want refused for the deadline", r.Verdict, r.Detail)
			}
			r := b.requeue("o1", Requeue{More: 2, DeadlineSpan: hour})
			if r.Verdict != DoneOK || r.AttemptsLeft != 2 {
				b.Fatalf("%+v", r)
			}
			b.fillBucket()
			g := b.start("o1")
			b.near("deadline", g.DeadlineLeft, hour)
			b.finish(g, refused(0))
			b.attempt("o1", refused(0))
			b.wantStatus(b.beginAs(b.release("o1"), "run"), BeginEnded)
			b.want("o1", "dead/attempts")
		})
		s.test("at_least grants only what is missing", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			if r := b.requeue("o1", Requeue{AtLeast: 3}); r.AttemptsLeft != 4 {
				b.Fatalf("%d attempts left, want the 4 it had", r.AttemptsLeft)
			}
			b.attempt("o1", ends(jobs.ReasonPermanent))
			if r := b.requeue("o1", Requeue{AtLeast: 10}); r.AttemptsLeft != 10 {
				b.Fatalf("%d attempts left, want 10", r.AttemptsLeft)
			}
		})
		s.test("a dry run changes nothing, not even the audit", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.requeue("o1", Requeue{DryRun: true})
			if r := b.requeue("o1", Requeue{DryRun: true, DeadlineAt: b.now().Add(-hour)}); r.Verdict != DoneRefused {
				b.Fatalf("%s, want refused", r.Verdict)
			}
			b.want("o1", "dead/permanent")
			if got := b.lastAudit(); got != "" {
				b.Fatalf("audit %q", got)
			}
		})
		s.test("of what is no dead letter it is refused, and audited", func(b *bundle) {
			b.add("o1")
			b.wantDone(b.requeue("o1", Requeue{}).Done, DoneRefused, jobs.Waiting)
			b.wantAudit("charge/o1 requeue waiting>refused")
			b.wantDone(b.requeue("ghost", Requeue{}).Done, DoneMissing, "")
		})
	})
}

func TestPause(t *testing.T) {
	each(t, func(s *suite) {
		s.test("it says how many will die, and both ends are audited", func(b *bundle) {
			b.add("o1", deadline("30m"))
			b.add("o2", deadline("2h"))
			b.sweep()
			p, err := b.Pause(b.Context(), dep, hour, ann)
			b.must(err)
			if p.Doomed != 1 || p.Until.IsZero() {
				b.Fatalf("%+v, want one doomed", p)
			}
			b.wantAudit("- pause >")
			s, err := b.Snapshot(b.Context(), dep)
			b.must(err)
			if !s.Paused || s.PausedBy != "ann@desk" || s.PausedNote != "called the bank" || s.DueFirst != 2 {
				b.Fatalf("snapshot %+v", s)
			}
			b.must(b.Resume(b.Context(), dep, ann))
			b.wantAudit("- resume >")
			p, err = b.Pause(b.Context(), dep, 0, ann)
			b.must(err)
			if p.Doomed != 2 || !p.Until.IsZero() {
				b.Fatalf("%+v, want both doomed while it lasts", p)
			}
		})
	})
}
