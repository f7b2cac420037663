package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// presetSample is an answer of a gateway, and what a preset makes of it for a keyed
// kind. row "" means that no rule of the preset knows it and the table decides.
type presetSample struct {
	status  int
	headers map[string]string
	body    string
	row     string
	verdict jobs.Verdict
}

type headers = map[string]string

const (
	done    = jobs.VerdictSucceeded
	dup     = jobs.VerdictDuplicateSuccess
	poll    = jobs.VerdictPendingPoll
	later   = jobs.VerdictRetryAfter
	sameKey = jobs.VerdictRetrySameKey
	ask     = jobs.VerdictUnknownInquire
	perm    = jobs.VerdictPermanentFailure
	read    = jobs.VerdictConflictRead
	hold    = jobs.VerdictHoldOperator
)

func issue(name string) string {
	return fmt.Sprintf(`{"name":"UNPROCESSABLE_ENTITY","details":[{"field":"/x"},{"issue":%q}]}`, name)
}

// captures is an order of PayPal that is completed, with the payments in it.
func captures(statuses ...string) string {
	units := make([]string, len(statuses))
	for i, s := range statuses {
		units[i] = fmt.Sprintf(`{"payments":{"captures":[{"status":%q}]}}`, s)
	}
	return fmt.Sprintf(`{"id":"5O1","status":"COMPLETED","purchase_units":[%s]}`, strings.Join(units, ","))
}

func charged(status string) string {
	return fmt.Sprintf(`{"data":{"chargePaymentMethod":{"transaction":{"status":%q}}}}`, status)
}

func square(code string) string {
	return fmt.Sprintf(`{"errors":[{"category":"PAYMENT_METHOD_ERROR","code":%q}]}`, code)
}

