package gateway

import (
	"context"
	"net/http"
	"time"

	"redrive/internal/jobs"
)

// Question is one inquiry to be made: a read that asks what became of an operation.
type Question struct {
	Method, Path string      // Path begins with a slash, escaped, as [jobs.RenderInquiryPath] returns it
	BaseURL      string      // as in [Call]
	Header       http.Header // from the configuration, secrets resolved

	CorrelationID string        // of the operation; "": none is sent
	Traceparent   string        // W3C trace context; "": none is sent
	Timeout       time.Duration // of the whole call, from Ask on; must be positive
}

// Ask makes the inquiry: one HTTP request without a body, or none, by the same rules
// and with the same limits as [Client.Send]. Neither an idempotency key nor the number
// of an attempt goes with it, as it is no send of the operation. It blocks like Send,
// and what it met is the answer: its sample is for [policy.Inquiry.Read].
func (c *Client) Ask(ctx context.Context, q Question) Answer {
	return c.Send(ctx, Call{
		Request: jobs.Request{Method: q.Method, Path: q.Path, CorrelationID: q.CorrelationID, Traceparent: q.Traceparent},
		BaseURL: q.BaseURL,
		Header:  q.Header,
		// A read may go out as late as its answer could still be read: there is no claim to outlive.
		StartedAt: time.Now(), SendBy: q.Timeout,
		Timeout: q.Timeout,
	})
}
