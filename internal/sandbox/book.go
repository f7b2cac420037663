package sandbox

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Entry is what the ledger holds of one route and reference.
type Entry struct {
	Route     string `json:"route"` // charges, refunds or voids
	Reference string `json:"reference"`
	// Requests counts the POSTs that arrived, SideEffects how often money moved.
	Requests    int `json:"requests"`
	SideEffects int `json:"side_effects"`
	// Keys are the distinct idempotency keys seen, in order of arrival.
	Keys []string `json:"keys"`
	// Attempts are the Redrive-Attempt headers, one per request in order of
	// arrival, "" where a request had none.
	Attempts []string `json:"attempts"`
	// IDs are the objects that came about, failed ones included.
	IDs     []string  `json:"ids"`
	FirstAt time.Time `json:"first_at"` // arrival of the first request
	LastAt  time.Time `json:"last_at"`  // arrival of the last request
}

// Stats are the totals since the start or the last reset. Each request that
// reached /v1 is in exactly one of Requests, Unread and Inquiries.
type Stats struct {
	Requests     int `json:"requests"`     // POSTs read whole: those of the ledger plus Unreferenced
	Unreferenced int `json:"unreferenced"` // of these, without a usable reference: answered 400, in no entry
	Unread       int `json:"unread"`       // POSTs not read whole (down, too large, broken off by the client): in no entry
	Inquiries    int `json:"inquiries"`    // GETs
	Hits         int `json:"hits"`         // requests of any sort that a fault acted on
	Replays      int `json:"replays"`      // answered from an idempotency key
	SideEffects  int `json:"side_effects"`
	// Seconds are the same by second, in order, without empty ones.
	Seconds []Second `json:"seconds"`
}

// Second is what happened within one second.
type Second struct {
	At          time.Time `json:"at"` // its beginning
	Requests    int       `json:"requests"`
	Unread      int       `json:"unread"`
	Inquiries   int       `json:"inquiries"`
	SideEffects int       `json:"side_effects"`
}

// Object is a charge, refund or void as the gateway shows it.
type Object struct {
	ID        string    `json:"id"`
	Reference string    `json:"reference"`
	Amount    int64     `json:"amount"`
	Currency  string    `json:"currency"`
	Status    string    `json:"status"` // succeeded, or failed after a decline
	Created   time.Time `json:"created"`
}

// Statuses of an object.
const (
	StatusSucceeded = "succeeded"
	StatusFailed    = "failed"
)

// refKey names an entry, idKey an object.
type (
	refKey struct{ route, reference string }
	idKey  struct{ route, id string }
)

// record is an entry with its objects.
type record struct {
	Entry
	objects []Object
}

// keyed is what is known of an idempotency key.
type keyed struct {
	fingerprint [sha256.Size]byte
	usedAt      time.Time
	answer      *answer // nil while its first request is under way
}

// book is everything that a reset clears.
type book struct {
	draws atomic.Uint64 // requests that met a fault: the position in the sequence of draws

	mu      sync.Mutex // guards all below; never held while anything waits
	records map[refKey]*record
	order   []*record // by first arrival
	byID    map[idKey]Object
	keys    map[string]*keyed // across routes, as real gateways do
	totals  Stats             // Seconds unused
	seconds []Second          // in order of At: the clock is read under mu
}

func newBook() *book {
	return &book{records: map[refKey]*record{}, byID: map[idKey]Object{}, keys: map[string]*keyed{}}
}

// second returns the bucket of now. A clock that steps back counts into the
// newest bucket, which keeps them in order. Called with mu held.
func (b *book) second(now time.Time) *Second {
	at := now.Truncate(time.Second)
	if n := len(b.seconds); n == 0 || b.seconds[n-1].At.Before(at) {
		b.seconds = append(b.seconds, Second{At: at})
	}
	return &b.seconds[len(b.seconds)-1]
}

// hit counts a request that a fault acts on.
func (b *book) hit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Hits++
}

// unread counts a request whose body never arrived whole.
func (b *book) unread() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Unread++
	b.second(time.Now().UTC()).Unread++
}

// inquiry counts a GET.
func (b *book) inquiry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Inquiries++
	b.second(time.Now().UTC()).Inquiries++
}

