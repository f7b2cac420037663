package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/sandbox"
)

// The judge is the gateway's own ledger: what it counted, not what we believe.
// T17: the answer is lost, and that is taken for "not executed".
func TestT17AGatewayThatLosesRepliesChargesNobodyTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	box := b.atSandbox(sandbox.Fault{Mode: sandbox.LostReplies})
	const n = 100
	b.submit("charge", n, payment)
	b.submit("payout", n, payment)
	for range 2 {
		b.worker(overHTTP)
	}
	b.until(30*time.Second, "all have ended", func() bool {
		s := b.states()
		return s[jobs.Succeeded]+s[jobs.Dead] == 2*n
	})
	requests := map[string]int{}
	for _, e := range box.Ledger() {
		if e.SideEffects > 1 {
			t.Errorf("%s %s took effect %d times", e.Route, e.Reference, e.SideEffects)
		}
		requests[e.Reference] += e.Requests
	}
	unknown := 0
	for i := range n {
		c, p := b.get("charge", i), b.get("payout", i)
		if c.State != jobs.Succeeded || c.Sends != requests[string(c.Key)] {
			t.Errorf("%s ended %s after %d sends in our ledger and %d in theirs", c.ID(), c.State, c.Sends, requests[string(c.Key)])
		}
		if p.Sends != 1 || requests[string(p.Key)] != 1 {
			t.Errorf("%s was sent %d times", p.ID(), requests[string(p.Key)])
		}
		if p.State == jobs.Dead {
			unknown++
		}
	}
	if unknown == 0 || strings.Contains(fmt.Sprint(b.log.with("call")), "amount") {
		t.Errorf("%d refunds of unknown outcome: the fault did nothing, or a body is in the log", unknown)
	}
}

// The gateway says of an answer that it repeats an earlier one: each is counted, where
// the configuration says how to tell, and is not to be found in the log.
func TestAnswersThatRepeatAnEarlierOneAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	box := b.atSandbox(sandbox.Fault{Mode: sandbox.LostReplies, Share: new(1.0)})
	b.config.Kinds["charge"].IdempotencyKey.Replayed = config.ReplayMark{Header: "Idempotent-Replayed", Value: "true"}
	b.config.Kinds["report"].Request.Path = "/v1/charges" // no mark: nobody said what a replay looks like
	const n = 5
	b.submit("charge", n, payment)
	b.submit("report", n, payment)
	b.worker(overHTTP)
	b.until(5*time.Second, "the first answers are lost", func() bool { return len(box.Ledger()) == 2*n })
	if replays := b.value(`redrive_idempotent_replays_total{dependency="payrail"}`); replays != 0 {
		t.Errorf("%v replays counted, and nothing was answered yet", replays)
	}
	b.misbehave(box, sandbox.Fault{Mode: sandbox.None})
	b.ended(10*time.Second, jobs.Succeeded, 2*n)
	b.until(time.Second, "each replay is counted", func() bool {
		return b.value(`redrive_idempotent_replays_total{dependency="payrail"}`) == n
	})
	b.submit("charge", 2*n, func(i int, s *jobs.Submission) {
		s.Key = jobs.Key(fmt.Sprint("later-", i))
		payment(i, s)
	})
	b.ended(10*time.Second, jobs.Succeeded, 4*n)
	if replays := b.value(`redrive_idempotent_replays_total{dependency="payrail"}`); replays != n {
		t.Errorf("%v replays counted, want %d: a first answer repeats nothing", replays, n)
	}
	for _, e := range box.Ledger() {
		if e.SideEffects != 1 {
			t.Errorf("%s took effect %d times", e.Reference, e.SideEffects)
		}
	}
}
