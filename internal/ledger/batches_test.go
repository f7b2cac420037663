package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

// requeued brings keys to dead and on their way again as batch b-1, written down as a
// command does.
func (b *bundle) requeued(keys ...string) []Member {
	b.Helper()
	var members []Member
	for _, key := range keys {
		d := b.get(key)
		members = append(members, MemberOf(&d.Operation, &b.spec))
	}
	b.must(b.OpenBatch(b.Context(), Batch{ID: "b-1", Dependency: dep, Action: "requeue", Filter: "named one by one", By: "ann@desk", Note: "why", Planned: len(keys), Phase: PhaseRunning}, hour))
	b.must(b.AddToBatch(b.Context(), dep, "b-1", members))
	for _, key := range keys {
		r, err := b.Requeue(b.Context(), b.terms, b.target, id(key), Requeue{RequestID: "b-1", AtLeast: 30, DeadlineSpan: 5 * hour, MaxAttempts: b.spec.MaxAttempts}, Actor{By: "ann@desk", Batch: "b-1"})
		b.must(err)
		b.wantDone(r.Done, DoneOK, jobs.Waiting)
	}
	return members
}

func (b *bundle) putBack(m Member) Done {
	b.Helper()
	done, err := b.PutBack(b.Context(), dep, m, Actor{By: "ann@desk", Note: "called the bank", Batch: "b-1"})
	b.must(err)
	return done
}

func TestPutBack(t *testing.T) {
	each(t, func(s *suite) {
		s.test("what waits or was released is dead again as it was", func(b *bundle) {
			for _, key := range []string{"o1", "o2"} {
				b.add(key, deadline("3h"))
				b.attempt(key, ends(jobs.ReasonPermanent))
			}
			before := b.get("o1")
			m := b.requeued("o1", "o2")
			b.wantDone(b.putBack(m[0]), DoneOK, jobs.Dead)
			b.wantAudit("charge/o1 stop waiting>dead permanent")
			d := b.release("o2")
			b.wantDone(b.putBack(m[1]), DoneOK, jobs.Dead)
			b.wantStatus(b.beginAs(d, "run"), BeginStale)
			for _, key := range []string{"o1", "o2"} {
				b.want(key, "dead/permanent")
			}
			after := b.get("o1")
			if !after.DeadlineAt.Equal(before.DeadlineAt.Time) || after.MaxAttempts != before.MaxAttempts || after.Sends != before.Sends {
				b.Fatalf("before %+v\nafter %+v", before.Operation, after.Operation)
			}
			b.wantDone(b.putBack(m[0]), DoneRefused, jobs.Dead)
		})
		s.test("an unknown outcome stays unknown, with its intent", func(b *bundle) {
			b.class(jobs.IdempotencyKeyed)
			b.add("o1", deadline("3h"))
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
			b.want("o1", "dead/unsafe")
			before := b.get("o1")
			m := b.requeued("o1")
			b.wantDone(b.putBack(m[0]), DoneOK, jobs.Dead)
			b.want("o1", "dead/unsafe")
			b.wantApplied("o1", jobs.AppliedUnknown)
			if got := text(b.get("o1").Intent); got != text(before.Intent) || got == "" {
				b.Fatalf("intent %q, was %q", got, text(before.Intent))
			}
		})
		s.test("what was sent since, or left the batch, stays", func(b *bundle) {
			for _, key := range []string{"o1", "o2", "o3"} {
				b.add(key, deadline("3h"))
				b.attempt(key, ends(jobs.ReasonPermanent))
			}
			m := b.requeued("o1", "o2", "o3")
			b.attempt("o1", refused(hour))
			b.want("o1", "waiting")
			b.wantDone(b.putBack(m[0]), DoneRefused, jobs.Waiting)
			b.start("o2")
			b.wantDone(b.putBack(m[1]), DoneRefused, jobs.Attempting)
			b.cancel("o3")
			b.wantDone(b.putBack(m[2]), DoneRefused, jobs.Cancelled)
			m[2].ID = id("ghost")
			b.wantDone(b.putBack(m[2]), DoneMissing, "")
			other := m[0]
			other.Sends = b.get("o1").Sends
			done, err := b.PutBack(b.Context(), dep, other, Actor{Batch: "b-2"})
			b.must(err)
			b.wantDone(done, DoneRefused, jobs.Waiting)
		})
	})
}

