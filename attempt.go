package redrive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
	"redrive/internal/tracing"
)

// Reply is what the dependency answered.
type Reply struct {
	Status int               // HTTP status; 0: there was no answer
	Header http.Header       // nil where the answer is read from the ledger
	Body   []byte            // at most 1 MiB of it; from the ledger what was kept, 16 KiB
	Result map[string]string // named values that the configuration takes from a success
}

// Attempt is the one call that [Client.Do] has made.
type Attempt struct {
	Operation      Operation   // as Do was given it
	IdempotencyKey string      // that must go with the request, as Header has it
	Header         http.Header // of the request: idempotency key, Redrive-Attempt, X-Correlation-Id, traceparent

	c       *Client
	spec    jobs.KindSpec
	request jobs.Request
	began   time.Time     // Do
	sendBy  time.Duration // from began: no first byte after it
	ends    time.Time     // the call, at the latest

	mu     sync.Mutex // guards the rest: a sender may leave while its Send goes on
	used   bool       // Send was called, or the attempt is over: nothing is sent any more
	going  bool       // Send is under way
	answer *gateway.Answer
	reply  Reply
	err    error
}

// SendFunc makes the call of an attempt, once, and returns what came of it: a reply with a
// status, or an error. It must heed ctx, must not retry, and must send the headers of the
// attempt. An error is an unknown outcome unless it wraps [ErrNotSent], whatever the status
// beside it: who could not read an answer to its end does not know what it said. Only with
// a 2xx it is a success that was cut short: of unknown outcome too, but surely taken, and
// for a kind that is natural a success. A status beside [ErrNotSent] proves that it was sent.
type SendFunc func(ctx context.Context, a *Attempt) (Reply, error)

// Send makes the call as a worker would: one request to the kind's path, on a connection of
// its own, with the configuration's headers. It knows whether anything was sent. A second
// Send of the same attempt is refused, and so is one after the [SendFunc] has returned.
func (a *Attempt) Send(ctx context.Context) (Reply, error) {
	a.mu.Lock()
	used := a.used
	if !used {
		a.used, a.going = true, true
	}
	a.mu.Unlock()
	if used {
		return Reply{}, errors.New("redrive: an attempt is sent once, and not after its sender has returned")
	}
	answer, reply, err := a.send(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.going, a.answer, a.reply, a.err = false, &answer, reply, err
	return reply, err
}

func (a *Attempt) send(ctx context.Context) (gateway.Answer, Reply, error) {
	header, err := a.c.header(a.spec.Dependency, credentialOf(a.Operation.Credential))
	if err != nil { // workers have what is missing here
		return gateway.Answer{Sample: policy.Sample{Phase: policy.PhaseNotWritten}, Err: err.Error()}, Reply{}, fmt.Errorf("%w: %w", err, ErrNotSent)
	}
	timeout := time.Until(a.ends)
	if timeout <= 0 {
		answer := notMade()
		return answer, Reply{}, fmt.Errorf("%s: %w", answer.Err, ErrNotSent)
	}
	answer := a.c.send.Send(ctx, gateway.Call{Request: a.request, Attempt: 1, BaseURL: a.spec.BaseURL, Header: header, KeyHeader: a.spec.KeyHeader,
		StartedAt: a.began, SendBy: a.sendBy, Timeout: timeout})
	reply := Reply{Status: answer.Sample.Status, Header: answer.Sample.Header, Body: answer.Sample.Body}
	switch {
	case reply.Status != 0:
		return answer, reply, nil
	case answer.WireBytes == 0:
		return answer, reply, fmt.Errorf("%s: %w", answer.Err, ErrNotSent)
	}
	return answer, reply, errors.New(answer.Err)
}

// seen is what came of the attempt: what Send saw, where the sender returned just that, or
// did not return. The attempt is over with it.
func (a *Attempt) seen(reply Reply, err error, took time.Duration, returned bool) gateway.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = true
	if !returned && a.answer != nil {
		return *a.answer
	}
	if a.answer != nil && reply.Status == a.reply.Status && (err == nil) == (a.err == nil) && (err == nil || errors.Is(err, a.err)) {
		return *a.answer
	}
	if (a.going || a.answer != nil && a.answer.WireBytes > 0) && errors.Is(err, ErrNotSent) {
		err = errors.New(err.Error()) // it was sent, or may be: the sender cannot know better
	}
	if err != nil && reply.Status != 0 && reply.Status/100 != 2 {
		known := errors.Is(err, ErrNotSent)
		if err = fmt.Errorf("status %d, and an error: %w", reply.Status, err); known {
			err = errors.New(err.Error()) // there was an answer
		}
		reply = Reply{}
	}
	return gateway.Seen(reply.Status, reply.Header, reply.Body, took, err)
}

