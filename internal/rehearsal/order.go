package rehearsal

import (
	"fmt"
	"math/rand/v2"
	"time"

	"redrive/internal/jobs"
)

// way is how an order comes to the ledger.
type way int

const (
	neverAttempted way = iota // handed over before anything was sent
	timedOut                  // the request path's own call had no answer
	refused                   // the request path's own call was turned away
)

// Order is what somebody asked the shop for: the judge holds both accounts against
// it.
type Order struct {
	ID          jobs.ID
	Route       string // of the gateway: charges or voids
	Reference   string // under which the gateway's ledger knows it
	Correlation string // on every request of it, whoever sends it
	Keyed       bool   // every request of it must carry the same idempotency key

	way      way
	deadline time.Duration // 0: the kind's
	body     []byte
}

// The kinds of a rehearsal, one of each idempotency class that can be played
// against the sandbox.
const (
	kindCharge jobs.Kind = "charge" // keyed
	kindVoid   jobs.Kind = "void"   // natural
	// Both none: a charge stands in for them, without a key.
	kindPayout   jobs.Kind = "payout"   // the gateway is asked what became of it
	kindTransfer jobs.Kind = "transfer" // nobody can be asked
)

// tightDeadline is that of the few operations which cannot wait for a gateway to
// come back: so that there is something to be late for.
const tightDeadline = 3 * time.Second

// orderSource is what the orders of a seed are drawn from.
func orderSource(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// drawOrders makes n orders: half never attempted, three in ten timed out, two
// in ten refused; of twenty fourteen are charges, three payouts, two voids, one a
// transfer. The same source draws the same ones.
func drawOrders(n int, r *rand.Rand) []Order {
	orders := make([]Order, n)
	for i := range orders {
		w := neverAttempted
		switch i % 10 {
		case 1, 4, 7:
			w = timedOut
		case 2, 8:
			w = refused
		}
		orders[i] = drawOrder(i, w, r)
	}
	return orders
}

func drawOrder(i int, w way, r *rand.Rand) Order {
	kind, route, name := kindCharge, "charges", "order"
	switch r.IntN(20) {
	case 0, 1:
		kind, route, name = kindVoid, "voids", "void"
	case 2, 3, 4:
		kind, name = kindPayout, "payout"
	case 5:
		kind, name = kindTransfer, "transfer"
	}
	order := Order{Route: route, Reference: fmt.Sprintf("%s-%05d", name, i+1), Correlation: fmt.Sprintf("demo-%05d", i+1),
		Keyed: kind == kindCharge || kind == kindVoid, way: w}
	order.ID = jobs.ID{Kind: kind, Key: jobs.Key(order.Reference)}
	if w == neverAttempted && r.IntN(10) == 0 {
		order.deadline = tightDeadline
	}
	order.body = fmt.Appendf(nil, `{"reference":%q,"amount":%d,"currency":"GBP"}`, order.Reference, 100+r.IntN(90_000))
	if kind == kindVoid {
		order.body = fmt.Appendf(nil, `{"reference":%q}`, order.Reference)
	}
	return order
}

// submission is the order as it is handed over.
func (order *Order) submission(attempted *jobs.Attempted) *jobs.Submission {
	s := &jobs.Submission{Kind: order.ID.Kind, Key: order.ID.Key, Body: order.body, CorrelationID: order.Correlation, Attempted: attempted}
	if order.deadline > 0 {
		s.Deadline = order.deadline.String()
	}
	if attempted != nil && order.Keyed {
		s.IdempotencyKey = order.idempotencyKey()
	}
	return s
}

// idempotencyKey is what the request path sends, and Redrive's default.
func (order *Order) idempotencyKey() string {
	return string(order.ID.Kind) + ":" + string(order.ID.Key)
}
