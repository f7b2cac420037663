package outage

import (
	"context"
	"time"
)

// Progress is how far a rehearsal is, on the scenario's clock.
type Progress struct {
	At, Took time.Duration // Took: how long it will take but for the rest in which the backlog leaves
	Part     string        // as in [Part]; "drain" after the last one
	Calls    map[Client]int
	Tokens   float64
	Breaker  string
	Backlog  int64 // operations of redrive that have not ended
}

// watch reads the gate each [every] and shows how it goes, until ctx ends or done is
// closed and nothing is open any more, or limit has come.
func (s *stage) watch(ctx context.Context, done <-chan struct{}, limit time.Duration) ([]GateSample, error) {
	var samples []GateSample
	over := false
	for n := 1; ; n++ {
		if !s.clock.sleep(ctx, time.Duration(n)*every) {
			return samples, ctx.Err()
		}
		var sample GateSample
		err := persist(ctx, func() (err error) {
			sample, err = s.sample(ctx)
			return err
		})
		if err != nil {
			return samples, err
		}
		n = max(n, int(sample.At/every)) // a reading that took long must not be followed by a burst
		samples = append(samples, sample)
		if s.o.ShowFunc != nil {
			s.o.ShowFunc(s.progress(&sample))
		}
		select {
		case <-done:
			over = true
		default:
		}
		if over && (sample.Backlog == 0 || sample.At > limit) {
			return samples, nil
		}
	}
}

func (s *stage) progress(sample *GateSample) Progress {
	p := Progress{At: sample.At, Took: s.scenario.end(), Part: "drain", Calls: map[Client]int{}, Tokens: sample.Tokens, Breaker: sample.Breaker, Backlog: sample.Backlog}
	for _, part := range s.scenario.Parts {
		if sample.At >= part.From && sample.At < part.To {
			p.Part = part.Name
		}
	}
	for _, shop := range s.shops {
		p.Calls[shop.name] = shop.door.count()
	}
	return p
}

// sample reads the gate at this instant.
func (s *stage) sample(ctx context.Context) (GateSample, error) {
	g, err := s.redrive.ledger.Gate(ctx, dependency)
	if err != nil {
		return GateSample{}, err
	}
	counts, err := s.redrive.ledger.Counts(ctx, dependency)
	if err != nil {
		return GateSample{}, err
	}
	sample := GateSample{At: s.clock.now(), Tokens: float64(g.Gate.TokensMilli) / 1000, Breaker: string(g.Gate.State), Held: map[string]int64{}}
	for _, c := range counts {
		if !c.State.Ended() {
			sample.Backlog += c.N
		}
	}
	for hold, n := range g.HeldBy() { // as the metric held_operations has it
		if n > 0 {
			sample.Held[string(hold)] = n
		}
	}
	sample.Refused, err = s.redrive.refusals()
	return sample, err
}

// refusals are the retries that were refused so far by reason, as the workers' own
// metric counts them.
func (r *redrive) refusals() (map[string]int64, error) {
	families, err := r.metrics.Gatherer().Gather()
	if err != nil {
		return nil, err
	}
	refused := map[string]int64{}
	for _, f := range families {
		if f.GetName() != "redrive_retries_refused_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if n := int64(m.GetCounter().GetValue()); l.GetName() == "reason" && n > 0 {
					refused[l.GetValue()] += n
				}
			}
		}
	}
	return refused, nil
}
