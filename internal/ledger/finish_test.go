package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func with(r Result, changes ...func(*Result)) Result {
	for _, c := range changes {
		c(&r)
	}
	return r
}

func settles(r *Result)           { r.Settles = true }
func uncounted(r *Result)         { r.Counted = false }
func credentialRefused(r *Result) { r.CredentialRefused = true }
func conflict(r *Result)          { r.Step = StepConflict }
func ask(r *Result)               { r.Step = StepAsk }

func TestFinishMovesByStep(t *testing.T) {
	cases := []struct {
		name string
		res  Result
		want string
	}{
		{"succeed", succeeded(), "succeeded"},
		{"retry what did not act", refused(0), "waiting"},
		{"retry an unknown outcome under its key", unknown(0), "waiting"},
		{"retry after the deadline would pass", refused(2*hour - 100*time.Millisecond), "dead/deadline"},
		{"retry an unknown outcome after the deadline would pass", unknown(3 * hour), "dead/unsafe"},
		{"ask, with an unknown outcome", with(unknown(0), ask), "dead/unsafe"},
		{"end as permanent", ends(jobs.ReasonPermanent), "dead/permanent"},
		{"end as attempts", ends(jobs.ReasonAttempts), "dead/attempts"},
		{"end as misconfigured", ends(jobs.ReasonMisconfigured), "dead/misconfigured"},
		{"end as poison", ends(jobs.ReasonPoison), "dead/poison"},
		{"end with an unknown outcome", with(ends(jobs.ReasonAttempts), func(r *Result) { r.Outcome = jobs.OutcomeUnknown }), "dead/unsafe"},
		{"conflict", with(ends(""), conflict), "dead/conflict"},
		{"conflict with an unknown outcome is literal", with(unknown(0), conflict), "dead/conflict"},
	}
	each(t, func(s *suite) {
		for _, c := range cases {
			s.test(c.name, func(b *bundle) {
				b.add("o1")
				g := b.start("o1")
				f := b.finish(g, c.res)
				b.want("o1", c.want)
				b.wantHow(f, HowOwn)
				if ended := f.State.Ended(); ended != (len(f.Ended) == 1) {
					b.Fatalf("state %s, told of ends %+v", f.State, f.Ended)
				}
				before := fmt.Sprint(b.records())
				for _, again := range []Result{c.res, succeeded(), unknown(0)} {
					b.wantHow(b.finish(g, again), HowKnown)
				}
				if after := fmt.Sprint(b.records()); after != before {
					b.Fatalf("a repeated result changed the record:\n%s\n%s", before, after)
				}
			})
		}
	})
}

func TestFinish(t *testing.T) {
	each(t, func(s *suite) {
		s.test("waits exactly as long as asked", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", refused(minute))
			b.near("next in", b.get("o1").NextAt.Sub(b.now()), minute)
			b.pass(minute - 10*time.Second)
			b.wantHold(b.releaseUpTo(1), 0, jobs.HoldNone)
			b.pass(10 * time.Second)
			b.release("o1")
		})
		s.test("a settling answer clears the earlier mark, and the window goes on", func(b *bundle) {
			b.add("o1", deadline("48h"))
			b.attempt("o1", unknown(0))
			b.pass(hour)
			b.attempt("o1", with(refused(0), settles))
			b.wantApplied("o1", jobs.AppliedNo)
			b.fillBucket()
			b.near("safe for", b.start("o1").SafeFor, 18*hour+12*minute)
		})
		s.test("an answer that does not settle keeps the mark of the attempt before", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", unknown(0))
			b.attempt("o1", refused(0))
			b.wantApplied("o1", jobs.AppliedUnknown)
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.want("o1", "dead/unsafe")
			if got := text(b.get("o1").Intent); got != "dead permanent" {
				b.Fatalf("intent %q, want dead permanent", got)
			}
		})
		s.test("what does not count is not counted", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", with(refused(0), uncounted))
			b.attempt("o1", refused(0))
			if g := b.start("o1"); g.Attempt != 3 || g.Used != 2 {
				b.Fatalf("attempt %d, used %d; want 3, 2", g.Attempt, g.Used)
			}
		})
		s.test("refused credentials in a row are counted, and forgotten after another answer", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", with(refused(0), credentialRefused))
			b.attempt("o1", with(refused(0), credentialRefused))
			g := b.start("o1")
			if g.Refusals != 2 {
				b.Fatalf("%d refusals, want 2", g.Refusals)
			}
			b.finish(g, refused(0))
			if g := b.start("o1"); g.Refusals != 0 {
				b.Fatalf("%d refusals after another answer, want 0", g.Refusals)
			}
		})
		s.test("asking about what was settled meanwhile waits a little", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", with(refused(0), ask))
			b.want("o1", "waiting")
			b.near("next in", b.get("o1").NextAt.Sub(b.now()), time.Second)
		})
		s.test("a run that never began is stale", func(b *bundle) {
			b.add("o1")
			g := b.start("o1")
			other := *g
			other.RunID = "somebody else"
			b.wantHow(b.finish(&other, refused(0)), HowStale)
			other = *g
			other.Attempt = 7
			b.wantHow(b.finish(&other, refused(0)), HowStale)
			b.want("o1", "attempting")
		})
		s.test("a cancellation asked for meanwhile happens, unless it succeeded", func(b *bundle) {
			for key, c := range map[string]struct {
				res  Result
				want string
			}{
				"failed": {refused(0), "cancelled"}, "paid": {succeeded(), "succeeded"}, "unknown": {unknown(0), "dead/unsafe"},
			} {
				b.add(key)
				g := b.start(key)
				if d := b.cancel(key); d.Verdict != DonePending {
					b.Fatalf("cancel: %s, want pending", d.Verdict)
				}
				b.finish(g, c.res)
				b.want(key, c.want)
			}
		})
	})
}