func credentialOf(name string) string {
	if name == "" {
		return jobs.DefaultCredential
	}
	return name
}

// notMade is the answer of an attempt for which too little time was left.
func notMade() gateway.Answer {
	return gateway.Answer{Sample: policy.Sample{Phase: policy.PhaseTooLate}, Err: "too little time was left for the attempt"}
}

// settleFunc writes down what was seen of an attempt, and says what Do returns of it.
type settleFunc func(Reply, gateway.Answer) (*Reply, error)

// call makes the one call and has settle write down what was seen of it.
func (d *doing) call(ctx context.Context, request jobs.Request, settle settleFunc) (*Reply, error) {
	span := d.c.tracer.Attempt(tracing.About{Dependency: d.spec.Dependency, ID: d.s.ID(), Correlation: d.s.CorrelationID, Traceparent: d.s.Traceparent}, 1, d.started)
	request.Traceparent = span.Traceparent()
	ends := d.ends(ctx) // anew: a write-ahead takes its part
	if d.tooLate(ends) {
		answer := notMade()
		span.EndAttempt(jobs.OutcomeNotSent, jobs.ClassOther, "", 0, answer.Err)
		return settle(Reply{}, answer)
	}
	a := &Attempt{Operation: d.o, IdempotencyKey: request.IdempotencyKey, Header: http.Header{}, c: d.c, spec: d.spec, request: request,
		began: d.began, sendBy: min(d.started.Sub(d.began)+policy.SendWindow, d.deadline-terms.MS(d.spec.MinResponseMS)), ends: ends}
	for name, value := range map[string]string{d.spec.KeyHeader: request.IdempotencyKey, "Redrive-Attempt": "1", "X-Correlation-Id": request.CorrelationID,
		"Traceparent": request.Traceparent} {
		if name != "" && value != "" {
			a.Header.Set(name, value)
		}
	}
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	return d.sendGuarded(ctx, a, func(reply Reply, err error, returned bool) (*Reply, error) {
		answer := a.seen(reply, err, time.Since(d.started), returned)
		if d.c.tracer != nil {
			cl := policy.Classify(answer.Sample, d.spec.Idempotency)
			span.EndAttempt(cl.Outcome, cl.Class, cl.Verdict, reply.Status, answer.Err)
		}
		return settle(reply, answer)
	})
}

// sendGuarded has the sender make the call, and ended told what came of it. A sender that
// does not return (it panics, or ends its goroutine as t.FailNow does) may have sent before:
// that is an unknown outcome, and must be found again. So ended is told of it on the way out,
// where the panic, or the end of the goroutine, goes on after that.
func (d *doing) sendGuarded(ctx context.Context, a *Attempt, ended func(_ Reply, _ error, returned bool) (*Reply, error)) (*Reply, error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		d.c.o.Log.ErrorContext(ctx, "the sender of an attempt did not return, it panicked or ended its goroutine: the outcome is unknown", "operation", d.s.ID().String())
		_, err := ended(Reply{}, errors.New("the sender did not return"), false)
		d.untold(ctx, err)
	}()
	reply, err := d.send(ctx, a)
	returned = true
	return ended(reply, err, true)
}

// untold ends a Do that returns to nobody.
func (d *doing) untold(ctx context.Context, err error) {
	d.endSpan(err)
	var kept *HandoverError
	if errors.As(err, &kept) && !kept.Spooled {
		d.c.o.Log.ErrorContext(ctx, "an operation of unknown outcome could not be handed over, and nobody knows of it", "operation", d.s.ID().String(), "err", err)
	}
}

func (d *doing) judge(g *ledger.Grant, answer gateway.Answer) ledger.Result {
	t := attempt.Terms{MaxAttempts: d.spec.MaxAttempts, MinResponse: terms.MS(d.spec.MinResponseMS), HasInquiry: d.spec.Inquiry != nil,
		Backoff: policy.Backoff{Base: terms.MS(d.spec.BackoffBaseMS), Cap: terms.MS(d.spec.BackoffCapMS)}}
	if c := d.c.config; c != nil {
		dep := c.Dependencies[d.spec.Dependency]
		t.SlowCall, t.Rules, t.Results = dep.Breaker.SlowCall, dep.Rules, c.Kinds[d.spec.Kind].Results
	}
	res, errs := t.Judge(g, answer, d.started, d.c.random)
	for _, err := range errs {
		d.c.o.Log.Warn("rule or result cannot be evaluated", "kind", string(d.spec.Kind), "err", err)
	}
	return res
}
