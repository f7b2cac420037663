package tracing

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"redrive/internal/jobs"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var charge = About{Dependency: "payrail", ID: jobs.ID{Kind: "charge", Key: "order-1"}, Correlation: "checkout-77", Traceparent: parent}

func TestATracerThatIsOffHandsTheTraceparentOn(t *testing.T) {
	t.Parallel()
	var off *Tracer
	off.Wait(charge, time.Second, time.Now())
	for name, s := range map[string]Span{"submit": off.Submit(charge), "attempt": off.Attempt(charge, 1, time.Now()), "inquiry": off.Inquiry(charge, time.Now())} {
		if s.Traceparent() != parent {
			t.Errorf("%s: got %q", name, s.Traceparent())
		}
		s.EndAttempt(jobs.OutcomeUnknown, jobs.ClassTimeout, jobs.VerdictUnknownInquire, 0, "no answer in time")
	}
}

func TestSpansTellWhatAnAttemptMet(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tracer := New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	at := time.Now().Add(-time.Minute)
	tracer.Wait(charge, 3*time.Second, at)
	tracer.Attempt(charge, 2, at).EndAttempt(jobs.OutcomeUnknown, jobs.ClassTimeout, jobs.VerdictUnknownInquire, 0, "no answer in time")
	tracer.Inquiry(charge, at).EndInquiry(jobs.InquirySucceeded, jobs.Class2xx, 200, "")
	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	for _, s := range ended {
		if s.Parent().SpanID().String() != "b7ad6b7169203331" || !s.Parent().IsRemote() {
			t.Errorf("%s: parent %v", s.Name(), s.Parent())
		}
	}
	if wait := ended[0]; wait.Name() != "wait charge" || !wait.EndTime().Equal(at) || wait.EndTime().Sub(wait.StartTime()) != 3*time.Second {
		t.Errorf("wait %v from %v to %v", wait.Name(), wait.StartTime(), wait.EndTime())
	}
	says := func(s sdk.ReadOnlySpan) map[string]string {
		m := map[string]string{}
		for _, a := range s.Attributes() {
			m[string(a.Key)] = a.Value.String()
		}
		return m
	}
	attempt := ended[1]
	for key, want := range map[string]string{"redrive.operation": "charge/order-1", "redrive.dependency": "payrail", "redrive.attempt": "2",
		"redrive.class": "timeout", "redrive.outcome": "unknown", "redrive.correlation_id": "checkout-77", "error.type": "timeout"} {
		if got := says(attempt)[key]; got != want {
			t.Errorf("attempt: %s is %q, want %q", key, got, want)
		}
	}
	if attempt.Status().Code != codes.Error || attempt.Status().Description != "no answer in time" {
		t.Errorf("attempt: %+v", attempt.Status())
	}
	if inquiry := ended[2]; inquiry.Status().Code != codes.Unset || says(inquiry)["http.response.status_code"] != "200" {
		t.Errorf("inquiry: %+v, %v", inquiry.Status(), says(inquiry))
	}
}