func TestFinishKeepsAnswers(t *testing.T) {
	each(t, func(s *suite) {
		answered := func(r Result, text string) Result {
			r.Body = []byte(text)
			return r
		}
		s.test("of unknown, successful and last attempts", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", answered(refused(0), "one"))
			b.attempt("o1", answered(unknown(0), "two"))
			b.attempt("o1", answered(refused(0), "three"))
			b.attempt("o1", answered(refused(0), "four"))
			if got := fmt.Sprint(b.get("o1").Answers); got != "map[2:two 4:four]" {
				b.Fatalf("answers %s", got)
			}
			b.attempt("o1", succeeded())
			if got := fmt.Sprint(b.get("o1").Answers); got != "map[2:two 5:paid]" {
				b.Fatalf("answers %s", got)
			}
		})
		s.test("a late answer to an older attempt does not displace the last", func(b *bundle) {
			b.add("o1")
			first := b.start("o1")
			b.lose(first, lost(0))
			b.fillBucket()
			b.attempt("o1", answered(refused(0), "last"))
			b.finish(first, answered(refused(0), "late"))
			if got := fmt.Sprint(b.get("o1").Answers); got != "map[2:last]" {
				b.Fatalf("answers %s", got)
			}
		})
		s.test("the timeline tells error, class, status, verdict and times of each attempt", func(b *bundle) {
			b.add("o1")
			res := refused(minute)
			res.Duration = 1234 * time.Millisecond
			b.attempt("o1", res)
			d := b.get("o1")
			e := d.Timeline[1]
			if e.N != 1 || e.By != "worker" || e.Outcome != jobs.OutcomeRefused || e.Class != jobs.Class503 || e.Status != 503 ||
				e.Verdict != jobs.VerdictRetryAfter || *e.DurationMS != 1234 || *e.DelayMS != 60000 || text(e.Note) != "503 overloaded" {
				b.Fatalf("event %+v", e)
			}
			if d.Last.Class != jobs.Class503 || *d.Last.Status != 503 || text(d.Last.Error) != "503 overloaded" {
				b.Fatalf("last %+v", d.Last)
			}
		})
		s.test("the history stays bounded", func(b *bundle) {
			b.unchecked = true
			b.maxAttempts = 1000
			b.add("o1", deadline("48h"))
			for i := range 120 {
				b.fillBucket()
				b.attempt("o1", answered(refused(0), fmt.Sprint("body", i)))
			}
			d := b.get("o1")
			if n := len(d.Timeline); d.Sends != 120 || n < 50 || n > 53 || len(d.Answers) != 1 {
				b.Fatalf("%d sends, %d lines, %d answers", d.Sends, n, len(d.Answers))
			}
			if n := b.rdb.HLen(b.Context(), b.key(dep, "answers:charge/o1")).Val(); n > 25 {
				b.Fatalf("%d fields of errors and answers", n)
			}
		})
	})
}

