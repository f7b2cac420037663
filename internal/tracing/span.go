package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"redrive/internal/jobs"
)

// Tracer makes spans of operations. nil is a tracer that is off: its spans record
// nothing and hand the traceparent they were given on. Safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer over a provider of spans.
func New(provider trace.TracerProvider) *Tracer { return &Tracer{provider.Tracer("redrive")} }

// About names an operation in its spans.
type About struct {
	Dependency  jobs.Dependency
	ID          jobs.ID
	Correlation string // "": none
	Traceparent string // as it is stored; "": the span begins a trace
}

func (a About) attributes() []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("redrive.operation", a.ID.String()), attribute.String("redrive.kind", string(a.ID.Kind))}
	if a.Dependency != "" {
		attrs = append(attrs, attribute.String("redrive.dependency", string(a.Dependency)))
	}
	if a.Correlation != "" {
		attrs = append(attrs, attribute.String("redrive.correlation_id", a.Correlation))
	}
	return attrs
}

// Around is the traceparent of the span in ctx; "": there is none.
func Around(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[header]
}

// The W3C trace context as one header carries it.
const header = "traceparent"

// Span is one span of an operation. The zero value records nothing.
type Span struct {
	span        trace.Span
	traceparent string
}

func (t *Tracer) start(a About, name string, kind trace.SpanKind, at time.Time) Span {
	if t == nil {
		return Span{traceparent: a.Traceparent}
	}
	format := propagation.TraceContext{}
	ctx := format.Extract(context.Background(), propagation.MapCarrier{header: a.Traceparent})
	ctx, span := t.tracer.Start(ctx, name+" "+string(a.ID.Kind), trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(a.attributes()...))
	carrier := propagation.MapCarrier{}
	format.Inject(ctx, carrier)
	return Span{span, carrier[header]}
}

// Submit begins the span of a submission. Its traceparent is what the operation is
// submitted with; a.Traceparent is its caller's.
func (t *Tracer) Submit(a About) Span {
	return t.start(a, "submit", trace.SpanKindProducer, time.Now())
}

// Wait records a wait that ended at the instant until.
func (t *Tracer) Wait(a About, waited time.Duration, until time.Time) {
	if s := t.start(a, "wait", trace.SpanKindInternal, until.Add(-waited)); s.span != nil {
		s.span.End(trace.WithTimestamp(until))
	}
}

// Attempt begins the span of attempt n.
func (t *Tracer) Attempt(a About, n int, at time.Time) Span {
	s := t.start(a, "attempt", trace.SpanKindClient, at)
	s.set(attribute.Int("redrive.attempt", n))
	return s
}

// Inquiry begins the span of an inquiry.
func (t *Tracer) Inquiry(a About, at time.Time) Span {
	return t.start(a, "inquiry", trace.SpanKindClient, at)
}

// Traceparent is the context that a call made within the span carries; of a tracer that
// is off it is the operation's own.
func (s Span) Traceparent() string { return s.traceparent }

func (s Span) set(attrs ...attribute.KeyValue) {
	if s.span != nil {
		s.span.SetAttributes(attrs...)
	}
}

// EndAttempt ends the span of an attempt with what it met. An attempt that did not
// succeed is an error to a trace, whatever comes next. status 0: no answer came.
func (s Span) EndAttempt(outcome jobs.Outcome, class jobs.Class, verdict jobs.Verdict, status int, why string) {
	s.set(attribute.String("redrive.outcome", string(outcome)), attribute.String("redrive.class", string(class)),
		attribute.String("redrive.verdict", string(verdict)))
	s.end(outcome != jobs.OutcomeSucceeded, string(class), status, why)
}

// EndInquiry ends the span of an inquiry with what it brought.
func (s Span) EndInquiry(answer jobs.InquiryAnswer, class jobs.Class, status int, why string) {
	s.set(attribute.String("redrive.answer", string(answer)), attribute.String("redrive.class", string(class)))
	s.end(answer == jobs.InquiryNothing, string(class), status, why)
}

// EndSubmit ends the span of a submission with the ledger's answer, or with an error.
func (s Span) EndSubmit(answer jobs.Answer, err error) {
	s.set(attribute.String("redrive.submission_answer", string(answer)))
	why := ""
	if err != nil {
		why = err.Error()
	}
	s.end(err != nil || answer == jobs.Refused, string(answer), 0, why)
}

func (s Span) end(failed bool, kind string, status int, why string) {
	if s.span == nil {
		return
	}
	if status > 0 {
		s.set(attribute.Int("http.response.status_code", status))
	}
	if failed {
		s.set(attribute.String("error.type", kind))
		s.span.SetStatus(codes.Error, why)
	}
	s.span.End()
}
