package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/policy"
)

// patience is how long the request path waits for the gateway: a customer stands
// at the till.
const patience = 400 * time.Millisecond

// requestPath is the shop: it calls the gateway itself, with an HTTP client of its
// own, and hands over what it could not finish.
type requestPath struct {
	ledger  *ledger.Ledger
	terms   ledger.SubmitTerms
	specs   map[jobs.Kind]jobs.KindSpec
	baseURL string
	client  *http.Client
	metrics *metrics.Metrics

	mu   sync.Mutex // guards rand, handed, settled
	rand *rand.Rand
	// What was handed over and accepted, and what was answered and thus never
	// handed over.
	handed, settled []Order
}

func newRequestPath(l *ledger.Ledger, terms ledger.SubmitTerms, specs []jobs.KindSpec, baseURL string, r *rand.Rand, m *metrics.Metrics) *requestPath {
	p := &requestPath{ledger: l, terms: terms, specs: map[jobs.Kind]jobs.KindSpec{}, baseURL: baseURL, rand: r, metrics: m,
		// A connection a call: net/http resends on its own when a kept one dies, and
		// then the request path would not know what it sent.
		client: &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}}
	for _, s := range specs {
		p.specs[s.Kind] = s
	}
	return p
}

// attempt calls the gateway for each order, at most at once of them at a time, and
// hands over each as soon as its call has failed.
func (p *requestPath) attempt(ctx context.Context, orders []Order, atOnce int) error {
	next := make(chan *Order)
	failed := make(chan error, atOnce) // each shopper sends its first error at most
	var shoppers sync.WaitGroup        // they end when next is closed
	for range min(atOnce, len(orders)) {
		shoppers.Go(func() {
			for order := range next {
				if err := p.attemptOne(ctx, order); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for i := range orders {
		select {
		case next <- &orders[i]:
			continue
		case err = <-failed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		break
	}
	close(next)
	shoppers.Wait()
	select {
	case late := <-failed:
		err = errors.Join(err, late)
	default:
	}
	return err
}

func (p *requestPath) attemptOne(ctx context.Context, order *Order) error {
	at := time.Now()
	saw := p.call(ctx, order)
	p.metrics.FirstAttempts(dependency, saw.result(), 1)
	if saw.settled {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.settled = append(p.settled, *order)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return p.submit(ctx, []handover{{order, &jobs.Attempted{ID: order.Correlation, Outcome: saw.outcome, Class: saw.class,
		FirstSentAt: at.UTC().Format(time.RFC3339Nano)}}})
}

// sight is what the request path made of its own call.
type sight struct {
	settled bool // the customer has an answer: there is nothing to hand over
	outcome jobs.Outcome
	class   jobs.Class
}

// result is how the call counts for the budget.
func (s sight) result() metrics.Result {
	switch {
	case s.settled:
		return metrics.ResultOK
	case s.class == jobs.ClassTimeout:
		return metrics.ResultTimedOut
	}
	return metrics.ResultFailed
}

// call makes the request path's one call.
func (p *requestPath) call(ctx context.Context, order *Order) sight {
	spec := p.specs[order.ID.Kind]
	req, err := http.NewRequestWithContext(ctx, spec.Method, p.baseURL+spec.Path, bytes.NewReader(order.body))
	if err != nil {
		return sight{outcome: jobs.OutcomeNotSent, class: jobs.ClassOther}
	}
	req.Header.Set("Content-Type", spec.ContentType)
	req.Header.Set("X-Correlation-Id", order.Correlation)
	if spec.KeyHeader != "" {
		req.Header.Set(spec.KeyHeader, order.idempotencyKey())
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return sightOfError(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return sightOfAnswer(resp.StatusCode, body, err)
}

func sightOfError(err error) sight {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return sight{outcome: jobs.OutcomeNotSent, class: jobs.ClassConnect}
	case errors.As(err, &timeout) && timeout.Timeout():
		return sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassTimeout}
	}
	return sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassReset} // what it cannot rule out it must assume
}

// sightOfAnswer knows this gateway: what it answers with 429 or 503 it has not acted
// on, and a 402 is final. Redrive, which knows no gateway's word, is more careful.
func sightOfAnswer(status int, body []byte, err error) sight {
	switch {
	case status == http.StatusPaymentRequired, status == http.StatusCreated && err == nil && json.Valid(body):
		return sight{settled: true}
	case status == http.StatusTooManyRequests:
		return sight{outcome: jobs.OutcomeRefused, class: jobs.Class429}
	case status == http.StatusServiceUnavailable:
		return sight{outcome: jobs.OutcomeRefused, class: jobs.Class503}
	case status/100 == 5:
		return sight{outcome: jobs.OutcomeUnknown, class: jobs.Class5xx}
	}
	return sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassOther}
}

// trickle hands over orders that were never attempted, in even portions over span.
func (p *requestPath) trickle(ctx context.Context, orders []Order, span time.Duration) error {
	const portions = 20
	size := max((len(orders)+portions-1)/portions, 1)
	for len(orders) > 0 {
		portion := orders[:min(size, len(orders))]
		orders = orders[len(portion):]
		batch := make([]handover, len(portion))
		for i := range portion {
			batch[i] = handover{order: &portion[i]}
		}
		if err := p.submit(ctx, batch); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(span / portions):
		}
	}
	return nil
}

// handover is an order with what the request path saw of it; nil: nothing.
type handover struct {
	order     *Order
	attempted *jobs.Attempted
}

// submit hands over. A refusal is an error: the rehearsal asks for nothing that
// could be refused.
func (p *requestPath) submit(ctx context.Context, batch []handover) error {
	entries := make([]ledger.Entry, len(batch))
	for i, h := range batch {
		spec := p.specs[h.order.ID.Kind]
		e, err := ledger.Prepare(h.order.submission(h.attempted), spec)
		if err != nil {
			return fmt.Errorf("hand over %s: %w", h.order.ID, err)
		}
		if h.attempted != nil {
			// It failed just now: its retry waits as one of ours would.
			e.Delay = p.backoff(spec)
		}
		entries[i] = e
	}
	for from := 0; from < len(entries); from += ledger.MaxBatch {
		chunk := entries[from:min(from+ledger.MaxBatch, len(entries))]
		var receipts []jobs.Receipt
		err := persist(ctx, func() (err error) {
			receipts, err = p.ledger.Submit(ctx, p.terms, chunk)
			return err
		})
		if err != nil {
			return fmt.Errorf("hand over: %w", err)
		}
		for i, r := range receipts {
			// A duplicate is one whose first answer was lost.
			if r.Answer != jobs.Accepted && r.Answer != jobs.Duplicate {
				why := ""
				if r.Error != nil {
					why = ": " + *r.Error
				}
				return fmt.Errorf("hand over %s: %s%s", r.Operation, r.Answer, why)
			}
			p.mu.Lock()
			p.handed = append(p.handed, *batch[from+i].order)
			p.mu.Unlock()
		}
	}
	return nil
}

// persist does until it works: what is asked of the store here may be asked again,
// and a busy machine can keep it waiting.
func persist(ctx context.Context, do func() error) error {
	const tries = 5
	var err error
	for range tries {
		if err = do(); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (p *requestPath) backoff(spec jobs.KindSpec) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := policy.Backoff{Base: time.Duration(spec.BackoffBaseMS) * time.Millisecond, Cap: time.Duration(spec.BackoffCapMS) * time.Millisecond}
	return b.Delay(1, p.rand.Float64)
}

// accounts returns what was handed over so far, and what was answered.
func (p *requestPath) accounts() (handed, settled []Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.handed), slices.Clone(p.settled)
}
