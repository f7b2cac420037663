package cli

import (
	"fmt"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
)

// chain is where an operation stands among the attempts at one payment under several
// names, as show tells it.
type chain struct {
	TriedAgainAs *jobs.ID `json:"tried_again_as"`
	Number       *int     `json:"number"` // which of them, over the window that ended with it; null: no new attempt, or too long ago
	Limit        *int     `json:"limit"`  // as its kind is configured now
	WithinMS     *int64   `json:"within_ms"`
}

// chainText returns nil for an operation that stands alone.
func chainText(d *ledger.Detail, among ledger.Chain) *chain {
	if d.NewAttemptOf == nil && among.TriedAgainAs == nil {
		return nil
	}
	c := &chain{TriedAgainAs: among.TriedAgainAs}
	if among.Number > 0 {
		c.Number, c.Limit, c.WithinMS = &among.Number, &among.Terms.Limit, &among.Terms.WithinMS
	}
	return c
}

// text says of which operation it is a new attempt, and which one; "" if of none.
func (c *chain) text(of *jobs.ID) string {
	switch {
	case of == nil:
		return ""
	case c.Number == nil:
		return of.String()
	}
	return fmt.Sprintf("%s (%s of at most %d in %s)", of, ordinal(*c.Number), *c.Limit, terms.MS(*c.WithinMS))
}

func nameOf(id *jobs.ID) string {
	if id == nil {
		return ""
	}
	return id.String()
}

func ordinal(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}

// adviseChain replaces what would send a dead letter again where that is not allowed:
// its payment went on under another name, or must not be tried again.
func adviseChain(o shown) []string {
	if o.Applied == jobs.AppliedUnknown {
		return o.Next // first it must be known
	}
	discard := fmt.Sprintf("enqueue dlq discard %s --note WHY", o.ID())
	switch {
	case o.Chain != nil && o.Chain.TriedAgainAs != nil:
		return []string{fmt.Sprintf("nothing: its payment was tried again as %s, so it is not sent again; to clear it away:", o.Chain.TriedAgainAs), discard}
	case deref(o.Again) == jobs.AgainNever:
		return []string{"its decline forbids another attempt, under whatever name: ask the customer for another way to pay, and:", discard}
	}
	return o.Next
}
