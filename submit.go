package redrive

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
	"redrive/internal/tracing"
)

// submitters is how many batches of [Client.SubmitMany] are under way at once at most.
const submitters = 4

// Submit hands one operation over. The error is nil for every answer of the ledger, also
// for a conflict or a refusal: see [Receipt.Answer]. An error means that its fate is not
// known: submitting the same again is safe. One call is one round trip; for many use
// [Client.SubmitMany].
func (c *Client) Submit(ctx context.Context, o Operation) (Receipt, error) {
	receipts, err := c.SubmitMany(ctx, []Operation{o})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// SubmitMany hands operations over in batches, several at once, and returns one receipt
// each, in order. With an error the receipts that are not zero are those that are known:
// submitting all again is safe. Two of one name in one call are submitted in their order. ctx
// bounds all of it; there is no limit to how many, and none to how long without one in ctx
// but three seconds for each answer of Redis.
func (c *Client) SubmitMany(ctx context.Context, ops []Operation) ([]Receipt, error) {
	if err := c.underway.enter(ctx); err != nil {
		return make([]Receipt, len(ops)), err
	}
	defer c.underway.leave()
	store, err := c.store(ctx)
	if err != nil {
		return make([]Receipt, len(ops)), err
	}
	return c.submitMany(ctx, store, ops)
}

// lot is what goes to one dependency in one call.
type lot struct {
	terms   ledger.SubmitTerms
	entries []ledger.Entry
	places  []int // of the entries among the operations
	spans   []tracing.Span
}

func (c *Client) submitMany(ctx context.Context, store *ledger.Ledger, ops []Operation) ([]Receipt, error) {
	receipts := make([]Receipt, len(ops))
	// All operations of one name take the same lane, one call after the other.
	lanes := make([][]int, min(submitters, 1+len(ops)/ledger.MaxBatch))
	seed := maphash.MakeSeed()
	for i, o := range ops {
		lane := 0
		if len(lanes) > 1 {
			lane = int(maphash.String(seed, o.Kind+"/"+o.Key) % uint64(len(lanes)))
		}
		lanes[lane] = append(lanes[lane], i)
	}
	if len(lanes) == 1 {
		return receipts, c.lane(ctx, store, ops, lanes[0], receipts)
	}
	errs := make([]error, len(lanes))
	var working sync.WaitGroup
	for n, lane := range lanes {
		working.Go(func() { errs[n] = c.lane(ctx, store, ops, lane, receipts) }) // ends with its calls, which ctx bounds
	}
	working.Wait()
	return receipts, errors.Join(errs...)
}

// lane submits the operations at these places, one batch after the other.
func (c *Client) lane(ctx context.Context, store *ledger.Ledger, ops []Operation, places []int, receipts []Receipt) error {
	lots := map[jobs.Dependency]*lot{}
	for _, i := range places {
		entry, spec, span, err := c.prepare(ctx, &ops[i])
		if err != nil {
			span.EndSubmit(jobs.Refused, err)
			receipts[i] = Receipt{Answer: Rejected, Kind: ops[i].Kind, Key: ops[i].Key, Applied: appliedOf(ops[i]), Error: err.Error()}
			continue
		}
		l := lots[spec.Dependency]
		if l == nil {
			l = &lot{terms: terms.Submit(spec, c.o.Name)}
			lots[spec.Dependency] = l
		}
		l.entries, l.places, l.spans = append(l.entries, entry), append(l.places, i), append(l.spans, span)
		if len(l.entries) == ledger.MaxBatch {
			delete(lots, spec.Dependency)
			if err := l.submit(ctx, store, receipts); err != nil {
				return err
			}
		}
	}
	for _, l := range lots {
		if err := l.submit(ctx, store, receipts); err != nil {
			return err
		}
	}
	return nil
}

func (l *lot) submit(ctx context.Context, store *ledger.Ledger, receipts []Receipt) error {
	got, err := store.Submit(ctx, l.terms, l.entries)
	for i, span := range l.spans {
		if err != nil {
			span.EndSubmit("", err)
			continue
		}
		span.EndSubmit(got[i].Answer, nil)
		receipts[l.places[i]] = receiptOf(got[i])
	}
	return err
}

// appliedOf is what is known of an operation that was never taken.
func appliedOf(o Operation) Applied {
	if o.Attempted != nil && o.Attempted.Outcome == Unknown {
		return AppliedUnknown
	}
	return AppliedNo
}

// prepare checks an operation, begins its span and fixes when its first attempt here is
// due: at once, or a backoff after what was sent already.
func (c *Client) prepare(ctx context.Context, o *Operation) (ledger.Entry, jobs.KindSpec, tracing.Span, error) {
	spec, err := c.spec(o.Kind)
	if err != nil {
		return ledger.Entry{}, spec, tracing.Span{}, err
	}
	s := o.submission(spec)
	span := c.begin(ctx, s, spec)
	entry, err := c.entry(s, spec)
	return entry, spec, span, err
}

func (c *Client) entry(s *jobs.Submission, spec jobs.KindSpec) (ledger.Entry, error) {
	entry, err := ledger.Prepare(s, spec)
	if err != nil {
		return entry, err
	}
	if a := s.Attempted; a != nil {
		if a.Outcome == jobs.OutcomeUnknown && spec.BaseURL == "" {
			return entry, fmt.Errorf("attempted: where kind %s is sent to is not known here: start a worker once, it publishes it", spec.Kind)
		}
		entry.Delay = policy.Backoff{Base: terms.MS(spec.BackoffBaseMS), Cap: terms.MS(spec.BackoffCapMS)}.Delay(a.Attempts, c.random)
	}
	return entry, nil
}

// begin begins the span of a submission, below the one in ctx if there is one.
func (c *Client) begin(ctx context.Context, s *jobs.Submission, spec jobs.KindSpec) tracing.Span {
	if s.Traceparent == "" {
		s.Traceparent = tracing.Around(ctx)
	} else if jobs.CheckTraceparent(s.Traceparent) != nil {
		return tracing.Span{} // it is refused
	}
	span := c.tracer.Submit(tracing.About{Dependency: spec.Dependency, ID: s.ID(), Correlation: s.CorrelationID, Traceparent: s.Traceparent})
	s.Traceparent = span.Traceparent()
	return span
}

// Get returns an operation as it stands. Errors: [ErrNotFound] when there is none, also when
// it ended so long ago that retention has forgotten it; [*Invalid] for an unknown kind or a key that cannot be;
// else those of Redis.
func (c *Client) Get(ctx context.Context, kind, key string) (*Record, error) {
	if err := c.underway.enter(ctx); err != nil {
		return nil, err
	}
	defer c.underway.leave()
	return c.get(ctx, kind, key)
}

func (c *Client) get(ctx context.Context, kind, key string) (*Record, error) {
	spec, id, err := c.find(ctx, kind, key)
	if err != nil {
		return nil, err
	}
	d, err := c.ledger.Get(ctx, spec.Dependency, id, &spec)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return recordOf(d), nil
}

func (c *Client) find(ctx context.Context, kind, key string) (jobs.KindSpec, jobs.ID, error) {
	if err := c.ready(ctx); err != nil {
		return jobs.KindSpec{}, jobs.ID{}, err
	}
	spec, err := c.spec(kind)
	if err != nil {
		return spec, jobs.ID{}, invalid(err)
	}
	id, err := nameOf(kind, key)
	if err != nil {
		return spec, id, invalid(fmt.Errorf("key: %w", err))
	}
	return spec, id, nil
}

// Cancel stops an operation for good: at once, or, pending, when the attempt under way
// ends. note says why, for the audit. An operation whose outcome is unknown is asked about
// first. [ErrNotFound] when there is none; an error that says so when it has ended.
func (c *Client) Cancel(ctx context.Context, kind, key, note string) (pending bool, err error) {
	if err := c.underway.enter(ctx); err != nil {
		return false, err
	}
	defer c.underway.leave()
	spec, id, err := c.find(ctx, kind, key)
	if err != nil {
		return false, err
	}
	store, err := c.store(ctx)
	if err != nil {
		return false, err
	}
	done, err := store.Cancel(ctx, spec.Dependency, id, spec.Retention, c.who(note))
	return acted(id, done, err)
}

// Reconcile has a worker ask the gateway what became of an operation; it may be one that
// only the gateway knows, first sent at that instant (zero: now). pending: an attempt is
// under way, and it is asked about when that ends.
func (c *Client) Reconcile(ctx context.Context, kind, key string, firstSent time.Time, note string) (pending bool, err error) {
	if err := c.underway.enter(ctx); err != nil {
		return false, err
	}
	defer c.underway.leave()
	spec, id, err := c.find(ctx, kind, key)
	if err != nil {
		return false, err
	}
	store, err := c.store(ctx)
	if err != nil {
		return false, err
	}
	done, err := store.Reconcile(ctx, spec, id, firstSent, c.who(note))
	return acted(id, done, err)
}

func acted(id jobs.ID, done ledger.Done, err error) (pending bool, _ error) {
	switch {
	case err != nil:
		return false, err
	case done.Verdict == ledger.DoneMissing:
		return false, fmt.Errorf("%s: %w", id, ErrNotFound)
	case done.Verdict == ledger.DoneRefused && done.State == "": // of what is not in the ledger
		return false, fmt.Errorf("redrive: %s: %s", id, done.Detail)
	case done.Verdict == ledger.DoneRefused:
		return false, fmt.Errorf("redrive: %s is %s: %s", id, done.State, done.Detail)
	}
	return done.Verdict == ledger.DonePending, nil
}
