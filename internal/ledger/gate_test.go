package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
)

// breaker turns the breaker on, small enough for a test.
func (b *bundle) breaker() {
	b.terms.Gate.Slots = 10
	b.terms.Gate.Breaker = budget.Breaker{WindowMS: 10_000, MinCalls: 4, FailureRateMilli: 500, Consecutive: 3, OpenMS: 5000, MaxOpenMS: 60_000,
		Probes: 2, RampMS: 60_000}
}

func says(sign budget.Sign) func(*Result) { return func(r *Result) { r.Said.Sign = sign } }

func hints(wait time.Duration) func(*Result) {
	return func(r *Result) { r.Said.Sign, r.Said.Hint = budget.SignThrottled, wait }
}

func denied(r *Result) {
	r.CredentialRefused, r.Said = true, Said{Sign: budget.SignDeclined, Denied: true}
	r.Step, r.Delay = StepRetry, 5*time.Second
}

func (b *bundle) gate() GateState {
	b.Helper()
	s, err := b.Gate(b.Context(), dep)
	b.must(err)
	return s
}

func (b *bundle) wantState(want budget.State) {
	b.Helper()
	if got := b.gate().Gate.State; got != want {
		b.Fatalf("breaker %s, want %s", got, want)
	}
}

// fail brings an operation through an attempt that speaks against the dependency.
func (b *bundle) fail(key string) Finish {
	b.Helper()
	return b.finish(b.start(key), with(refused(time.Second), says(budget.SignFailed)))
}

// trip opens the breaker by failures in a row, of operations that then wait.
func (b *bundle) trip() {
	b.Helper()
	for i := range 3 {
		key := fmt.Sprint("trip", i)
		b.add(key)
		b.fail(key)
	}
	b.wantState(budget.Open)
}

// letHalfOpen lets the open time pass.
func (b *bundle) letHalfOpen() {
	b.Helper()
	b.pass(time.Minute)
	b.wantState(budget.HalfOpen)
}

func lanesOf(r Release) string {
	lanes := make([]string, len(r.Deliveries))
	for i, d := range r.Deliveries {
		lanes[i] = string(d.Lane)
	}
	return strings.Join(lanes, " ")
}

func TestTheBreakerOpens(t *testing.T) {
	each(t, func(s *suite) {
		s.test("by the rate in the window, and tells one caller", func(b *bundle) {
			b.breaker()
			b.terms.Gate.Breaker.Consecutive = 0
			var told []News
			for i, sign := range []budget.Sign{budget.SignOK, budget.SignFailed, budget.SignDeclined, budget.SignSlow} {
				key := fmt.Sprint("o", i)
				b.add(key)
				told = append(told, b.finish(b.start(key), with(refused(time.Second), says(sign))).News)
			}
			b.wantState(budget.Open)
			if last := told[3]; !slices.Equal(last.Changes, []string{"open"}) || last.Why != "failure_rate" || last.Until.Before(b.now().Add(time.Second)) {
				b.Fatalf("told %+v", last)
			}
			for _, n := range told[:3] {
				if len(n.Changes) > 0 {
					b.Fatalf("told %+v before it opened", n)
				}
			}
		})
		s.test("and nothing leaves: no token, no attempt, nothing of an operation changes", func(b *bundle) {
			b.breaker()
			b.add("released")
			d := b.release("released")
			b.trip()
			b.pass(time.Second)
			b.tokens(50_000)
			b.releaseUpTo(10)
			before, tokens := fmt.Sprint(b.records()), b.gate().Gate.TokensMilli
			r := b.releaseUpTo(10)
			b.wantHold(r, 0, jobs.HoldBreaker)
			if after := fmt.Sprint(b.records()); before != after {
				b.Fatalf("operations changed:\n%v\n%v", before, after)
			}
			answer := b.beginAs(d, "late")
			if answer.Status != BeginHeld || answer.Hold != jobs.HoldBreaker {
				b.Fatalf("begin of what was released before it opened: %s %q", answer.Status, answer.Hold)
			}
			if got := b.gate().Gate.TokensMilli; got != tokens {
				b.Fatalf("%d milli-tokens, before %d: open, it neither fills nor spends", got, tokens)
			}
		})
		s.test("results of an older generation are ignored, and what it released does not begin", func(b *bundle) {
			b.breaker()
			b.add("old")
			g := b.start("old")
			b.add("promised")
			promised := b.release("promised")
			b.flushOf(0, 3)
			b.wantState(budget.Open)
			b.pass(10 * time.Second)
			b.releaseUpTo(0)
			b.pass(11 * time.Second)
			b.flushOf(5, 0)
			b.wantState(budget.Closed)
			b.finish(g, with(refused(time.Second), says(budget.SignFailed)))
			if w := b.gate().Gate.Window(); w.Failed != 0 {
				b.Fatalf("%d failures counted of what was sent before it opened", w.Failed)
			}
			answer := b.beginAs(promised, "late")
			if answer.Status != BeginHeld || answer.Hold != jobs.HoldBreaker {
				b.Fatalf("%s %q, want held by the breaker", answer.Status, answer.Hold)
			}
		})
	})
}

