package world

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// What a gateway is taken to do, and what the configuration of the kinds allows for.
const (
	timeout     = time.Second
	minResponse = 150 * time.Millisecond
	settle      = 10 * time.Second // of inquiries
	giveUp      = 2 * time.Minute
	keyWindow   = time.Minute

	// processing is how long after the claim's lease, or a report, a gateway decides at
	// the latest; lag is how old what an inquiry shows may be: together they fit in settle.
	processing = 7500 * time.Millisecond
	lag        = 2 * time.Second
	// frozenFor is how long the records that inquiries see may stand still, once in a
	// world: with lag it is less than the time between two not-founds.
	frozenFor = 7 * time.Second
)

// state is what became of one request at the gateway.
type state string

const (
	travelling state = "travelling"
	lost       state = "lost"     // it never arrived
	deciding   state = "deciding" // it arrived; inquiries do not show it
	pending    state = "pending"  // it was taken for later (202); inquiries show it, unless hidden
	acted      state = "acted"
	declined   state = "declined" // not acted; inquiries show it as failed
	turnedAway state = "turned away"
)

func (s state) mayAct() bool {
	return s == travelling || s == deciding || s == pending || s == acted
}

// send is one request to the gateway, from its first byte on.
type send struct {
	op        *operation
	number    int    // of the gateway's requests for the operation, from 1
	ours      bool   // else of the request path
	base      string // where it went; what it does there the other one does not know
	key, body string
	at        time.Time // first byte
	leaseEnd  time.Time // of the claim; of the request path: when it gave up
	known     int       // event in which the ledger came to know of it; 0: it does not
	settled   string    // who said that it did not act; "": nobody
	notFounds int

	state   state
	arrived time.Time
	decided time.Time
	hidden  bool
	plan    plan
}

func (s *send) String() string {
	who := "request path"
	if s.ours {
		who = "worker"
	}
	return fmt.Sprintf("%s send %d of the %s", s.op.id, s.number, who)
}

// plan is what the gateway will do with a request, drawn when it is sent.
type plan struct {
	status    int           // of the answer; 0: the request is lost on its way
	acts      bool          // it takes effect
	records   bool          // one that does not act is shown by inquiries as failed
	arrive    time.Duration // after the first byte
	decide    time.Duration // after its arrival; no later than processing allows
	replyLost bool
	hidden    bool // a 202 that inquiries do not show
	denied    bool // its credential is refused
	hint      int  // Retry-After, seconds; 0: none
}

// gateway keeps the truth.
type gateway struct {
	w        *world
	sends    []*send
	frozenAt time.Time            // since when inquiries see nothing new, for frozenFor; zero: never
	fair     bool                 // from now on it answers at once and well
	good     bool                 // for a while it answers well most of the time
	busy     bool                 // for a while it asks to wait most of the time
	refused  map[string]time.Time // credentials that it refuses, until when
}

// draw decides what becomes of a request.
func (g *gateway) draw() plan {
	if g.fair {
		return plan{status: 200, acts: true}
	}
	w := g.w
	p := plan{arrive: w.span(0, timeout*8/10)}
	if g.good && w.chance(85) {
		p.status, p.acts = 200, true
		return p
	}
	if g.busy && w.chance(75) {
		p.status, p.hint = 503, 1+w.rng.IntN(6)
		return p
	}
	switch n := w.rng.IntN(100); {
	case n < 24:
		p.status, p.acts = 200, true
	case n < 30:
		p.status, p.records = 402, true
	case n < 33:
		p.status = 400
	case n < 35:
		p.status = 401
	case n < 43:
		p.status, p.acts = 500, w.chance(50)
	case n < 50:
		p.status, p.acts = 503, w.chance(20)
	case n < 53:
		p.status = 429
	case n < 60:
		p.status, p.acts, p.records, p.hidden = 202, w.chance(70), true, w.chance(30)
		p.decide = w.span(0, 12*time.Second)
	case n < 66:
		p.status = 0
	default: // no answer in time; it may act at once, later, or not
		p.status, p.acts, p.records, p.replyLost = 200, w.chance(60), w.chance(50), true
		if w.chance(60) {
			p.decide = w.span(0, 12*time.Second)
		}
	}
	if w.chance(10) {
		p.replyLost = true
	}
	if w.gated && (p.status == 429 || p.status == 503) && w.chance(60) {
		p.hint = 1 + w.rng.IntN(6)
	}
	return p
}

