package sandbox

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the settings of a sandbox. The zero value is good.
type Options struct {
	// Seed starts the sequence of draws that decides which requests a fault hits
	// and how. The same seed draws the same sequence; requests take from it in
	// the order in which they arrive.
	Seed uint64
	// IdempotencyWindow is how long an idempotency key is remembered from its
	// first use; 0 = for ever. After it the same key is a new request, and a new
	// side effect.
	IdempotencyWindow time.Duration
	// HonourKeys says whether idempotency keys are honoured; nil = true. When
	// false they are recorded in the ledger and have no other effect.
	HonourKeys *bool
	// Logger gets what net/http has to say about broken connections; nil = silent.
	Logger *slog.Logger
}

// Sandbox is a payment gateway that misbehaves on demand. All methods are safe
// for concurrent use.
type Sandbox struct {
	honourKeys bool
	window     time.Duration
	seed       uint64
	logger     *slog.Logger
	handler    http.Handler

	fault armedSlot
	book  atomic.Pointer[book] // swapped as a whole by Reset: a request keeps the book it arrived in
	life  atomic.Pointer[life] // replaced when serving starts again after Stop

	mu  sync.Mutex // guards run, and the replacement of life
	run *run       // what is served now; nil when nothing is
}

// New returns a sandbox with an empty ledger and no fault. It serves nothing by
// itself: see [Sandbox.Listen], [Sandbox.Serve] and [Sandbox.Handler]. A
// negative window is a caller's bug and panics.
func New(o Options) *Sandbox {
	if o.IdempotencyWindow < 0 {
		panic("sandbox: Options.IdempotencyWindow is negative")
	}
	s := &Sandbox{honourKeys: o.HonourKeys == nil || *o.HonourKeys, window: o.IdempotencyWindow, seed: o.Seed, logger: o.Logger}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.life.Store(newLife())
	s.Reset()
	s.handler = s.newMux()
	return s
}

// SetFault replaces the fault in force. Requests that were hit by the old one
// are finished its way. It returns an error, and changes nothing, when f has an
// unknown mode or a field out of range.
func (s *Sandbox) SetFault(f Fault) error {
	f, err := f.filled()
	if err != nil {
		return err
	}
	s.fault.arm(f, time.Now())
	return nil
}

// Fault returns the fault in force with its defaults filled in and, in For, how
// long it still lasts.
func (s *Sandbox) Fault() Fault { return s.fault.inForce(time.Now()) }

// Ledger returns a copy of the ledger: one entry per route and reference, in the
// order in which they first arrived.
func (s *Sandbox) Ledger() []Entry { return s.book.Load().entriesFrom(0, 0) }

// SideEffects returns how often money moved so far for a reference of a route
// (charges, refunds or voids).
func (s *Sandbox) SideEffects(route, reference string) int {
	return s.book.Load().sideEffects(route, reference)
}

// Stats returns a copy of the totals.
func (s *Sandbox) Stats() Stats { return s.book.Load().statsCopy() }

// Reset clears the ledger, the objects, the idempotency keys and the totals, ends
// the fault and starts the sequence of draws anew. What a request that is still
// under way brings about is lost with the old ledger.
func (s *Sandbox) Reset() {
	s.fault.arm(Fault{Mode: None}, time.Now())
	s.book.Store(newBook())
}
