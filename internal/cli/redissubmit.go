package cli

import (
	"context"
	"fmt"
	"math/rand/v2"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

func (s *atRedis) submittable(ctx context.Context, name jobs.Kind) (wire.Kind, error) {
	if err := s.fit(ctx); err != nil { // before anything is written, the kind's name included
		return wire.Kind{}, err
	}
	spec, err := s.kind(ctx, name)
	return wire.KindOf(spec), err
}

func (s *atRedis) submit(ctx context.Context, sub *jobs.Submission) (jobs.Receipt, error) {
	spec, err := s.kind(ctx, sub.Kind)
	if err != nil {
		return jobs.Receipt{}, err
	}
	entry, err := prepare(sub, spec)
	if err != nil {
		return jobs.Receipt{}, &refusedError{err}
	}
	more, err := s.warnings(ctx, sub)
	if err != nil {
		return jobs.Receipt{}, err
	}
	entry.Warnings = append(entry.Warnings, more...)
	receipts, err := s.ledger.Submit(ctx, terms.Submit(spec, s.p.by()), []ledger.Entry{entry})
	if err != nil {
		return jobs.Receipt{}, err
	}
	return receipts[0], nil
}

// prepare checks a submission and fixes when its first attempt here is due: at once,
// or a backoff after what the request path sent.
func prepare(sub *jobs.Submission, spec jobs.KindSpec) (ledger.Entry, error) {
	entry, err := ledger.Prepare(sub, spec)
	if err != nil {
		return entry, err
	}
	if a := sub.Attempted; a != nil {
		if a.Outcome == jobs.OutcomeUnknown && spec.BaseURL == "" {
			return entry, &ledger.FieldError{Field: "attempted", Err: fmt.Errorf(
				"where kind %s is sent to is not known here (base_url of dependency %s holds a ${...}): start a worker once, it publishes it", spec.Kind, spec.Dependency)}
		}
		backoff := policy.Backoff{Base: terms.MS(spec.BackoffBaseMS), Cap: terms.MS(spec.BackoffCapMS)}
		entry.Delay = backoff.Delay(max(a.Attempts, 1), rand.Float64)
	}
	return entry, nil
}
