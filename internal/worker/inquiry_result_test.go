package worker

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// After a timeout only an inquiry learns the gateway's id, and only with that id can
// what came too late be voided.
func TestAVoidTakesTheIDThatTheInquiryLearnt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	void := config.NewKind("void", b.config.Dependencies[dep], "/v1/charges/{params.id}/void")
	void.Idempotency = jobs.IdempotencyNatural
	b.config.Kinds["void"] = void
	results, err := policy.CompileResult(map[string]string{"id": `body.data.filter(c, c.status == "succeeded")[0].id`, "fee": "body.data[0].fee"})
	if err != nil {
		t.Fatal(err)
	}
	b.asks(func(q *config.Inquiry) { q.Results = results })
	b.config.Kinds["payout"].VoidLate = &jobs.VoidSpec{Kind: "void", Params: map[string]string{"id": "result.id"}}
	paths := make(chan string, 10) // of voids: sent to by the sender, read at the end; more than there may be
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		if strings.HasPrefix(name(call), "payout:") {
			return in(policy.PhaseNoAnswer, 100)
		}
		paths <- call.Request.Path
		return answered(200)
	})
	b.sender.saysBody(200, `{"data":[{"id":"ch_1","status":"failed"},{"id":"ch_2","status":"succeeded","note":"hunter2"}]}`)
	b.submit("payout", 2, func(_ int, s *jobs.Submission) { s.Deadline = "3s" })
	b.worker()
	b.until(40*time.Second, "both are voided", func() bool { return b.states()[jobs.Succeeded] == 4 })
	for i := range 2 {
		if d := b.get("payout", i); !maps.Equal(d.Result, map[string]string{"id": "ch_2"}) || d.Sends != 1 {
			t.Errorf("payout-%d: result %v after %d sends", i, d.Result, d.Sends)
		}
	}
	for range 2 {
		if path := <-paths; path != "/v1/charges/ch_2/void" {
			t.Errorf("voided at %s", path)
		}
	}
	lines := b.log.with("result of an inquiry left out")
	if len(lines) != 1 || !strings.HasPrefix(lines[0]["err"], "fee: ") || strings.Contains(lines[0]["err"], "hunter2") {
		t.Errorf("what was left out is logged as %v, want once, without a value of the answer", lines)
	}
}

func TestWhatAnInquiryDidNotFindIsNoResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	results, err := policy.CompileResult(map[string]string{"count": "size(body.data)"})
	if err != nil {
		t.Fatal(err)
	}
	b.asks(func(q *config.Inquiry) { q.Results = results })
	b.timesOut()
	b.sender.saysBody(200, `{"data":[{"status":"failed"}]}`)
	b.submit("payout", 1)
	b.worker()
	b.ended(30*time.Second, jobs.Dead, 1)
	if d := b.get("payout", 0); *d.Reason != jobs.ReasonPermanent || len(d.Result) != 0 {
		t.Errorf("dead(%s) with %v, want permanent and no result", *d.Reason, d.Result)
	}
}
