package ledger

import (
	"slices"
	"testing"
	"time"

	"redrive/internal/jobs"
)

// A late result comes from a worker whose claim ran out: its attempt was closed as
// unknown (worker_lost) meanwhile, and the operation went on.

// lostIn brings o1 to a state with attempt 1 lost, and returns the grant of that attempt.
func (b *bundle) lostIn(state string) *Grant {
	b.Helper()
	b.add("o1", deadline("48h"))
	g := b.start("o1")
	b.lose(g, lost(0))
	b.fillBucket()
	switch state {
	case "waiting":
	case "released":
		b.release("o1")
	case "attempting":
		b.start("o1")
	case "dead/unsafe":
		b.target.Idempotency = jobs.IdempotencyNone
		b.beginAs(b.release("o1"), "run")
	case "dead/permanent":
		b.attempt("o1", with(ends(jobs.ReasonPermanent), settles))
	case "cancelled":
		b.cancel("o1")
		b.resolve("o1", WrittenOff)
	case "succeeded":
		b.attempt("o1", with(succeeded(), paidAs("ch_2")))
	}
	b.want("o1", state)
	return g
}

func TestLateSuccess(t *testing.T) {
	cases := []struct {
		from  string
		flags []jobs.Flag
	}{
		{"waiting", []jobs.Flag{jobs.FlagLate}},
		{"released", []jobs.Flag{jobs.FlagLate}},
		{"dead/unsafe", []jobs.Flag{jobs.FlagLate}},
		{"dead/permanent", []jobs.Flag{jobs.FlagLate, jobs.FlagConflict}},
		{"cancelled", []jobs.Flag{jobs.FlagLate, jobs.FlagConflict}},
	}
	each(t, func(s *suite) {
		for _, c := range cases {
			s.test("of an operation that is "+c.from, func(b *bundle) {
				g := b.lostIn(c.from)
				f := b.finish(g, succeeded())
				b.wantHow(f, HowLate)
				if f.Conflict != slices.Contains(c.flags, jobs.FlagConflict) {
					b.Fatalf("told of a conflict: %v", f.Conflict)
				}
				b.want("o1", "succeeded")
				b.wantApplied("o1", jobs.AppliedYes)
				b.wantFlags("o1", c.flags...)
				b.wantHow(b.finish(g, succeeded()), HowKnown)
			})
		}
		s.test("during another attempt it is kept, and that one's end succeeds whatever it brings", func(b *bundle) {
			for _, res := range []Result{refused(0), unknown(0), ends(jobs.ReasonPermanent), with(ends(""), conflict)} {
				first := b.lostIn("waiting")
				second := b.start("o1")
				b.finish(first, with(succeeded(), paidAs("ch_1")))
				b.want("o1", "attempting")
				b.finish(second, res)
				b.want("o1", "succeeded")
				b.wantFlags("o1", jobs.FlagLate)
				if got := b.get("o1").Result["id"]; got != "ch_1" {
					b.Fatalf("result %q, want the late one's", got)
				}
				b.must(b.rdb.FlushDB(b.Context()).Err())
				b.fillBucket()
			}
		})
		s.test("during another attempt that is abandoned, nothing is sent again", func(b *bundle) {
			first := b.lostIn("waiting")
			d := b.release("o1")
			second := b.begin(d)
			b.finish(first, succeeded())
			b.abandon(d, second.RunID, 0)
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagLate)
		})
		s.test("during another attempt that is lost, nothing is sent again", func(b *bundle) {
			first := b.lostIn("waiting")
			second := b.start("o1")
			b.finish(first, succeeded())
			b.lose(second, lost(0))
			b.want("o1", "succeeded")
		})
		s.test("with the same result as the known success is no conflict", func(b *bundle) {
			g := b.lostIn("succeeded")
			b.finish(g, with(succeeded(), paidAs("ch_2")))
			b.wantFlags("o1")
		})
		s.test("with another result than the known success is a conflict", func(b *bundle) {
			g := b.lostIn("succeeded")
			b.finish(g, with(succeeded(), paidAs("ch_1")))
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagConflict)
			if got := b.get("o1").Result["id"]; got != "ch_2" {
				b.Fatalf("result %q was overwritten", got)
			}
		})
		s.test("two successes with different results during flight are a conflict", func(b *bundle) {
			first := b.lostIn("waiting")
			second := b.start("o1")
			b.finish(first, with(succeeded(), paidAs("ch_1")))
			b.finish(second, with(succeeded(), paidAs("ch_2")))
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagConflict)
		})
	})
}