func TestFinishRecreatesWhatTheStoreLost(t *testing.T) {
	each(t, func(s *suite) {
		lose := func(b *bundle) *Grant {
			b.add("o1", func(s *jobs.Submission) { s.CorrelationID = "checkout-77" })
			b.attempt("o1", unknown(0))
			g := b.start("o1")
			b.must(b.rdb.FlushDB(b.Context()).Err())
			return g
		}
		s.test("a success is not lost", func(b *bundle) {
			g := lose(b)
			b.wantHow(b.finish(g, succeeded()), HowRecreated)
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagRecreated)
			b.wantHow(b.finish(g, succeeded()), HowKnown)
			r := b.submit("o1", func(s *jobs.Submission) { s.CorrelationID = "checkout-77" })
			b.wantAnswer(r, jobs.Duplicate, jobs.Succeeded)
		})
		s.test("an unknown outcome keeps its marks, window and request", func(b *bundle) {
			g := lose(b)
			b.fillBucket()
			b.finish(g, unknown(0))
			b.want("o1", "waiting")
			again := b.start("o1")
			if !again.UnknownBefore || again.Attempt != 3 || again.Used != 3 || again.SafeFor <= 0 {
				b.Fatalf("grant %+v", again)
			}
			if string(again.Request.Body) != string(g.Request.Body) || again.Request.CorrelationID != "checkout-77" {
				b.Fatalf("request %+v", again.Request)
			}
		})
		s.test("recover re-creates nothing", func(b *bundle) {
			b.add("o1")
			b.start("o1")
			b.pass(minute)
			list := b.lostAttempts()
			b.must(b.rdb.FlushDB(b.Context()).Err())
			f, err := b.FinishLost(b.Context(), b.terms, b.target, list[0], lost(0), false)
			b.must(err)
			b.wantHow(f, HowStale)
			if len(b.records()) != 0 {
				b.Fatal("a record appeared")
			}
		})
	})
}

// T84: error texts that are kept with every attempt fill Redis.
func TestT84FinishKeepsErrorTextsWithinBounds(t *testing.T) {
	each(t, func(s *suite) {
		failing := func(text string) Result {
			r := refused(0)
			r.Error = text
			return r
		}
		notes := func(b *bundle) string {
			b.Helper()
			out := ""
			for _, e := range b.get("o1").Timeline {
				if e.Event == "attempt" {
					out += "[" + text(e.Note) + "]"
				}
			}
			return out
		}
		long := strings.Repeat("far too long to stand in the record ", 4)
		s.test("each attempt tells its own, equal ones are kept once", func(b *bundle) {
			b.maxAttempts = 100
			b.add("o1")
			for _, said := range []string{"a", "a", long, long, "b", "a", ""} {
				b.attempt("o1", failing(said))
			}
			if got, want := notes(b), "[a][a]["+long+"]["+long+"][b][a][]"; got != want {
				b.Fatalf("notes %s, want %s", got, want)
			}
			if n := strings.Count(fmt.Sprint(b.records()["charge/o1"]), long); n != 0 {
				b.Fatal("a long text stands in the record")
			}
			if n := b.rdb.HLen(b.Context(), b.key(dep, "answers:charge/o1")).Val(); n != 1 {
				b.Fatalf("%d texts beside the record, want the long one once", n)
			}
		})
		s.test("the last one is shown in lists too, short or long", func(b *bundle) {
			b.add("o1")
			for _, said := range []string{long, "short", long + "2"} {
				b.attempt("o1", failing(said))
				page, err := b.List(b.Context(), Filter{Dependencies: []jobs.Dependency{dep}, ErrorText: said}, nil)
				b.must(err)
				if len(page.Items) != 1 || text(page.Items[0].Last.Error) != said || text(b.get("o1").Last.Error) != said {
					b.Fatalf("%q: listed %+v", said, page.Items)
				}
			}
			b.attempt("o1", succeeded())
			if got := b.get("o1").Last.Error; got != nil {
				b.Fatalf("the success tells the error %q", *got)
			}
		})
		s.test("twenty different ones at most", func(b *bundle) {
			b.maxAttempts = 100
			b.add("o1", deadline("48h"))
			for i := range 30 {
				b.fillBucket()
				b.attempt("o1", failing(fmt.Sprint(i, " ", []string{"short", long}[i%2])))
			}
			kept := 0
			for _, e := range b.get("o1").Timeline {
				if e.Note != nil {
					kept++
				}
			}
			if kept != 20 || !strings.HasPrefix(text(b.get("o1").Last.Error), "29 ") {
				b.Fatalf("%d texts kept, last %q", kept, text(b.get("o1").Last.Error))
			}
		})
		s.test("a late answer to the last attempt tells what it met", func(b *bundle) {
			g := b.lostIn("waiting")
			b.finish(g, refused(0))
			if l := b.get("o1").Last; l.Class != jobs.Class503 || text(l.Error) != "503 overloaded" {
				b.Fatalf("last %+v", l)
			}
		})
	})
}