func TestProbes(t *testing.T) {
	each(t, func(s *suite) {
		s.test("as many as there are permits, for the whole fleet", func(b *bundle) {
			b.breaker()
			b.trip()
			for i := range 5 {
				b.add(fmt.Sprint("o", i))
			}
			b.letHalfOpen()
			r := b.releaseUpTo(10)
			if lanesOf(r) != "probe probe" || r.Hold != jobs.HoldBreaker {
				b.Fatalf("released %q, hold %q", lanesOf(r), r.Hold)
			}
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldBreaker)
			before := b.gate().Gate.TokensMilli
			for _, d := range r.Deliveries {
				b.finish(b.begin(d), with(succeeded(), says(budget.SignOK)))
			}
			b.wantState(budget.Closed)
			if after := b.gate().Gate.TokensMilli; after > before || after >= 2000 { // the floor goes on meanwhile
				b.Fatalf("%d milli-tokens after the probes, %d before: they neither cost nor fill, and it starts low", after, before)
			}
			// The ramp: a tenth of what is otherwise under way, and what came due meanwhile is backlog.
			r = b.releaseUpTo(10)
			if len(r.Deliveries) != 1 || r.Hold != jobs.HoldRamp {
				b.Fatalf("released %d, hold %q at the start of the ramp", len(r.Deliveries), r.Hold)
			}
		})
		s.test("go to what was sent least, so that nobody's attempts are used up for the others", func(b *bundle) {
			b.breaker()
			b.maxAttempts = 4
			for i := range 8 {
				b.add(fmt.Sprint("wait", i), deadline(fmt.Sprintf("%dh", 1+i)), func(s *jobs.Submission) {
					s.Attempted = &jobs.Attempted{ID: "r", Outcome: jobs.OutcomeRefused, Class: jobs.Class503, FirstSentAt: b.now().Add(-hour).Format(time.RFC3339)}
				})
			}
			b.flushOf(0, 3)
			for round := range 8 { // each failed probe would be its own with the earliest deadline first
				b.pass(2 * minute)
				r := b.releaseUpTo(1 + b.promised())
				if lanesOf(r) != "probe" {
					b.Fatalf("round %d: released %q", round, lanesOf(r))
				}
				if f := b.finish(b.begin(r.Deliveries[0]), with(refused(time.Second), says(budget.SignFailed))); f.State != jobs.Waiting {
					b.Fatalf("round %d: %s is %s %s", round, r.Deliveries[0].ID, f.State, f.Reason)
				}
			}
			for i := range 8 {
				if d := b.get(fmt.Sprint("wait", i)); d.Sends != 2 {
					b.Fatalf("wait%d was sent %d times, want each once more", i, d.Sends)
				}
			}
		})
		s.test("one failure opens it again, for longer", func(b *bundle) {
			b.breaker()
			b.trip()
			b.letHalfOpen()
			f := b.finish(b.begin(b.releaseUpTo(10).Deliveries[0]), with(refused(time.Second), says(budget.SignFailed)))
			b.wantState(budget.Open)
			if left := f.News.Until.Sub(b.now()); left < 4*time.Second || left > 10*time.Second || f.News.Why != "probe" {
				b.Fatalf("%s for %v, want half to all of ten seconds", f.News.Why, left)
			}
		})
		s.test("a lost one frees its place, and the breaker is not stuck", func(b *bundle) {
			b.breaker()
			b.trip()
			b.letHalfOpen()
			r := b.releaseUpTo(10)
			lost := b.begin(r.Deliveries[0])
			b.begin(r.Deliveries[1])
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldBreaker)
			b.lose(lost, unknown(0))
			if got := b.releaseUpTo(10); lanesOf(got) == "" {
				b.Fatalf("no probe after the leases ended: hold %q", got.Hold)
			}
		})
		s.test("one that is given back is handed out again", func(b *bundle) {
			b.breaker()
			b.trip()
			b.letHalfOpen()
			r := b.releaseUpTo(10)
			b.abandon(r.Deliveries[0], "run", 0)
			if got := b.releaseUpTo(10 + b.promised()); lanesOf(got) != "probe" {
				b.Fatalf("released %q", lanesOf(got))
			}
		})
		s.test("that say nothing close it when all of them do", func(b *bundle) {
			b.breaker()
			b.trip()
			b.letHalfOpen()
			for _, d := range b.releaseUpTo(10).Deliveries {
				b.finish(b.begin(d), with(ends(jobs.ReasonPermanent), says(budget.SignDeclined)))
			}
			b.wantState(budget.Closed)
		})
		s.test("an inquiry is one, so that unresolved operations alone can close it", func(b *bundle) {
			b.breaker()
			b.asks()
			b.unresolved("o1")
			b.unresolved("o2")
			b.settledTime()
			b.flushOf(0, 3)
			b.wantState(budget.Open)
			if r := b.inquire(); len(r.Questions) > 0 || r.Hold != jobs.HoldBreaker {
				b.Fatalf("%d inquiries while open, hold %q", len(r.Questions), r.Hold)
			}
			b.letHalfOpen()
			for _, q := range b.inquire().Questions {
				b.inquired(q, jobs.InquiryPending, func(in *Inquired) { in.Said.Sign = budget.SignOK })
			}
			b.wantState(budget.Closed)
		})
	})
}