func TestLateRefusal(t *testing.T) {
	each(t, func(s *suite) {
		for _, from := range []string{"waiting", "released", "attempting", "dead/unsafe"} {
			s.test("settles its attempt where the operation is "+from, func(b *bundle) {
				g := b.lostIn(from)
				b.wantHow(b.finish(g, refused(0)), HowLate)
				b.want("o1", from)
				if from != "attempting" {
					b.wantApplied("o1", jobs.AppliedNo)
				}
				b.wantHow(b.finish(g, succeeded()), HowKnown)
				b.want("o1", from)
			})
		}
		s.test("settles only its own attempt", func(b *bundle) {
			first := b.lostIn("waiting")
			b.attempt("o1", unknown(0))
			b.finish(first, refused(0))
			b.wantApplied("o1", jobs.AppliedUnknown)
			b.wantOutcomes("o1", "1:refused 2:unknown")
		})
		s.test("does not clear the mark of a later attempt after its own was settled", func(b *bundle) {
			first := b.lostIn("waiting")
			b.attempt("o1", with(refused(0), settles))
			b.wantApplied("o1", jobs.AppliedNo)
			b.attempt("o1", unknown(0))
			b.finish(first, refused(0))
			b.wantApplied("o1", jobs.AppliedUnknown)
		})
		s.test("leaves the attempt under way the start of its window", func(b *bundle) {
			first := b.lostIn("waiting")
			second := b.start("o1")
			b.finish(first, refused(0))
			b.finish(second, unknown(0))
			b.want("o1", "waiting")
			b.fillBucket()
			b.start("o1")
		})
		s.test("gives the operation its place by deadline back, wherever it waits", func(b *bundle) {
			b.add("waits", deadline("48h"))
			b.add("due", deadline("48h"))
			for _, key := range []string{"waits", "due"} {
				var g *Grant
				for _, d := range b.releaseUpTo(2).Deliveries {
					if d.ID == id(key) {
						g = b.begin(d)
					} else {
						b.abandon(d, "run", 0)
					}
				}
				delay := time.Duration(0)
				if key == "waits" {
					delay = 30 * hour
				}
				b.lose(g, lost(delay))
				b.fillBucket()
				b.sweep()               // what is due goes into its lane
				b.finish(g, refused(0)) // check looks at the place
				b.wantApplied(key, jobs.AppliedNo)
			}
		})
		s.test("a late not_sent gives its attempt back", func(b *bundle) {
			g := b.lostIn("waiting")
			res := with(refused(0), uncounted)
			res.Outcome = jobs.OutcomeNotSent
			b.finish(g, res)
			if g := b.start("o1"); g.Used != 1 {
				b.Fatalf("used %d, want 1", g.Used)
			}
		})
		s.test("of a written-off operation lets it expire at last", func(b *bundle) {
			g := b.lostIn("cancelled")
			b.pass(1000 * hour)
			if r := b.retire(); r.Bodies != 0 {
				b.Fatal("a record with an unknown outcome shrank")
			}
			b.finish(g, refused(0))
			if r := b.retire(); r.Bodies != 1 {
				b.Fatalf("%d records shrank, want 1: nothing is unknown any more", r.Bodies)
			}
		})
	})
}

func TestLateUnknownIsRecordedOnly(t *testing.T) {
	each(t, func(s *suite) {
		for _, from := range []string{"waiting", "released", "attempting", "dead/unsafe", "cancelled"} {
			s.test("where the operation is "+from, func(b *bundle) {
				g := b.lostIn(from)
				b.wantHow(b.finish(g, unknown(0)), HowLate)
				b.want("o1", from)
				b.wantApplied("o1", jobs.AppliedUnknown)
				if e := b.get("o1").Timeline[1]; e.Class != jobs.ClassTimeout {
					b.Fatalf("class %s of attempt 1, want the worker's own", e.Class)
				}
				b.wantHow(b.finish(g, succeeded()), HowKnown)
			})
		}
		s.test("after the lease but before anybody recovered it, a result is the claim's own", func(b *bundle) {
			b.add("o1")
			g := b.start("o1")
			b.pass(b.target.ClaimLease + time.Second)
			b.wantHow(b.finish(g, refused(0)), HowOwn)
			b.want("o1", "waiting")
		})
	})
}

func paidAs(gatewayID string) func(*Result) {
	return func(r *Result) { r.Values = map[string]string{"id": gatewayID} }
}