func TestBatches(t *testing.T) {
	each(t, func(s *suite) {
		s.test("are listed newest first, counted by state, stopped and forgotten", func(b *bundle) {
			var keys []string
			for i := range 3 {
				keys = append(keys, fmt.Sprint("o", i))
				b.add(keys[i], deadline("3h"))
				b.attempt(keys[i], ends(jobs.ReasonPermanent))
			}
			b.requeued(keys...)
			b.attempt("o0", succeeded())
			b.attempt("o1", ends(jobs.ReasonMisconfigured))
			got, err := b.Progress(b.Context(), dep, "b-1")
			b.must(err)
			if got.Operations != 3 || got.States[jobs.Succeeded] != 1 || got.States[jobs.Dead] != 1 || got.States[jobs.Waiting] != 1 ||
				got.Reasons[jobs.ReasonMisconfigured] != 1 || got.Open() != 1 || got.Gone != 0 {
				b.Fatalf("%+v", got)
			}
			b.must(b.DropFromBatch(b.Context(), dep, "b-1", []jobs.ID{id("o1")}))
			if got, err = b.Progress(b.Context(), dep, "b-1"); err != nil || got.Operations != 2 {
				b.Fatalf("after one was dropped: %+v %v", got, err)
			}
			b.must(b.OpenBatch(b.Context(), Batch{ID: "b-0", Dependency: dep, Action: "cancel", Phase: PhaseRunning}, 0))
			b.must(b.SetPhase(b.Context(), dep, "b-0", PhaseDone))
			b.must(b.StopBatch(b.Context(), dep, "b-1", Actor{By: "bob@desk", Note: "wrong ones"}))
			list, err := b.Batches(b.Context(), dep, time.Time{}, 10)
			b.must(err)
			if len(list) != 2 {
				b.Fatalf("%+v", list)
			}
			one, err := b.Batch(b.Context(), dep, "b-1")
			b.must(err)
			if one.Phase != PhaseStopped || one.StoppedBy != "bob@desk" || one.StopNote != "wrong ones" || one.Planned != 3 || one.By != "ann@desk" || one.At == nil {
				b.Fatalf("%+v", one)
			}
			if zero, err := b.Batch(b.Context(), dep, "b-0"); err != nil || zero.Phase != PhaseDone {
				b.Fatalf("%+v %v", zero, err)
			}
			if _, err := b.Batch(b.Context(), dep, "b-9"); !errors.Is(err, ErrNoBatch) {
				b.Fatalf("%v", err)
			}
			if left, err := b.rdb.PTTL(b.Context(), b.key(dep, "batch:b-1")).Result(); err != nil || left <= 0 || left > hour {
				b.Fatalf("it is kept for %s: %v", left, err)
			}
			if left, err := b.rdb.PTTL(b.Context(), b.key(dep, "batch:b-0")).Result(); err != nil || left != -1 {
				b.Fatalf("0 keeps it for ever, not for %s: %v", left, err)
			}
		})
		s.test("whose command gives no sign of life are cut off, and running again with the next sign", func(b *bundle) {
			phase := func(id string, want Phase) {
				b.Helper()
				if got, err := b.Batch(b.Context(), dep, id); err != nil || got.Phase != want {
					b.Fatalf("%s: %+v %v, want %s", id, got, err, want)
				}
			}
			now, err := b.Ledger.Now(b.Context())
			b.must(err)
			for id, was := range map[string]Phase{"b-run": PhaseRunning, "b-bird": PhaseCanary, "b-done": PhaseDone, "b-failed": PhaseCanaryFailed, "b-old": PhaseRunning} {
				b.must(b.OpenBatch(b.Context(), Batch{ID: id, Dependency: dep, Action: "requeue", Phase: was}, 0))
				phase(id, was)
				silent := now.Add(-cutOffAfter - time.Second).UnixMilli()
				b.must(b.rdb.HSet(b.Context(), b.key(dep, "batch:"+id), batchAliveAt, silent).Err())
			}
			b.must(b.rdb.HDel(b.Context(), b.key(dep, "batch:b-old"), batchAliveAt).Err()) // of a version that gave none
			phase("b-old", PhaseRunning)
			b.must(b.rdb.HSet(b.Context(), b.key(dep, "batch:b-old"), batchAt, now.Add(-time.Hour).UnixMilli()).Err())
			for id, is := range map[string]Phase{"b-run": PhaseCutOff, "b-bird": PhaseCutOff, "b-done": PhaseDone, "b-failed": PhaseCanaryFailed, "b-old": PhaseCutOff} {
				phase(id, is)
			}
			b.must(b.SignBatch(b.Context(), dep, "b-run"))
			phase("b-run", PhaseRunning)
			b.must(b.StopBatch(b.Context(), dep, "b-bird", Actor{By: "bob@desk", Note: "x"}))
			phase("b-bird", PhaseStopped)
		})
		s.test("hold any number of operations", func(b *bundle) {
			b.must(b.OpenBatch(b.Context(), Batch{ID: "b-1", Dependency: dep, Action: "cancel"}, 0))
			var members []Member
			for i := range 2*batchChunk + 3 {
				members = append(members, Member{ID: id(fmt.Sprint("o", i)), Sends: i, Reason: jobs.ReasonAttempts, Intent: "dead permanent"})
			}
			b.must(b.AddToBatch(b.Context(), dep, "b-1", members))
			seen := map[string]Member{}
			b.must(b.BatchMembers(b.Context(), dep, "b-1", func(m []Member) error {
				for _, one := range m {
					seen[one.ID.String()] = one
				}
				return nil
			}))
			if len(seen) != len(members) {
				b.Fatalf("%d of %d", len(seen), len(members))
			}
			if m := seen["charge/o7"]; m.Sends != 7 || m.Reason != jobs.ReasonAttempts || m.Intent != "dead permanent" || m.Deadline != nil {
				b.Fatalf("%+v", m)
			}
			if p, err := b.Progress(b.Context(), dep, "b-1"); err != nil || p.Gone != len(members) {
				b.Fatalf("%+v %v", p, err)
			}
		})
	})
}

