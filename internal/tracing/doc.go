// Package tracing follows an operation through OpenTelemetry: the span of its
// submission, then one span for each wait, attempt and inquiry, all children of the
// submission's by the traceparent that is stored with the operation.
//
// It knows the API of OpenTelemetry and no more; package otlp sends what it makes. Spans
// bear the name of the operation, never a body, a header or an answer.
package tracing
