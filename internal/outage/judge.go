package outage

import (
	"context"
	"fmt"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// report stops the workers, asks for all accounts and judges.
func (s *stage) report(gate []GateSample) (*Report, error) {
	took := s.clock.now()
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	operations, delays, err := s.redrive.words(ctx)
	if err != nil {
		return nil, err
	}
	from, _ := s.scenario.outage()
	r := &Report{Scenario: s.scenario.Name, Text: s.scenario.Text, Seed: s.o.Seed, Speed: s.o.Speed, Date: s.clock.began.UTC().Truncate(time.Second),
		Store: s.redrive.store.Text(), Gateway: "sandbox", Setting: s.setting(), Parts: s.scenario.Parts, Took: took, Every: every, Outage: from,
		PerMin: s.scenario.PerMin, Gate: gate, Bands: bandsOf(delays, s.redrive.backoff, s.clock)}
	if s.o.Against != "" {
		r.Gateway = s.o.Against
	}
	v := &verdict{Report: r, scenario: s.scenario, clock: s.clock, calls: map[Client][]arrival{}, accounts: map[Client]*Account{}}
	o := observed{end: took, gate: gate}
	for _, sh := range s.shops {
		calls, err := sh.door.settled(ctx)
		if err != nil {
			return nil, err
		}
		entries, err := sh.gateway.entries(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the ledger of the gateway of %s: %w", sh.name, err)
		}
		for i := range sh.visits {
			v.slips = append(v.slips, sh.visits[i].came-s.orders[i].at)
		}
		if sh.name == Redrive {
			told(sh.visits, s.orders, operations, s.clock)
		}
		v.calls[sh.name] = calls
		r.Clients = append(r.Clients, account(evidence{sh.name, s.orders, sh.visits, calls, entries, sh.answers.refused}, s.scenario, took))
		o.see(sh, calls)
	}
	for i := range r.Clients {
		v.accounts[r.Clients[i].Client] = &r.Clients[i]
	}
	r.Alerts = alertsOf(o)
	r.Targets = v.targets()
	return r, nil
}

// see takes in when a client's first attempts and orders ended, and how.
func (o *observed) see(sh *shop, calls []arrival) {
	if sh.name == Redrive {
		seen := map[string]bool{}
		for i := range calls {
			c := &calls[i]
			if seen[c.reference] {
				continue
			}
			seen[c.reference] = true
			o.firsts = append(o.firsts, c.ended)
			if c.failed() {
				o.firstsFailed = append(o.firstsFailed, c.ended)
			}
		}
	}
	var ended, failed []time.Duration
	for i := range sh.visits {
		v := &sh.visits[i]
		if v.fate == waiting {
			continue
		}
		ended = append(ended, v.ended)
		if v.fate == gaveUp {
			failed = append(failed, v.ended)
		}
	}
	switch sh.name {
	case Redrive:
		o.ended, o.failed = ended, failed
	case Naive:
		o.naiveEnded, o.naiveFailed, o.compared = ended, failed, true
	}
}

// words is what the ledger says of every operation, and the waits that were drawn
// before their retries. One after a 429 or 503 is left out: it may hold a hint.
func (r *redrive) words(ctx context.Context) ([]jobs.Operation, []delay, error) {
	page, err := r.ledger.List(ctx, ledger.Filter{Dependencies: []jobs.Dependency{dependency}}, nil)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	delays := append([]delay(nil), r.delays...)
	r.mu.Unlock()
	for i := range page.Items {
		if page.Items[i].Sends < 2 {
			continue // by the request path alone
		}
		d, err := r.ledger.Get(ctx, dependency, page.Items[i].ID(), nil)
		if err != nil {
			return nil, nil, err
		}
		for _, event := range d.Timeline {
			if event.Event == "attempt" && event.N > 1 && event.DelayMS != nil && *event.DelayMS > 0 && event.Class != jobs.Class429 && event.Class != jobs.Class503 {
				delays = append(delays, delay{attempt: event.N, drawn: time.Duration(*event.DelayMS) * time.Millisecond})
			}
		}
	}
	return page.Items, delays, nil
}
