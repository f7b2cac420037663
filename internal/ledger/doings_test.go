package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestDoingsAreReadBackToABound(t *testing.T) {
	each(t, func(s *suite) {
		s.test("and it is said when older entries were not looked at", func(b *bundle) {
			note := func(key, action string) {
				b.Helper()
				b.must(b.Note(b.Context(), dep, id(key).String(), action, Actor{By: "ann", Note: "why"}))
			}
			note("a", "cancel")
			note("b", "cancel")
			note("a", "reconcile")
			note("b", "reconcile")
			for _, c := range []struct {
				most, found int
				cut         bool
			}{{1, 0, true}, {2, 1, true}, {3, 1, true}, {4, 2, true}, {5, 2, false}} {
				got, cut, err := b.Doings(b.Context(), dep, id("a"), time.Time{}, c.most)
				b.must(err)
				if len(got) != c.found || cut != c.cut {
					b.Fatalf("of at most %d: %d entries, cut %v; want %d, %v", c.most, len(got), cut, c.found, c.cut)
				}
				if len(got) == 2 && (got[0].Action != "cancel" || got[1].Action != "reconcile") {
					b.Fatalf("not oldest first: %+v", got)
				}
			}
			got, cut, err := b.Doings(b.Context(), dep, id("a"), b.now().Add(hour), 100)
			b.must(err)
			if len(got) != 0 || cut {
				b.Fatalf("%d entries after the last, cut %v", len(got), cut)
			}
		})
	})
}

func TestWhatChangedOfWhereACallGoesIsNamed(t *testing.T) {
	t.Parallel()
	spec := jobs.KindSpec{BaseURL: "https://a.example", KeyHeader: "Idempotency-Key", Credentials: []string{"default", "m1"}}
	sent := digestOf(jobs.IdempotencyNone, spec.BaseURL, "m1", spec.KeyHeader, "k")
	moved := spec
	moved.BaseURL = "https://b.example"
	hidden := spec
	hidden.BaseURL = ""
	for _, c := range []struct {
		want, target, credential string
		spec                     *jobs.KindSpec
		settled                  bool
	}{
		{"", sent, "m1", &spec, false},
		{"credential", sent, "default", &spec, false},
		{"base_url", sent, "m1", &moved, false},
		{"base_url", "nokey-" + sent[10:], "m1", &moved, false},
		{"", "nokey-" + sent[10:], "m1", &spec, false},
		{"", "mixed", "m1", &moved, false}, // where each went stands in none of them
		{"", sent, "m1", &hidden, false},
		{"", sent, "m1", nil, false},
		{"", sent, "m1", &moved, true},
	} {
		d := &Detail{Operation: jobs.Operation{Credential: c.credential}, marked: !c.settled, target: c.target}
		if got := d.Moved(c.spec); got != c.want {
			t.Errorf("target %s, credential %s: %q, want %q", c.target, c.credential, got, c.want)
		}
	}
}
