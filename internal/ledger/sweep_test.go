package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestSweep(t *testing.T) {
	each(t, func(s *suite) {
		s.test("ends what can no longer make its deadline, while paused too", func(b *bundle) {
			b.add("o1", deadline("1m"))
			b.add("o2", deadline("2m"))
			_, err := b.Pause(b.Context(), dep, 0, ann)
			b.must(err)
			b.pass(minute - b.terms.MinResponse + 50*time.Millisecond)
			done := b.sweep()
			if len(done) != 1 || done[0].ID != id("o1") || done[0].Reason != jobs.ReasonDeadline {
				b.Fatalf("ended %+v, want o1 by deadline", done)
			}
			b.want("o1", "dead/deadline")
			b.want("o2", "waiting")
		})
		s.test("does not end what can still make it", func(b *bundle) {
			b.add("o1", deadline("1m"))
			b.pass(minute - b.terms.MinResponse - 2*time.Second)
			b.sweep()
			b.start("o1")
		})
		s.test("settles a deadline with an unknown outcome", func(b *bundle) {
			b.add("o1", deadline("1m"))
			b.attempt("o1", unknown(10*time.Second))
			b.pass(minute)
			b.sweep()
			b.want("o1", "dead/unsafe")
			if got := text(b.get("o1").Intent); got != "dead deadline" {
				b.Fatalf("intent %q, want dead deadline", got)
			}
		})
		s.test("brings back a release that nobody began", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", refused(0))
			b.release("o1")
			b.pass(ReleaseLease - time.Second)
			b.sweep()
			b.want("o1", "released")
			b.pass(2 * time.Second)
			b.sweep()
			b.want("o1", "waiting")
			b.fillBucket()
			if g := b.start("o1"); g.Attempt != 2 {
				b.Fatalf("attempt %d, want 2", g.Attempt)
			}
		})
		s.test("does not touch an attempt under way, whatever its deadline", func(b *bundle) {
			b.add("o1", deadline("5s"))
			g := b.start("o1")
			b.pass(hour)
			b.sweep()
			b.want("o1", "attempting")
			b.finish(g, succeeded())
			b.want("o1", "succeeded")
		})
		s.test("settles waiting and released operations when their key's window is over", func(b *bundle) {
			b.add("o1", deadline("48h"))
			b.add("o2", deadline("48h"))
			b.attempt("o1", unknown(0))
			b.attempt("o2", unknown(40*hour))
			b.release("o1")
			b.pass(19*hour + 13*minute)
			b.sweep()
			b.want("o1", "waiting") // its release lease was over
			b.want("o2", "dead/unsafe")
			b.sweep()
			b.want("o1", "dead/unsafe")
		})
		s.test("leaves natural operations alone when a window would be over", func(b *bundle) {
			b.class(jobs.IdempotencyNatural)
			b.add("o1", deadline("48h"))
			b.attempt("o1", unknown(30*hour))
			b.pass(29 * hour)
			b.sweep()
			b.want("o1", "waiting")
		})
		s.test("is bounded per call and says that there is more", func(b *bundle) {
			b.unchecked = true
			for i := range 250 {
				b.add(fmt.Sprintf("o%03d", i), deadline("1m"))
			}
			b.pass(2 * minute)
			ended, calls := 0, 0
			for more := true; more; calls++ {
				var done []Ended
				var err error
				done, more, err = b.Sweep(b.Context(), b.terms, b.kinds)
				b.must(err)
				if len(done) > 100 {
					b.Fatalf("one call ended %d", len(done))
				}
				ended += len(done)
			}
			if ended != 250 || calls > 6 {
				b.Fatalf("%d ended in %d calls, want 250 in a few", ended, calls)
			}
			b.unchecked = false
			b.check()
		})
		s.test("removes an index entry without a record, and says so once", func(b *bundle) {
			b.unchecked = true
			for _, name := range []string{"waiting", "due:first", "due:retry", "aside", "released:first", "released:retry"} {
				b.must(b.rdb.ZAdd(b.Context(), b.key(dep, name), zAt(b.now().Add(-hour), "charge/ghost")).Err())
			}
			b.unchecked = false
			for range 3 {
				_, _, err := b.Sweep(b.Context(), b.terms, b.kinds)
				b.must(err)
			}
			b.check()
			events, err := b.rdb.XRange(b.Context(), b.key(dep, "events"), "-", "+").Result()
			b.must(err)
			gone := 0
			for _, e := range events {
				gone += strings.Count(e.Values["ops"].(string), " gone ")
			}
			if gone < 1 || gone > 6 {
				b.Fatalf("%d events of lost records", gone)
			}
		})
	})
}
