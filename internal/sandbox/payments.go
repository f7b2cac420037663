package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// routes are the resources of the gateway, the last part of their path.
var routes = []string{"charges", "refunds", "voids"}

// Codes of errors.
const (
	codeInvalid     = "invalid_request"
	codeTooLarge    = "request_too_large"
	codeNotFound    = "not_found"
	codeKeyInUse    = "idempotency_key_in_use"
	codeKeyReused   = "idempotency_key_reused"
	codeDeclined    = "card_declined"
	codeDuplicate   = "duplicate_reference"
	codeRateLimited = "rate_limited"
	codeUnavailable = "unavailable"
	codeInternal    = "internal_error"
	codeBadGateway  = "bad_gateway"
)

func (s *Sandbox) newMux() http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		path := "/v1/" + route
		mux.HandleFunc("POST "+path, s.lived(func(w http.ResponseWriter, r *http.Request, l *life) { s.create(w, r, l, route) }))
		mux.HandleFunc("GET "+path, s.lived(func(w http.ResponseWriter, r *http.Request, l *life) { s.inquire(w, r, l, listed(route)) }))
		mux.HandleFunc("GET "+path+"/{id}", s.lived(func(w http.ResponseWriter, r *http.Request, l *life) { s.inquire(w, r, l, shown(route)) }))
	}
	s.addAdmin(mux)
	return mux
}

// Handler returns the gateway as a handler, for servers of one's own. Faults take
// connections over, so behind HTTP/2 a cut becomes a stream reset.
func (s *Sandbox) Handler() http.Handler { return s.handler }

// lived runs h inside the present life, so that Stop can end and await it.
func (s *Sandbox) lived(h func(http.ResponseWriter, *http.Request, *life)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l := s.life.Load()
		if !l.enter() {
			cut(w, true)
			return
		}
		defer l.busy.Done()
		h(w, r, l)
	}
}

// draw decides what becomes of the request that has just arrived.
func (s *Sandbox) draw(b *book) plan {
	now := time.Now()
	a := s.fault.at(now)
	if a == nil {
		return plan{}
	}
	return a.plan(dice(s.seed, b.draws.Add(1)), now)
}

// create serves a POST. The order is that of the promises the ledger makes:
// recorded once read, before the fault acts; at most one effect per honoured key.
func (s *Sandbox) create(w http.ResponseWriter, r *http.Request, l *life, route string) {
	b := s.book.Load()
	p := s.draw(b)
	if p.hit {
		b.hit()
	}
	if p.act == drop {
		b.unread()
		l.pause(p.before)
		cut(w, true)
		return
	}
	q, err := readRequest(w, r, route)
	if err != nil {
		b.unread()
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			errorAnswer(http.StatusRequestEntityTooLarge, codeTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBodyBytes)).write(w)
			return
		}
		cut(w, true) // the client broke off
		return
	}
	b.arrive(q)

	if !l.pause(p.before) {
		cut(w, true)
		return
	}
	if turnedAway(w, p) {
		return
	}
	if q.invalid != nil {
		deliver(w, p, errorAnswer(http.StatusBadRequest, codeInvalid, q.invalid.Error()))
		return
	}
	a := s.execute(l, b, p, q)
	if l.isOver() {
		cut(w, true)
		return
	}
	deliver(w, p, a)
}

// execute applies a request unless its key says otherwise, and waits the plan's
// time after the effect: until then the key is in use.
func (s *Sandbox) execute(l *life, b *book, p plan, q request) *answer {
	keyed := s.honourKeys && q.key != ""
	if keyed {
		if a := claimed(b.claimKey(q, s.window)); a != nil {
			l.pause(p.after)
			return a
		}
	}
	a := applied(b, p, q)
	l.pause(p.after)
	if keyed {
		b.settleKey(q.key, a) // also when the pause was broken off: what is applied stays applied
	}
	return a
}

