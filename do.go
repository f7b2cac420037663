package redrive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/budget"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
	"redrive/internal/tracing"
)

// Do makes the request path's one attempt of an operation, and hands over what did not
// come to an end. send makes the call; nil: [Attempt.Send].
//
// It returns the reply of a success. Else the error says what is known:
//
//   - [*Permanent]: refused for good, such as a decline, and known not to have taken effect.
//     Nothing goes on.
//   - [*Deferred]: handed over; workers go on with it until its deadline, or a person
//     must look (its receipt's state is [Dead], and Reason says why).
//   - [*Clash], [*Invalid]: the operation itself cannot be. Nothing was sent, but for a
//     clash in Light mode.
//   - [ErrDeadline], [ErrOpen], [ErrNoLedger], [ErrBacklogFull], [ErrClosed]: nothing was sent,
//     and nothing is kept. ErrDeadline is also what an attempt comes to that reached nobody, when there is no
//     time for another. If Redis went away at that moment the operation is withdrawn as soon as it is back;
//     should this process die before, the operation stands as of unknown outcome.
//   - [*HandoverError]: the ledger did not take it; nobody else knows of it, or its spool.
//
// An operation that is known already is not sent again: its present state decides which
// of these is returned. In [Light] mode only a hand-over finds out, so that a repeated Do
// is a second send under the same key.
//
// The attempt may take the kind's timeout, or what ctx leaves less [Options.Reserve], and ends
// with the operation's deadline, of which a slow Redis takes its part. It is not begun with
// less than the dependency's min_response left. When the ledger does not answer, operations of the classes natural and keyed are sent all the
// same, as in Light mode, and so is everything in Light mode; else [ErrNoLedger].
func (c *Client) Do(ctx context.Context, o Operation, send SendFunc) (*Reply, error) {
	if err := c.underway.enter(ctx); err != nil {
		return nil, err
	}
	defer c.underway.leave()
	spec, err := c.spec(o.Kind)
	if err != nil {
		return nil, invalid(err)
	}
	if o.Attempted != nil || !o.NotBefore.IsZero() {
		return nil, invalid(errors.New("an operation that is sent at once has neither Attempted nor NotBefore"))
	}
	if send == nil {
		// A secret that is missing here is no fault of the operation's.
		if _, err := c.header(spec.Dependency, credentialOf(o.Credential)); err != nil {
			return nil, invalid(err)
		}
		send = func(ctx context.Context, a *Attempt) (Reply, error) { return a.Send(ctx) }
	}
	s := o.submission(spec)
	s.CreatedAt = instantText(c.clock.at(time.Now()))
	span := c.begin(ctx, s, spec)
	d := &doing{c: c, o: o, spec: spec, s: s, send: send, span: span, durable: c.o.Mode == Durable}
	reply, err := d.do(ctx)
	d.endSpan(err)
	return reply, err
}

// doing is one Do.
type doing struct {
	c       *Client
	o       Operation
	spec    jobs.KindSpec
	s       *jobs.Submission
	send    SendFunc
	span    tracing.Span
	durable bool

	began    time.Time
	deadline time.Duration // the operation's, from began
	started  time.Time     // of the call, or of the step that must be younger than it

	// unsettled is the run id of a write-ahead that Redis may have run; "": there is none.
	unsettled string
}

// endSpan ends the operation's span with what Do comes to.
func (d *doing) endSpan(err error) {
	answer := jobs.Accepted
	var deferred *Deferred
	if err != nil && !errors.As(err, &deferred) {
		answer = jobs.Refused
	}
	d.span.EndSubmit(answer, err)
}

func (d *doing) do(ctx context.Context) (*Reply, error) {
	request, err := ledger.RequestOf(d.s, d.spec)
	if err != nil {
		return nil, invalid(err)
	}
	if err := d.times(ctx); err != nil {
		return nil, err
	}
	held, err := d.held()
	switch {
	case err != nil:
		return nil, err
	case !held && !d.durable:
		return d.light(ctx, request)
	}
	entry, err := ledger.Prepare(d.s, d.spec)
	if err != nil {
		return nil, invalid(err)
	}
	if held {
		return nil, d.deferUnsent(ctx, entry)
	}
	run := ledger.NewRunID()
	d.started = time.Now() // every span of the grant counts from here
	grant, receipt, err := d.writeAhead(ctx, entry, run)
	switch {
	case err != nil && !repeatable(d.spec.Idempotency):
		return nil, fmt.Errorf("%w: %w", ErrNoLedger, err)
	case err != nil: // its key makes a send that nobody wrote down a repeatable one
		d.c.o.Log.WarnContext(ctx, "sent without being written ahead: the ledger does not answer", "operation", d.s.ID().String(), "err", err)
		return d.light(ctx, request)
	case grant == nil:
		return d.known(ctx, receipt, NotSent, nil)
	}
	return d.granted(ctx, grant, receipt)
}

