package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

type namedCall struct {
	name string
	call func() error
}

// oneOfEach returns a call of each script that changes operations, each on one that
// stands where the call has an effect.
func (b *bundle) oneOfEach() []namedCall {
	b.Helper()
	ctx := b.Context()
	b.add("dead")
	b.attempt("dead", ends(jobs.ReasonPermanent))
	b.class(jobs.IdempotencyNone)
	b.add("unsafe")
	b.attempt("unsafe", with(unknown(0), ask))
	b.class(jobs.IdempotencyKeyed)
	var grants []*Grant
	for _, key := range []string{"attempting", "lost", "abandoned"} {
		b.add(key)
		grants = append(grants, b.start(key))
	}
	b.pass(minute)
	b.add("lapsed")
	b.release("lapsed")
	b.pass(minute)
	b.add("released")
	d := b.release("released")
	b.add("waiting")
	entry := b.entry("new")
	g, abandoned := grants[0], grants[2]
	lostOne := Lost{ID: grants[1].ID, RunID: grants[1].RunID, Attempt: 1}
	answered := refused(0)
	answered.Body = []byte("sorry")
	return []namedCall{
		{"submit", func() error { _, err := b.Submit(ctx, b.submitTerms(), []Entry{entry}); return err }},
		{"begin", func() error { _, err := b.Begin(ctx, b.terms, b.target, 5, d, "run"); return err }},
		{"finish", func() error { _, err := b.Finish(ctx, b.terms, b.target, g, answered); return err }},
		{"finish lost", func() error { _, err := b.FinishLost(ctx, b.terms, b.target, lostOne, lost(0), false); return err }},
		{"abandon", func() error {
			_, err := b.Abandon(ctx, b.terms, Delivery{ID: abandoned.ID, Number: abandoned.Delivery}, abandoned.RunID, 0, false)
			return err
		}},
		{"sweep", func() error { _, _, err := b.Sweep(ctx, b.terms, b.kinds); return err }},
		{"cancel", func() error { _, err := b.Cancel(ctx, dep, id("waiting"), b.terms.Retention, ann); return err }},
		{"resolve", func() error {
			_, err := b.Resolve(ctx, dep, id("unsafe"), ResolvedApplied, "", b.terms.Retention, ann)
			return err
		}},
		{"requeue", func() error {
			_, err := b.Requeue(ctx, b.terms, b.target, id("dead"), Requeue{RequestID: "r", MaxAttempts: 5}, ann)
			return err
		}},
		{"release", func() error { _, err := b.Release(ctx, b.terms, b.kinds, 10); return err }},
	}
}

// A full Redis refuses the first write of a script, and none after it: a call either
// happens or changes nothing.
func TestAFullRedisRefusesWholeCalls(t *testing.T) {
	t.Parallel()
	rdb := redistest.Server(t).Client(t)
	b := setup(t, rdb)
	calls := b.oneOfEach()
	refused := 0
	for _, c := range calls {
		before := fmt.Sprint(b.records())
		b.must(rdb.ConfigSet(b.Context(), "maxmemory", "1").Err())
		err := c.call()
		b.must(rdb.ConfigSet(b.Context(), "maxmemory", "0").Err())
		b.check()
		if err == nil {
			continue
		}
		refused++
		if !redis.HasErrorPrefix(errors.Unwrap(err), "OOM") {
			t.Errorf("%s: %v, want an error that begins with OOM", c.name, err)
		}
		if after := fmt.Sprint(b.records()); after != before {
			t.Errorf("%s was refused and changed:\n%s\n%s", c.name, before, after)
		}
	}
	if refused < 5 {
		t.Errorf("%d of %d calls were refused: the test proves nothing", refused, len(calls))
	}
	for _, c := range calls {
		if err := c.call(); err != nil {
			t.Errorf("%s once there is room: %v", c.name, err)
		}
		b.check()
	}
}

// A call that fails in the middle (here: what is to hold the audit or the answers holds
// something else) leaves record, index and counts agreeing, and so does it beside
// others in one run.
func TestACallThatFailsHalfWayMovesNothing(t *testing.T) {
	each(t, func(s *suite) {
		s.test("alone", func(b *bundle) {
			calls := b.oneOfEach()
			for _, key := range []string{"events", "audit", "answers:charge/attempting", "answers:charge/lost"} {
				b.must(b.rdb.Del(b.Context(), b.key(dep, key)).Err())
				b.must(b.rdb.Set(b.Context(), b.key(dep, key), "x", 0).Err())
			}
			failed := 0
			for _, c := range calls {
				if err := c.call(); err != nil {
					failed++
				}
				b.check()
			}
			if failed < 4 {
				b.Fatalf("%d of %d calls failed: the test proves nothing", failed, len(calls))
			}
		})
		s.test("beside another in one run", func(b *bundle) {
			b.add("good")
			b.add("bad")
			good, bad := b.start("good"), b.start("bad")
			b.must(b.rdb.Set(b.Context(), b.key(dep, "answers:charge/bad"), "x", 0).Err())
			var c captured
			answered := refused(0)
			answered.Body = []byte("sorry")
			c.finish(b, bad, answered)
			c.finish(b, good, answered)
			answers := c.run(b, finishScript)
			b.check()
			if answers[0].Err == nil || answers[1].Err != nil {
				b.Fatalf("errors %v, %v; want one for the broken call alone", answers[0].Err, answers[1].Err)
			}
			b.must(b.rdb.Del(b.Context(), b.key(dep, "answers:charge/bad")).Err())
			b.want("bad", "attempting")
			b.want("good", "waiting")
		})
	})
}

// captured collects the calls that a ledger would make, to decide them in one run.
type captured struct {
	redis.UniversalClient
	calls []*luascript.Args
}

var errCaptured = errors.New("captured")

func (c *captured) RunScript(_ context.Context, _ *luascript.Script, _ string, args *luascript.Args) (luascript.Reply, error) {
	c.calls = append(c.calls, args)
	return nil, errCaptured
}

func (c *captured) ledger(b *bundle) *Ledger {
	c.UniversalClient = b.rdb
	return New(c, b.Namespace())
}

func (c *captured) begin(b *bundle, d Delivery, run string) {
	b.Helper()
	if _, err := c.ledger(b).Begin(b.Context(), b.terms, b.target, b.maxAttempts, d, run); !errors.Is(err, errCaptured) {
		b.Fatalf("begin was not captured: %v", err)
	}
}

func (c *captured) finish(b *bundle, g *Grant, res Result) {
	b.Helper()
	if _, err := c.ledger(b).Finish(b.Context(), b.terms, b.target, g, res); !errors.Is(err, errCaptured) {
		b.Fatalf("finish was not captured: %v", err)
	}
}

// run decides all captured calls in one run of script and forgets them.
func (c *captured) run(b *bundle, script *luascript.Script) []luascript.Answer {
	b.Helper()
	b.must(b.rdb.ScriptLoad(b.Context(), script.Source()).Err())
	cmd := script.Command(b.Context(), b.slot(dep), c.calls)
	_ = b.rdb.Process(b.Context(), cmd) // Answers tells its error
	answers := script.Answers(cmd, len(c.calls))
	c.calls = nil
	return answers
}
