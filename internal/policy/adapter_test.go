package policy

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

// What a gateway tells its own libraries counts, and never more than is safe.
func TestTheGatewaysOwnWordIsHeeded(t *testing.T) {
	t.Parallel()
	const keyed, none = jobs.IdempotencyKeyed, jobs.IdempotencyNone
	for _, c := range []struct {
		status        int
		header, value string
		class         jobs.Idempotency
		verdict       jobs.Verdict
		outcome       jobs.Outcome
	}{
		{400, "Stripe-Should-Retry", "true", keyed, jobs.VerdictRetrySameKey, jobs.OutcomeRefused},
		{400, "Stripe-Should-Retry", "true", none, jobs.VerdictPermanentFailure, jobs.OutcomeRefused},
		{400, "Stripe-Should-Retry", "true, false", keyed, jobs.VerdictPermanentFailure, jobs.OutcomeRefused},
		{400, "Stripe-Should-Retry", "perhaps", keyed, jobs.VerdictPermanentFailure, jobs.OutcomeRefused},
		{404, "X-Should-Retry", " TRUE ", keyed, jobs.VerdictRetrySameKey, jobs.OutcomeRefused},
		{500, "Transient-Error", "true", keyed, jobs.VerdictRetrySameKey, jobs.OutcomeUnknown},
		{500, "Transient-Error", "false", keyed, jobs.VerdictUnknownInquire, jobs.OutcomeUnknown},
		{503, "X-Should-Retry", "false", keyed, jobs.VerdictUnknownInquire, jobs.OutcomeUnknown},
		{429, "Stripe-Should-Retry", "false", keyed, jobs.VerdictRetryAfter, jobs.OutcomeUnknown},
		{402, "Stripe-Should-Retry", "true", keyed, jobs.VerdictPermanentFailure, jobs.OutcomeRefused},
		{401, "Stripe-Should-Retry", "false", keyed, jobs.VerdictHoldOperator, jobs.OutcomeRefused},
	} {
		got := Classify(Sample{Phase: PhaseAnswered, Status: c.status, Header: map[string][]string{c.header: {c.value}}, WireBytes: 9}, c.class)
		if got.Verdict != c.verdict || got.Outcome != c.outcome {
			t.Errorf("%d of a %s kind with %s: %s is %s, %s (row %s); want %s, %s", c.status, c.class, c.header, c.value, got.Verdict, got.Outcome, got.Row, c.verdict, c.outcome)
		}
	}
	for status := 200; status < 600; status++ {
		for _, class := range []jobs.Idempotency{jobs.IdempotencyNone, jobs.IdempotencyConditional} {
			for _, h := range adapterHeaders {
				got := Classify(Sample{Phase: PhaseAnswered, Status: status, Header: map[string][]string{h.name: {"true"}}, WireBytes: 9}, class)
				if plain := Classify(Sample{Phase: PhaseAnswered, Status: status, WireBytes: 9}, class); got.Verdict.Resends() && !plain.Verdict.Resends() {
					t.Errorf("%d of a %s kind with %s: true: %s, and without it %s", status, class, h.name, got.Verdict, plain.Verdict)
				}
			}
		}
	}
}

func TestAWaitInTheBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]time.Duration{`{"retry_after":7}`: 7 * time.Second, `{"retry_after":"1.5"}`: 2 * time.Second, `{"retry_after":-1}`: 0,
		`{"retry_after":"Mon, 30 Nov 2026 09:00:00 GMT"}`: 0, `{"retry_after":null}`: 0, `[7]`: 0, `{"retry_after":7`: 0, `{"error":{"retry_after":7}}`: 0} {
		s := Sample{Phase: PhaseAnswered, Status: 429, Body: []byte(body), Header: map[string][]string{"RateLimit-Reset": {"30"}}}
		if want == 0 {
			want = 30 * time.Second // what the headers say
		}
		if got := Classify(s, jobs.IdempotencyKeyed).Hint; got.Wait != want {
			t.Errorf("%s: %+v, want %s", body, got, want)
		}
		s.Header = map[string][]string{"Retry-After": {"60"}}
		if got := Classify(s, jobs.IdempotencyKeyed).Hint; got.Wait != time.Minute || got.From != "Retry-After" {
			t.Errorf("%s beside Retry-After: %+v", body, got)
		}
	}
}
