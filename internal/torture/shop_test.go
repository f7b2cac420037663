package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// patience is how long the shop waits for the gateway in its own call.
const patience = 500 * time.Millisecond

// shop hands over orders, each of them again and again, and calls the gateway itself
// for some of them.
type shop struct {
	ledger  *ledger.Ledger // through a link that is cut like those of the workers
	link    *link
	specs   map[jobs.Kind]jobs.KindSpec
	baseURL string
	client  *http.Client
	book    *orderBook
	said    func(string, ...any)

	onlySafe atomic.Bool    // only keyed and natural kinds from now on
	batches  sync.WaitGroup // handovers under way
	room     chan struct{}  // holds a token per handover under way: bounds them

	mu       sync.Mutex // guards what follows
	counts   map[string]int
	breaches []string // answers that must not be
}

// handover is an order on its way to the ledger, once.
type handover struct {
	o          *order
	attempted  *jobs.Attempted
	submission *jobs.Submission
	want       []jobs.Answer
	what       string // for the counts
}

var (
	fresh   = []jobs.Answer{jobs.Accepted, jobs.Duplicate} // a duplicate is one whose first answer was lost
	repeat  = []jobs.Answer{jobs.Duplicate}
	clashes = []jobs.Answer{jobs.Conflict}
)

func (s *shop) count(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what] += n
}

func (s *shop) breach(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaches = append(s.breaches, fmt.Sprintf(format, args...))
}

// trade orders perSecond until ctx ends. What is under way then goes on under life,
// which ends when the shop is given up.
func (s *shop) trade(ctx, life context.Context, perSecond int) {
	began, made, imported := time.Now(), 0, time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := int(time.Since(began).Seconds()*float64(perSecond)) - made
		n = min(n, 2*ledger.MaxBatch) // after a stall it catches up, but not all at once
		byImport := time.Since(imported) > 3*time.Second
		if byImport {
			imported = time.Now()
		}
		select {
		case s.room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		// Drawn once there is room for it: who fills the room knows that nothing drawn
		// before is on its way.
		batch := s.draw(n)
		made += n
		s.batches.Go(func() { // ends when everything was answered, or with life
			defer func() { <-s.room }()
			batch = slices.DeleteFunc(batch, func(h *handover) bool { return !s.prepare(life, h) })
			if byImport {
				s.importLines(life, batch)
			} else {
				s.submit(life, batch)
			}
		})
	}
}

// draw makes n new orders, and repeats a third as many.
func (s *shop) draw(n int) []*handover {
	safe := s.onlySafe.Load()
	var batch []*handover
	for range n {
		batch = append(batch, &handover{o: s.book.next(safe), want: fresh, what: "orders"})
		switch pick(s.book.draw, 67, 25, 3, 5) {
		case 1:
			batch = append(batch, s.again(safe, repeat, "repeated"))
		case 2:
			batch = append(batch, s.again(safe, clashes, "repeated with another amount"))
		case 3:
			batch = append(batch, s.again(safe, repeat, "repeated with another send"))
		}
	}
	return slices.DeleteFunc(batch, func(h *handover) bool { return h == nil })
}

func (s *shop) again(safe bool, want []jobs.Answer, what string) *handover {
	o := s.book.again(safe)
	if o == nil {
		return nil
	}
	return &handover{o: o, want: want, what: what}
}

// prepare makes the shop's own calls and the submission. false: there is nothing to
// hand over.
func (s *shop) prepare(ctx context.Context, h *handover) bool {
	o := h.o
	switch h.what {
	case "orders":
		if o.way == called || o.way == calledSilent {
			at := time.Now()
			saw, class, done := s.call(ctx, o)
			o.mu.Lock()
			o.settled = done
			if o.way == called && !done {
				o.attempted = &jobs.Attempted{ID: o.ref(), Outcome: saw, Class: class, FirstSentAt: at.UTC().Format(time.RFC3339Nano)}
			}
			o.mu.Unlock()
			if done && o.way == called {
				s.count("answered in the shop", 1)
				return false
			}
		}
		h.attempted = o.said()
		h.submission = o.submission(h.attempted)
	case "repeated with another amount":
		h.submission = o.submission(nil)
		h.submission.Body = bytes.Replace(o.body, []byte(`"amount":`), []byte(`"amount":1`), 1)
	case "repeated with another send":
		// A second send of a keyed or natural one is harmless and is made; of the others
		// it is only reported, as one whose request was lost.
		at := time.Now()
		if o.id.Kind == kindKeyed || o.id.Kind == kindNatural {
			s.call(ctx, o)
		}
		h.submission = o.submission(&jobs.Attempted{ID: fmt.Sprintf("%s-%d", o.ref(), at.UnixNano()), Outcome: jobs.OutcomeUnknown,
			Class: jobs.ClassTimeout, FirstSentAt: at.UTC().Format(time.RFC3339Nano)})
	default:
		h.submission = o.submission(o.said())
	}
	return true
}