// repeatable: a second send of the same operation leaves the effect as it is.
func repeatable(class jobs.Idempotency) bool {
	return class == jobs.IdempotencyKeyed || class == jobs.IdempotencyNatural
}

// held: the dependency is not called now, as far as is known here.
func (d *doing) held() (bool, error) {
	state, ok := d.c.path.State(d.spec.Dependency)
	if !ok || state.Age() > stateAge || state.Breaker == budget.Closed && state.Hold == jobs.HoldNone {
		return false, nil
	}
	if d.c.o.WhenOpen == FailFast {
		return false, ErrOpen
	}
	return true, nil
}

// stateAge is how old the gate's word may be to keep a call from being made.
const stateAge = 5 * time.Second

// deferUnsent hands over without an attempt.
func (d *doing) deferUnsent(ctx context.Context, entry ledger.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, maxWriteAhead)
	defer cancel()
	store, err := d.c.store(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOpen, err)
	}
	got, err := store.Submit(ctx, terms.Submit(d.spec, d.c.o.Name), []ledger.Entry{entry})
	if err != nil {
		return d.spooled(NotSent, err)
	}
	_, err = d.known(ctx, receiptOf(got[0]), NotSent, nil)
	return err
}

// writeAhead writes the operation and its attempt in one step. The grant is nil where
// there is nothing to send. With an error nobody knows whether it was written: unsettled
// is the run under which it may be.
func (d *doing) writeAhead(ctx context.Context, entry ledger.Entry, run string) (*ledger.Grant, Receipt, error) {
	bound, cancel := context.WithTimeout(ctx, d.writeAheadWithin(ctx))
	defer cancel()
	store, err := d.c.store(bound)
	if err != nil {
		return nil, Receipt{}, err // nothing was asked for
	}
	t := terms.Submit(d.spec, d.c.o.Name)
	t.Expect = d.c.clock.now()
	got, grant, err := store.SubmitBegun(bound, t, terms.Target(d.spec), entry, run)
	if errors.Is(err, ledger.ErrClockStepped) && d.c.clock.read(bound, d.c) == nil {
		t.Expect = d.c.clock.now()
		got, grant, err = store.SubmitBegun(bound, t, terms.Target(d.spec), entry, run)
	}
	if err == nil && got.Answer == jobs.Unsure {
		err = errors.New("it is not on the replicas asked for yet")
	}
	if err == nil {
		return grant, receiptOf(got), nil
	}
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, ledger.ErrClockStepped):
		// nothing was written
	case repeatable(d.spec.Idempotency):
		d.unsettled = run
	default:
		d.withdrawUnsettled(run)
	}
	return nil, Receipt{}, err
}

// known says how an operation stands that is not sent now. outcome and cause are what an
// attempt met; NotSent and nil: none was made.
func (d *doing) known(ctx context.Context, r Receipt, outcome Outcome, cause error) (*Reply, error) {
	if r.past && cause == nil {
		return nil, fmt.Errorf("%w: %s", ErrDeadline, r.Error)
	}
	if r.Answer != Accepted && r.Answer != Duplicate && r.Answer != Unsure {
		return nil, rejected(r)
	}
	if !r.State.Ended() {
		return nil, &Deferred{Receipt: r, Outcome: outcome, Cause: cause}
	}
	record, err := d.c.get(ctx, r.Kind, r.Key)
	if err != nil {
		return nil, &Deferred{Receipt: r, Outcome: outcome, Cause: err}
	}
	r.State, r.Applied = record.State, record.Applied
	kept := Reply{Status: record.LastStatus, Body: record.Answer, Result: record.Result}
	switch {
	case record.State == Succeeded:
		return &kept, nil
	case record.Applied == AppliedNo && (record.State == Cancelled || record.Reason == string(jobs.ReasonPermanent)):
		return nil, &Permanent{Reply: kept, Class: record.LastClass, Reason: strings.TrimSuffix(fmt.Sprintf("it is %s (%s)", record.State, record.Reason), " ()")}
	}
	if cause == nil {
		cause = fmt.Errorf("it is %s (%s): a person must look", record.State, record.Reason)
	}
	return nil, &Deferred{Receipt: r, Outcome: outcome, Reason: record.Reason, Cause: cause}
}

