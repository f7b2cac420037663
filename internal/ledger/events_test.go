package ledger

import (
	"strings"
	"testing"

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
	})
}