// call is the shop's own: one connection, one request.
func (s *shop) call(ctx context.Context, o *order) (saw jobs.Outcome, class jobs.Class, done bool) {
	s.count("calls of the shop", 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.baseURL+pathOf[o.id.Kind], bytes.NewReader(o.body))
	if err != nil {
		s.breach("shop: %v", err)
		return jobs.OutcomeNotSent, jobs.ClassOther, false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Correlation-Id", o.ref())
	if o.id.Kind == kindKeyed || o.id.Kind == kindNatural {
		req.Header.Set("Idempotency-Key", o.key())
	}
	resp, err := s.client.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return jobs.OutcomeNotSent, jobs.ClassConnect, false
	}
	if err != nil {
		return jobs.OutcomeUnknown, jobs.ClassTimeout, false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case resp.StatusCode == http.StatusPaymentRequired, resp.StatusCode == http.StatusCreated && err == nil && json.Valid(body):
		return "", "", true
	case resp.StatusCode == http.StatusTooManyRequests: // this gateway has not acted then, and the shop knows it
		return jobs.OutcomeRefused, jobs.Class429, false
	}
	return jobs.OutcomeUnknown, jobs.ClassOther, false
}

// submit hands over through the ledger's own API, until every one is answered.
func (s *shop) submit(ctx context.Context, batch []*handover) {
	for chunk := range slices.Chunk(batch, ledger.MaxBatch) {
		entries := make([]ledger.Entry, len(chunk))
		for i, h := range chunk {
			e, err := ledger.Prepare(h.submission, s.specs[h.o.id.Kind])
			if err != nil {
				s.breach("%s cannot be handed over: %v", h.o.id, err)
				return
			}
			entries[i] = e
		}
		s.until(ctx, func(ctx context.Context) bool {
			touch(chunk)
			receipts, err := s.ledger.Submit(ctx, s.terms(), entries)
			if err != nil {
				s.count("submits without an answer", 1)
				return false
			}
			for i, r := range receipts {
				s.answered(chunk[i], r)
			}
			return true
		})
	}
}

// until repeats do until it is true or ctx ends.
func (s *shop) until(ctx context.Context, do func(context.Context) bool) {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		done := do(try)
		cancel()
		if done {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func touch(batch []*handover) {
	for _, h := range batch {
		h.o.mu.Lock()
		h.o.touchedAt = time.Now()
		h.o.mu.Unlock()
	}
}

func (s *shop) answered(h *handover, r jobs.Receipt) {
	s.count(h.what, 1)
	s.count("answered "+string(r.Answer), 1)
	if slices.Contains(h.want, r.Answer) {
		h.o.mu.Lock()
		h.o.accepted = true
		h.o.mu.Unlock()
		return
	}
	why := ""
	if r.Error != nil {
		why = *r.Error
	}
	h.o.mu.Lock()
	inCut := h.o.inCut
	h.o.mu.Unlock()
	if inCut && r.Answer == jobs.Accepted { // a repeat of what went with the tail
		s.count("accepted again after a cut", 1)
		return
	}
	s.breach("%s, %s: answered %s %s, want %v", h.o.id, h.what, r.Answer, why, h.want)
}

func (s *shop) terms() ledger.SubmitTerms {
	spec := s.specs[kindKeyed]
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return ledger.SubmitTerms{
		Terms: ledger.Terms{Dependency: spec.Dependency, MinResponse: ms(spec.MinResponseMS), Retention: spec.Retention,
			Gate: budget.Params{RatioMilli: spec.BudgetRatioMilli, Cap: spec.BudgetCap, FloorMilliPerSecond: spec.BudgetFloorMilliPerSecond}},
		MaxBacklog: spec.MaxBacklog, ClaimLease: policy.ClaimLease(ms(spec.TimeoutMS)),
	}
}

// importLines hands over through the program, as lines. Only what must be accepted
// or duplicate goes this way: its counts do not tell the lines apart.
func (s *shop) importLines(ctx context.Context, batch []*handover) {
	clash := func(h *handover) bool { return slices.Contains(h.want, jobs.Conflict) }
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	var good, rest []*handover
	for _, h := range batch {
		if clash(h) {
			rest = append(rest, h)
			continue
		}
		good = append(good, h)
		if err := encoder.Encode(h.submission); err != nil {
			s.breach("%s: %v", h.o.id, err)
		}
	}
	s.until(ctx, func(ctx context.Context) bool {
		if len(good) == 0 {
			return true
		}
		touch(good)
		out, words, exit, err := enqueue(ctx, lines.Bytes(), "import", "-", "-o", "json", "--redis", s.link.url(), "--namespace", namespace)
		var counts struct{ Accepted, Duplicate, Conflict, Refused int }
		if err != nil || exit != 0 || json.Unmarshal([]byte(out), &counts) != nil {
			s.count("imports to be repeated", 1)
			if exit != 0 && exit != 6 && ctx.Err() == nil {
				s.said("import: exit %d: %s", exit, words)
			}
			return false
		}
		s.count("imports", 1)
		if n := counts.Accepted + counts.Duplicate; n != len(good) {
			s.breach("import of %d lines: %+v", len(good), counts)
		}
		for _, h := range good {
			h.o.mu.Lock()
			h.o.accepted = true
			h.o.mu.Unlock()
			s.count(h.what, 1)
		}
		return true
	})
	s.submit(ctx, rest)
}
