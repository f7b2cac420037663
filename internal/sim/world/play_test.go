package world

import (
	"fmt"
	"time"

	"redrive/internal/jobs"
)

// play is a whole world: faults, then rest.
func (w *world) play() {
	steps := w.begin()
	for n := range 2 {
		w.reporters = append(w.reporters, &reporter{w: w, name: fmt.Sprintf("shop%d", n+1)})
	}
	w.faults, w.slow = w.rng.IntN(9), w.chance(20)
	if w.chance(15) {
		w.workers[1].base = otherURL
		w.logf("worker2 has another base_url")
	}
	for n := steps + 40 + w.rng.IntN(60); n > 0 && len(w.harm) == 0; n-- {
		w.pass(w.pause())
		if len(w.harm) > 0 {
			return
		}
		if w.gated && w.chance(12) {
			w.meddle()
			continue
		}
		switch n := w.rng.IntN(100); {
		case n < 86:
			w.move()
		case n < 92:
			w.person(w.ops[w.rng.IntN(len(w.ops))])
		case n < 94:
			if o := w.ops[w.rng.IntN(len(w.ops))]; len(o.sends) < 8 {
				w.happen("", func() { w.sendPast(o) })
			}
		case w.faults > 0:
			w.faults--
			w.disturb()
		}
	}
	w.rest(w.workers)
}

// begin draws the operations, and how they come into the ledger. It returns how many steps
// more than others the world takes.
func (w *world) begin() (steps int) {
	n := 1 + w.rng.IntN(4)
	if w.gated {
		n, steps = n+1, 30
	}
	if w.gated && w.chance(30) {
		// Enough calls for a credential to be paused, and for others to stand aside.
		n += 3
		steps += 60
		w.gateway.refused[credentials[0]] = w.now.Add(time.Hour)
		w.logf("the gateway refuses the credential %s", credentials[0])
	}
	for range n {
		class := jobs.Idempotencies[w.rng.IntN(len(jobs.Idempotencies))]
		o := w.add(class, w.chance(60), w.span(15*time.Second, 4*time.Minute))
		if w.gated && w.chance(60) {
			o.credential = credentials[w.rng.IntN(4)/3] // mostly the first
		}
		w.after(w.span(0, 3*time.Second), "", func() {
			if w.chance(25) {
				w.sendPast(o)
				return
			}
			w.logf("the request path submits %s", o.id)
			w.submit(o, nil)
		})
	}
	var seen func()
	seen = func() {
		w.seeKinds()
		w.after(5*time.Minute, "", seen)
	}
	seen()
	return steps
}

// pause is how long nothing is done: mostly a moment, at times until something is due,
// seldom so long that leases, deadlines and the windows of keys go by.
func (w *world) pause() time.Duration {
	if w.slow && w.chance(15) {
		return w.span(15*time.Second, 60*time.Second)
	}
	switch n := w.rng.IntN(100); {
	case n < 50:
		return w.span(0, 200*time.Millisecond)
	case n < 72:
		return w.span(0, 2*time.Second)
	case n < 90:
		return w.due()
	case n < 97:
		return w.span(time.Second, 15*time.Second)
	default:
		return w.span(10*time.Second, 70*time.Second)
	}
}

// move has one of the processes take one of the steps that it can take.
func (w *world) move() {
	var moves []move
	total := 0
	for _, p := range w.workers {
		for _, m := range p.moves() {
			if w.gated && m.weight >= progress {
				m.weight *= 3 // a gate is worth judging only where calls are made
			}
			moves = append(moves, m)
			total += m.weight
		}
	}
	if total == 0 {
		return
	}
	n := w.rng.IntN(total)
	for _, m := range moves {
		if n -= m.weight; n < 0 {
			w.happen(m.what, m.do)
			return
		}
	}
}