var presetSamples = map[string][]presetSample{
	"stripe": {
		{200, nil, `{"object":"payment_intent","status":"succeeded"}`, "", done},
		{200, nil, `{"object":"payment_intent","status":"requires_capture"}`, "", done},
		{200, nil, `{"object":"payment_intent","status":"processing"}`, "not_over", poll},
		{201, nil, `{"object":"payment_intent","status":"processing"}`, "not_over", poll},
		{200, nil, `{"object":"payment_intent","status":"canceled"}`, "unknown_word", ask},
		{200, nil, `{"object":"payment_intent","status":"requires_payment_method"}`, "unknown_word", ask},
		{200, headers{"Idempotent-Replayed": "true"}, `{"object":"payment_intent","status":"canceled"}`, "unknown_word", ask},
		{201, nil, `{"object":"charge","status":"failed"}`, "unknown_word", ask},
		{200, nil, `{"object":"refund","status":"pending"}`, "unknown_word", ask},
		{200, nil, `{"object":"payout","status":"paid"}`, "", done},
		{200, nil, `{"object":"customer"}`, "", done},
		{201, headers{"Idempotent-Replayed": "true"}, `{"object":"charge","status":"succeeded"}`, "replayed", dup},
		{200, headers{"Idempotent-Replayed": "true"}, `{"object":"payment_intent","status":"processing"}`, "not_over", poll},
		{200, headers{"Idempotent-Replayed": "true"}, `{"object":"charge","status":"succeeded"}`, "replayed", dup},
		{409, nil, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, "key_in_use", later},
		{400, nil, `{"error":{"type":"idempotency_error"}}`, "key_mismatch", read},
		{409, nil, `{"error":{"type":"idempotency_error"}}`, "key_mismatch", read},
		{400, nil, `{"error":{"type":"invalid_request_error","code":"charge_already_refunded"}}`, "already_done", read},
		{400, nil, `{"error":{"type":"invalid_request_error","param":"amount"}}`, "", perm},
		{401, nil, `{"error":{"type":"invalid_request_error"}}`, "", hold},
		{402, nil, `{"error":{"code":"card_declined","decline_code":"insufficient_funds"}}`, "soft_decline", perm},
		{402, nil, `{"error":{"code":"card_declined","decline_code":"stolen_card"}}`, "hard_decline", perm},
		{402, nil, `{"error":{"code":"card_declined","decline_code":"insufficient_funds","advice_code":"do_not_try_again"}}`, "never_again", perm},
		{402, nil, `{"error":{"code":"card_declined","decline_code":"authentication_required"}}`, "needs_customer", perm},
		{402, nil, `{"error":{"code":"card_declined","decline_code":"never_seen"}}`, "", perm},
		{429, nil, `{"error":{"code":"rate_limit"}}`, "rate_limited", later},
		{429, nil, `{"error":{"code":"lock_timeout"}}`, "lock_timeout", sameKey},
		{429, nil, `Too many requests`, "", later},
		{500, headers{"Idempotent-Replayed": "true"}, `{"error":{"type":"api_error"}}`, "", ask},
	},
	"adyen": {
		{200, nil, `{"resultCode":"Authorised","pspReference":"p"}`, "authorised", done},
		{200, nil, `{"resultCode":"Refused","refusalReasonCode":"2"}`, "refused", perm},
		{200, nil, `{"resultCode":"Error"}`, "refused", perm},
		{200, nil, `{"resultCode":"Received"}`, "not_over", poll},
		{200, nil, `{"resultCode":"ChallengeShopper"}`, "needs_customer", poll},
		{200, nil, `{"resultCode":"PartiallyAuthorised"}`, "partial", read},
		{200, nil, `{"resultCode":"AuthenticationFinished"}`, "unknown_word", ask},
		{200, nil, `{"resultCode":"AuthenticationNotRequired"}`, "unknown_word", ask},
		{201, nil, `{"resultCode":"NeverSeen"}`, "unknown_word", ask},
		{200, nil, `{"resultCode":"authorised"}`, "unknown_word", ask},
		{201, nil, `{"status":"refused","pspReference":"p"}`, "unknown_word", ask},
		{202, nil, `{"status":"received"}`, "", poll},
		{201, nil, `{"status":"received","pspReference":"p"}`, "modification_received", poll},
		{422, headers{"Transient-Error": "true"}, `{"errorCode":"704"}`, "transient", sameKey},
		{500, headers{"transient-error": "true"}, `{"errorCode":"905"}`, "transient", sameKey},
		{422, nil, `{"errorCode":"704"}`, "in_progress", ask},
		{409, nil, `{"errorCode":704}`, "in_progress", ask},
		{422, nil, `{"errorCode":"130"}`, "", perm},
		{401, nil, `{"errorCode":"000"}`, "", hold},
	},
	"paypal": {
		{201, nil, `{"id":"5O1","status":"COMPLETED"}`, "", done},
		{201, nil, `{"id":"5O1","status":"PENDING"}`, "not_over", poll},
		{201, nil, `{"batch_header":{"batch_status":"PENDING"}}`, "not_over", poll},
		{201, nil, `{"batch_header":{"batch_status":"PROCESSING"}}`, "not_over", poll},
		{201, nil, `{"batch_header":{"batch_status":"DENIED"}}`, "batch_denied", perm},
		{201, nil, `{"batch_header":{"batch_status":"CANCELED"}}`, "unknown_word", ask},
		{201, nil, `{"batch_header":{"batch_status":"SUCCESS"}}`, "", done},
		{201, nil, `{"id":"2GG","status":"DECLINED"}`, "declined", perm},
		{201, nil, `{"id":"2GG","status":"FAILED"}`, "unknown_word", ask},
		{201, nil, `{"id":"5O1","status":"VOIDED"}`, "unknown_word", ask},
		{201, nil, `{"id":"5O1","status":"CREATED"}`, "", done},
		{200, nil, `{"id":"5O1","status":"PAYER_ACTION_REQUIRED"}`, "needs_customer", poll},
		{201, nil, captures("COMPLETED", "COMPLETED"), "", done},
		{201, nil, captures("DECLINED"), "declined", perm},
		{201, nil, captures("PENDING"), "not_over", poll},
		{201, nil, captures("COMPLETED", "PENDING"), "not_over", poll},
		{201, nil, captures("COMPLETED", "DECLINED"), "unknown_part", ask},
		{201, nil, captures("FAILED"), "unknown_part", ask},
		{201, nil, `{"status":"COMPLETED","purchase_units":[{"payments":{"authorizations":[{"status":"CREATED"}]}}]}`, "", done},
		{201, nil, `{"status":"COMPLETED","purchase_units":[{"payments":{"authorizations":[{"status":"DENIED"}]}}]}`, "unknown_part", ask},
		{409, nil, `{"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`, "in_progress", later},
		{409, nil, `{"name":"PREVIOUS_REQUEST_IN_PROGRESS"}`, "in_progress", later},
		{422, nil, issue("DUPLICATE_REQUEST_ID"), "key_mismatch", read},
		{422, nil, issue("ORDER_ALREADY_CAPTURED"), "already_done", read},
		{422, nil, issue("ORDER_COMPLETION_IN_PROGRESS"), "completion_in_progress", poll},
		{422, nil, issue("CARD_EXPIRED"), "hard_decline", perm},
		{422, nil, issue("INSTRUMENT_DECLINED"), "soft_decline", perm},
		{422, nil, issue("PENDING_CAPTURE"), "not_allowed_now", perm},
		{422, nil, issue("REFUND_AMOUNT_EXCEEDED"), "not_allowed", perm},
		{422, nil, issue("SOMETHING_NEW"), "", perm},
		{500, nil, `{"name":"INTERNAL_SERVER_ERROR"}`, "server_error", sameKey},
		{429, nil, `{"name":"RATE_LIMIT_REACHED"}`, "", later},
	},
	"braintree": {
		{200, nil, `{"data":{"chargePaymentMethod":{"transaction":{"status":"SUBMITTED_FOR_SETTLEMENT"}}}}`, "", done},
		{200, nil, `{"data":{"chargePaymentMethod":{"transaction":{"status":"PROCESSOR_DECLINED"}}}}`, "declined", perm},
		{200, nil, `{"data":{"chargePaymentMethod":{"transaction":{"status":"GATEWAY_REJECTED"}}}}`, "gateway_rejected", read},
		{200, nil, `{"data":{"chargePaymentMethod":{"transaction":{"status":"FAILED"}}}}`, "not_over", ask},
		{200, nil, `{"data":null,"errors":[{"message":"x","extensions":{"legacyCode":"91564"}}]}`, "errors_in_200", ask},
		{200, nil, charged("AUTHORIZED"), "", done},
		{200, nil, charged("SETTLEMENT_DECLINED"), "unknown_word", ask},
		{200, nil, charged("SETTLEMENT_PENDING"), "unknown_word", ask},
		{200, nil, charged("NEVER_SEEN"), "unknown_word", ask},
		{200, nil, `{"data":{"refundTransaction":{"refund":{"status":"SETTLEMENT_DECLINED"}}}}`, "unknown_word", ask},
		{200, nil, `{"data":{"refundTransaction":{"refund":{"status":"SUBMITTED_FOR_SETTLEMENT"}}}}`, "", done},
		{200, nil, `{"data":null}`, "no_result", ask},
		{200, nil, `{"data":{"chargePaymentMethod":null}}`, "no_result", ask},
		{200, nil, `{"data":{"chargePaymentMethod":{"transaction":null}}}`, "no_result", ask},
		{200, nil, `{"data":{"ping":"pong"},"errors":[]}`, "", done},
	},
	"square": {
		{200, nil, `{"payment":{"status":"COMPLETED"}}`, "", done},
		{200, nil, `{"payment":{"status":"PENDING"}}`, "not_over", poll},
		{200, nil, `{"payment":{"status":"APPROVED"}}`, "", done},
		{200, nil, `{"payment":{"status":"FAILED"}}`, "unknown_word", ask},
		{200, nil, `{"payment":{"status":"CANCELED"}}`, "unknown_word", ask},
		{201, nil, `{"payment":{"status":"NEVER_SEEN"}}`, "unknown_word", ask},
		{200, nil, `{"refund":{"status":"REJECTED"}}`, "unknown_word", ask},
		{200, nil, `{"refund":{"status":"COMPLETED"}}`, "", done},
		{200, nil, square("GENERIC_DECLINE"), "errors_in_2xx", ask},
		{400, nil, square("IDEMPOTENCY_KEY_REUSED"), "key_mismatch", read},
		{400, nil, square("TEMPORARY_ERROR"), "temporary", sameKey},
		{400, nil, square("REFUND_ALREADY_PENDING"), "refund_pending", read},
		{402, nil, square("INSUFFICIENT_FUNDS"), "soft_decline", perm},
		{400, nil, `{"errors":[{"code":"GENERIC_DECLINE"},{"code":"CVV_FAILURE"}]}`, "hard_decline", perm},
		{400, nil, square("VOICE_FAILURE"), "needs_customer", perm},
		{400, nil, square("MISSING_REQUIRED_PARAMETER"), "", perm},
		{429, nil, square("RATE_LIMITED"), "", later},
	},
	"checkout": {
		{201, nil, `{"id":"pay_1","status":"Authorized","response_code":"10000"}`, "", done},
		{201, nil, `{"id":"pay_1","status":"Declined","response_code":"20051"}`, "soft_decline", perm},
		{201, nil, `{"id":"pay_1","status":"Declined","response_code":30004}`, "hard_decline", perm},
		{201, nil, `{"id":"pay_1","status":"Declined","response_code":"40101"}`, "hard_decline", perm},
		{201, nil, `{"id":"pay_1","status":"Declined","approved":false}`, "declined", perm},
		{201, nil, `{"id":"pay_1","status":"Expired"}`, "unknown_word", ask},
		{201, nil, `{"id":"pay_1","status":"Authorized","approved":false}`, "unknown_word", ask},
		{201, nil, `{"id":"pay_1","approved":false}`, "unknown_word", ask},
		{201, nil, `{"id":"pay_1","status":"Authorized","approved":true}`, "", done},
		{201, nil, `{"id":"pay_1","status":"Authorized","response_code":"40201"}`, "", done},
		{202, nil, `{"id":"pay_1","status":"Pending"}`, "not_over", poll},
		{202, nil, `{"id":"pay_1"}`, "", poll},
		{409, nil, ``, "key_in_use", later},
		{500, nil, `oops`, "server_error", sameKey},
		{422, nil, `{"error_codes":["amount_invalid"]}`, "", perm},
	},
	"gocardless": {
		{201, nil, `{"payments":{"id":"PM1"}}`, "", done},
		{201, nil, `{"payments":{"id":"PM1","status":"pending_submission"}}`, "", done},
		{201, nil, `{"payments":{"id":"PM1","status":"failed"}}`, "unknown_word", ask},
		{409, nil, `{"error":{"type":"invalid_state","errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}`, "already_created", read},
		{409, nil, `{"error":{"type":"invalid_state","errors":[{"reason":"other"}]}}`, "", later},
		{500, nil, `{"error":{"type":"gocardless"}}`, "server_error", sameKey},
		{429, headers{"RateLimit-Remaining": "0"}, `{"error":{}}`, "", later},
	},
	"mollie": {
		{201, nil, `{"id":"tr_1","status":"open"}`, "", done},
		{201, nil, `{"id":"tr_1","status":"paid"}`, "", done},
		{201, nil, `{"id":"tr_1","status":"pending"}`, "not_over", poll},
		{201, nil, `{"id":"tr_1","status":"failed"}`, "unknown_word", ask},
		{422, nil, `{"status":422,"field":"amount"}`, "", perm},
		{429, headers{"Retry-After": "2"}, `{"status":429}`, "", later},
		{503, nil, `{"status":503}`, "", later},
	},
	"razorpay": {
		{200, nil, `{"entity":"payout","status":"processed"}`, "", done},
		{200, nil, `{"entity":"payout","status":"queued"}`, "not_over", poll},
		{200, nil, `{"entity":"payout","status":"failed"}`, "payout_failed", perm},
		{201, nil, `{"entity":"payout","status":"failed"}`, "payout_failed", perm},
		{201, nil, `{"entity":"payout","status":"processing"}`, "not_over", poll},
		{200, nil, `{"entity":"payout","status":"rejected"}`, "unknown_word", ask},
		{200, nil, `{"entity":"payout","status":"reversed"}`, "unknown_word", ask},
		{200, nil, `{"entity":"refund","status":"failed"}`, "unknown_word", ask},
		{200, nil, `{"entity":"refund","status":"processed"}`, "", done},
		{400, nil, `{"error":{"code":"BAD_REQUEST_ERROR","description":"Different request with the same idempotency key has already been processed."}}`, "key_mismatch", read},
		{400, nil, `{"error":{"code":"BAD_REQUEST_ERROR","description":"The amount is invalid"}}`, "", perm},
		{409, nil, `{"error":{}}`, "key_in_use", later},
	},
	"worldpay": {
		{200, headers{"Content-Type": "text/xml; charset=utf-8"}, `<paymentService><reply><error code="9">Request in progress</error></reply></paymentService>`, "xml", ask},
		{201, headers{"Content-Type": "application/json"}, `{"outcome":"authorized"}`, "", done},
		{201, headers{"Content-Type": "application/json"}, `{"outcome":"refused"}`, "unknown_word", ask},
		{503, nil, ``, "", later},
	},
	"klarna": {
		{201, headers{"Location": "/ordermanagement/v1/orders/o/captures/c"}, ``, "created", done},
		{201, headers{"Location": "/ordermanagement/v1/orders/o/captures/c", "Content-Length": "0", "Content-Type": "text/plain"}, ``, "created", done},
		{201, headers{"Location": "/login"}, `<html>`, "", sameKey},
		{201, headers{"Location": "/login?next=/ordermanagement/v1/orders/o"}, ``, "", sameKey},
		{201, headers{"Location": "/ordermanagement/v1/orders/o", "Content-Type": "text/html"}, `<html>`, "", sameKey},
		{201, nil, ``, "", sameKey},
		{201, nil, `{"capture_id":"c"}`, "", done},
		{500, nil, `{"error_code":"TIMEOUT"}`, "timed_out", sameKey},
		{500, nil, `{"error_code":"UNEXPECTED_ERROR"}`, "", ask},
		{503, nil, `{"error_code":"TEMPORARILY_UNAVAILABLE"}`, "unavailable", sameKey},
		{403, nil, `{"error_code":"CANCEL_NOT_ALLOWED"}`, "not_allowed", read},
		{403, nil, `{"error_code":"NOT_ALLOWED"}`, "not_allowed", read},
		{403, nil, `<html>`, "", hold},
	},
	"dwolla": {
		{201, headers{"Location": "https://api.dwolla.example/transfers/1"}, ``, "created", done},
		{201, headers{"Location": "https://api.dwolla.example/transfers/1", "Content-Type": "application/vnd.dwolla.v1.hal+json"}, ``, "created", done},
		{201, headers{"Location": "/login"}, `<html>`, "", sameKey},
		{201, headers{"Location": "https://portal.example/login?next=/transfers/1"}, ``, "", sameKey},
		{201, headers{"Location": "https://api.dwolla.example/transfers/1", "Content-Type": "text/html", "Content-Length": "6"}, `<html>`, "", sameKey},
		{201, headers{"Location": "https://api.dwolla.example/transfers/1", "Content-Length": "6"}, `<html>`, "", sameKey},
		{201, nil, ``, "", sameKey},
		{409, nil, `{"code":"x"}`, "key_in_use", later},
		{500, nil, `{}`, "", ask},
		{400, nil, `{"code":"ValidationError"}`, "", perm},
	},
	"twilio": {
		{201, nil, `{"sid":"SM1","status":"queued"}`, "", done},
		{201, nil, `{"sid":"SM1","status":"failed"}`, "unknown_word", ask},
		{429, nil, `{"code":20429,"message":"Too Many Requests"}`, "rate_limited", later},
		{429, nil, `{"errors":[{"code":20429}]}`, "rate_limited", later},
		{429, nil, `<html>`, "", later},
		{500, nil, `{"code":20500}`, "server_error", ask},
		{400, nil, `{"code":21211}`, "", perm},
	},
	"sendgrid": {
		{202, headers{"X-Message-Id": "m", "Content-Length": "0"}, ``, "queued", done},
		{202, headers{"X-Message-Id": "m"}, ``, "queued", done},
		{202, headers{"X-Message-Id": "m", "Content-Type": "text/html"}, `<html>`, "", sameKey},
		{202, headers{"Content-Type": "text/html"}, `<html>`, "", sameKey},
		{202, nil, `<html>`, "", sameKey},
		{202, nil, ``, "", poll},
		{400, nil, `{"errors":[]}`, "", perm},
		{429, headers{"X-RateLimit-Reset": "1796000000"}, `{"errors":[]}`, "", later},
	},
	"generic": {
		{201, nil, `{"id":1}`, "", done},
		{200, headers{"Idempotent-Replayed": "true"}, `{"id":1}`, "replayed", dup},
		{200, nil, `{"data":null,"errors":[{"message":"x"}]}`, "errors_in_200", ask},
		{200, nil, `{"data":{"refundCreate":{"refund":null,"userErrors":[{"code":"IDEMPOTENCY_CONCURRENT_REQUEST"}]}}}`, "user_errors_in_200", ask},
		{200, nil, `{"data":{"refundCreate":{"refund":{"id":1},"userErrors":[]}}}`, "", done},
		{402, nil, `{}`, "", perm},
	},
}