var flushes int64

// flushOf tells of first attempts of the request path.
func (b *bundle) flushOf(ok, failed int64) FirstsTaken {
	b.Helper()
	flushes++
	taken, err := b.FirstAttempts(b.Context(), dep, b.terms.Gate, Firsts{Process: fmt.Sprint("shop", b.rdb), Seq: flushes, OK: ok, Failed: failed, Jitter: 500})
	b.must(err)
	return taken
}

func TestFirstAttemptsOfTheRequestPath(t *testing.T) {
	each(t, func(s *suite) {
		tell := func(b *bundle, f Firsts) FirstsTaken {
			b.Helper()
			taken, err := b.FirstAttempts(b.Context(), dep, budget.Params{}, f)
			b.must(err)
			return taken
		}
		s.test("fill the budget, each call once", func(b *bundle) {
			b.releaseUpTo(0) // a worker has said its parameters
			b.terms.Gate.FloorMilliPerSecond = 0
			b.releaseUpTo(0)
			b.tokens(0)
			for range 3 {
				tell(b, Firsts{Process: "shop-1", Seq: 1, OK: 50})
			}
			tell(b, Firsts{Process: "shop-2", Seq: 1, OK: 20, Failed: 10})
			if taken := tell(b, Firsts{Process: "shop-1", Seq: 1, OK: 50}); taken.Taken {
				b.Fatal("a repeated call was taken twice")
			}
			if got := b.gate().Gate.TokensMilli; got != 8000 {
				b.Fatalf("%d milli-tokens for 80 first attempts at 0.1, want 8000", got)
			}
		})
		s.test("open the breaker, and say so", func(b *bundle) {
			b.breaker()
			b.releaseUpTo(0)
			taken := tell(b, Firsts{Process: "shop", Seq: 1, Failed: 1, TimedOut: 2})
			if taken.State != budget.Open || taken.Hold != jobs.HoldBreaker || taken.Wait <= 0 || !slices.Equal(taken.News.Changes, []string{"open"}) {
				b.Fatalf("%+v", taken)
			}
		})
		s.test("half open, count once what was sent before must be over", func(b *bundle) {
			b.breaker()
			b.trip()
			b.letHalfOpen()
			b.releaseUpTo(0)
			b.flushOf(5, 0)
			b.wantState(budget.HalfOpen)
			b.pass(11 * time.Second)
			b.flushOf(5, 0)
			b.wantState(budget.Closed)
		})
		s.test("silent processes are forgotten", func(b *bundle) {
			for i := range 30 {
				tell(b, Firsts{Process: fmt.Sprint("p", i), Seq: 1, OK: 1})
			}
			for _, z := range b.rdb.ZRangeWithScores(b.Context(), b.key(dep, "reporters_heard"), 0, -1).Val() {
				b.must(b.rdb.ZIncrBy(b.Context(), b.key(dep, "reporters_heard"), -700_000, z.Member.(string)).Err())
			}
			tell(b, Firsts{Process: "new", Seq: 1, OK: 1})
			tell(b, Firsts{Process: "new", Seq: 2, OK: 1})
			if n := b.rdb.HLen(b.Context(), b.key(dep, "reporters")).Val(); n != 1 {
				b.Fatalf("%d processes remembered", n)
			}
		})
	})
}

