package world

import (
	"fmt"
	"time"

	"redrive/internal/jobs"
)

// loss is what happens at a point of an operation's way.
type loss string

const (
	nothing       loss = ""
	killedBefore  loss = "killed before"
	killedAfter   loss = "killed after" // it was done; its reply reaches nobody
	requestFails  loss = "request lost of"
	replyFails    loss = "reply lost of"
	requestLatens loss = "request delayed of"
)

var losses = []loss{killedBefore, killedAfter, requestFails, replyFails, requestLatens}

// script has one process walk an operation's way, and one loss happen at one point of
// it. The points are the process' calls of Redis, its first bytes and its inquiries.
type script struct {
	first  plan // of the gateway for the first request; later ones succeed
	loss   loss
	at     int // point, from 1
	points []string
	sent   int
	doomed bool // the process dies at the end of this point
}

func (s *script) plan() plan {
	if s.sent++; s.sent == 1 {
		return s.first
	}
	return plan{status: 200, acts: true}
}

// reached counts a point of the first process, and reports whether the loss is there.
func (s *script) reached(p *process, what string) bool {
	if p != p.w.workers[0] {
		return false
	}
	s.points = append(s.points, what)
	return len(s.points) == s.at && s.loss != nothing
}

func (s *script) fate(p *process, what string) fate {
	if !s.reached(p, what) {
		return arrives
	}
	switch s.loss {
	case killedBefore:
		s.doomed = true
		return requestLost
	case killedAfter:
		s.doomed = true
		return replyLost
	case requestFails:
		return requestLost
	case replyFails:
		return replyLost
	default:
		return delayed
	}
}

// before is a point that is no call of Redis.
func (s *script) before(p *process, what string) {
	if !s.reached(p, what) {
		return
	}
	s.doomed = true
	if s.loss == killedBefore {
		s.after(p)
	}
}

func (s *script) after(p *process) {
	if s.doomed && p == p.w.workers[0] {
		s.doomed = false
		p.crash()
	}
}

// lossesAt are the losses that make a difference at a point: what is no call of Redis has no
// reply, and a call that only lists or hands out does the same whenever it is applied.
func lossesAt(what string) []loss {
	switch what {
	case "send", "ask":
		return []loss{killedBefore, killedAfter}
	case "begin", "finish", "finish lost", "inquired", "abandon":
		return []loss{killedBefore, killedAfter, requestFails, replyFails, requestLatens}
	default:
		return []loss{killedBefore, killedAfter, requestFails, replyFails}
	}
}

// outcomes are what can become of the first request.
var outcomes = []struct {
	name string
	plan plan
}{
	// The first four are the short form's.
	{"no answer, acts later", plan{status: 200, acts: true, replyLost: true, decide: 6 * time.Second}},
	{"success", plan{status: 200, acts: true}},
	{"202, hidden, acts later", plan{status: 202, acts: true, decide: 6 * time.Second, hidden: true}},
	{"declined", plan{status: 402, records: true}},
	{"no answer, never arrived", plan{}},
	{"500 that acted", plan{status: 500, acts: true}},
	{"not valid", plan{status: 400}},
	{"credentials refused", plan{status: 401}},
	{"500 that did not act", plan{status: 500}},
	{"503 that acted", plan{status: 503, acts: true}},
	{"503 that did not act", plan{status: 503}},
	{"429", plan{status: 429}},
	{"no answer, acted", plan{status: 200, acts: true, replyLost: true}},
	{"no answer, declined", plan{status: 402, records: true, replyLost: true}},
	{"202, acts later", plan{status: 202, acts: true, decide: 6 * time.Second}},
	{"202, declined later", plan{status: 202, records: true, decide: 6 * time.Second}},
}

// cycle is one operation's way, from its submission to its end.
func cycle(c *setup, store *store, class jobs.Idempotency, asked bool, s *script) *world {
	w := newWorld(c, store, 1)
	w.script, w.gateway.fair = s, true
	w.gates, store.watch = nil, nil // its gate is a bucket that is never empty
	o := w.add(class, asked, 2*time.Minute)
	o.goesOn, o.staysDead = true, false
	w.happen("the request path submits "+o.id.String(), func() { w.submit(o, nil) })
	first, second := w.workers[0], w.workers[1]
	for round := 0; first.alive && !w.ended() && len(w.harm) == 0; round++ {
		if round > restRounds {
			w.broken("no end: %s", w.states())
			return w
		}
		w.round([]*process{first}, 0)
	}
	if len(w.harm) == 0 {
		w.rest([]*process{second})
	}
	return w
}

func (s *script) String() string {
	if s.loss == nothing {
		return "nothing lost"
	}
	if s.at > len(s.points) {
		return fmt.Sprintf("%s point %d", s.loss, s.at)
	}
	return fmt.Sprintf("%s point %d (%s)", s.loss, s.at, s.points[s.at-1])
}