// send takes the first byte of a request. answered, which may be nil, gets what its
// sender sees, at latest when its timeout is over.
func (g *gateway) send(s *send, p plan, answered func(policy.Sample)) {
	s.number, s.at, s.state, s.plan = len(s.op.sends)+1, g.w.now, travelling, p
	g.sends, s.op.sends = append(g.sends, s), append(s.op.sends, s)
	g.w.logf("   %s: %+v", s, p)
	told := false
	tell := func(sample policy.Sample) {
		if !told && answered != nil {
			told = true
			answered(sample)
		}
	}
	if answered != nil {
		g.w.after(timeout, "", func() { tell(policy.Sample{Phase: policy.PhaseAnswerTimeout, WireBytes: 100}) })
	}
	g.w.after(p.arrive, "", func() {
		if p.status == 0 {
			s.state = lost
			return
		}
		g.arrive(s, tell)
	})
}

// arrive is the gateway's look at a request.
func (g *gateway) arrive(s *send, tell func(policy.Sample)) {
	s.arrived = g.w.now
	answer := func(status int, body string) {
		if !s.plan.replyLost {
			sample := policy.Sample{Phase: policy.PhaseAnswered, Status: status, Body: []byte(body), WireBytes: 100}
			if s.plan.hint > 0 {
				sample.Header = map[string][]string{"Retry-After": {strconv.Itoa(s.plan.hint)}}
			}
			tell(sample)
		}
	}
	if s.plan.denied {
		s.state = turnedAway
		answer(401, `{"code":"credential"}`)
		return
	}
	if same := g.same(s); same != nil {
		s.state = turnedAway
		g.w.logf("   %s is taken for send %d, which %s", s, same.number, same.state)
		switch {
		case same.state == acted && s.op.class == jobs.IdempotencyConditional:
			answer(409, `{"code":"duplicate"}`)
		case same.state == acted:
			answer(200, fmt.Sprintf(`{"id":"e%d"}`, same.number))
		case same.state == declined:
			answer(402, `{"code":"declined"}`)
		default:
			answer(409, `{"code":"in_progress"}`)
		}
		return
	}
	status := s.plan.status
	takes := max(min(s.plan.decide, s.leaseEnd.Add(processing).Sub(g.w.now)), 0)
	switch {
	case status == 202:
		s.state, s.hidden = pending, s.plan.hidden
		answer(202, `{}`)
		g.w.after(takes, "", func() { g.decide(s) })
		return
	case takes > 0:
		s.state = deciding
		g.w.after(takes, "", func() { g.decide(s) })
		return
	}
	s.state = deciding
	g.decide(s)
	switch status {
	case 200:
		if s.state == acted {
			answer(200, fmt.Sprintf(`{"id":"e%d"}`, s.number))
			return
		}
		answer(402, `{"code":"declined"}`)
	default:
		answer(status, `{"code":"x"}`)
	}
}

// refusing is the plan for a request whose credential may be refused.
func (w *world) refusing(o *operation, p plan) plan {
	if w.gateway.refuses(o) {
		return plan{status: 401, denied: true, arrive: p.arrive}
	}
	return p
}

func (g *gateway) refuses(o *operation) bool {
	name := o.credential
	if name == "" {
		name = jobs.DefaultCredential
	}
	return g.w.now.Before(g.refused[name])
}