func TestBacklog(t *testing.T) {
	each(t, func(s *suite) {
		drain := func(b *bundle) { b.terms.Gate.DrainMilliPerSecond = 20_000 }
		s.test("first attempts that came due while it was paused take the lane or a token, and do not fill", func(b *bundle) {
			drain(b)
			b.releaseUpTo(0)
			_, err := b.Pause(b.Context(), dep, 0, ann)
			b.must(err)
			for i := range 4 {
				b.add(fmt.Sprint("o", i))
			}
			b.releaseUpTo(10)
			b.must(b.Resume(b.Context(), dep, ann))
			b.releaseUpTo(0) // the lane opens
			b.add("fresh", notBefore(b.now().Add(time.Second)))
			b.pass(1500 * time.Millisecond)
			b.tokens(1000)
			b.terms.Gate.FloorMilliPerSecond = 0
			r := b.releaseUpTo(10)
			if lanesOf(r) != "first lane retry" || string(r.Deliveries[0].ID.Key) != "fresh" {
				b.Fatalf("released %q", lanesOf(r))
			}
			before := b.gate().Gate.TokensMilli
			b.begin(r.Deliveries[1])
			if got := b.gate().Gate.TokensMilli; got != before {
				b.Fatalf("%d milli-tokens, before %d: the lane costs nothing and fills nothing", got, before)
			}
			b.begin(r.Deliveries[2])
			if got := b.gate().Gate.TokensMilli; got != before-1000 {
				b.Fatalf("%d milli-tokens, before %d: a token was due", got, before)
			}
		})
		s.test("and those that came due while nobody worked", func(b *bundle) {
			b.pastOf("past", succeeded())
			b.terms.Gate.FloorMilliPerSecond = 0
			b.pass(time.Minute)
			b.tokens(0)
			b.add("o1")
			b.pass(time.Second)
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldBudget)
			b.add("o2", notBefore(b.now().Add(time.Second)))
			b.pass(2 * time.Second)
			if r := b.releaseUpTo(10); b.keys(r) != "o2 " {
				b.Fatalf("released %q, want o2 alone: it came due while somebody worked", b.keys(r))
			}
		})
		s.test("lateness from slots or in-flight alone is none", func(b *bundle) {
			b.terms.Gate.MaxInFlight = 1
			for i := range 3 {
				b.add(fmt.Sprint("o", i))
			}
			for range 3 {
				r := b.releaseUpTo(10)
				if lanesOf(r) != "first" {
					b.Fatalf("released %q", lanesOf(r))
				}
				b.finish(b.begin(r.Deliveries[0]), succeeded())
				b.pass(29 * time.Second)
			}
		})
		s.test("the lane grows while all is well, and is halved by a 429", func(b *bundle) {
			drain(b)
			b.releaseUpTo(0)
			rate := func() int64 { return b.gate().Gate.LaneMilli }
			for range 25 {
				b.pass(time.Second)
				b.releaseUpTo(0)
			}
			if rate() != 20_000 {
				b.Fatalf("lane at %d after 25 good seconds", rate())
			}
			b.add("o1")
			b.finish(b.start("o1"), with(refused(time.Second), says(budget.SignThrottled)))
			if rate() != 10_000 {
				b.Fatalf("lane at %d after a 429", rate())
			}
		})
		s.test("retries and inquiries take turns for tokens and lane", func(b *bundle) {
			b.asks()
			b.unresolved("asked")
			b.settledTime()
			b.add("retry")
			b.attempt("retry", refused(0))
			b.terms.Gate.FloorMilliPerSecond = 0
			b.tokens(1000)
			r, q := b.releaseUpTo(10), b.inquire()
			if len(r.Deliveries)+len(q.Questions) != 1 {
				b.Fatalf("%d retries and %d inquiries for one token", len(r.Deliveries), len(q.Questions))
			}
		})
	})
}

