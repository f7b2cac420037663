package ledger

import (
	"fmt"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func (b *bundle) keys(r Release) string {
	out := ""
	for _, d := range r.Deliveries {
		out += string(d.ID.Key) + " "
	}
	return out
}

func (b *bundle) wantHold(r Release, given int, hold jobs.Hold) {
	b.Helper()
	if len(r.Deliveries) != given || r.Hold != hold {
		b.Fatalf("released %d, hold %q; want %d, hold %q", len(r.Deliveries), r.Hold, given, hold)
	}
}

func TestReleaseOrder(t *testing.T) {
	each(t, func(s *suite) {
		s.test("the earliest deadline leaves first", func(b *bundle) {
			b.add("late", deadline("3h"))
			b.add("early", deadline("1h"))
			b.add("middle", deadline("2h"))
			if got := b.keys(b.releaseUpTo(10)); got != "early middle late " {
				b.Fatalf("order %q", got)
			}
		})
		s.test("what is not due stays", func(b *bundle) {
			b.add("later", notBefore(b.now().Add(hour)), deadline("1h"))
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldNone)
			b.pass(hour)
			b.release("later")
		})
		s.test("a first attempt does not queue behind a retry without a token", func(b *bundle) {
			b.add("retry", deadline("1h"))
			b.attempt("retry", refused(0))
			b.tokens(0)
			b.add("first", deadline("2h"))
			r := b.releaseUpTo(10)
			if b.keys(r) != "first " || r.Deliveries[0].Lane != LaneFirst || r.Hold != jobs.HoldBudget {
				b.Fatalf("got %+v", r)
			}
		})
		s.test("kinds that the process does not know are left where they are", func(b *bundle) {
			b.add("o1", kind("refund"))
			b.add("o2")
			if got := b.keys(b.releaseUpTo(10)); got != "o2 " {
				b.Fatalf("released %q, want o2 alone", got)
			}
			r := b.releaseUpTo(10)
			b.wantHold(r, 0, jobs.HoldNone)
			if r.Next != time.Second || r.More {
				b.Fatalf("next %v, more %v: asking at once would find the same", r.Next, r.More)
			}
			b.kinds = []jobs.Kind{"refund"}
			if got := b.releaseUpTo(10); len(got.Deliveries) != 1 {
				b.Fatalf("the process that knows refund got %v", got)
			}
		})
		s.test("what cannot make its deadline ends without a token", func(b *bundle) {
			b.add("o1", deadline("10m"))
			b.attempt("o1", refused(0))
			b.tokens(1000)
			b.sweep()
			b.pass(10*minute - b.terms.MinResponse + 10*time.Millisecond)
			b.tokens(1000)
			r := b.releaseUpTo(10)
			if len(r.Ended) != 1 || r.Ended[0].Reason != jobs.ReasonDeadline {
				b.Fatalf("ended %+v, want a dead(deadline)", r.Ended)
			}
			b.want("o1", "dead/deadline")
			if got := b.rdb.HGet(b.Context(), b.key(dep, "gate"), "tokens").Val(); got < "1000" {
				b.Fatalf("tokens %s, want none spent", got)
			}
		})
	})
}

func TestReleaseIsBoundedByTheGate(t *testing.T) {
	each(t, func(s *suite) {
		s.test("retries by tokens, counting those released and not begun", func(b *bundle) {
			for i := range 5 {
				b.add(fmt.Sprint("o", i))
				b.attempt(fmt.Sprint("o", i), refused(0))
			}
			b.tokens(2000)
			b.wantHold(b.releaseUpTo(10), 2, jobs.HoldBudget)
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldBudget)
		})
		s.test("by free slots, counting what is promised", func(b *bundle) {
			for i := range 5 {
				b.add(fmt.Sprint("o", i))
			}
			b.wantHold(b.releaseUpTo(3), 3, jobs.HoldSlots)
			b.wantHold(b.releaseUpTo(3), 0, jobs.HoldSlots)
			b.wantHold(b.releaseUpTo(0), 0, jobs.HoldSlots)
		})
		s.test("by max_in_flight over all processes, claims included", func(b *bundle) {
			b.terms.Gate.MaxInFlight = 3
			for i := range 5 {
				b.add(fmt.Sprint("o", i))
			}
			r := b.releaseUpTo(2)
			b.begin(r.Deliveries[0])
			b.wantHold(b.releaseUpTo(10), 1, jobs.HoldInFlight)
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldInFlight)
		})
		s.test("nothing while paused, and says so only when something is due", func(b *bundle) {
			b.add("o1")
			_, err := b.Pause(b.Context(), dep, hour, ann)
			b.must(err)
			r := b.releaseUpTo(10)
			b.wantHold(r, 0, jobs.HoldPaused)
			if r.Next > time.Second {
				b.Fatalf("next in %v: a resume would not be noticed", r.Next)
			}
			b.must(b.Resume(b.Context(), dep, ann))
			b.wantHold(b.releaseUpTo(10), 1, jobs.HoldNone)
			_, err = b.Pause(b.Context(), dep, hour, ann)
			b.must(err)
			b.wantHold(b.releaseUpTo(10), 0, jobs.HoldNone)
		})
	})
}

func TestReleaseIsBoundedPerCall(t *testing.T) {
	each(t, func(s *suite) {
		s.test("100 at most, and says that there is more", func(b *bundle) {
			b.unchecked = true
			for i := range 250 {
				b.add(fmt.Sprintf("o%03d", i))
			}
			var got []int
			for range 3 {
				r := b.releaseUpTo(1000)
				got = append(got, len(r.Deliveries))
				if want := len(got) < 3; r.More != want || r.Hold != jobs.HoldNone {
					b.Fatalf("call %d: more %v, hold %q", len(got), r.More, r.Hold)
				}
			}
			if fmt.Sprint(got) != "[100 100 50]" {
				b.Fatalf("released %v, want 100, 100, 50", got)
			}
			b.unchecked = false
			b.check()
		})
	})
}

func TestReleaseSaysWhenToAskAgain(t *testing.T) {
	each(t, func(s *suite) {
		s.test("when the next operation is due", func(b *bundle) {
			b.add("o1", notBefore(b.now().Add(300*time.Millisecond)), deadline("1h"))
			if r := b.releaseUpTo(10); r.Next > 300*time.Millisecond {
				b.Fatalf("next in %v, which is late", r.Next)
			}
		})
		s.test("when the floor has paid for one more retry", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", refused(0))
			b.tokens(600)
			r := b.releaseUpTo(10)
			b.wantHold(r, 0, jobs.HoldBudget)
			if r.Next > 400*time.Millisecond || r.Next < 300*time.Millisecond {
				b.Fatalf("next in %v, want what 400 milli-tokens take at 1 a second", r.Next)
			}
		})
		s.test("within a second when nothing is known", func(b *bundle) {
			if r := b.releaseUpTo(10); r.Next != time.Second {
				b.Fatalf("next in %v, want a second", r.Next)
			}
		})
	})
}