// Every case in which settle.safe of the Lua library says no has its words.
func TestResendUnsafeSaysWhy(t *testing.T) {
	each(t, func(s *suite) {
		lost := func(b *bundle) {
			b.Helper()
			b.class(jobs.IdempotencyKeyed)
			b.add("o1", deadline("48h"))
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
		}
		// agrees fails unless the words and the requeue script say the same.
		agrees := func(b *bundle, words string) {
			b.Helper()
			spec := b.spec
			spec.BaseURL, spec.KeyHeader, spec.Idempotency = b.target.BaseURL, b.target.KeyHeader, b.target.Idempotency
			spec.Credentials = []string{"default", "m1"}
			why := b.get("o1").ResendUnsafe(&spec, b.now())
			r := b.requeue("o1", Requeue{DryRun: true, AtLeast: 3})
			if (why == "") != (r.Verdict == DoneOK) || !strings.Contains(why, words) || words == "" && why != "" {
				b.Fatalf("%q, want %q; requeue says %s (%s)", why, words, r.Verdict, r.Detail)
			}
		}
		s.test("nothing while it is safe", func(b *bundle) { lost(b); agrees(b, "") })
		s.test("the key's window is over", func(b *bundle) { lost(b); b.pass(24 * hour); agrees(b, "its key's window is over") })
		s.test("another target", func(b *bundle) {
			lost(b)
			b.target.BaseURL = "https://other.example"
			agrees(b, "its target differs: it was sent to another base_url than https://other.example")
		})
		s.test("a weaker class", func(b *bundle) {
			lost(b)
			b.target.Idempotency = jobs.IdempotencyNone
			agrees(b, "its class is none")
			b.target.Idempotency = jobs.IdempotencyConditional
			agrees(b, "its class is conditional")
		})
		s.test("another class when it was sent", func(b *bundle) {
			b.class(jobs.IdempotencyNatural)
			b.add("o1", deadline("48h"))
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
			agrees(b, "")
			b.target.Idempotency = jobs.IdempotencyKeyed
			agrees(b, "its class was natural when it was sent and is keyed now")
		})
		s.test("another key header", func(b *bundle) {
			b.target.KeyHeader = ""
			b.add("o1", deadline("48h"))
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
			agrees(b, "")
			b.target.KeyHeader = "Idempotency-Key"
			agrees(b, "it was sent without the key header Idempotency-Key that is configured now")
		})
		s.test("attempts that differ", func(b *bundle) {
			b.add("o1", deadline("48h"))
			b.attempt("o1", with(unknown(0), func(r *Result) { r.Step, r.Reason = StepEnd, jobs.ReasonAttempts }))
			b.submit("o1", deadline("48h"), b.sent("r1", jobs.OutcomeUnknown, 0), func(s *jobs.Submission) { s.IdempotencyKey = "" })
			agrees(b, "its attempts with an unknown outcome differ")
		})
		s.test("reported without its key", func(b *bundle) {
			b.class(jobs.IdempotencyKeyed)
			b.add("o1", b.sent("r1", jobs.OutcomeUnknown, 0), func(s *jobs.Submission) { s.IdempotencyKey = "" })
			b.want("o1", "dead/unsafe")
			agrees(b, "it was sent without its key")
		})
		s.test("nobody knows its kind", func(b *bundle) {
			lost(b)
			if why := b.get("o1").ResendUnsafe(nil, b.now()); why != "nobody knows its kind now" {
				b.Fatalf("%q", why)
			}
		})
	})
}
