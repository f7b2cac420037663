package worker

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// plan is a configuration as the worker uses it: worked out once, read by all.
type plan struct {
	dependencies map[jobs.Dependency]*dependency
	retention    jobs.Retention
	specs        []jobs.KindSpec
	grace        time.Duration // of a shutdown
}

// dependency is one outside system as this process is told to treat it.
type dependency struct {
	name    jobs.Dependency
	baseURL string
	timeout time.Duration
	slots   int
	// slowCall: an answer that takes longer is a failure to the breaker; 0: none does.
	slowCall time.Duration
	terms    ledger.Terms
	kinds    map[jobs.Kind]*kind
	known    []jobs.Kind // the keys of kinds, sorted
	rules    *policy.Rules
	told     sync.Map // of string: which rules and results the log has complained about
}

// kind is how operations of one sort are sent by this process.
type kind struct {
	name        jobs.Kind
	target      ledger.Target
	maxAttempts int
	backoff     policy.Backoff
	results     *policy.Results
	inquiry     *config.Inquiry // nil: nobody can be asked
	void        *jobs.VoidSpec  // nil: a late success is kept
	replayed    config.ReplayMark
}

// newPlan takes what submissions are bound to from the same [jobs.KindSpec] that
// is published: two readings of one configuration must not differ, because a
// target that differs makes a resend unsafe.
func newPlan(c *config.Config) (*plan, error) {
	p := &plan{dependencies: map[jobs.Dependency]*dependency{}, specs: c.KindSpecs(), grace: c.ShutdownGrace}
	for name, d := range c.Dependencies {
		p.dependencies[name] = &dependency{
			name: name, baseURL: d.BaseURL, timeout: d.Timeout, slots: d.Slots, slowCall: d.Breaker.SlowCall, kinds: map[jobs.Kind]*kind{}, rules: d.Rules,
			terms: ledger.Terms{
				Dependency:  name,
				Gate:        GateParams(d),
				MinResponse: d.MinResponse, ClaimLease: policy.ClaimLease(d.Timeout),
			},
		}
	}
	for _, s := range p.specs {
		d := p.dependencies[s.Dependency]
		if d == nil {
			return nil, fmt.Errorf("worker options: kind %s belongs to dependency %s, which Config does not name", s.Kind, s.Dependency)
		}
		if s.BaseURL == "" {
			return nil, fmt.Errorf("worker options: base URL of dependency %s still holds a ${...}: resolve the secrets of Config first", s.Dependency)
		}
		written := c.Kinds[s.Kind]
		d.kinds[s.Kind] = &kind{
			name: s.Kind, maxAttempts: s.MaxAttempts, backoff: policy.Backoff{Base: written.Backoff.Base, Cap: written.Backoff.Cap},
			results: written.Results, inquiry: written.Inquiry, void: written.VoidLate, replayed: written.IdempotencyKey.Replayed,
			target: ledger.Target{BaseURL: s.BaseURL, Idempotency: s.Idempotency, KeyHeader: s.KeyHeader,
				KeyWindow: time.Duration(s.KeyWindowMS) * time.Millisecond, ClaimLease: policy.ClaimLease(d.timeout)},
		}
		d.terms.Retention, p.retention = s.Retention, s.Retention
	}
	for _, d := range p.dependencies {
		d.known = slices.Sorted(maps.Keys(d.kinds))
	}
	return p, nil
}

// specOf returns what holds of any kind of a dependency: limits and retention are its own.
func (p *plan) specOf(name jobs.Dependency) jobs.KindSpec {
	at := slices.IndexFunc(p.specs, func(s jobs.KindSpec) bool { return s.Dependency == name })
	if at < 0 {
		return jobs.KindSpec{}
	}
	return p.specs[at]
}

// names returns the dependencies, sorted.
func (p *plan) names() []jobs.Dependency { return slices.Sorted(maps.Keys(p.dependencies)) }

// bindings returns each kind with its dependency.
func (p *plan) bindings() map[jobs.Kind]jobs.Dependency {
	m := make(map[jobs.Kind]jobs.Dependency, len(p.specs))
	for _, s := range p.specs {
		m[s.Kind] = s.Dependency
	}
	return m
}

// kinds returns every kind, sorted.
func (p *plan) kinds() []jobs.Kind { return slices.Sorted(maps.Keys(p.bindings())) }

// termsOf returns the terms of a dependency; for one that the configuration does
// not name only what holds everywhere.
func (p *plan) termsOf(name jobs.Dependency) ledger.Terms {
	if d := p.dependencies[name]; d != nil {
		return d.terms
	}
	return ledger.Terms{Dependency: name, Retention: p.retention}
}
