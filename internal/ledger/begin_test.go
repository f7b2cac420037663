package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

func (b *bundle) wantStatus(got Begin, want BeginStatus) {
	b.Helper()
	if got.Status != want {
		b.Fatalf("begin: %s (hold %q, ended %v), want %s", got.Status, got.Hold, got.Ended, want)
	}
}

func TestBegin(t *testing.T) {
	each(t, func(s *suite) {
		s.test("does not repeat a grant that a reported send has made unsafe", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", deadline("48h"))
			d := b.release("o1")
			b.wantStatus(b.beginAs(d, "run"), BeginGranted) // its reply was lost
			b.submit("o1", b.sentPlain("r1", jobs.OutcomeUnknown))
			b.wantStatus(b.beginAs(d, "run"), BeginEnded)
			b.want("o1", "dead/unsafe")
			b.wantOutcomes("o1", "1:not_sent 2:unknown")
		})
		s.test("grants the released delivery and writes it ahead", func(b *bundle) {
			b.add("o1", func(s *jobs.Submission) { s.CorrelationID = "checkout-77"; s.Params = map[string]string{"id": "x"} })
			g := b.start("o1")
			b.want("o1", "attempting")
			b.wantOutcomes("o1", "1:open")
			b.wantApplied("o1", jobs.AppliedUnknown)
			if g.Attempt != 1 || g.Used != 1 || g.UnknownBefore || g.Idempotency != jobs.IdempotencyKeyed || g.Losses != 0 {
				b.Fatalf("grant %+v", g)
			}
			b.near("lease", g.LeaseLeft, b.target.ClaimLease)
			b.near("deadline", g.DeadlineLeft, 2*hour)
			r := g.Request
			if r.Method != "POST" || r.Path != "/v1/charges" || string(r.Body) != `{"amount":4200,"currency":"GBP"}` || r.Params["id"] != "x" ||
				r.IdempotencyKey != "charge:o1" || r.CorrelationID != "checkout-77" || r.Credential != "default" || r.ContentType != "application/json" {
				b.Fatalf("request %+v", r)
			}
			if n := b.rdb.Get(b.Context(), b.key(dep, "seq")).Val(); n != "1" {
				b.Fatalf("begins counted %s, want 1", n)
			}
		})
		s.test("the same run asking again gets the same grant", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", refused(0))
			d := b.release("o1")
			b.tokens(5000)
			one, two := b.beginAs(d, "run"), b.beginAs(d, "run")
			b.wantStatus(one, BeginGranted)
			b.wantStatus(two, BeginGranted)
			if one.Grant.Attempt != two.Grant.Attempt || one.Grant.Used != two.Grant.Used {
				b.Fatalf("grants differ: %+v, %+v", one.Grant, two.Grant)
			}
			s, err := b.Snapshot(b.Context(), dep)
			b.must(err)
			if s.TokensMilli < 4000 || s.TokensMilli > 4200 || s.Begins != 2 {
				b.Fatalf("%d milli-tokens left after %d begins, want one token spent once", s.TokensMilli, s.Begins)
			}
		})
		s.test("another run is stale while the claim is held, and after", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			g := b.begin(d)
			b.wantStatus(b.beginAs(d, "other"), BeginStale)
			b.finish(g, refused(hour))
			b.wantStatus(b.beginAs(d, "other"), BeginStale)
			b.wantStatus(b.beginAs(d, g.RunID), BeginStale)
		})
		s.test("another delivery is stale, lower or higher", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			for _, n := range []int64{0, 2} {
				other := d
				other.Number = n
				b.wantStatus(b.beginAs(other, "run"), BeginStale)
			}
			b.begin(d)
		})
		s.test("a delivery whose release lease ran out is stale", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			b.pass(ReleaseLease + time.Second)
			b.sweep()
			b.want("o1", "waiting")
			b.wantStatus(b.beginAs(d, "run"), BeginStale)
			if again := b.release("o1"); again.Number != 2 {
				b.Fatalf("delivery %d, want 2", again.Number)
			}
		})
		s.test("an unknown name, and a record that lost its request, are gone and cost nothing", func(b *bundle) {
			b.wantStatus(b.beginAs(Delivery{ID: id("ghost"), Number: 1}, "run"), BeginGone)
			b.add("o1", deadline("1h"))
			d := b.release("o1")
			b.unchecked = true
			b.must(b.rdb.Del(b.Context(), b.key(dep, "request:charge/o1")).Err())
			b.wantStatus(b.beginAs(d, "run"), BeginGone)
			b.wantOutcomes("o1", "")
			b.pass(hour)
			b.sweep()
			b.sweep()
			b.want("o1", "dead/deadline")
		})
	})
}