func (s presetSample) sample() policy.Sample {
	out := policy.Sample{Phase: policy.PhaseAnswered, Status: s.status, Header: map[string][]string{}, Body: []byte(s.body), WireBytes: 1}
	for name, value := range s.headers {
		out.Header[name] = []string{value}
	}
	return out
}

// classify asks rules and table, as a worker does.
func (p *Preset) classify(s policy.Sample, class jobs.Idempotency) (policy.Classification, []error) {
	if cl, _, ruled, errs := p.rules.Classify(s, class); ruled {
		return cl, errs
	}
	return policy.Classify(s, class), nil
}

func TestPresetsReadTheAnswersOfTheirGateway(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		fired := map[string]bool{}
		for _, s := range presetSamples[p.Name] {
			cl, errs := p.classify(s.sample(), jobs.IdempotencyKeyed)
			row, ruled := strings.CutPrefix(cl.Row, p.Name+"/")
			if !ruled {
				row = ""
			}
			if row != s.row || cl.Verdict != s.verdict || errs != nil {
				t.Errorf("%d %v %s: row %s, verdict %s (%v); want %q, %s", s.status, s.headers, s.body, cl.Row, cl.Verdict, errs, s.row, s.verdict)
			}
			fired[row] = true
		}
		if !fired[""] {
			t.Error("no sample goes by the rules to the table")
		}
		for _, r := range p.Rules {
			if !fired[r.Value.Name] {
				t.Errorf("no sample fires rule %s", r.Value.Name)
			}
		}
	})
}