// applied applies a request and returns the answer to it.
func applied(b *book, p plan, q request) *answer {
	status := StatusSucceeded
	if p.act == decline {
		status = StatusFailed
	}
	o, duplicate := b.apply(q, status)
	switch {
	case duplicate:
		return errorAnswer(http.StatusConflict, codeDuplicate, fmt.Sprintf("this reference has succeeded before, as %s", o.ID))
	case p.act == decline:
		return errorAnswer(http.StatusPaymentRequired, codeDeclined, "the card was declined")
	}
	return jsonAnswer(http.StatusCreated, o)
}

// claimed returns the answer to a request whose key is not fresh, else nil.
func claimed(c claim, first *answer) *answer {
	switch c {
	case claimInUse:
		return errorAnswer(http.StatusConflict, codeKeyInUse, "a request with this idempotency key is under way")
	case claimReused:
		return errorAnswer(http.StatusUnprocessableEntity, codeKeyReused, "this idempotency key was used for another request")
	case claimReplay:
		replay := *first
		replay.replayed = true
		return &replay
	}
	return nil
}

// turnedAway answers a request that the plan does not let in.
func turnedAway(w http.ResponseWriter, p plan) bool {
	switch p.act {
	case reset:
		cut(w, true)
	case refuse:
		a := errorAnswer(p.status, codeInternal, "something went wrong")
		switch p.status {
		case http.StatusTooManyRequests:
			a = errorAnswer(p.status, codeRateLimited, "too many requests")
		case http.StatusServiceUnavailable:
			a = errorAnswer(p.status, codeUnavailable, "please try again later")
		}
		if p.status != http.StatusInternalServerError {
			a.retryAfter = p.retryAfter
		}
		a.write(w)
	case garble:
		if p.garbage != htmlPage {
			return false
		}
		writeGarbage(w, nil, htmlPage)
	default:
		return false
	}
	return true
}

// deliver answers, or fails to, as planned.
func deliver(w http.ResponseWriter, p plan, a *answer) {
	switch p.act {
	case lose:
		cut(w, p.abort)
	case badGateway:
		errorAnswer(http.StatusBadGateway, codeBadGateway, "no answer from upstream").write(w)
	case garble:
		writeGarbage(w, a, p.garbage)
	default:
		a.write(w)
	}
}

// inquire serves a GET, under the same faults as a POST but for decline. The
// answer is made before the wait: a slow one can be out of date, and one under
// a read lag is.
func (s *Sandbox) inquire(w http.ResponseWriter, r *http.Request, l *life, look func(*book, *http.Request, time.Time) *answer) {
	b := s.book.Load()
	p := s.draw(b)
	if p.act == decline {
		p = plan{}
	}
	if p.hit {
		b.hit()
	}
	b.inquiry()
	if !l.pause(p.before) || p.act == drop {
		cut(w, true)
		return
	}
	if turnedAway(w, p) {
		return
	}
	now := time.Now()
	a := look(b, r, now.Add(-s.fault.readLag(now)))
	if !l.pause(p.after) {
		cut(w, true)
		return
	}
	deliver(w, p, a)
}

// listed answers GET /v1/ROUTE?reference=R.
func listed(route string) func(*book, *http.Request, time.Time) *answer {
	return func(b *book, r *http.Request, upTo time.Time) *answer {
		reference := r.URL.Query().Get("reference")
		if reference == "" {
			return errorAnswer(http.StatusBadRequest, codeInvalid, "reference: must be given and not empty")
		}
		return jsonAnswer(http.StatusOK, struct {
			Data []Object `json:"data"`
		}{b.find(route, reference, upTo)})
	}
}

// shown answers GET /v1/ROUTE/{id}.
func shown(route string) func(*book, *http.Request, time.Time) *answer {
	return func(b *book, r *http.Request, upTo time.Time) *answer {
		o, ok := b.object(route, r.PathValue("id"), upTo)
		if !ok {
			return errorAnswer(http.StatusNotFound, codeNotFound, fmt.Sprintf("no such object among the %s", route))
		}
		return jsonAnswer(http.StatusOK, o)
	}
}