// pastOf adds an operation and brings it through an attempt.
func (b *bundle) pastOf(key string, res Result) Finish {
	b.Helper()
	b.add(key)
	return b.attempt(key, res)
}

func TestRate(t *testing.T) {
	each(t, func(s *suite) {
		s.test("bounds all calls, whatever pays for them", func(b *bundle) {
			b.terms.Gate.RateMilliPerSecond, b.terms.Gate.RateBurst = 2000, 2
			for i := range 6 {
				b.add(fmt.Sprint("o", i))
			}
			r := b.releaseUpTo(10)
			b.wantHold(r, 1, jobs.HoldRate) // it starts low
			if r.Next > 500*time.Millisecond {
				b.Fatalf("next in %v at two a second", r.Next)
			}
			b.pass(10 * time.Second)
			b.wantHold(b.releaseUpTo(10), 2, jobs.HoldRate)
			b.pass(500 * time.Millisecond)
			b.wantHold(b.releaseUpTo(10), 1, jobs.HoldRate)
			b.flushOf(2, 0) // the request path asks nobody, and counts
			b.pass(500 * time.Millisecond)
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldRate)
		})
	})
}

func TestADependencyThatAsksToWaitIsParked(t *testing.T) {
	each(t, func(s *suite) {
		s.test("after three in a row, whole, and with jitter", func(b *bundle) {
			for i := range 3 {
				b.wantHold(b.releaseUpTo(10), 0, jobs.HoldNone)
				key := fmt.Sprint("o", i)
				b.add(key)
				res := with(refused(time.Minute), hints(time.Minute))
				res.Said.Jitter = 500
				f := b.finish(b.start(key), res)
				if parked := slices.Contains(f.News.Changes, "parked"); parked != (i == 2) {
					b.Fatalf("answer %d: %+v", i+1, f.News)
				}
			}
			b.add("other")
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldRateHint)
			if left := b.gate().Gate.ParkedUntilMS - b.now().UnixMilli(); left < 74_000 || left > 75_000 {
				b.Fatalf("parked for %d ms, want a minute and half of its jitter of 30 s", left)
			}
			b.pass(80 * time.Second)
			if r := b.releaseUpTo(1); r.Hold == jobs.HoldRateHint {
				b.Fatal("still parked")
			}
		})
		s.test("not when others answer between", func(b *bundle) {
			for i := range 6 {
				key := fmt.Sprint("o", i)
				b.add(key)
				res := with(refused(time.Minute), hints(time.Minute))
				if i%3 == 2 {
					res = with(succeeded(), says(budget.SignOK))
				}
				b.finish(b.start(key), res)
			}
			if b.gate().Gate.ParkedUntilMS > 0 {
				b.Fatal("parked")
			}
		})
	})
}