// words2xx are the fields in which gateways tell the outcome, with what they say.
var words2xx = regexp.MustCompile(`"(resultCode|status|outcome|batch_status)":"[^"]*"`)

// Where a word tells the outcome, one that nobody knows is neither a success nor a
// failure, whatever else the answer says.
func TestAWordThatNobodyKnowsIsAskedAbout(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		for _, s := range presetSamples[p.Name] {
			declinedByCode := s.verdict == perm && strings.Contains(s.body, "response_code")
			if s.status/100 != 2 || !words2xx.MatchString(s.body) || declinedByCode {
				continue
			}
			s.body = words2xx.ReplaceAllString(s.body, `"$1":"never seen before"`)
			for _, class := range jobs.Idempotencies {
				if cl, errs := p.classify(s.sample(), class); cl.Verdict != ask || cl.Processed != policy.ProcessedMaybe || cl.SettlesPrior || errs != nil {
					t.Errorf("%d %v %s, class %s: %+v (%v)", s.status, s.headers, s.body, class, cl, errs)
				}
			}
		}
	})
}

// A decline ends the operation under its key, in every class, and settles what went before.
func TestADeclineIsFinalForItsKey(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		for _, s := range presetSamples[p.Name] {
			i := slices.IndexFunc(p.Rules, func(r PresetFact[policy.RuleSpec]) bool { return r.Value.Name == s.row })
			if i < 0 || s.verdict != perm || p.Rules[i].Value.Processed != policy.ProcessedYes {
				continue
			}
			for _, class := range jobs.Idempotencies {
				if cl, _ := p.classify(s.sample(), class); cl.Verdict != perm || cl.Outcome != jobs.OutcomeRefused || !cl.SettlesPrior {
					t.Errorf("%s, class %s: %+v", s.row, class, cl)
				}
			}
			if strings.HasPrefix(s.row, "soft_") {
				if cl, _ := p.classify(s.sample(), jobs.IdempotencyKeyed); !strings.Contains(cl.Reason, "a new operation with a new key") {
					t.Errorf("%s does not say what is possible: %s", s.row, cl.Reason)
				}
			}
		}
	})
}

