package cli

import (
	"fmt"

	"redrive/internal/jobs"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

// chainText says of which operation one is a new attempt, and which one; "" if of none.
func chainText(c *wire.Chain, of *jobs.ID) string {
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