func TestARefusedCredentialPausesItself(t *testing.T) {
	each(t, func(s *suite) {
		credential := func(name string) change { return func(s *jobs.Submission) { s.Credential = name } }
		s.test("the dependency's own with the dependency, and costs no operation", func(b *bundle) {
			b.add("o1")
			for i := range 3 {
				b.fillBucket()
				g := b.start("o1")
				res := with(refused(0), denied)
				if i == 2 { // policy, which knows of this operation alone, would end it
					res.Step, res.Reason = StepEnd, jobs.ReasonMisconfigured
				}
				f := b.finish(g, res)
				if f.State != jobs.Waiting || f.Paused != (i == 2) {
					b.Fatalf("answer %d: %s, paused %v", i+1, f.State, f.Paused)
				}
				b.pass(6 * time.Second)
			}
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldPaused)
			if g := b.gate(); g.PausedBy != "redrive" || !strings.Contains(g.PausedNote, "refused 3 times") {
				b.Fatalf("paused by %q: %q", g.PausedBy, g.PausedNote)
			}
			b.must(b.Resume(b.Context(), dep, ann))
			b.fillBucket()
			if g := b.start("o1"); g.Refusals != 0 {
				b.Fatalf("%d refusals are held against it after somebody resumed", g.Refusals)
			}
		})
		s.test("one of many alone, and its operations stand aside", func(b *bundle) {
			b.spec.Credentials = []string{"m1", "m2"}
			for i := range 4 {
				b.add(fmt.Sprint("m1-", i), credential("m1"), deadline("1h"))
			}
			b.add("other", credential("m2"))
			for i := range 3 {
				f := b.finish(b.start(fmt.Sprint("m1-", i)), with(refused(0), denied))
				if f.Paused != (i == 2) {
					b.Fatalf("answer %d: paused %v", i+1, f.Paused)
				}
			}
			b.pass(6 * time.Second)
			b.fillBucket()
			if r := b.releaseUpTo(10); b.keys(r) != "other " {
				b.Fatalf("released %q, want what has another credential", b.keys(r))
			}
			g := b.gate()
			if g.Aside != 4 || len(g.PausedCredentials) != 1 || g.PausedCredentials["m1"].IsZero() {
				b.Fatalf("%d aside, paused %v", g.Aside, g.PausedCredentials)
			}
			b.must(b.ResumeCredential(b.Context(), dep, "m1", ann))
			b.fillBucket()
			b.sweep()
			b.releaseUpTo(0)
			if r := b.releaseUpTo(10); len(r.Deliveries) != 4 {
				b.Fatalf("%d came back, want 4 (hold %q)", len(r.Deliveries), r.Hold)
			}
			b.sweep()
			if b.rdb.HGet(b.Context(), b.key(dep, "gate"), "aside").Val() != "" {
				b.Fatal("the gate still looks for operations that stand aside")
			}
		})
		s.test("and what stands aside still ends at its deadline", func(b *bundle) {
			b.spec.Credentials = []string{"m1", "m2"}
			b.add("o1", credential("m1"), deadline("10s"))
			b.must(b.rdb.HSet(b.Context(), b.key(dep, "credentials"), "m1", b.now().UnixMilli()).Err())
			b.must(b.rdb.HSet(b.Context(), b.key(dep, "gate"), "aside", "1").Err())
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldNone)
			b.pass(11 * time.Second)
			if ends := b.sweep(); len(ends) != 1 || ends[0].Reason != jobs.ReasonDeadline {
				b.Fatalf("ended %v", ends)
			}
		})
	})
}

func TestAnOverrideEndsByItself(t *testing.T) {
	each(t, func(s *suite) {
		s.test("whether or not a process runs", func(b *bundle) {
			b.tokens(100_000)
			until, err := b.Override(b.Context(), dep, map[string]int64{budget.OverrideCap: 2, budget.OverrideInFlight: 1}, minute, ann)
			b.must(err)
			b.near("until", until.Sub(b.now()), minute)
			b.releaseUpTo(0)
			if g := b.gate(); g.InForce.Cap != 2 || g.Params.Cap != 100 || g.Gate.TokensMilli != 2000 || g.OverrideBy != ann.By {
				b.Fatalf("in force %+v, %d milli-tokens, by %q", g.InForce, g.Gate.TokensMilli, g.OverrideBy)
			}
			b.add("o1")
			b.add("o2")
			b.wantHold(b.releaseUpTo(10), 1, jobs.HoldInFlight)
			b.pass(minute + time.Second)
			if g := b.gate(); g.InForce.Cap != 100 || g.OverrideBy != "" {
				b.Fatalf("after its end: in force %+v, by %q", g.InForce, g.OverrideBy)
			}
			b.wantHold(b.releaseUpTo(10), 1, jobs.HoldNone)
		})
		s.test("or when it is cleared, and both are in the audit", func(b *bundle) {
			_, err := b.Override(b.Context(), dep, map[string]int64{budget.OverrideRatio: 0}, hour, ann)
			b.must(err)
			was, err := b.ClearOverride(b.Context(), dep, ann)
			b.must(err)
			again, err := b.ClearOverride(b.Context(), dep, ann)
			b.must(err)
			entries, err := b.Audit(b.Context(), dep, time.Time{}, 10)
			b.must(err)
			if !was || again || len(entries) != 3 || entries[0].Action != "override" || !strings.HasSuffix(entries[0].To, " ratio=0") || entries[1].Action != "clear" {
				b.Fatalf("was %v, again %v, audit %+v", was, again, entries)
			}
		})
		s.test("within a day", func(b *bundle) {
			for _, span := range []time.Duration{0, -time.Second, 25 * hour} {
				if _, err := b.Override(b.Context(), dep, map[string]int64{budget.OverrideCap: 1}, span, ann); err == nil {
					b.Fatalf("%v was taken", span)
				}
			}
		})
	})
}