// What others quote of a gateway makes nothing bolder than the table is.
func TestQuotedRulesAreNoBolderThanTheTable(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		for _, s := range presetSamples[p.Name] {
			i := slices.IndexFunc(p.Rules, func(r PresetFact[policy.RuleSpec]) bool { return r.Value.Name == s.row })
			if i < 0 || p.Rules[i].Confidence != ConfidenceQuoted {
				continue
			}
			for _, class := range jobs.Idempotencies {
				got, _ := p.classify(s.sample(), class)
				table := policy.Classify(s.sample(), class)
				if got.Verdict.Resends() && !table.Verdict.Resends() || got.SettlesPrior && !table.SettlesPrior ||
					got.Outcome == jobs.OutcomeSucceeded && table.Outcome != jobs.OutcomeSucceeded || got.Processed == policy.ProcessedNo && table.Processed != policy.ProcessedNo {
					t.Errorf("%s, class %s: %+v, the table has %+v", s.row, class, got, table)
				}
			}
		}
	})
}

// badBodies are what no rule may be confused by.
var badBodies = []string{"", "null", "[]", "[1,[2]]", "{}", `""`, "0", "true", "\x00\x01\x02", "\xff\xfe{}", `{"error":"text"}`, `{"error":null}`, `{"error":[1]}`, `{"errors":{}}`,
	`{"errors":[null,1,"x",[]]}`, `{"details":"x"}`, `{"details":[{"issue":1}]}`, `{"data":{"a":null}}`, `{"data":[1]}`, `{"status":{}}`, `{"error":{"errors":{}}}`,
	`{"resultCode":["Authorised"]}`, `{"response_code":null}`, `{"error_code":7}`, "{\"error\":{\"code\":\"\xff\"}}", `{"error":{"code":"a"},"error":{"code":"b"}}`, "<html>", "{", strings.Repeat("[", 100)}

