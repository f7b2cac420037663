package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/remote"
)

// maxNamed operations are named by one request.
const maxNamed = 1000

// bulkDone is what a bulk action came to, as the server tells it.
type bulkDone struct {
	Batch   *string           `json:"batch"`
	Chosen  int               `json:"chosen"`
	More    bool              `json:"more"` // as many were chosen as one request takes
	Over    bool              `json:"over"` // false: it goes on in the worker
	Items   []operator.Result `json:"items"`
	Canary  *operator.Canary  `json:"canary"`
	DryRun  *operator.DryRun  `json:"dry_run"`
	Problem *remote.Problem   `json:"problem"`
}

// parts joins what several requests of one command came to.
type parts struct {
	report  operator.Report
	batches []string
}

// end is the report of all. An error of the first of them means that nothing was done;
// one of a later is what the whole ended early with.
func (a *parts) end(p *program, err error) (operator.Report, error) {
	if len(a.batches) > 1 {
		p.say("a server takes so many only in parts: batches %s", strings.Join(a.batches, ", "))
	}
	var told *failure
	if err != nil && len(a.report.Results) > 0 && !errors.As(err, &told) {
		a.report.Failed, err = err, nil
	}
	return a.report, err
}

// inParts acts on n things that are named, as many at a time as a request takes.
func (s *atServer) inParts(ctx context.Context, verb string, n int, order operator.Order, build func(from, to int) any, route ...string) (operator.Report, error) {
	all := parts{report: operator.Report{Action: verb}}
	for from := 0; from < n; from += maxNamed {
		_, err := s.part(ctx, &all, verb, order, build(from, min(from+maxNamed, n)), route...)
		if err != nil || all.report.Failed != nil {
			return all.end(s.p, err)
		}
	}
	return all.end(s.p, nil)
}

// part makes one request and adds what it came to.
func (s *atServer) part(ctx context.Context, all *parts, verb string, order operator.Order, body any, route ...string) (more bool, err error) {
	var done bulkDone
	if err := s.postUpTo(ctx, maxReportBytes, &done, body, route...); err != nil {
		return false, ifOpen(err, openBulk)
	}
	if !done.Over {
		if done.Batch == nil {
			return false, s.client.Strange("its answer names no batch to follow")
		}
		if done, err = s.await(ctx, *done.Batch, done, order); err != nil {
			return false, err
		}
	}
	r := &all.report
	r.Action = verb
	r.Results = append(r.Results, done.Items...)
	if done.Batch != nil {
		all.batches = append(all.batches, *done.Batch)
		if r.Batch == "" {
			r.Batch = *done.Batch
		}
	}
	if done.Canary != nil {
		r.Canary = done.Canary
	}
	r.Failed = s.failed(done.Problem, done.Canary)
	return done.More, nil
}

// failed is what an action ended early with, as it would have on Redis itself.
func (s *atServer) failed(p *remote.Problem, canary *operator.Canary) error {
	switch {
	case p == nil:
		return nil
	case p.Name() == remote.NotInState && canary != nil && canary.Failed != "":
		return &operator.CanaryError{Why: canary.Failed, Untouched: canary.Untouched}
	case p.Name() == remote.NotInState:
		return operator.ErrStopped
	}
	p.Server = s.client.Server()
	return p
}

const (
	outcomeLooks = 5
	outcomeEvery = 200 * time.Millisecond
)

// awaitEvery is how often it is asked how far an action in the worker is.
const awaitEvery = time.Second

// await follows an action that goes on in the worker to its end.
func (s *atServer) await(ctx context.Context, id string, begun bulkDone, order operator.Order) (bulkDone, error) {
	told := false
	for {
		b, err := s.batch(ctx, id)
		if err != nil {
			return begun, s.goesOn(ctx, id, err)
		}
		switch b.Phase {
		case ledger.PhaseCanary:
			if !told && b.Operations > 0 && order.ProgressFunc != nil {
				told = true
				order.ProgressFunc(operator.Progress{Batch: id, Planned: b.Planned, Acted: b.Operations, Waiting: true, Canaries: b.Operations})
			}
		case ledger.PhaseRunning:
		default:
			return s.outcome(ctx, b, begun)
		}
		if err := sleep(ctx, awaitEvery); err != nil {
			return begun, s.goesOn(ctx, id, err)
		}
	}
}

// goesOn tells that an action is not followed any more, and how to.
func (s *atServer) goesOn(ctx context.Context, id string, err error) error {
	note := fmt.Sprintf("batch %s goes on in the worker: enqueue batch show %s --watch follows it, batch stop takes a requeue back", id, id)
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return &failure{exitError, errors.New("interrupted; " + note)}
	}
	return &noted{err, note}
}

// outcome asks what came of an action that is over. Only the worker that did it knows;
// where another answers, or it was started anew, there are the counts of the batch.
func (s *atServer) outcome(ctx context.Context, b *operator.BatchProgress, begun bulkDone) (bulkDone, error) {
	var done bulkDone
	var err error
	for range outcomeLooks { // it is written down a moment after the batch is over
		if err = s.getUpTo(ctx, maxReportBytes, &done, nil, "batches", b.ID, "outcome"); err == nil {
			done.More = begun.More
			return done, nil
		}
		if !remote.Is(err, remote.NotFound) || sleep(ctx, outcomeEvery) != nil {
			break
		}
	}
	if !remote.Is(err, remote.NotFound) {
		return begun, &noted{err, fmt.Sprintf("batch %s is over: enqueue batch show %s tells of it", b.ID, b.ID)}
	}
	code := exitOK
	switch {
	case b.Phase == ledger.PhaseCanaryFailed, b.Phase == ledger.PhaseStopped:
		code = exitConflict
	case b.Operations < b.Planned:
		code = exitPartly
	}
	s.p.say("batch %s is over, phase %s: %d of %d acted on; another worker did it, so what was refused and why stands in enqueue audit alone", b.ID, b.Phase, b.Operations, b.Planned)
	return begun, &failure{code: code}
}
