package rehearsal

import (
	"context"

	"redrive/internal/jobs"
	"redrive/internal/metrics"
)

// Store is the embedded store of whoever opened it: a redis-server of its own, or
// miniredis in memory.
type Store struct{ s *store }

// OpenStore starts a store as chosen. It blocks until the store answers, for some
// seconds at most, and returns an error that says why it does not.
func OpenStore(ctx context.Context, choice StoreChoice) (*Store, error) {
	s, err := openStore(ctx, choice)
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// URL is where the store answers, as [ledger.Connect] takes it.
func (s *Store) URL() string { return s.s.url }

// Text says what the store is, for people.
func (s *Store) Text() string { return s.s.name + ": " + s.s.note }

// Close ends the store and removes what it kept.
func (s *Store) Close() error { return s.s.close() }

// Sight is what a request path may say of a call that it made to the sandbox itself.
type Sight struct {
	Settled bool           // the customer has an answer: there is nothing to hand over
	Outcome jobs.Outcome   // where it is not settled
	Class   jobs.Class     // likewise
	Result  metrics.Result // how it counts for the budget
}

func (s sight) seen() Sight {
	return Sight{Settled: s.settled, Outcome: s.outcome, Class: s.class, Result: s.result()}
}

// SightOfError is for a call without an answer.
func SightOfError(err error) Sight { return sightOfError(err).seen() }

// SightOfAnswer is for an answer; err is what cut its body short.
func SightOfAnswer(status int, body []byte, err error) Sight {
	return sightOfAnswer(status, body, err).seen()
}
