package world

import (
	"errors"
	"slices"
	"strings"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// beginWithin bounds all tries of one begin, as in package worker.
const beginWithin = 1500 * time.Millisecond

// process is one worker as a small state machine: what it holds in memory, and the
// steps that it can take next. It imitates package worker; a crash empties it.
type process struct {
	w       *world
	name    string
	alive   bool
	thawsAt time.Time // it stands still until then
	base    string    // base_url of its configuration
	gate    budget.Params

	clock     redisClock
	seen      int64             // attempts written ahead, as far as it knows
	puts      []ledger.Delivery // released, not yet in the queue
	tasks     []*task
	lost      []ledger.Lost // listed, not yet closed
	questions []*question
	writes    []write // that Redis has not taken yet
}

// write is a call that is repeated until Redis has taken it.
type write struct {
	what string
	call func() error
}

type stage int

const (
	taken   stage = iota // from the queue
	begun                // begin was asked for: startedAt is set
	granted              // to be sent
	sending              // the answer is awaited
	answered
)

// task is one delivery in a slot.
type task struct {
	delivery  ledger.Delivery
	stage     stage
	runID     string
	startedAt time.Time
	grant     *ledger.Grant
	grantedAt time.Time // Redis' clock when it was granted
	event     int       // in which it was granted
	sample    policy.Sample
}

type question struct {
	ledger.Question
	op      *operation
	asked   time.Time
	said    bool // the gateway has answered
	sample  policy.Sample
	written ledger.Inquired
}

// move is one step that a process can take next.
type move struct {
	what   string
	weight int // how likely it is
	do     func()
}

// Weights of a move: at least progress for what works off what the process holds, idle
// for a look at what is not due.
const (
	progress = 5
	idle     = 1
)

func (p *process) start() {
	*p = process{w: p.w, name: p.name, alive: true, base: baseURL, gate: p.gate}
	p.w.seeKinds()
}

func (p *process) crash() {
	p.w.logf("%s is killed", p.name)
	*p = process{w: p.w, name: p.name, gate: p.gate}
}

// lossy is in how many of a hundred calls a fault happens, while there are any left:
// more where a lost reply or a late request makes a difference.
var lossy = map[string]int{"release": 2, "begin": 15, "finish": 10, "abandon": 10, "recover": 1, "finish lost": 6, "sweep": 1, "inquire": 2, "inquired": 8}

// call makes one call of Redis with what fate has for it.
func (p *process) call(what string, f func() error) error {
	w := p.w
	becomes := arrives
	switch {
	case w.script != nil:
		becomes = w.script.fate(p, what)
	case w.fault(lossy[what]):
		becomes = []fate{requestLost, replyLost, replyLost, delayed}[w.rng.IntN(4)]
	}
	w.store.fate = becomes
	err := f()
	w.store.fate = arrives
	w.logf("   %s: %s%s", p.name, what, becomes)
	w.history[what]++
	if err != nil && !errors.Is(err, errLost) && !errors.Is(err, ledger.ErrClockStepped) {
		w.broken("%s: %s: %v", p.name, what, err)
	}
	if errors.Is(err, ledger.ErrClockStepped) {
		p.clock.saw(w.now, w.redisNow())
	}
	if w.script != nil {
		w.script.after(p)
	}
	return err
}

func (p *process) terms() ledger.Terms {
	t := p.w.terms
	t.Gate = p.gate
	t.Seen = p.seen
	t.Expect = p.clock.now(p.w.now)
	return t
}

// target is where the process sends operations of a kind to.
func (p *process) target(k *kind) ledger.Target {
	t := k.target
	t.BaseURL = p.base
	return t
}

// steady: leases and deadlines may be acted upon.
func (p *process) steady() bool {
	return p.clock.steady(p.w.now, policy.ClaimLease(timeout))
}

// moves are the steps that the process can take now.
func (p *process) moves() []move {
	if !p.alive || p.w.now.Before(p.thawsAt) {
		return nil
	}
	var out []move
	add := func(what string, weight int, do func()) {
		out = append(out, move{p.name + ": " + what, weight, do})
	}
	for i := range p.writes {
		add("writes again", 5, func() { p.rewrite(i) })
	}
	for _, t := range p.tasks {
		switch t.stage {
		case taken, begun:
			add("begins "+t.delivery.ID.String(), 6, func() { p.begin(t) })
		case granted:
			add("sends "+t.delivery.ID.String(), 8, func() { p.send(t) })
		case answered:
			add("finishes "+t.delivery.ID.String(), 6, func() { p.finish(t) })
		}
	}
	for _, q := range p.questions {
		if q.said {
			add("records an answer about "+q.ID.String(), 6, func() { p.inquired(q) })
		} else {
			add("asks about "+q.ID.String(), 6, func() { p.ask(q) })
		}
	}
	for i := range p.lost {
		add("closes "+p.lost[i].ID.String(), 5, func() { p.close(i) })
	}
	if len(p.puts) > 0 {
		add("enqueues "+p.puts[0].ID.String(), 8, p.enqueue)
	}
	if len(p.w.queue) > 0 && len(p.tasks) < slots {
		add("takes a delivery", 6, p.take)
	}
	if !p.steady() {
		return out
	}
	// The loops poll; what finds nothing changes nothing, and is left out most of the time.
	for _, loop := range []struct {
		what    string
		do      func()
		room    bool
		indexes []string // in which something is due
	}{
		{"releases", p.release, len(p.tasks) < slots, []string{"waiting", "due:first", "due:retry"}},
		{"inquires", p.inquire, len(p.questions) < inquirySlot, []string{"unresolved"}},
		{"recovers", p.recover, true, []string{"claims"}},
		{"sweeps", p.sweep, true, []string{"waiting", "released:first", "released:retry", "giveup", "due:first", "due:retry"}},
	} {
		switch {
		case !loop.room:
		case slices.ContainsFunc(loop.indexes, p.w.dueIn):
			add(loop.what, 4, loop.do)
		default:
			add(loop.what, idle, loop.do)
		}
	}
	return out
}

// dueIn reports whether something in an index is due by Redis' clock. In the lanes all is.
func (w *world) dueIn(index string) bool {
	entries, err := w.store.index(w.key(index))
	if err != nil {
		w.broken("index %s: %v", index, err)
	}
	for _, score := range entries {
		if score <= w.redisNow().UnixMilli() || strings.HasPrefix(index, "due:") {
			return true
		}
	}
	return false
}

func (p *process) release() {
	var r ledger.Release
	asked := p.w.now
	if p.call("release", func() (err error) {
		r, err = p.w.ledger.Release(p.w.ctx(), p.terms(), p.w.names, slots-len(p.tasks))
		return err
	}) != nil {
		return
	}
	p.clock.saw(asked, r.Now)
	p.seen = max(p.seen, r.Begins)
	p.puts = append(p.puts, r.Deliveries...)
}

// enqueue puts one delivery into the queue, which may lose it or have it twice.
func (p *process) enqueue() {
	w, d := p.w, p.puts[0]
	p.puts = p.puts[1:]
	switch {
	case w.fault(5):
		w.logf("   the queue loses it")
		return
	case w.fault(8):
		w.logf("   the queue has it twice")
		w.queue = append(w.queue, d)
	}
	w.queue = append(w.queue, d)
}

func (p *process) take() {
	w := p.w
	i := w.rng.IntN(len(w.queue))
	p.tasks = append(p.tasks, &task{delivery: w.queue[i], runID: w.runID()})
	w.queue = append(w.queue[:i:i], w.queue[i+1:]...)
}

func (p *process) drop(t *task) {
	for i := range p.tasks {
		if p.tasks[i] == t {
			p.tasks = append(p.tasks[:i:i], p.tasks[i+1:]...)
			return
		}
	}
}

// begin asks for the grant: the first time, or again with the same run id.
func (p *process) begin(t *task) {
	w := p.w
	if t.stage == taken {
		t.stage, t.startedAt = begun, w.now
	}
	if w.now.Sub(t.startedAt) >= beginWithin {
		p.giveBack(t)
		return
	}
	k := w.kinds[t.delivery.ID.Kind]
	var b ledger.Begin
	if p.call("begin", func() (err error) {
		b, err = w.ledger.Begin(w.ctx(), p.terms(), p.target(k), maxAttempts, t.delivery, t.runID)
		return err
	}) != nil {
		return
	}
	if b.Status != ledger.BeginGranted {
		w.logf("   %s %s", b.Status, b.Hold)
		p.drop(t)
		return
	}
	p.seen = max(p.seen, b.Grant.Begins)
	t.stage, t.grant, t.grantedAt, t.event = granted, b.Grant, w.redisNow(), w.step
}

// giveBack abandons a delivery whose begin got no clear answer.
func (p *process) giveBack(t *task) {
	p.drop(t)
	p.write("abandon", func() error {
		_, err := p.w.ledger.Abandon(p.w.ctx(), p.terms(), t.delivery, t.runID, time.Second, false)
		return err
	})
}

// write makes a call once, and keeps it for later where that brings no clear answer.
func (p *process) write(what string, call func() error) {
	if p.call(what, call) != nil {
		p.writes = append(p.writes, write{what, call})
	}
}

func (p *process) rewrite(i int) {
	wr := p.writes[i]
	p.writes = append(p.writes[:i:i], p.writes[i+1:]...)
	p.write(wr.what, wr.call)
}

// send writes the first byte, if it may still.
func (p *process) send(t *task) {
	w, g := p.w, t.grant
	if w.script != nil {
		w.script.before(p, "send")
		if !p.alive {
			return
		}
	}
	if w.now.Sub(t.startedAt) >= min(policy.SendWindow, g.DeadlineLeft-minResponse) {
		w.logf("   too late")
		t.sample, t.stage = policy.Sample{Phase: policy.PhaseTooLate}, answered
		return
	}
	if w.script == nil && !w.gateway.fair && w.chance(4) {
		t.sample, t.stage = policy.Sample{Phase: policy.PhaseConnect}, answered
		return
	}
	o := w.operation(g.ID)
	s := &send{op: o, ours: true, base: p.base, key: g.Request.IdempotencyKey, body: string(g.Request.Body), known: t.event,
		leaseEnd: t.startedAt.Add(policy.ClaimLease(timeout))}
	w.judgeSend(s, t)
	w.gates.made(g.ID, t.runID)
	t.stage = sending
	w.gateway.send(s, w.refusing(o, w.plan()), func(sample policy.Sample) {
		t.sample, t.stage = sample, answered
		s.heard(classify(sample, t.grant.Idempotency, w.rules))
	})
	if w.script != nil {
		w.script.after(p)
	}
}

// plan is what the gateway will do with the next request.
func (w *world) plan() plan {
	if w.script != nil {
		return w.script.plan()
	}
	return w.gateway.draw()
}

func classify(s policy.Sample, class jobs.Idempotency, rules *policy.Rules) policy.Classification {
	if cl, _, ruled, _ := rules.Classify(s, class); ruled {
		return cl
	}
	return policy.Classify(s, class)
}

// heard keeps what the answer to a send settles: its own, and where the gateway took
// them for one also what was sent before.
func (s *send) heard(cl policy.Classification) {
	if cl.Outcome != jobs.OutcomeRefused && cl.Outcome != jobs.OutcomeNotSent {
		return
	}
	s.settled = "its answer"
	for _, e := range s.op.sends {
		if cl.SettlesPrior && s.op.class == jobs.IdempotencyKeyed && e.number < s.number && e.key == s.key && e.base == s.base && e.settled == "" {
			e.settled = "the answer to a repetition"
		}
	}
}
