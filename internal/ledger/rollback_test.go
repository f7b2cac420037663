package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

// snapshot returns what takes the store back to what it is now.
func (b *bundle) snapshot() (rollBack func()) {
	b.Helper()
	ctx := b.Context()
	keys, err := b.rdb.Keys(ctx, "*").Result()
	b.must(err)
	var restore []func() error // streams are not brought back: no rule looks at them
	for _, k := range keys {
		switch b.rdb.Type(ctx, k).Val() {
		case "hash":
			v := b.rdb.HGetAll(ctx, k).Val()
			restore = append(restore, func() error { return b.rdb.HSet(ctx, k, v).Err() })
		case "zset":
			v := b.rdb.ZRangeWithScores(ctx, k, 0, -1).Val()
			restore = append(restore, func() error { return b.rdb.ZAdd(ctx, k, v...).Err() })
		case "string":
			v := b.rdb.Get(ctx, k).Val()
			restore = append(restore, func() error { return b.rdb.Set(ctx, k, v, 0).Err() })
		}
	}
	return func() {
		b.Helper()
		b.must(b.rdb.FlushDB(ctx).Err())
		for _, f := range restore {
			b.must(f())
		}
		b.check()
	}
}

// seeing passes what the process has seen of begins.
func (b *bundle) seeing(n int64) { b.terms.Seen = n }

func (b *bundle) again(g *Grant) jobs.Receipt {
	b.Helper()
	e, err := g.Again(dep, b.target)
	b.must(err)
	receipts, err := b.Submit(b.Context(), b.submitTerms(), []Entry{e})
	b.must(err)
	b.check()
	return receipts[0]
}

func TestARollbackOfTheStore(t *testing.T) {
	each(t, func(s *suite) {
		rolled := func(b *bundle, class jobs.Idempotency) *Grant {
			b.class(class)
			b.add("o1", deadline("48h"))
			rollBack := b.snapshot()
			g := b.start("o1")
			b.seeing(g.Begins)
			rollBack()
			b.want("o1", "waiting")
			return g
		}
		s.test("is noticed by who saw more begins, and a send of class none is not repeated", func(b *bundle) {
			g := rolled(b, jobs.IdempotencyNone)
			r := b.releaseUpTo(1)
			if len(r.Deliveries) != 0 || r.Hold != jobs.HoldRolledBack || r.RolledBack.IsZero() {
				b.Fatalf("%d deliveries, hold %q, rolled back %v", len(r.Deliveries), r.Hold, r.RolledBack)
			}
			if receipt := b.again(g); receipt.Answer != jobs.Duplicate || !receipt.Merged {
				b.Fatalf("%v", receipt)
			}
			b.want("o1", "dead/unsafe")
			b.wantApplied("o1", jobs.AppliedUnknown)
			if receipt := b.again(g); receipt.Merged {
				b.Fatal("merged twice")
			}
		})
		s.test("is told to those who saw nothing of it, until a person resumes", func(b *bundle) {
			rolled(b, jobs.IdempotencyNone)
			b.releaseUpTo(1)
			b.seeing(0)
			if r := b.releaseUpTo(1); r.Hold != jobs.HoldRolledBack {
				b.Fatalf("hold %q", r.Hold)
			}
			snapshot, err := b.Snapshot(b.Context(), dep)
			b.must(err)
			if !snapshot.Paused || snapshot.RolledBackAt.IsZero() {
				b.Fatalf("%+v", snapshot)
			}
			b.must(b.Resume(b.Context(), dep, ann))
			if r := b.releaseUpTo(1); len(r.Deliveries) != 1 {
				b.Fatalf("hold %q after resume", r.Hold)
			}
		})
		s.test("is noticed by begin as well, which sends nothing", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", deadline("48h"))
			b.add("o2", deadline("48h"))
			d := b.releaseUpTo(2).Deliveries
			rollBack := b.snapshot()
			g := b.begin(d[0])
			rollBack()
			b.seeing(g.Begins)
			if answer := b.beginAs(d[1], "run"); answer.Status != BeginHeld || answer.Hold != jobs.HoldRolledBack {
				b.Fatalf("%s %q", answer.Status, answer.Hold)
			}
		})
		for _, class := range []jobs.Idempotency{jobs.IdempotencyNatural, jobs.IdempotencyKeyed} {
			s.test("does not hold what is surely safe: "+string(class), func(b *bundle) {
				rolled(b, class)
				b.start("o1")
			})
		}
		s.test("holds a keyed one that was accepted longer ago than its key lives", func(b *bundle) {
			b.class(jobs.IdempotencyKeyed)
			b.add("o1", deadline("72h"))
			b.pass(20 * hour)
			rollBack := b.snapshot()
			g := b.start("o1")
			b.seeing(g.Begins)
			rollBack()
			if r := b.releaseUpTo(1); r.Hold != jobs.HoldRolledBack {
				b.Fatalf("hold %q", r.Hold)
			}
		})
		s.test("an operation that was lost whole is back, as unknown", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.asks()
			rollBack := b.snapshot()
			b.add("o1", deadline("48h"))
			g := b.start("o1")
			b.seeing(g.Begins)
			rollBack()
			if receipt := b.again(g); receipt.Answer != jobs.Accepted {
				b.Fatalf("%v", receipt)
			}
			b.want("o1", "unresolved")
			b.pass(time.Minute)
			b.ask("o1", jobs.InquirySucceeded)
			b.want("o1", "succeeded")
		})
		s.test("what is on record still is not told twice", func(b *bundle) {
			b.class(jobs.IdempotencyNone)
			b.add("o1", deadline("48h"))
			g := b.start("o1")
			b.finish(g, succeeded())
			if receipt := b.again(g); receipt.Merged {
				b.Fatal("merged")
			}
			b.wantFlags("o1")
		})
	})
}
