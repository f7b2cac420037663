package cli

import (
	"context"
	"log/slog"

	"redrive/internal/jobs"
	"redrive/internal/otlp"
	"redrive/internal/tracing"
)

// tracing begins it if the environment asks for it; stop sends what is left. A setting that
// cannot be is told and no more: no payment is lost over a trace.
func (p *program) tracing(ctx context.Context) (tracer *tracing.Tracer, stop func()) {
	tracer, stop, err := otlp.Start(ctx, otlp.Options{Program: "redrive-enqueue", Version: version(), GetenvFunc: p.getenv,
		Log: slog.New(slog.NewTextHandler(p.stderr, nil))})
	if err != nil {
		p.say("warning: not traced: %s", err)
	}
	return tracer, stop
}

// submitSpan is the span of one submission.
type submitSpan struct{ span tracing.Span }

// beginSubmit begins the span of a submission and puts its context into it, unless what
// the submission brings along is none: then it is left as it is, to be refused.
func beginSubmit(t *tracing.Tracer, sub *jobs.Submission, dep jobs.Dependency) submitSpan {
	if sub.Traceparent != "" && jobs.CheckTraceparent(sub.Traceparent) != nil {
		return submitSpan{}
	}
	span := t.Submit(tracing.About{Dependency: dep, ID: sub.ID(), Correlation: sub.CorrelationID, Traceparent: sub.Traceparent})
	sub.Traceparent = span.Traceparent()
	return submitSpan{span}
}

// end ends it with the answer, or with an error.
func (s submitSpan) end(r jobs.Receipt, err error) {
	answer := r.Answer
	if answer == "" {
		answer = jobs.Refused
	}
	s.span.EndSubmit(answer, err)
}
