package jobs

import "time"

// Again is what a decline said of trying the same payment again, under whatever name.
type Again string

// AgainNever says that no attempt may follow, such as after a card network's "do not try
// again". "" says nothing: it may be tried again, within the limits of [NewAttempts].
const AgainNever Again = "never"

// Agains lists what a decline can say.
var Agains = []Again{AgainNever}

// AfterNever is what becomes of a new attempt at a payment that was declined with
// [AgainNever].
type AfterNever string

// The choices.
const (
	AfterNeverRefuse AfterNever = "refuse" // it is refused; the default
	AfterNeverAllow  AfterNever = "allow"  // it is let in, and counted like any other
)

// AfterNevers lists the choices.
var AfterNevers = []AfterNever{AfterNeverRefuse, AfterNeverAllow}

// NewAttempts bounds how often one payment is tried under different names. An
// operation, its new attempts, theirs and so on are one chain.
type NewAttempts struct {
	Limit      int        `json:"limit"`       // operations of one chain that are submitted within WithinMS, the first one included; 1 to [MaxChain]
	WithinMS   int64      `json:"within_ms"`   // the window, which slides
	AfterNever AfterNever `json:"after_never"` // after a decline that forbids another attempt
}

// MaxChain is how many operations one chain may have in all, however old they are.
const MaxChain = 100

// DefaultNewAttempts is the strictest of the limits that the card networks are known
// to have: 10 in 30 days, and none after a decline that forbids it.
var DefaultNewAttempts = NewAttempts{Limit: 10, WithinMS: (720 * time.Hour).Milliseconds(), AfterNever: AfterNeverRefuse}

// NewAttemptTerms is what new attempts of the kind are held to: [DefaultNewAttempts]
// where the kind was published by a worker that did not know of them.
func (s KindSpec) NewAttemptTerms() NewAttempts {
	if s.NewAttempts == (NewAttempts{}) {
		return DefaultNewAttempts
	}
	return s.NewAttempts
}
