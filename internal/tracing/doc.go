// Package tracing follows an operation through OpenTelemetry: the span of its
// submission, then one span for each wait, attempt and inquiry, all children of the
// submission's by the traceparent that is stored with the operation.
//
// It is off unless the environment asks for it, by the variables that OpenTelemetry
// has fixed: see [Start]. Spans bear the name of the operation, never a body, a header
// or an answer. Nothing waits for a collector: spans that cannot be delivered are
// dropped, and a line a minute says so.
package tracing
