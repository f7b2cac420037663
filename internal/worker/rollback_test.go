package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// A store that went back in time has forgotten a send. What remembers it tells it
// again, and whatever is not surely safe waits for a person.
func TestAStoreThatForgotASendDoesNotGetItSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := make(chan struct{})
	b.sender.answer(func(ctx context.Context, call gateway.Call) gateway.Answer {
		close(before)
		return in(policy.PhaseNoAnswer, 100)
	})
	b.submit("payout", 1)
	record := b.key("op:payout/payout-0")
	restored := b.rdb.HGetAll(context.Background(), record).Val()
	score := b.rdb.ZScore(context.Background(), b.key("waiting"), "payout/payout-0").Val()
	w := b.worker()
	receive(b, "a send", before)
	b.ended(10*time.Second, jobs.Dead, 1)

	// The store is now as it was before the send.
	ctx := context.Background()
	pipe := b.rdb.TxPipeline()
	pipe.Del(ctx, record, b.key("dead"), b.key("counts"), b.key("seq"))
	pipe.HSet(ctx, record, restored)
	pipe.HSet(ctx, b.key("counts"), "payout waiting", 1)
	pipe.ZAdd(ctx, b.key("waiting"), redis.Z{Score: score, Member: "payout/payout-0"})
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	b.ended(10*time.Second, jobs.Dead, 1)
	if d := b.get("payout", 0); *d.Reason != jobs.ReasonUnsafe || d.Applied != jobs.AppliedUnknown || b.sender.total() != 1 {
		t.Errorf("dead(%s), applied %s, %d sends", *d.Reason, d.Applied, b.sender.total())
	}
	b.until(5*time.Second, "readiness names it", func() bool { return strings.Contains(strings.Join(w.Ready(), " "), "lost attempts") })
	if n := b.value(`redrive_ledger_rollbacks_total`); n != 1 {
		t.Errorf("%v rollbacks counted", n)
	}

	// A person resumes, and others go on.
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return answered(200) })
	b.submit("charge", 5)
	b.until(10*time.Second, "keyed ones go on", func() bool { return b.states()[jobs.Succeeded] == 5 })
	if err := b.ledger.Resume(ctx, dep, ledger.Actor{By: "ann@desk", Note: "looked"}); err != nil {
		t.Fatal(err)
	}
	b.until(5*time.Second, "ready again", func() bool { return len(w.Ready()) == 0 })
}

// Found by a stranger: Redis came back empty while calls were under way. They were told
// again as unknown, and their own successes were then dropped as of no known attempt.
func TestASuccessThatComesAfterARollbackCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer {
		close(arrived)
		<-answer
		return answered(200)
	})
	b.config.Dependencies[dep].Timeout = 20 * time.Second
	b.submit("payout", 1)
	record := b.key("op:payout/payout-0")
	before := b.rdb.HGetAll(context.Background(), record).Val()
	b.worker()
	receive(b, "a send", arrived)
	ctx := context.Background()
	pipe := b.rdb.TxPipeline()
	pipe.Del(ctx, record, b.key("claims"), b.key("counts"), b.key("seq"))
	pipe.HSet(ctx, record, before)
	pipe.HSet(ctx, b.key("counts"), "payout waiting", 1)
	pipe.ZAdd(ctx, b.key("waiting"), redis.Z{Score: 1, Member: "payout/payout-0"})
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	b.until(10*time.Second, "it was told as unknown", func() bool { return b.states()[jobs.Dead] == 1 })
	close(answer)
	b.ended(10*time.Second, jobs.Succeeded, 1)
	if b.sender.total() != 1 {
		t.Errorf("%d sends", b.sender.total())
	}
}
