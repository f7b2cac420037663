package wire

import (
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Chain is where an operation stands among the attempts at one payment under several
// names.
type Chain struct {
	TriedAgainAs *jobs.ID `json:"tried_again_as"`
	Number       *int     `json:"number"` // which of them, over the window that ended with it; null: no new attempt, or too long ago
	Limit        *int     `json:"limit"`  // as its kind is configured now
	WithinMS     *int64   `json:"within_ms"`
}

// ChainOf is nil for an operation that stands alone.
func ChainOf(d *ledger.Detail, among ledger.Chain) *Chain {
	if d.NewAttemptOf == nil && among.TriedAgainAs == nil {
		return nil
	}
	c := &Chain{TriedAgainAs: among.TriedAgainAs}
	if among.Number > 0 {
		c.Number, c.Limit, c.WithinMS = &among.Number, &among.Terms.Limit, &among.Terms.WithinMS
	}
	return c
}
