package worker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// answeredWith is an answer with a status and a JSON body.
func answeredWith(status int, body string) gateway.Answer {
	a := answered(status)
	a.Sample.Body = []byte(body)
	return a
}

func TestRulesComeBeforeTheTableAndResultsAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var err error
	if b.config.Dependencies[dep].Rules, err = policy.CompileRules([]policy.RuleSpec{
		{When: `body.fault.code == "busy"`, Verdict: jobs.VerdictSucceeded}, // no answer of this test has a fault
		{When: `status == 402 && body.error.code == "processing_error"`, Verdict: jobs.VerdictRetryAfter, After: time.Second, Processed: policy.ProcessedNo},
	}); err != nil {
		t.Fatal(err)
	}
	if b.config.Kinds["payout"].Results, err = policy.CompileResult(map[string]string{"id": "body.id", "fee": "body.fee"}); err != nil {
		t.Fatal(err)
	}
	calls := make(chan time.Time, 10) // sent to by the sender, read at the end; more than there may be
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		switch {
		case name(call) == "payout:payout-1": // none of the rules: the table's decline
			return answeredWith(402, `{"error":{"code":"hunter2"}}`)
		case call.Attempt == 1:
			calls <- time.Now()
			return answeredWith(402, `{"error":{"code":"processing_error","message":"hunter2"}}`)
		default:
			calls <- time.Now()
			return answeredWith(200, `{"id":"ch_7","note":"hunter2"}`)
		}
	})
	b.submit("payout", 3)
	b.worker()
	b.until(20*time.Second, "two succeeded, one dead", func() bool {
		s := b.states()
		return s[jobs.Succeeded] == 2 && s[jobs.Dead] == 1
	})

	for _, i := range []int{0, 2} {
		d := b.get("payout", i)
		if !maps.Equal(d.Result, map[string]string{"id": "ch_7"}) || d.Sends != 2 {
			t.Errorf("payout-%d: result %v after %d sends, want the id after 2", i, d.Result, d.Sends)
		}
		if first := d.Timeline[slices.IndexFunc(d.Timeline, func(e jobs.Event) bool { return e.N == 1 })]; first.Verdict != jobs.VerdictRetryAfter || first.Outcome != jobs.OutcomeRefused {
			t.Errorf("payout-%d: attempt 1 is %+v", i, first)
		}
	}
	if d := b.get("payout", 1); d.Reason == nil || *d.Reason != jobs.ReasonPermanent || d.Sends != 1 || len(d.Result) != 0 {
		t.Errorf("payout-1: %v after %d sends with %v, want the table's word on a 402", d.Reason, d.Sends, d.Result)
	}
	close(calls)
	var at []time.Time
	for c := range calls {
		at = append(at, c)
	}
	if len(at) != 4 || at[2].Sub(at[0]) < time.Second {
		t.Errorf("%d calls at %v, want 4, the later two a second after the others", len(at), at)
	}

	for message, want := range map[string]string{"rule cannot be evaluated and does not match": "rule 1: when: ", "result left out": "fee: "} {
		lines := b.log.with(message)
		if len(lines) != 1 || !strings.HasPrefix(lines[0]["err"], want) {
			t.Errorf("%q is logged as %v, want once, beginning with %q", message, lines, want)
		}
	}
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	for _, line := range b.log.lines {
		for key, value := range line {
			if strings.Contains(value, "hunter2") {
				t.Errorf("%s of %q shows a value of the answer: %s", key, line["msg"], value)
			}
		}
	}
}
