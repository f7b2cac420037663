package torture

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"redrive/internal/jobs"
)

// The kinds, one of each class.
const (
	kindNone        jobs.Kind = "payout"
	kindConditional jobs.Kind = "invoice"
	kindKeyed       jobs.Kind = "charge"
	kindNatural     jobs.Kind = "void"
)

var classOf = map[jobs.Kind]jobs.Idempotency{kindNone: jobs.IdempotencyNone, kindConditional: jobs.IdempotencyConditional,
	kindKeyed: jobs.IdempotencyKeyed, kindNatural: jobs.IdempotencyNatural}

// paths of the gateway; its ledger knows them by route.
var (
	pathOf = map[jobs.Kind]string{kindNone: "/v1/charges", kindConditional: "/v1/charges?duplicates=reject",
		kindKeyed: "/v1/charges", kindNatural: "/v1/voids"}
	routeOf = map[jobs.Kind]string{kindNone: "charges", kindConditional: "charges", kindKeyed: "charges", kindNatural: "voids"}
)

// way is how an order comes to the ledger.
type way int

const (
	unattempted  way = iota
	hurried          // never attempted, with little time left
	called           // the shop called the gateway, and hands over what it could not finish
	calledSilent     // the shop called and forgot: only for conditional kinds, whose gateway rejects the second
	saysRefused      // the shop says so, and sent nothing
	saysNotSent      // the same
	saysUnknown      // the shop says so; its request was lost before it arrived
	numberOfWays     // how many there are
)

// order is one operation as the shop means it. Its name is also its reference at the
// gateway and its correlation id.
type order struct {
	id       jobs.ID
	body     []byte
	deadline string
	way      way

	mu        sync.Mutex // guards what follows
	attempted *jobs.Attempted
	accepted  bool
	settled   bool      // the shop's own call was answered: nothing was handed over
	touchedAt time.Time // last handed over
	inCut     bool      // perhaps inside a tail that was cut off
}

func (o *order) ref() string { return string(o.id.Key) }

func (o *order) key() string { return string(o.id.Kind) + ":" + string(o.id.Key) }

// submission is the order as it is handed over, with what the shop says of its calls.
func (o *order) submission(attempted *jobs.Attempted) *jobs.Submission {
	s := &jobs.Submission{Kind: o.id.Kind, Key: o.id.Key, Body: o.body, Deadline: o.deadline, CorrelationID: o.ref(), Attempted: attempted}
	if attempted != nil {
		s.IdempotencyKey = o.key()
	}
	return s
}

func (o *order) said() *jobs.Attempted {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.attempted
}

// orderBook has everything that was ever ordered.
type orderBook struct {
	mu   sync.Mutex // guards all
	all  []*order
	draw *rand.Rand // only the shop's own goroutine uses it
}

// next draws one order, of any class or only of those that a rollback cannot double.
func (b *orderBook) next(onlySafe bool) *order {
	r := b.draw
	kind := []jobs.Kind{kindNone, kindConditional, kindKeyed, kindNatural}[r.IntN(4)]
	w := []way{unattempted, hurried, called, saysRefused, saysNotSent, saysUnknown, calledSilent}[pick(r, 52, 10, 20, 4, 4, 6, 4)]
	if onlySafe && kind != kindNatural {
		kind = kindKeyed
	}
	if w == calledSilent && kind != kindConditional {
		w = unattempted
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	name := fmt.Sprintf("%s-%06d", kind, len(b.all)+1)
	o := &order{id: jobs.ID{Kind: kind, Key: jobs.Key(name)}, way: w}
	o.body = fmt.Appendf(nil, `{"reference":%q,"amount":%d,"currency":"GBP"}`, name, 100+r.IntN(90_000))
	if w == hurried {
		o.deadline = (time.Second + time.Duration(r.IntN(5000))*time.Millisecond).String()
	}
	switch now := time.Now().UTC().Format(time.RFC3339Nano); w {
	case saysRefused:
		o.attempted = &jobs.Attempted{ID: name, Outcome: jobs.OutcomeRefused, Class: jobs.Class503, FirstSentAt: now}
	case saysNotSent:
		o.attempted = &jobs.Attempted{ID: name, Outcome: jobs.OutcomeNotSent, Class: jobs.ClassConnect, FirstSentAt: now}
	case saysUnknown:
		o.attempted = &jobs.Attempted{ID: name, Outcome: jobs.OutcomeUnknown, Class: jobs.ClassTimeout, FirstSentAt: now}
	}
	b.all = append(b.all, o)
	return o
}

// pick draws an index by weight.
func pick(r *rand.Rand, weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := r.IntN(sum)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	panic("torture: unreachable, n is below the sum")
}

// again draws an order that was accepted before; nil when there is none, or chance
// found none.
func (b *orderBook) again(onlySafe bool) *order {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range 20 {
		if len(b.all) == 0 {
			return nil
		}
		o := b.all[b.draw.IntN(len(b.all))]
		o.mu.Lock()
		fit := o.accepted
		o.mu.Unlock()
		if fit && (!onlySafe || o.id.Kind == kindKeyed || o.id.Kind == kindNatural) {
			return o
		}
	}
	return nil
}

func (b *orderBook) list() []*order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*order(nil), b.all...)
}
