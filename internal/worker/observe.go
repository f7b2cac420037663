package worker

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/policy"
	"redrive/internal/tracing"
)

// about names an operation and a delivery in a log line. What is unknown is left out.
func about(dep jobs.Dependency, id jobs.ID, attempt int, correlation string) []slog.Attr {
	attrs := []slog.Attr{slog.String("operation", id.String()), slog.String("kind", string(id.Kind)), slog.String("dependency", string(dep))}
	if attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", attempt))
	}
	if correlation != "" {
		attrs = append(attrs, slog.String("correlation_id", correlation))
	}
	return attrs
}

// traced names an operation in its spans.
func traced(dep jobs.Dependency, id jobs.ID, request jobs.Request) tracing.About {
	return tracing.About{Dependency: dep, ID: id, Correlation: request.CorrelationID, Traceparent: request.Traceparent}
}

// called logs an attempt and, if the Sender was called for it, counts the call.
func (r *run) called(dep jobs.Dependency, g *ledger.Grant, res ledger.Result, sent bool, deadlineIn time.Duration) {
	switch {
	case !sent:
	case g.Attempt == 1:
		r.o.Metrics.Call(dep, g.ID.Kind, metrics.CallFirst, res.Class, res.Duration)
		r.o.Metrics.FirstAttempts(dep, attempt.First(res), 1)
	default:
		r.o.Metrics.Call(dep, g.ID.Kind, metrics.CallRetry, res.Class, res.Duration)
	}
	if res.Step == ledger.StepRetry {
		r.o.Metrics.RetryDelay(dep, res.Delay)
	}
	ctx := context.Background()
	if !r.o.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := append(about(dep, g.ID, g.Attempt, g.Request.CorrelationID), slog.Int64("delivery", g.Delivery),
		slog.String("class", string(res.Class)), slog.String("outcome", string(res.Outcome)), slog.String("verdict", string(res.Verdict)),
		slog.Duration("deadline_in", deadlineIn.Round(time.Millisecond)))
	if res.Step == ledger.StepRetry {
		attrs = append(attrs, slog.Duration("delay", res.Delay.Round(time.Millisecond)))
	}
	if res.Error != "" {
		attrs = append(attrs, slog.String("err", res.Error))
	}
	r.o.Log.LogAttrs(ctx, slog.LevelInfo, "call", attrs...)
}

// countReplay counts an answer that says that it repeats an earlier one: what it
// answers was answered before, and that answer was lost, or its attempt was.
func (c *conveyor) countReplay(k *kind, answer gateway.Answer) {
	if k.target.KeyHeader != "" && k.replayed.In(answer.Sample.Header) {
		c.r.o.Metrics.IdempotentReplay(c.d.name)
	}
}

// endings logs and counts what a call of the ledger ended. Every end but success
// refuses the retries that were left.
func (r *run) endings(dep jobs.Dependency, ends []ledger.Ended) {
	for _, e := range ends {
		r.o.Metrics.OperationEnded(e.ID.Kind, e.State, e.Reason, e.Sends+e.Inquiries)
		if e.State != jobs.Succeeded {
			r.refused(dep, e.ID, e.Sends, refusalOf(e), e.Class, e.CorrelationID, slog.LevelWarn)
		}
	}
}

// refusalOf is why an operation that ended will not be retried.
func refusalOf(e ledger.Ended) metrics.Refusal {
	switch {
	case e.State == jobs.Cancelled:
		return metrics.RefusedCancelled
	case e.Reason == jobs.ReasonConflict:
		return metrics.Refusal(jobs.ReasonPermanent) // it has no label of its own: one more refusal for good
	default:
		return metrics.Refusal(e.Reason)
	}
}

// refused logs and counts one retry that could not go when it was due, or never
// will. attempt is the last one made.
func (r *run) refused(dep jobs.Dependency, id jobs.ID, attempt int, why metrics.Refusal, class jobs.Class, correlation string, level slog.Level) {
	if why == metrics.Refusal(jobs.HoldRolledBack) {
		why = metrics.Refusal(jobs.HoldPaused) // the store itself holds the dependency, until a person resumes it
	}
	if slices.Contains(metrics.Refusals, why) {
		r.o.Metrics.RetryRefused(dep, why, class)
	}
	attrs := append(about(dep, id, attempt, correlation), slog.String("reason", string(why)), slog.String("class", string(class)))
	r.o.Log.LogAttrs(context.Background(), level, "retry refused", attrs...)
}

// heldBack logs and counts the retries that came due and could not leave. Busy
// slots refuse nothing: they delay everybody alike.
func (r *run) heldBack(dep jobs.Dependency, rel ledger.Release) {
	if rel.Hold == jobs.HoldSlots {
		return
	}
	for _, h := range rel.Held {
		r.refused(dep, h.ID, h.Sends, metrics.Refusal(rel.Hold), h.Class, h.CorrelationID, slog.LevelInfo)
	}
}

// guard keeps a panic in f from ending the process: it is counted, and logged with
// its stack but without its value, which may quote a payload.
func (r *run) guard(what string, f func()) (panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			panicked = true
			r.o.Metrics.Panic()
			err := "panic"
			if runtimeErr, ok := p.(interface{ RuntimeError() }); ok {
				err = runtimeErr.(error).Error() // the runtime's own words quote no data
			}
			r.o.Log.LogAttrs(context.Background(), slog.LevelError, "panic caught", slog.String("operation", what),
				slog.String("err", err), slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
	return false
}

// panicResult is the result of an attempt whose code panicked. It asks policy
// nothing: policy may be what panicked. What may have been sent is unknown and goes
// to a person or an inquiry; what was not sent needs somebody who mends the code.
func panicResult(sent bool, took time.Duration) ledger.Result {
	if sent {
		return ledger.Result{Outcome: jobs.OutcomeUnknown, Class: jobs.ClassOther, Verdict: jobs.VerdictUnknownInquire,
			Duration: took, Step: ledger.StepAsk, Counted: true, Error: "the worker panicked during the call"}
	}
	return ledger.Result{Outcome: jobs.OutcomeNotSent, Class: jobs.ClassOther, Verdict: jobs.VerdictHoldOperator,
		Duration: took, Step: ledger.StepEnd, Reason: jobs.ReasonMisconfigured, Error: "the worker panicked before the call"}
}

// unsent is what policy is told of an attempt that could not even be tried.
func unsent(refusedCredential bool, why string) policy.Classification {
	return policy.Classification{Row: policy.RowUnlisted, Class: jobs.ClassOther, Outcome: jobs.OutcomeNotSent, Processed: policy.ProcessedNo,
		Verdict: jobs.VerdictHoldOperator, CredentialRefused: refusedCredential, Reason: why}
}