// badStatuses are those that rules speak of, and some that none does.
var badStatuses = []int{0, 100, 200, 201, 202, 204, 301, 400, 401, 402, 403, 404, 409, 410, 422, 424, 429, 500, 501, 502, 503, 504, 529, 599, 600}

// saysNothing is what stands in a rule that looks at the status alone.
func saysNothing(r policy.RuleSpec) bool {
	return !strings.Contains(r.When, "body") && !strings.Contains(r.When, "headers")
}

func TestBadAnswersFallToTheTableOrAreAskedAbout(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		for _, status := range badStatuses {
			for _, body := range badBodies {
				s := presetSample{status: status, body: body}.sample()
				cl, i, ruled, errs := p.rules.Classify(s, jobs.IdempotencyKeyed)
				asks := cl.Verdict == ask && status/100 == 2 // a word or errors of a shape that nobody knows
				hidden := i < 0                              // a success that cannot be read: no rule decided
				if errs != nil || ruled && !hidden && !asks && !saysNothing(p.Rules[i].Value) {
					t.Fatalf("%d %q: %+v (%v)", status, body, cl, errs)
				}
			}
		}
	})
}

// checkNoResend holds one answer against the promise that what may have acted is not
// sent again for the weak classes.
func checkNoResend(t *testing.T, p *Preset, s policy.Sample) {
	t.Helper()
	for _, class := range []jobs.Idempotency{jobs.IdempotencyNone, jobs.IdempotencyConditional} {
		cl, _, ruled, errs := p.rules.Classify(s, class)
		if ruled && cl.Verdict.Resends() && cl.Processed != policy.ProcessedNo || errs != nil {
			t.Fatalf("preset %s, class %s, status %d: %+v (%v)", p.Name, class, s.Status, cl, errs)
		}
	}
}

