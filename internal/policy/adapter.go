package policy

import (
	"encoding/json"
	"strings"
	"time"

	"redrive/internal/jobs"
)

// adapterHeaders are what some gateways tell their own client libraries: whether this
// very request may be sent again, under the same key. Transient-Error (Adyen) says so
// only where it is true.
var adapterHeaders = []struct {
	name    string
	forbids bool // its "false" means: do not
}{
	{"Stripe-Should-Retry", true},
	{"X-Should-Retry", true}, // Increase, and others
	{"Transient-Error", false},
}

// told reads these headers. Where they contradict each other the word is: do not.
func told(s Sample) (again, forbidden bool) {
	for _, h := range adapterHeaders {
		for _, line := range headerValues(s.Header, h.name) {
			for _, value := range elements(line) {
				again = again || strings.EqualFold(value, "true")
				forbidden = forbidden || h.forbids && strings.EqualFold(value, "false")
			}
		}
	}
	return again && !forbidden, forbidden
}

// heed lets the gateway's own word count where the row leaves room for it. A decline
// stays one, a success too. "Again" means under the same key: it is for kinds that have
// one, or need none. A limit of the rate is none of the request's faults: it passes.
func heed(c Classification, s Sample, class jobs.Idempotency) Classification {
	if s.Status < 400 || c.Processed == ProcessedYes || c.CredentialRefused || c.Class == jobs.Class429 {
		return c
	}
	again, forbidden := told(s)
	strong := class == jobs.IdempotencyNatural || class == jobs.IdempotencyKeyed
	switch {
	case forbidden && c.Verdict.Resends() && c.Processed == ProcessedNo:
		c.Verdict, c.Outcome, c.Reason = jobs.VerdictPermanentFailure, jobs.OutcomeRefused, "the gateway says: do not send it again"
	case forbidden && c.Verdict.Resends():
		c.Verdict, c.Outcome, c.Reason = jobs.VerdictUnknownInquire, jobs.OutcomeUnknown, "the gateway says: do not send it again"
	case again && (c.Verdict == jobs.VerdictPermanentFailure || c.Verdict == jobs.VerdictUnknownInquire) && strong:
		c.Verdict, c.Reason = jobs.VerdictRetrySameKey, "the gateway says: send it again, under the same key"
		if c.Processed == ProcessedNo {
			c.Outcome = jobs.OutcomeRefused
		}
	}
	return c
}

// bodyHint reads retry_after, in seconds, of a JSON body: what some gateways write beside
// or instead of the header.
func bodyHint(s Sample) Hint {
	var body struct {
		RetryAfter json.RawMessage `json:"retry_after"`
	}
	if s.BodyCut || len(s.Body) == 0 || json.Unmarshal(s.Body, &body) != nil || len(body.RetryAfter) == 0 {
		return Hint{}
	}
	text := strings.Trim(string(body.RetryAfter), `"`)
	hint := Hint{Raw: cutRaw(text)}
	if wait, ok := parseSecondsOrDate(text, time.Time{}); ok {
		hint.Wait, hint.From = wait, "body retry_after"
	}
	return hint
}
