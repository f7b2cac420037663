package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestKindsAndBindings(t *testing.T) {
	each(t, func(s *suite) {
		s.test("published kinds are read back, and name their dependencies", func(b *bundle) {
			b.spec.Columns, b.spec.Credentials = map[string]string{"amount": "/amount"}, []string{"m1"}
			other := b.spec
			other.Kind, other.Dependency = "refund", "another"
			b.must(b.PublishKinds(b.Context(), []jobs.KindSpec{b.spec, other}))
			kinds, err := b.Kinds(b.Context())
			b.must(err)
			if fmt.Sprint(kinds["charge"]) != fmt.Sprint(b.spec) || len(kinds) != 2 {
				b.Fatalf("kinds %+v", kinds)
			}
			deps, err := b.Dependencies(b.Context())
			b.must(err)
			if !slices.Equal(deps, []jobs.Dependency{"another", dep}) {
				b.Fatalf("dependencies %v", deps)
			}
		})
		s.test("a kind is bound while operations of it exist, also ended ones", func(b *bundle) {
			b.must(b.PublishKinds(b.Context(), []jobs.KindSpec{b.spec}))
			moved := b.spec
			moved.Dependency = "another"
			b.must(b.CheckBindings(b.Context(), []jobs.KindSpec{moved}))
			b.add("o1")
			b.attempt("o1", succeeded())
			var bound *BindingError
			for name, publish := range map[string]func() error{
				"publish": func() error { return b.PublishKinds(b.Context(), []jobs.KindSpec{moved}) },
				"bind":    func() error { return b.BindKinds(b.Context(), []jobs.KindSpec{moved}) },
			} {
				if err := publish(); !errors.As(err, &bound) || bound.Bound != dep || bound.Other != "another" || bound.Operations != 1 {
					b.Fatalf("%s: %v, want the binding to %s with its one operation", name, err, dep)
				}
			}
			kinds, err := b.Kinds(b.Context())
			b.must(err)
			if kinds["charge"].Dependency != dep {
				b.Fatalf("bound to %s", kinds["charge"].Dependency)
			}
			b.pass(3000 * hour)
			b.retire()
			b.retire()
			b.must(b.PublishKinds(b.Context(), []jobs.KindSpec{moved}))
		})
	})
}

func TestSchemaAndWorkers(t *testing.T) {
	each(t, func(s *suite) {
		s.test("a newer schema is refused, an empty namespace gets this one", func(b *bundle) {
			b.must(b.CheckSchema(b.Context()))
			b.must(b.CheckSchema(b.Context()))
			if got := b.rdb.Get(b.Context(), b.global("schema")).Val(); got != fmt.Sprint(Schema) {
				b.Fatalf("schema %q", got)
			}
			b.must(b.rdb.Set(b.Context(), b.global("schema"), Schema+1, 0).Err())
			if err := b.CheckSchema(b.Context()); !errors.Is(err, ErrNewerSchema) {
				b.Fatalf("%v, want ErrNewerSchema", err)
			}
		})
		s.test("an older schema is refused while its workers live", func(b *bundle) {
			old, err := json.Marshal(Worker{ID: "old", Schema: Schema - 1, BeatAt: b.now()})
			b.must(err)
			b.must(b.rdb.HSet(b.Context(), b.global("workers"), "old", old).Err())
			if err := b.CheckSchema(b.Context()); !errors.Is(err, ErrOlderWorkers) {
				b.Fatalf("%v, want ErrOlderWorkers", err)
			}
			b.must(b.Leave(b.Context(), "old"))
			b.must(b.CheckSchema(b.Context()))
		})
		s.test("workers live by their heartbeat and are forgotten after a day", func(b *bundle) {
			b.must(b.Beat(b.Context(), Worker{ID: "w2", Host: "h", PID: 7, Kinds: []jobs.Kind{"charge"}}))
			b.must(b.Beat(b.Context(), Worker{ID: "w1"}))
			for id, ago := range map[string]time.Duration{"silent": HeartbeatLost + time.Second, "gone": 25 * hour} {
				text, err := json.Marshal(Worker{ID: id, BeatAt: b.now().Add(-ago)})
				b.must(err)
				b.must(b.rdb.HSet(b.Context(), b.global("workers"), id, text).Err())
			}
			b.must(b.rdb.HSet(b.Context(), b.global("workers"), "garbled", "{").Err())
			live, err := b.Workers(b.Context())
			b.must(err)
			if len(live) != 2 || live[0].ID != "w1" || live[1].ID != "w2" || live[1].Schema != Schema || live[1].BeatAt.IsZero() {
				b.Fatalf("live %+v", live)
			}
			names := b.rdb.HKeys(b.Context(), b.global("workers")).Val()
			slices.Sort(names)
			if !slices.Equal(names, []string{"silent", "w1", "w2"}) {
				b.Fatalf("known %v", names)
			}
		})
	})
}

func TestListPagesNewestFirst(t *testing.T) {
	each(t, func(s *suite) {
		s.test("every operation once, whatever the page, and only what the filter names", func(b *bundle) {
			for i := range 23 {
				key := fmt.Sprintf("o%02d", i)
				b.add(key)
				if i%3 == 0 {
					b.cancel(key)
				}
				b.pass(time.Second)
			}
			list := func(f Filter) []string {
				b.Helper()
				var keys []string
				for {
					page, err := b.List(b.Context(), f, map[jobs.Kind]jobs.KindSpec{"charge": b.spec})
					b.must(err)
					for _, o := range page.Items {
						keys = append(keys, string(o.Key))
					}
					if f.Cursor = page.NextCursor; f.Cursor == "" {
						return keys
					}
				}
			}
			all := list(Filter{Dependencies: []jobs.Dependency{dep}, Limit: 4})
			if len(all) != 23 || all[0] != "o22" || all[22] != "o00" || !slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(b, a) }) {
				b.Fatalf("listed %v", all)
			}
			if got := list(Filter{Dependencies: []jobs.Dependency{dep}, States: []jobs.State{jobs.Cancelled}, Limit: 3}); len(got) != 8 || got[0] != "o21" {
				b.Fatalf("cancelled %v", got)
			}
			if got := list(Filter{Dependencies: []jobs.Dependency{dep}, KeyGlob: "o1*", Kinds: []jobs.Kind{"charge"}}); len(got) != 10 {
				b.Fatalf("o1* %v", got)
			}
			if got := list(Filter{Dependencies: []jobs.Dependency{dep}, Unknown: true}); len(got) != 0 {
				b.Fatalf("unknown %v", got)
			}
		})
	})
}