func TestNoPresetResendsWhatMayHaveActed(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		for _, s := range presetSamples[p.Name] {
			for _, status := range badStatuses {
				s.status = status
				checkNoResend(t, p, s.sample())
			}
		}
	})
}

func FuzzPresetRules(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(presetSamples)) {
		for _, s := range presetSamples[name] {
			f.Add(s.status, "idempotent-replayed", "true", []byte(s.body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, name, value string, body []byte) {
		s := policy.Sample{Phase: policy.PhaseAnswered, Status: status, Header: map[string][]string{name: {value}}, Body: body, WireBytes: 1}
		for _, name := range PresetNames() {
			checkNoResend(t, mustPreset(t, name), s)
		}
	})
}

func TestThePresetInquiryReadsTheAnswersOfItsGateway(t *testing.T) {
	t.Parallel()
	q := mustPreset(t, "checkout").Inquiry.Inquiry.Value
	for body, want := range map[string]jobs.InquiryAnswer{
		`{"total_count":1,"data":[{"id":"pay_1","status":"Authorized"}]}`:                                  jobs.InquirySucceeded,
		`{"total_count":2,"data":[{"id":"pay_1","status":"Declined"},{"id":"pay_2","status":"Captured"}]}`: jobs.InquirySucceeded,
		`{"total_count":2,"data":[{"id":"pay_1","status":"Declined"},{"id":"pay_2","status":"Pending"}]}`:  jobs.InquiryPending,
		`{"total_count":1,"data":[{"id":"pay_1","status":"Declined"}]}`:                                    jobs.InquiryFailed,
		`{"total_count":0,"data":[]}`:   jobs.InquiryNotFound,
		`{"total_count":300,"data":[]}`: jobs.InquiryNothing,
		`{"total_count":2,"data":[{"id":"pay_1","status":"Declined"},{"id":"pay_2","status":"Never seen"}]}`: jobs.InquiryNothing,
		`{"data":null}`: jobs.InquiryNothing,
		`[]`:            jobs.InquiryNothing,
		``:              jobs.InquiryNothing,
	} {
		s := presetSample{status: 200, body: body}.sample()
		if got, rule, err := q.Read.Read(s); got != want {
			t.Errorf("%s: %s by %q (%v), want %s", body, got, rule, err, want)
		}
	}
	values, errs := q.Results.Read(presetSample{status: 200, body: `{"data":[{"id":"pay_1","status":"Declined"},{"id":"pay_2","status":"Captured"}]}`}.sample())
	if errs != nil || values["id"] != "pay_2" {
		t.Errorf("the inquiry tells %v (%v)", values, errs)
	}
}