// disturb is a fault that is not of a single call.
func (w *world) disturb() {
	p := w.workers[w.rng.IntN(len(w.workers))]
	switch n := w.rng.IntN(100); {
	case n < 40 && p.alive:
		w.happen("", p.crash)
		w.after(w.span(0, 20*time.Second), "", func() {
			w.logf("%s starts", p.name)
			p.start()
		})
	case n < 70:
		d := w.span(time.Second, 20*time.Second)
		w.logf("%s stands still for %s", p.name, d)
		p.thawsAt = w.now.Add(d)
	case n < 78:
		w.happen("", p.crash)
		p.start()
		p.base = otherURL
		w.logf("%s starts with another base_url", p.name)
	case n < 88:
		if w.gateway.frozenAt.IsZero() {
			w.logf("the gateway's records stand still for %s", frozenFor)
			w.gateway.frozenAt = w.now
		}
	default:
		d := w.span(-8*time.Second, 8*time.Second)
		if w.chance(20) {
			d = w.span(time.Minute, time.Hour)
		}
		w.logf("redis' clock steps by %s", d)
		w.offset += d
		w.to(w.now)
	}
}

// due is how long until something comes due, by the indexes and the events to come.
func (w *world) due() time.Duration {
	next := w.now.Add(5 * time.Second)
	for _, e := range w.events {
		if e.at.Before(next) && e.at.After(w.now) {
			next = e.at
		}
	}
	for _, name := range []string{"waiting", "released:first", "released:retry", "claims", "unresolved", "giveup"} {
		entries, err := w.store.index(w.key(name))
		if err != nil {
			w.broken("index %s: %v", name, err)
			return 0
		}
		for _, score := range entries {
			if at := time.UnixMilli(score).Add(-w.offset); at.Before(next) && at.After(w.now) {
				next = at
			}
		}
	}
	return max(next.Sub(w.now), 10*time.Millisecond)
}

const (
	restWithin = 20 * time.Minute
	restRounds = 1000
)

// rest is the end of a world: no more faults, the gateway does what it is asked, and
// every operation must come to an end.
func (w *world) rest(workers []*process) {
	w.faults, w.gateway.fair = 0, true
	w.logf("no more faults")
	for _, p := range workers {
		p.thawsAt, p.base = time.Time{}, baseURL
		if !p.alive {
			p.start()
		}
	}
	if w.gated {
		w.healed(workers)
	}
	end := w.now.Add(restWithin)
	for round := 0; len(w.harm) == 0; round++ {
		w.judgeCanaries()
		if w.ended() {
			w.pass(time.Minute) // what is still on its way arrives
			return
		}
		if w.now.After(end) || round > restRounds {
			w.broken("no end: %s", w.states())
			return
		}
		w.round(workers, round)
	}
}

// round has every process do all that it can do at once, and one of them look after
// the rest; then time passes until something is due.
func (w *world) round(workers []*process, round int) {
	busy := false
	for _, p := range workers {
		for range 200 {
			moves := p.moves()
			if len(moves) == 0 || moves[0].weight < progress || len(w.harm) > 0 {
				break
			}
			busy = true
			w.happen(moves[0].what, moves[0].do)
		}
	}
	p := workers[round%len(workers)]
	for _, m := range p.moves() {
		if m.weight < progress && (m.weight > idle || round%8 == 7) && len(w.harm) == 0 && p.alive {
			w.happen(m.what, m.do)
		}
	}
	busy = busy || len(p.puts)+len(p.lost) > 0
	for _, q := range p.questions {
		busy = busy || !q.said
	}
	if busy {
		w.pass(10 * time.Millisecond)
		return
	}
	w.pass(w.due())
}

func (w *world) ended() bool {
	for _, o := range w.ops {
		if !jobs.State(w.state(o)).Ended() {
			return false
		}
	}
	return true
}

func (w *world) state(o *operation) string {
	return w.store.m.HGet(w.key("op:"+o.id.String()), "state")
}

func (w *world) states() map[string]string {
	m := map[string]string{}
	for _, o := range w.ops {
		m[o.id.String()] = w.state(o)
	}
	return m
}