func TestBeginEndsWhatCannotBeSent(t *testing.T) {
	each(t, func(s *suite) {
		s.test("the deadline passed while it lay in the queue", func(b *bundle) {
			b.add("o1", deadline("20s"))
			b.attempt("o1", refused(0))
			d := b.release("o1")
			b.tokens(1000)
			b.pass(20*time.Second - b.terms.MinResponse + 20*time.Millisecond)
			b.tokens(1000)
			answer := b.beginAs(d, "run")
			b.wantStatus(answer, BeginEnded)
			if len(answer.Ended) != 1 || answer.Ended[0].Reason != jobs.ReasonDeadline {
				b.Fatalf("ended %+v", answer.Ended)
			}
			b.want("o1", "dead/deadline")
			if s, _ := b.Snapshot(b.Context(), dep); s.TokensMilli != 1000 {
				b.Fatalf("%d milli-tokens, want the 1000 unspent", s.TokensMilli)
			}
		})
		s.test("no attempts left, tested before the deadline", func(b *bundle) {
			b.maxAttempts = 1
			b.add("o1", deadline("20s"))
			b.attempt("o1", refused(0))
			d := b.release("o1")
			b.pass(25 * time.Second)
			b.wantStatus(b.beginAs(d, "run"), BeginEnded)
			b.want("o1", "dead/attempts")
		})
	})
}

// Each case leaves attempt 1 unknown under a key, changes one thing, and asks for
// attempt 2.
func TestBeginResendsUnknownOnlyWhenSafe(t *testing.T) {
	cases := []struct {
		name   string
		change func(b *bundle)
		safe   bool
	}{
		{"nothing changed", func(*bundle) {}, true},
		{"the window passed", func(b *bundle) { b.pass(19*hour + 13*minute) }, false},
		{"the configured class is weaker", func(b *bundle) { b.target.Idempotency = jobs.IdempotencyNone }, false},
		{"the configured class is conditional", func(b *bundle) { b.target.Idempotency = jobs.IdempotencyConditional }, false},
		{"the configured class is stronger", func(b *bundle) { b.target.Idempotency = jobs.IdempotencyNatural }, true},
		{"another base_url", func(b *bundle) { b.target.BaseURL = "https://other.example" }, false},
		{"another key header", func(b *bundle) { b.target.KeyHeader = "X-Key" }, false},
		{"no key header", func(b *bundle) { b.target.KeyHeader = "" }, false},
		{"another credential", func(b *bundle) {
			b.must(b.rdb.HSet(b.Context(), b.key(dep, "op:charge/o1"), "cred", "m1").Err())
		}, false},
	}
	each(t, func(s *suite) {
		for _, c := range cases {
			s.test(c.name, func(b *bundle) {
				b.add("o1", deadline("48h"))
				b.attempt("o1", unknown(0))
				d := b.release("o1")
				c.change(b)
				b.fillBucket()
				answer := b.beginAs(d, "run")
				if c.safe {
					b.wantStatus(answer, BeginGranted)
					if !answer.Grant.UnknownBefore || answer.Grant.SafeFor <= 0 {
						b.Fatalf("grant %+v: want the mark and some time left", answer.Grant)
					}
					return
				}
				b.wantStatus(answer, BeginEnded)
				b.want("o1", "dead/unsafe")
				b.wantOutcomes("o1", "1:unknown")
				if got := text(b.get("o1").Intent); got != "waiting" {
					b.Fatalf("intent %q, want waiting", got)
				}
			})
		}
	})
}

func TestBeginIsHeldByTheGate(t *testing.T) {
	each(t, func(s *suite) {
		s.test("without a token it goes back unchanged", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", refused(0))
			d := b.release("o1")
			b.tokens(0)
			answer := b.beginAs(d, "run")
			b.wantStatus(answer, BeginHeld)
			if answer.Hold != jobs.HoldBudget {
				b.Fatalf("held by %q, want budget", answer.Hold)
			}
			b.want("o1", "waiting")
			b.wantOutcomes("o1", "1:refused")
			b.near("next in", b.get("o1").NextAt.Sub(b.now()), time.Second)
			b.pass(2 * time.Second)
			if g := b.start("o1"); g.Attempt != 2 || g.Used != 2 {
				b.Fatalf("attempt %d, used %d; want 2, 2: a refusal counts nothing", g.Attempt, g.Used)
			}
		})
		s.test("a pause stops it, and a resume does not wait for the pause's end", func(b *bundle) {
			b.add("o1")
			d := b.release("o1")
			_, err := b.Pause(b.Context(), dep, hour, ann)
			b.must(err)
			answer := b.beginAs(d, "run")
			b.wantStatus(answer, BeginHeld)
			if answer.Hold != jobs.HoldPaused {
				b.Fatalf("held by %q, want paused", answer.Hold)
			}
			b.must(b.Resume(b.Context(), dep, ann))
			b.pass(time.Second)
			b.start("o1")
		})
		s.test("the pause ends by itself", func(b *bundle) {
			b.add("o1")
			_, err := b.Pause(b.Context(), dep, minute, ann)
			b.must(err)
			b.wantHold(b.releaseUpTo(1), 0, jobs.HoldPaused)
			b.pass(minute)
			b.start("o1")
		})
		s.test("a first attempt fills the budget when it begins, a retry does not", func(b *bundle) {
			b.terms.Gate.FloorMilliPerSecond = 0
			b.tokens(1000)
			b.add("o1")
			b.attempt("o1", refused(0))
			if s, _ := b.Snapshot(b.Context(), dep); s.TokensMilli != 1100 {
				b.Fatalf("%d milli-tokens after a first attempt, want 1100", s.TokensMilli)
			}
			b.attempt("o1", refused(0))
			if s, _ := b.Snapshot(b.Context(), dep); s.TokensMilli != 100 {
				b.Fatalf("%d milli-tokens after a retry, want 100", s.TokensMilli)
			}
		})
	})
}
