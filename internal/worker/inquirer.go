package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/policy"
)

const (
	// inquiryPoll is how often a dependency is asked for due inquiries when none is
	// known: an operation that became unresolved elsewhere has its settle time anyway.
	inquiryPoll = 2 * time.Second
	// inquiryShare: a quarter of a dependency's slots are there for inquiries, beside
	// those of attempts.
	inquiryShare = 4
)

// inquirer asks a dependency what became of the operations that are unresolved.
//
// It takes inquiries straight from the ledger and not through asynq: an inquiry is a
// read, so that one that is lost or made twice does no harm, and the lease of the
// index brings it back.
type inquirer struct {
	c       *conveyor
	kinds   []jobs.Kind   // those with an inquiry
	slots   chan struct{} // who holds one may ask
	wake    chan struct{} // capacity 1: a slot came free
	running sync.WaitGroup
}

// newInquirer returns nil when no kind of the dependency has an inquiry.
func newInquirer(c *conveyor) *inquirer {
	i := &inquirer{c: c, slots: make(chan struct{}, max(1, c.d.slots/inquiryShare)), wake: make(chan struct{}, 1)}
	for _, name := range c.d.known {
		if c.d.kinds[name].inquiry != nil {
			i.kinds = append(i.kinds, name)
		}
	}
	if len(i.kinds) == 0 {
		return nil
	}
	return i
}

// loop hands out what is due to the free slots. It ends with taking; the calls that it
// began end with sending.
func (i *inquirer) loop(taking, sending context.Context) {
	r := i.c.r
	for r.health.await(taking.Done()) {
		next := inquiryPoll
		if free := cap(i.slots) - len(i.slots); free > 0 && r.steady(i.c.d.name) && !r.pending.full() {
			asked, err := r.o.Ledger.Inquire(taking, i.c.terms(), i.kinds, free, ledger.NewRunID(), policy.ClaimLease(i.c.d.timeout))
			if err != nil {
				r.failed(taking, "inquiries not taken", i.c.d.name, err)
			}
			r.news(i.c.d.name, asked.News)
			for _, q := range asked.Questions {
				i.begin(sending, q)
			}
			if err == nil {
				next = asked.Next
			}
		}
		t := time.NewTimer(min(next, inquiryPoll))
		select {
		case <-taking.Done():
		case <-i.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// begin makes an inquiry in a slot of its own; only loop takes slots, so that one is free.
func (i *inquirer) begin(ctx context.Context, q ledger.Question) {
	i.slots <- struct{}{}
	i.running.Go(func() { // ends with the call, which ctx bounds; stop waits
		defer func() {
			<-i.slots
			select {
			case i.wake <- struct{}{}:
			default: // it will look
			}
		}()
		i.c.r.guard(q.ID.String(), func() { i.ask(ctx, q) })
	})
}

// ask makes one inquiry and writes its answer.
func (i *inquirer) ask(ctx context.Context, q ledger.Question) {
	r, k := i.c.r, i.c.d.kinds[q.ID.Kind]
	span := r.o.Tracer.Inquiry(traced(i.c.d.name, q.ID, q.Request), time.Now())
	q.Request.Traceparent = span.Traceparent()
	in, class, sent := i.call(ctx, k, q)
	span.EndInquiry(in.Answer, class, in.Status, in.Error)
	if ctx.Err() != nil {
		return // we stopped it: its lease brings it back, and it said nothing
	}
	if sent {
		r.o.Metrics.Call(i.c.d.name, q.ID.Kind, metrics.CallInquiry, class, in.Duration)
	}
	attrs := append(about(i.c.d.name, q.ID, 0, q.CorrelationID), slog.String("class", string(class)), slog.String("answer", string(in.Answer)))
	if in.Error != "" {
		attrs = append(attrs, slog.String("err", in.Error))
	}
	r.o.Log.LogAttrs(ctx, slog.LevelInfo, "inquiry", attrs...)

	write := func(ctx context.Context) error {
		f, err := r.ledger.Inquired(ctx, i.c.d.terms, q, in)
		if err != nil {
			return err
		}
		r.guard(q.ID.String(), func() { i.recorded(q, in, f) })
		return nil
	}
	if err := within(context.WithoutCancel(ctx), finishWithin, write); err != nil {
		r.health.note(err)
		r.pending.add(write)
	}
}

// call asks the gateway, and reads what it says as the kind's inquiry has it.
func (i *inquirer) call(ctx context.Context, k *kind, q ledger.Question) (in ledger.Inquired, class jobs.Class, sent bool) {
	r, d := i.c.r, i.c.d
	in = ledger.Inquired{Answer: jobs.InquiryNothing, BaseURL: k.target.BaseURL, Delay: k.inquiry.Backoff.Delay(q.Tries, r.random),
		Wait: k.backoff.Delay(max(q.Attempt, 1), r.random), StayDead: k.inquiry.AfterNotFoundDead, NotApplied: k.inquiry.FailedNotApplied}
	path, err := jobs.RenderInquiryPath(k.inquiry.Path, q.ID.Key, q.Request.IdempotencyKey, q.Request.Params, q.Result)
	if err != nil {
		in.Error = "cannot be asked: " + err.Error()
		return in, jobs.ClassOther, false
	}
	header, err := r.o.Headers(d.name, q.Request.Credential)
	if err != nil {
		in.Error = "cannot be asked: " + err.Error()
		return in, jobs.ClassOther, false
	}
	answer := r.o.Sender.Ask(ctx, gateway.Question{Method: k.inquiry.Method, Path: path, BaseURL: d.baseURL, Header: header,
		CorrelationID: q.CorrelationID, Traceparent: q.Request.Traceparent, Timeout: d.timeout})
	in.Status, in.Duration = answer.Sample.Status, answer.Duration
	cl := policy.Classify(answer.Sample, jobs.IdempotencyNatural)
	in.Said = attempt.Said(cl, answer, d.slowCall, true, r.random)
	in.Delay = policy.Wait(cl.Hint.Wait, in.Delay, r.random)
	if in.Answer, _, err = k.inquiry.Read.Read(answer.Sample); err != nil {
		in.Error = err.Error()
		if answer.Err != "" {
			in.Error += ": " + answer.Err
		}
	}
	if in.Answer == jobs.InquirySucceeded {
		var left []error
		in.Values, left = k.inquiry.Results.Read(answer.Sample)
		i.complain(q, left)
	}
	return in, cl.Class, true
}

// complain logs which results an answer left out, once for each in this process; see
// [conveyor.complain].
func (i *inquirer) complain(q ledger.Question, left []error) {
	for _, err := range left {
		var re *policy.RuleError
		what := string(q.ID.Kind)
		if errors.As(err, &re) {
			what += " " + re.Field
		}
		if _, before := i.c.d.told.LoadOrStore("inquiry result "+what, true); !before {
			i.c.r.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "result of an inquiry left out",
				append(about(i.c.d.name, q.ID, 0, q.CorrelationID), slog.Any("err", err))...)
		}
	}
}

// recorded looks at what the ledger made of an answer.
func (i *inquirer) recorded(q ledger.Question, in ledger.Inquired, f ledger.Finish) {
	r, dep := i.c.r, i.c.d.name
	r.endings(dep, f.Ended)
	r.news(dep, f.News)
	if f.How == ledger.HowLate {
		r.o.Metrics.LateResult(dep)
	}
	if f.Conflict {
		r.o.Metrics.Conflict(dep)
		r.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "inquiry contradicts what is known", about(dep, q.ID, 0, q.CorrelationID)...)
	}
	if f.State == jobs.Waiting {
		i.c.expect(in.Wait)
	}
}