// same is an earlier request that the gateway takes this one for, nil if there is none.
func (g *gateway) same(s *send) *send {
	for _, e := range s.op.sends {
		if e == s || e.base != s.base || e.arrived.IsZero() || e.state == turnedAway {
			continue
		}
		switch s.op.class {
		case jobs.IdempotencyKeyed:
			over := e.arrived.Before(g.knownSince(s)) && e.state != deciding && e.state != pending
			if e.key == s.key && !over {
				return e
			}
		case jobs.IdempotencyConditional, jobs.IdempotencyNatural:
			if e.state != declined {
				return e
			}
		}
	}
	return nil
}

// knownSince is when the key of a request was first seen, by a request that need not have
// been looked at: it is forgotten a window later, and seen anew by the next one.
func (g *gateway) knownSince(s *send) time.Time {
	var seen []time.Time
	for _, e := range s.op.sends {
		if e.base == s.base && e.key == s.key && !e.arrived.IsZero() {
			seen = append(seen, e.arrived)
		}
	}
	slices.SortFunc(seen, time.Time.Compare)
	since := g.w.now
	for i, at := range append(seen, g.w.now) {
		if i == 0 || at.Sub(since) >= keyWindow {
			since = at
		}
	}
	return since
}

// decide ends the processing of a request.
func (g *gateway) decide(s *send) {
	if s.state != deciding && s.state != pending {
		return
	}
	if s.plan.status == 202 && s.op.acted && s.plan.hidden && !g.fair && g.w.now.Sub(s.arrived) < 40*time.Second {
		g.w.after(10*time.Second, "", func() { g.decide(s) }) // it is known to have been taken: that may last
		return
	}
	s.decided = g.w.now
	switch {
	case s.plan.acts:
		s.state = acted
		g.w.logf("   %s takes effect", s)
		g.w.judgeEffect(s)
	case s.plan.records:
		s.state = declined
	default:
		s.state = turnedAway
	}
}

// ask is what an inquiry shows: the truth of a moment that is not long ago.
func (g *gateway) ask(op *operation, base string, asked time.Time) policy.Sample {
	if !g.fair && g.w.chance(20) {
		bad := []policy.Sample{{Phase: policy.PhaseAnswerTimeout, WireBytes: 1}, {Phase: policy.PhaseAnswered, Status: 500, Body: []byte(`{"data":[]}`)},
			{Phase: policy.PhaseAnswered, Status: 401}, {Phase: policy.PhaseAnswered, Status: 200, Body: []byte(`{"data":null}`)},
			{Phase: policy.PhaseAnswered, Status: 200, Body: []byte(`{"data":[]`), BodyCut: true}}
		return bad[g.w.rng.IntN(len(bad))]
	}
	if g.refuses(op) {
		return policy.Sample{Phase: policy.PhaseAnswered, Status: 401}
	}
	if g.busy && !g.fair && g.w.chance(50) {
		return policy.Sample{Phase: policy.PhaseAnswered, Status: 503, Header: map[string][]string{"Retry-After": {"3"}}}
	}
	at := g.w.now
	if !g.fair {
		at = asked.Add(-lag).Add(g.w.span(0, g.w.now.Sub(asked)+lag))
		if !g.frozenAt.IsZero() && at.After(g.frozenAt) && at.Before(g.frozenAt.Add(frozenFor)) {
			at = g.frozenAt
		}
	}
	// It may list a failed request and hide a later one that it answered 202 to: world 1250
	// showed what came of that while "failed" settled what was taken, too.
	data := ""
	for _, s := range op.sends {
		if s.base != base || s.arrived.IsZero() || s.arrived.After(at) {
			continue
		}
		over := !s.decided.IsZero() && !s.decided.After(at)
		status := ""
		switch {
		case over && s.state == acted:
			status = "succeeded"
		case over && s.state == declined:
			status = "failed"
		case !over && s.plan.status == 202 && s.state != turnedAway && !s.hidden:
			status = "pending"
		default:
			continue
		}
		if data != "" {
			data += ","
		}
		data += fmt.Sprintf(`{"id":"e%d","status":%q}`, s.number, status)
	}
	return policy.Sample{Phase: policy.PhaseAnswered, Status: 200, Body: []byte(`{"data":[` + data + `]}`)}
}