func TestALostOrGarbledGateStartsLowAndIsTold(t *testing.T) {
	each(t, func(s *suite) {
		s.test("deleted", func(b *bundle) {
			b.pastOf("past", succeeded())
			b.must(b.rdb.Del(b.Context(), b.key(dep, "gate")).Err())
			r := b.releaseUpTo(0)
			if !slices.Equal(r.News.Changes, []string{"repaired"}) || b.gate().Gate.TokensMilli > 1010 {
				b.Fatalf("told %+v, %d milli-tokens", r.News, b.gate().Gate.TokensMilli)
			}
			if r := b.releaseUpTo(0); len(r.News.Changes) > 0 {
				b.Fatalf("told twice: %+v", r.News)
			}
		})
		s.test("of a dependency without a past it is no news", func(b *bundle) {
			b.must(b.rdb.Del(b.Context(), b.key(dep, "gate")).Err())
			if r := b.releaseUpTo(0); len(r.News.Changes) > 0 {
				b.Fatalf("told %+v", r.News)
			}
		})
		for field, garbage := range map[string]string{"tokens": "lots", "breaker": "ajar 1 2", "lane": "x", "rate": "1 2", "fresh": "yesterday 1", "park": "-", "peak": "1"} {
			s.test(field+" filled with garbage", func(b *bundle) {
				b.breaker()
				b.releaseUpTo(0)
				b.must(b.rdb.HSet(b.Context(), b.key(dep, "gate"), field, garbage).Err())
				r := b.releaseUpTo(0)
				if !slices.Equal(r.News.Changes, []string{"repaired"}) {
					b.Fatalf("told %+v", r.News)
				}
				if g := b.gate(); g.Gate.State != budget.Closed || field == "tokens" && g.Gate.TokensMilli > 1010 {
					b.Fatalf("%s, %d milli-tokens", g.Gate.State, g.Gate.TokensMilli)
				}
				b.add("o1")
				b.start("o1")
			})
		}
	})
}

func TestForecast(t *testing.T) {
	each(t, func(s *suite) {
		s.test("says when the backlog has left, and how much of it is too late", func(b *bundle) {
			b.unchecked = true
			b.releaseUpTo(0)
			_, err := b.Pause(b.Context(), dep, 0, ann)
			b.must(err)
			for i := range 40 {
				within := "30s"
				if i%2 == 0 {
					within = "1h"
				}
				b.add(fmt.Sprint("o", i), deadline(within))
			}
			b.releaseUpTo(10)
			if g := b.gate(); g.Backlog != 40 || g.Forecast.ETA != budget.Never {
				b.Fatalf("paused: backlog %d, eta %v", g.Backlog, g.Forecast.ETA)
			}
			b.must(b.Resume(b.Context(), dep, ann))
			b.terms.Gate.FloorMilliPerSecond = 500
			b.releaseUpTo(0)
			// At one every two seconds 15 of the 20 that end within 30 s have left by then.
			g := b.gate()
			if g.Forecast.ETA != 80*time.Second || g.Forecast.Misses < 4 || g.Forecast.Misses > 6 {
				b.Fatalf("eta %v, %d too late; want 80 s and about 5", g.Forecast.ETA, g.Forecast.Misses)
			}
		})
	})
}
