package ledger

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func chargeSpec() jobs.KindSpec {
	return jobs.KindSpec{Kind: "charge", Dependency: dep, Method: "POST", Path: "/v1/charges/{params.id}", ContentType: "application/json",
		BaseURL: "https://pay.example", Idempotency: jobs.IdempotencyKeyed, KeyHeader: "Idempotency-Key", KeyWindowMS: 86_400_000, KeyMaxLength: 40,
		DeadlineMS: 7_200_000, Credentials: []string{"m1"}}
}

func charge() *jobs.Submission {
	return &jobs.Submission{Kind: "charge", Key: "order-1", Body: json.RawMessage(`{"amount":1}`), Params: map[string]string{"id": "x y"}}
}

func TestPrepareFixesWhatWillBeSent(t *testing.T) {
	t.Parallel()
	s := charge()
	s.Credential, s.CorrelationID, s.Headers = "m1", "checkout-77", map[string]string{"X-Account": "a1"}
	e, err := Prepare(s, chargeSpec())
	if err != nil {
		t.Fatal(err)
	}
	r, err := decodeRequest(e.request)
	if err != nil {
		t.Fatal(err)
	}
	if r.Method != "POST" || r.Path != "/v1/charges/x%20y" || r.ContentType != "application/json" || string(r.Body) != `{"amount":1}` || r.Headers["X-Account"] != "a1" {
		t.Errorf("request %+v", r)
	}
	if e.meta.Credential != "m1" || e.meta.Correlation != "checkout-77" || e.meta.Key != "" || e.meta.DeadlineSpan != 7_200_000 || e.Dependency != dep {
		t.Errorf("meta %+v", e.meta)
	}
}

func TestPrepareSendsBodiesByteForByte(t *testing.T) {
	t.Parallel()
	text, b64 := "a=1\n\nb=2\n", "AAECAw=="
	for want, change := range map[string]func(*jobs.Submission){
		"{ \"b\" : 1.50,\n\"a\":2}": func(s *jobs.Submission) { s.Body = json.RawMessage("{ \"b\" : 1.50,\n\"a\":2}") },
		text:                        func(s *jobs.Submission) { s.Body, s.BodyText = nil, &text },
		"\x00\x01\x02\x03":          func(s *jobs.Submission) { s.Body, s.BodyBase64 = nil, &b64 },
	} {
		s := charge()
		change(s)
		e, err := Prepare(s, chargeSpec())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := decodeRequest(e.request); err != nil || string(r.Body) != want {
			t.Errorf("body %q (%v), want %q", r.Body, err, want)
		}
	}
}

func reports(a jobs.Attempted) func(*jobs.Submission) {
	return func(s *jobs.Submission) { s.Attempted = &a }
}

func TestPrepareNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	text, bad := "x", "not base64!"
	big := json.RawMessage(`"` + strings.Repeat("x", jobs.MaxBodyBytes) + `"`)
	cases := []struct {
		name, field string
		change      func(*jobs.Submission)
	}{
		{"no kind", "kind", func(s *jobs.Submission) { s.Kind = "" }},
		{"kind with a capital", "kind", func(s *jobs.Submission) { s.Kind = "Charge" }},
		{"no key", "key", func(s *jobs.Submission) { s.Key = "" }},
		{"key with a space", "key", func(s *jobs.Submission) { s.Key = "order 1" }},
		{"key of 201 bytes", "key", func(s *jobs.Submission) { s.Key = jobs.Key(strings.Repeat("k", 201)) }},
		{"no body", "body", func(s *jobs.Submission) { s.Body = nil }},
		{"two bodies", "body", func(s *jobs.Submission) { s.BodyText = &text }},
		{"body that is no JSON", "body", func(s *jobs.Submission) { s.Body = json.RawMessage(`{"a":`) }},
		{"body over the limit", "body", func(s *jobs.Submission) { s.Body = big }},
		{"bad base64", "body_base64", func(s *jobs.Submission) { s.Body, s.BodyBase64 = nil, &bad }},
		{"missing param", "params", func(s *jobs.Submission) { s.Params = nil }},
		{"param of dots", "params.id", func(s *jobs.Submission) { s.Params["id"] = ".." }},
		{"empty param", "params.other", func(s *jobs.Submission) { s.Params["other"] = "" }},
		{"long param name", "params", func(s *jobs.Submission) { s.Params[strings.Repeat("n", 2000)] = "x" }},
		{"denied header", "headers", func(s *jobs.Submission) { s.Headers = map[string]string{"Authorization": "x"} }},
		{"the idempotency header", "headers", func(s *jobs.Submission) { s.Headers = map[string]string{"idempotency-key": "x"} }},
		{"one header twice", "headers", func(s *jobs.Submission) { s.Headers = map[string]string{"X-A": "1", "x-a": "2"} }},
		{"header with a line break", "headers", func(s *jobs.Submission) { s.Headers = map[string]string{"X-A": "1\r\nX-B: 2"} }},
		{"control byte in content type", "content_type", func(s *jobs.Submission) { s.ContentType = "text/plain\n" }},
		{"idempotency key too long for the gateway", "idempotency_key", func(s *jobs.Submission) { s.IdempotencyKey = strings.Repeat("k", 41) }},
		{"idempotency key with a space", "idempotency_key", func(s *jobs.Submission) { s.IdempotencyKey = "a b" }},
		{"correlation id with a space", "correlation_id", func(s *jobs.Submission) { s.CorrelationID = "a b" }},
		{"unknown credential", "credential", func(s *jobs.Submission) { s.Credential = "m2" }},
		{"negative deadline", "deadline", func(s *jobs.Submission) { s.Deadline = "-2h" }},
		{"deadline of a year and more", "deadline", func(s *jobs.Submission) { s.Deadline = "9000h" }},
		{"deadline that is neither", "deadline", func(s *jobs.Submission) { s.Deadline = "tomorrow" }},
		{"not_before without offset", "not_before", func(s *jobs.Submission) { s.NotBefore = "2026-11-30T09:00:00" }},
		{"created_at in the year 1", "created_at", func(s *jobs.Submission) { s.CreatedAt = "0001-01-01T00:00:00Z" }},
		{"attempted and succeeded", "attempted.outcome", func(s *jobs.Submission) { s.Attempted = &jobs.Attempted{Outcome: jobs.OutcomeSucceeded} }},
		{"attempted without outcome", "attempted.outcome", func(s *jobs.Submission) { s.Attempted = &jobs.Attempted{} }},
		{"attempted minus one times", "attempted.attempts", func(s *jobs.Submission) { s.Attempted = &jobs.Attempted{Outcome: jobs.OutcomeUnknown, Attempts: -1} }},
		{"unknown class", "attempted.class", func(s *jobs.Submission) { s.Attempted = &jobs.Attempted{Outcome: jobs.OutcomeUnknown, Class: "6xx"} }},
		{"garbled first send", "attempted.first_sent_at", func(s *jobs.Submission) {
			s.Attempted = &jobs.Attempted{Outcome: jobs.OutcomeUnknown, FirstSentAt: "now"}
		}},
		{"a step back", "attempted.step", reports(jobs.Attempted{Outcome: jobs.OutcomeUnknown, Step: "back"})},
		{"a step of a success", "attempted.step", reports(jobs.Attempted{Outcome: jobs.OutcomeUnknown, Step: jobs.StepSucceed})},
		{"ask about what is known", "attempted.step", reports(jobs.Attempted{Outcome: jobs.OutcomeRefused, Step: jobs.StepAsk})},
		{"an end without reason", "attempted.reason", reports(jobs.Attempted{Outcome: jobs.OutcomeRefused, Step: jobs.StepEnd})},
		{"a reason without end", "attempted.reason", reports(jobs.Attempted{Outcome: jobs.OutcomeRefused, Reason: jobs.ReasonPermanent})},
		{"a reason that is not the caller's", "attempted.reason", reports(jobs.Attempted{Outcome: jobs.OutcomeRefused, Step: jobs.StepEnd, Reason: jobs.ReasonPoison})},
		{"taken and not unknown", "attempted.acted", reports(jobs.Attempted{Outcome: jobs.OutcomeRefused, Acted: true})},
		{"a negative status", "attempted.status", reports(jobs.Attempted{Outcome: jobs.OutcomeUnknown, Status: -1})},
		{"a status of four digits", "attempted.status", reports(jobs.Attempted{Outcome: jobs.OutcomeUnknown, Status: 1000})},
	}
	for _, c := range cases {
		s := charge()
		c.change(s)
		_, err := Prepare(s, chargeSpec())
		var field *FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want the field %s named", c.name, err, c.field)
		}
	}
}

// FuzzPrepare: whatever comes in, what is accepted reads back as it will be sent.
func FuzzPrepare(f *testing.F) {
	f.Add("order-1", []byte(`{"a":1}`), "", "2h", "", "x", "X-A", "1", "")
	f.Add("o/2", []byte(`a=1`), "a=1", "2026-12-01T09:00:00Z", "2026-11-30T09:00:00+02:00", "..", "Host", "\n", "k")
	f.Fuzz(func(t *testing.T, key string, body []byte, bodyText, deadline, notBefore, param, header, value, ikey string) {
		s := &jobs.Submission{Kind: "charge", Key: jobs.Key(key), Deadline: deadline, NotBefore: notBefore, Params: map[string]string{"id": param}, IdempotencyKey: ikey}
		want := body
		if bodyText != "" {
			s.BodyText, want = &bodyText, []byte(bodyText)
		} else {
			s.Body = body
		}
		if header != "" {
			s.Headers = map[string]string{header: value}
		}
		e, err := Prepare(s, chargeSpec())
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("%v names no field", err)
			}
			return
		}
		r, err := decodeRequest(e.request)
		if err != nil || string(r.Body) != string(want) || header != "" && r.Headers[header] != value {
			t.Fatalf("stored %+v (%v)", r, err)
		}
		if e.meta.DeadlineAt == 0 && e.meta.DeadlineSpan <= 0 || e.meta.DeadlineSpan > MaxDeadline.Milliseconds() {
			t.Fatalf("deadline %d or span %d", e.meta.DeadlineAt, e.meta.DeadlineSpan)
		}
		if _, err := json.Marshal(e.meta); err != nil || len(e.meta.Fingerprint) != 47 {
			t.Fatalf("meta %+v: %v", e.meta, err)
		}
	})
}

func TestCodesReadBackAsWritten(t *testing.T) {
	t.Parallel()
	for _, outcome := range jobs.Outcomes {
		for _, class := range jobs.Classes {
			for _, verdict := range jobs.Verdicts {
				res := Result{Outcome: outcome, Class: class, Status: 503, Verdict: verdict}
				line := "1764490000000,w,0a1b2c3d4e5f,86400000," + encodeCodes(res) + ",86400000"
				e := decodeAttempt(7, line)
				if e.Outcome != outcome || e.Class != class || e.Status != 503 || e.Verdict != verdict || e.N != 7 || e.At.Time != time.UnixMilli(1764490000000).UTC() {
					t.Fatalf("%q reads as %+v", line, e)
				}
				if len(line) > 64 {
					t.Fatalf("%q has %d bytes: more than 64 make the record big", line, len(line))
				}
			}
		}
	}
}
