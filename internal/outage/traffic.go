package outage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// order is what one customer wants.
type order struct {
	n         int // its place among all
	at        time.Duration
	reference string
	body      []byte
}

// drawOrders draws who comes and when: each in a slot of the same length of its own,
// so that every minute has as many. One in [invalidOf] cannot be: no client may ask
// again for that.
func drawOrders(s *Scenario, prefix string, r *rand.Rand) []order {
	end := s.Parts[len(s.Parts)-1].To
	slot := time.Minute / time.Duration(s.PerMin)
	orders := make([]order, int(end/slot))
	for i := range orders {
		o := &orders[i]
		o.n, o.at, o.reference = i, time.Duration((float64(i)+r.Float64())*float64(slot)), fmt.Sprintf("%s%06d", prefix, i+1)
		amount := 100 + r.IntN(90_000)
		if r.IntN(invalidOf) == 0 {
			amount = -1
		}
		o.body = fmt.Appendf(nil, `{"reference":%q,"amount":%d,"currency":"GBP"}`, o.reference, amount)
	}
	return orders
}

// key is what every client sends, and Redrive's default.
func (o *order) key() string { return string(kindCharge) + ":" + o.reference }

// fate is what a client knows of an order.
type fate int

const (
	waiting   fate = iota // the customer has no answer yet
	succeeded             // it knows that the gateway has charged
	refused               // it knows that the gateway will not
	gaveUp
	handedOver // somebody else sees to it
)

// visit is one customer at the till.
type visit struct {
	fate  fate
	came  time.Duration // when the order was taken up
	left  time.Duration // with whatever answer
	ended time.Duration // when its fate was known for good; that of a handed over one is the ledger's word
}

// client is a way to serve customers.
type client interface {
	// serve sees to one order until the customer may go. An error ends the rehearsal.
	serve(ctx context.Context, o *order) (fate, error)
}

// shop is a client with its gateway and its customers.
type shop struct {
	name    Client
	door    *door
	gateway gateway
	client  client
	answers *answers
	visits  []visit // by order; each is written by the goroutine of its customer alone
	served  atomic.Int64
}

// open lets the customers of all shops in, each at its instant, and returns when the
// last has left. It returns ctx's error when that ends first, and a shop's.
func open(ctx context.Context, c clock, shops []*shop, orders []order) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var inside sync.WaitGroup // customers: each ends with its serve, at the latest soon after ctx
	for i := range orders {
		if !c.sleep(ctx, orders[i].at) {
			break
		}
		for _, s := range shops {
			inside.Go(func() {
				v := &s.visits[orders[i].n]
				v.came = c.now()
				fate, err := s.client.serve(ctx, &orders[i])
				if err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("%s: order %s: %w", s.name, orders[i].reference, err))
					return
				}
				v.left = c.now()
				v.fate, v.ended = fate, v.left
				s.served.Add(1)
			})
		}
	}
	inside.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// till calls a gateway for a customer.
type till struct {
	url     string
	http    *http.Client
	answers *answers
}

func newTill(url string, patience time.Duration, way http.RoundTripper, read *answers) *till {
	return &till{url: url + "/v1/charges", http: &http.Client{Timeout: patience, Transport: way}, answers: read}
}

// sockets is the way of redrive's request path: a connection a call, for net/http resends
// on its own when a kept one dies. Closed ones are reset, so that none lingers.
func sockets() *http.Transport {
	dialer := &net.Dialer{}
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok {
			err = tcp.SetLinger(0)
		}
		return c, err
	}}
}

// answer is what came of one call: err says that there is none, or only a part.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func (t *till) call(ctx context.Context, o *order) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(o.body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Correlation-Id", o.reference)
	req.Header.Set("Idempotency-Key", o.key())
	resp, err := t.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	t.answers.note(o.reference, resp.StatusCode)
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return answer{resp.StatusCode, resp.Header, body, err}
}

// stubborn is a client that calls again at once until it has an answer, under the
// same key: layers of tries around tries. It does not know when to stop but by count.
type stubborn struct {
	till   *till
	layers []int // tries of each, outermost first
}

func (s *stubborn) serve(ctx context.Context, o *order) (fate, error) {
	return s.layer(ctx, o, s.layers), ctx.Err()
}

func (s *stubborn) layer(ctx context.Context, o *order, layers []int) fate {
	if len(layers) == 0 {
		switch a := s.till.call(ctx, o); {
		case a.err != nil:
			return gaveUp
		case a.status == http.StatusCreated:
			return succeeded
		case declined(a.status):
			return refused
		}
		return gaveUp
	}
	last := gaveUp
	for range layers[0] {
		if last = s.layer(ctx, o, layers[1:]); last != gaveUp || ctx.Err() != nil {
			break
		}
	}
	return last
}