// arrive records a request; one without reference only in the totals.
func (b *book) arrive(q request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UTC()
	b.totals.Requests++
	b.second(now).Requests++
	if q.Reference == "" {
		b.totals.Unreferenced++
		return
	}
	name := refKey{q.route, q.Reference}
	r := b.records[name]
	if r == nil {
		r = &record{Entry: Entry{Route: q.route, Reference: q.Reference, FirstAt: now}}
		b.records[name] = r
		b.order = append(b.order, r)
	}
	r.Requests++
	r.LastAt = now
	r.Attempts = append(r.Attempts, q.attempt)
	if q.key != "" && !slices.Contains(r.Keys, q.key) {
		r.Keys = append(r.Keys, q.key)
	}
}

// claim is what an idempotency key says about a request.
type claim int

const (
	claimFresh  claim = iota // go ahead, then settle the key
	claimReplay              // answered before
	claimInUse               // its first request is under way
	claimReused              // used for other bytes
)

// claimKey looks a request's key up and, when it is fresh, holds it until
// settleKey. Window is as in Options. A replay comes with the first answer.
func (b *book) claimKey(q request, window time.Duration) (claim, *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	k := b.keys[q.key]
	switch {
	case k == nil || k.answer != nil && window > 0 && now.Sub(k.usedAt) >= window:
		b.keys[q.key] = &keyed{fingerprint: q.fingerprint, usedAt: now}
		return claimFresh, nil
	case k.fingerprint != q.fingerprint:
		return claimReused, nil
	case k.answer == nil:
		return claimInUse, nil
	}
	b.totals.Replays++
	return claimReplay, k.answer
}

// settleKey stores the answer that key replays from now on.
func (b *book) settleKey(key string, a *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[key].answer = a
}

var idPrefixes = map[string]string{"charges": "ch", "refunds": "re", "voids": "vo"}

// apply brings the object of an arrived request about, now. Status succeeded is
// a side effect. A unique request whose reference has succeeded before brings
// nothing about: the original is returned, and true.
func (b *book) apply(q request, status string) (o Object, duplicate bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UTC()
	r := b.records[refKey{q.route, q.Reference}]
	if q.unique {
		for _, original := range r.objects {
			if original.Status == StatusSucceeded {
				return original, true
			}
		}
	}
	o = Object{ID: fmt.Sprintf("%s_%d", idPrefixes[q.route], len(b.byID)+1), Reference: q.Reference,
		Amount: q.Amount, Currency: q.Currency, Status: status, Created: now}
	r.objects = append(r.objects, o)
	r.IDs = append(r.IDs, o.ID)
	b.byID[idKey{q.route, o.ID}] = o
	if status == StatusSucceeded {
		r.SideEffects++
		b.totals.SideEffects++
		b.second(now).SideEffects++
	}
	return o, false
}

// find returns the objects of a reference that were made by upTo, oldest first,
// never nil.
func (b *book) find(route, reference string, upTo time.Time) []Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := []Object{}
	if r := b.records[refKey{route, reference}]; r != nil {
		for _, o := range r.objects {
			if !o.Created.After(upTo) {
				found = append(found, o)
			}
		}
	}
	return found
}

// object returns one object by its id, if it was made by upTo.
func (b *book) object(route, id string, upTo time.Time) (Object, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.byID[idKey{route, id}]
	return o, ok && !o.Created.After(upTo)
}

// sideEffects counts those of one reference.
func (b *book) sideEffects(route, reference string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.records[refKey{route, reference}]; r != nil {
		return r.SideEffects
	}
	return 0
}

// entriesFrom copies at most limit entries (0 = all) from position start on.
func (b *book) entriesFrom(start, limit int) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := b.order[min(start, len(b.order)):]
	if limit > 0 && len(rest) > limit {
		rest = rest[:limit]
	}
	entries := make([]Entry, len(rest))
	for i, r := range rest {
		entries[i] = r.copy()
	}
	return entries
}

// entriesOf copies the entries of one reference, one per route that saw it.
func (b *book) entriesOf(reference string) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := []Entry{}
	for _, route := range routes {
		if r := b.records[refKey{route, reference}]; r != nil {
			entries = append(entries, r.copy())
		}
	}
	return entries
}

// copy returns the entry with lists of its own, never nil: JSON shows [] for none.
func (r *record) copy() Entry {
	e := r.Entry
	e.Keys = append([]string{}, e.Keys...)
	e.Attempts = append([]string{}, e.Attempts...)
	e.IDs = append([]string{}, e.IDs...)
	return e
}

func (b *book) statsCopy() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.totals
	st.Seconds = append([]Second{}, b.seconds...)
	return st
}
