package ledger

import (
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// wantBy checks who submitted an operation, as it, its timeline and its record tell;
// "": none of them says.
func (b *bundle) wantBy(key, by string) {
	b.Helper()
	d := b.get(key)
	told := ""
	for _, e := range d.Timeline {
		if e.Event == "submitted" {
			told = e.By
		}
	}
	stored, there := b.records()[id(key).String()]["sby"]
	if text(d.SubmittedBy) != by || told != by || stored != by || there != (by != "") {
		b.Fatalf("%s: submitted by %q, in its timeline by %q, stored %q (%v), want %q", key, text(d.SubmittedBy), told, stored, there, by)
	}
}

// Nobody could say later which service or person had handed a refund in.
func TestWhoSubmittedAnOperationIsKept(t *testing.T) {
	each(t, func(s *suite) {
		s.test("from the submission that made it, whoever comes after", func(b *bundle) {
			b.by = "shop"
			b.add("o1")
			b.wantBy("o1", "shop")
			b.by = "ann@desk"
			b.wantAnswer(b.submit("o1"), jobs.Duplicate, jobs.Waiting)
			b.wantAnswer(b.submit("o1", body(`{"amount":1}`)), jobs.Conflict, jobs.Waiting)
			if r := b.submit("o1", b.sent("req-1", jobs.OutcomeUnknown, time.Second)); r.Answer != jobs.Conflict || !r.Merged {
				b.Fatalf("%s, merged %v: want a send that is added", r.Answer, r.Merged)
			}
			b.wantBy("o1", "shop")
		})
		s.test("through its whole life", func(b *bundle) {
			b.by = "shop"
			b.add("o1")
			b.attempt("o1", ends(jobs.ReasonPermanent))
			b.wantDone(b.requeue("o1", Requeue{DeadlineSpan: hour}).Done, DoneOK, jobs.Waiting) // by ann
			b.attempt("o1", succeeded())
			b.wantBy("o1", "shop")
		})
		s.test("of one that its service sends itself", func(b *bundle) {
			b.by = "checkout@shop-1"
			_, g := b.submitBegun("o1", "run-1")
			b.wantBy("o1", "checkout@shop-1")
			b.finish(g, succeeded())
			b.wantBy("o1", "checkout@shop-1")
		})
		s.test("each new attempt of a payment has its own", func(b *bundle) {
			b.by = "shop"
			b.declined("o1")
			b.by = "ann@desk"
			b.add("o2", newAttemptOf("o1"))
			b.wantBy("o1", "shop")
			b.wantBy("o2", "ann@desk")
		})
		s.test("of a key that was only asked about it is who uses it", func(b *bundle) {
			b.asks()
			_, err := b.Reconcile(b.Context(), b.spec, id("o1"), time.Time{}, ann)
			b.must(err)
			b.wantBy("o1", "")
			b.settledTime()
			b.ask("o1", jobs.InquiryNotFound)
			b.pass(settleFor + time.Second)
			b.ask("o1", jobs.InquiryNotFound)
			b.by = "shop"
			b.add("o1")
			b.wantBy("o1", "shop")
		})
		s.test("a tombstone tells it too", func(b *bundle) {
			b.by = "shop"
			b.add("o1")
			b.attempt("o1", succeeded())
			b.pass(168*hour + time.Second)
			b.wantRetired(b.retire(), 1, 0, 0)
			if d := b.get("o1"); !d.Tombstone || text(d.SubmittedBy) != "shop" {
				b.Fatalf("tombstone %v, submitted by %q", d.Tombstone, text(d.SubmittedBy))
			}
		})
		s.test("a page of a list tells it", func(b *bundle) {
			b.by = "shop"
			b.add("o1")
			page, err := b.List(b.Context(), Filter{Dependencies: []jobs.Dependency{dep}}, nil)
			b.must(err)
			if len(page.Items) != 1 || text(page.Items[0].SubmittedBy) != "shop" {
				b.Fatalf("page %+v", page.Items)
			}
		})
		s.test("what does not say is shown without, as what older versions wrote", func(b *bundle) {
			b.add("o1")
			b.wantBy("o1", "")
		})
		s.test("what a worker writes back does not know it", func(b *bundle) {
			b.by = "shop"
			b.add("o1")
			g := b.start("o1")
			b.must(b.rdb.FlushDB(b.Context()).Err())
			b.by = ""
			b.again(g)
			b.wantBy("o1", "")
		})
		s.test("a name that the record would not keep is refused, and nothing is written", func(b *bundle) {
			for by, part := range map[string]string{strings.Repeat("a", 65): "by: 65 bytes", "a\nb": "control", "\xff": "UTF-8"} {
				terms := b.submitTerms()
				terms.By = by
				if _, err := b.Submit(b.Context(), terms, []Entry{b.entry("o1")}); err == nil || !strings.Contains(err.Error(), part) {
					b.Fatalf("%q: %v, want %s", by, err, part)
				}
				if len(b.records()) != 0 {
					b.Fatalf("%q left a record", by)
				}
			}
		})
	})
}

// A value above 64 bytes would make Redis store every such record in a form that takes
// more than all its fields.
func TestTheLongestNameLeavesARecordCompact(t *testing.T) {
	t.Parallel()
	rdb := redistest.Server(t).Client(t)
	b := setup(t, rdb)
	b.by = strings.Repeat("a", jobs.MaxByBytes)
	b.add("o1")
	encoding, err := rdb.ObjectEncoding(b.Context(), b.key(dep, "op:charge/o1")).Result()
	b.must(err)
	if encoding != "listpack" && encoding != "ziplist" { // of Redis 7, of Redis 6.2
		b.Fatalf("the record is a %s", encoding)
	}
}