// granted makes the call that was written ahead and writes what came of it.
func (d *doing) granted(ctx context.Context, g *ledger.Grant, receipt Receipt) (*Reply, error) {
	d.deadline = min(d.deadline, d.started.Sub(d.began)+g.DeadlineLeft) // Redis' clock may be ahead of ours
	return d.call(ctx, g.Request, func(reply Reply, answer gateway.Answer) (*Reply, error) {
		return d.settleGranted(ctx, g, receipt, reply, answer)
	})
}

// settleGranted writes what came of a call that was written ahead.
func (d *doing) settleGranted(ctx context.Context, g *ledger.Grant, receipt Receipt, reply Reply, answer gateway.Answer) (*Reply, error) {
	res := d.judge(g, answer)
	if d.lapsed(res) {
		return nil, d.withdrawGranted(ctx, g, answer)
	}
	res.Told = true
	f, err := d.finish(ctx, g, res)
	if err != nil { // its claim's lease makes it unknown if this process dies first
		d.c.late.add(func(ctx context.Context) error { _, err := d.finish(ctx, g, res); return err })
		if res.Step != ledger.StepSucceed && done(res) { // not known to be the end of it
			return nil, &Deferred{Receipt: receipt, Outcome: Refused, Cause: permanent(reply, res)}
		}
		return d.ended(reply, res, receipt, "")
	}
	receipt.State = State(f.State)
	switch {
	case res.Step == ledger.StepSucceed:
		return d.ended(reply, res, receipt, "")
	case f.How != ledger.HowOwn && f.How != ledger.HowKnown && f.How != ledger.HowRecreated, // the lease had run out, and others went on
		f.State == jobs.Succeeded, done(res) && f.State != jobs.Cancelled: // somebody told of another send meanwhile
		return d.known(ctx, receipt, Outcome(res.Outcome), errors.New(res.Error))
	}
	return d.ended(reply, res, receipt, string(f.Reason))
}

func (d *doing) finish(ctx context.Context, g *ledger.Grant, res ledger.Result) (ledger.Finish, error) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.finishWithin())
	defer cancel()
	store, err := d.c.store(bound)
	if err != nil {
		return ledger.Finish{}, err
	}
	return store.Finish(bound, terms.Of(d.spec), terms.Target(d.spec), g, res)
}

func (d *doing) finishWithin() time.Duration { return max(d.c.o.Reserve, 100*time.Millisecond) }

// light makes the call without having written anything, and hands over what failed.
func (d *doing) light(ctx context.Context, request jobs.Request) (*Reply, error) {
	d.started = time.Now()
	return d.call(ctx, request, func(reply Reply, answer gateway.Answer) (*Reply, error) {
		return d.settleLight(ctx, request, reply, answer)
	})
}

// settleLight hands over what failed of a call that was not written ahead.
func (d *doing) settleLight(ctx context.Context, request jobs.Request, reply Reply, answer gateway.Answer) (*Reply, error) {
	safe := time.Duration(0)
	switch d.spec.Idempotency {
	case jobs.IdempotencyNatural:
		safe = ledger.Always
	case jobs.IdempotencyKeyed:
		safe = policy.ResendSafe(terms.MS(d.spec.KeyWindowMS), policy.ClaimLease(terms.MS(d.spec.TimeoutMS)))
	}
	g := &ledger.Grant{ID: d.s.ID(), RunID: d.unsettled, Attempt: 1, Used: 1, Idempotency: d.spec.Idempotency, DeadlineLeft: d.deadline - d.started.Sub(d.began), SafeFor: safe}
	res := d.judge(g, answer)
	if d.lapsed(res) {
		if d.unsettled != "" {
			d.withdrawUnsettled(d.unsettled)
		}
		return nil, errLapsed(answer)
	}
	if answer.WireBytes > 0 { // what was not sent must not be counted
		d.c.path.Record(d.spec.Dependency, attempt.First(res))
	}
	if d.unsettled != "" {
		d.settleUnsettled(g, res)
	}
	if done(res) {
		return d.ended(reply, res, Receipt{}, "")
	}
	d.s.Attempted = attempted(res)
	d.s.Attempted.FirstSentAt, d.s.Attempted.Counted = instantText(d.c.clock.at(d.started)), answer.WireBytes > 0
	d.s.IdempotencyKey = request.IdempotencyKey
	receipt, err := d.handOver(ctx, res)
	if err != nil {
		return nil, err
	}
	return d.ended(reply, res, receipt, d.reason(ctx, receipt))
}
