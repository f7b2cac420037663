package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestEvents(t *testing.T) {
	each(t, func(s *suite) {
		s.test("each change of state that is no step of a delivery is told once", func(b *bundle) {
			b.add("o1")
			b.attempt("o1", refused(0))
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.requeue("o1", Requeue{})
			b.attempt("o1", succeeded())
			b.add("o2")
			b.cancel("o2")
			b.submit("o2") // a duplicate tells nothing
			messages, err := b.rdb.XRange(b.Context(), b.key(dep, "events"), "-", "+").Result()
			b.must(err)
			var got []string
			for _, m := range messages {
				if m.Values["at"] == "" {
					b.Fatalf("event without an instant: %v", m.Values)
				}
				for line := range strings.SplitSeq(m.Values["ops"].(string), "\n") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			want := "charge/o1 waiting, charge/o1 waiting, charge/o1 dead permanent, charge/o1 waiting, charge/o1 succeeded, charge/o2 waiting, charge/o2 cancelled"
			if strings.Join(got, ", ") != want {
				b.Fatalf("events\n%s\nwant\n%s", strings.Join(got, ", "), want)
			}
		})
		s.test("changes can be followed on from any of them", func(b *bundle) {
			ctx, deps := b.Context(), []jobs.Dependency{dep}
			first, err := b.Changes(ctx, deps)
			b.must(err)
			for _, key := range []string{"o1", "o2", "o3"} {
				b.add(key)
				b.cancel(key)
			}
			all, err := first.Next(ctx, time.Second)
			b.must(err)
			if len(all) != 6 {
				b.Fatalf("%d changes, want 6: %v", len(all), all)
			}
			for i, change := range all {
				on, err := b.ChangesAfter(deps, change.Cursor)
				b.must(err)
				if i == len(all)-1 {
					b.add("o4")
				}
				rest, err := on.Next(ctx, time.Second)
				b.must(err)
				if want := max(len(all)-1-i, 1); len(rest) != want {
					b.Fatalf("after change %d (%s): %d changes, want %d", i, change.Cursor, len(rest), want)
				}
			}
			for _, bad := range []string{"", "x", "payrail", "payrail=1", "payrail=1-1,", "Payrail=1-1", "payrail=1-1 payrail=1-1", "payrail=18446744073709551616-0", "payrail=1-99999999999999999999"} {
				if _, err := b.ChangesAfter(deps, bad); !errors.Is(err, ErrBadCursor) {
					b.Fatalf("cursor %q: %v", bad, err)
				}
			}
		})
	})
}
