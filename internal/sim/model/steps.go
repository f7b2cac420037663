package model

import (
	"slices"

	"redrive/internal/jobs"
)

// Model is one exploration: a class, whether the kind has an inquiry, and how
// many disturbances one run may hold.
type Model struct {
	Class        jobs.Idempotency
	Inquiry      bool
	Disturbances uint8         // per run, of all kinds together
	Each         uint8         // per run, of one kind, at most 3; 0 means 1
	Sends        int           // on record at once; what is settled makes room. At most 3; 0 means 3
	Without      Rules         // what is taken away from the design
	only         []disturbance // the kinds that may happen; none means all
	overlook     string        // a violation that is not looked for, to see what comes of it
}

func (m *Model) lines() int {
	if m.Sends == 0 {
		return maxSends
	}
	return m.Sends
}

func (m *Model) can(s *state, d disturbance) bool {
	if len(m.only) > 0 && !slices.Contains(m.only, d) {
		return false
	}
	return s.left > 0 && uint8(s.spent>>(2*d)&3) < max(m.Each, 1)
}

// disturb spends one disturbance; false when none is left.
func (m *Model) disturb(s *state, d disturbance) bool {
	if !m.can(s, d) {
		return false
	}
	s.left--
	s.spent += 1 << (2 * d)
	return true
}

// steps hands every step that is possible in s to emit: what it is, of whom,
// and the state it leads to. emit may change that state.
func (m *Model) steps(s *state, emit func(string, int, *state)) {
	m.ledgerSteps(s, emit)
	for i := range s.workers {
		if i > 0 && s.workers[i] == s.workers[0] {
			continue // mirrored
		}
		m.workerSteps(s, i, emit)
	}
	m.delayedSteps(s, emit)
	for i := range s.sends {
		m.gatewaySteps(s, i, emit)
	}
	m.inquirySteps(s, emit)
	m.clockSteps(s, emit)
	m.peopleSteps(s, emit)
	m.pathSteps(s, emit)
}

// ledgerSteps are those of release, recover and sweep.
func (m *Model) ledgerSteps(s *state, emit func(string, int, *state)) {
	step := func(text string, change func(n *state)) {
		n := *s
		change(&n)
		emit(text, 0, &n)
	}
	switch s.phase {
	case waiting:
		step("release", func(n *state) {
			m.enter(n, released)
			n.tasks[0] = min(n.tasks[0]+n.tasks[1], 1)
			n.tasks[1] = 1
			n.begin = min(n.begin, 1)
			for i := range n.workers {
				n.workers[i].fresh = false
			}
		})
		if s.deadlineOver {
			step("sweep: the deadline passed", func(n *state) { m.settle(n, dead) })
		}
	case released:
		if n := *s; !s.delivered() || m.disturb(&n, stall) {
			m.enter(&n, waiting)
			emit("the release lease ends", 0, &n)
		}
	case attempting:
		if s.sends[s.claim-1].leaseOver {
			step("recover closes the attempt: its lease ran out", func(n *state) { m.scriptRecover(n, false) })
			step("recover closes the attempt: its lease ran out, the third time", func(n *state) { m.scriptRecover(n, true) })
		}
	case unresolved:
		step("nobody answered for long enough: given up", func(n *state) {
			m.enter(n, dead)
			n.reason = unresolvedReason
		})
	}
	if (s.phase == waiting || s.phase == released) && !m.Without.SafeLookedAtBySweep && !m.safe(s) {
		step("sweep: a resend is not safe any more", func(n *state) { m.settle(n, waiting) })
	}
	if s.phase == released || s.phase == attempting {
		if n := *s; s.tasks[1] == 0 && m.disturb(&n, secondDelivery) {
			n.tasks[1]++
			emit("the queue delivers a second time", 0, &n)
		}
		if n := *s; s.tasks[1] > 0 && m.disturb(&n, lostTask) {
			n.tasks[1]--
			emit("the queue loses the task", 0, &n)
		}
	}
}

// delivered reports whether the present delivery is still about: its lease ends
// only when it is held up for long.
func (s *state) delivered() bool {
	for i := range s.workers {
		if s.workers[i].fresh {
			return true
		}
	}
	return s.tasks[1] > 0
}

// clockSteps are time passing, and changes from outside.
func (m *Model) clockSteps(s *state, emit func(string, int, *state)) {
	set := func(text string, change func(n *state)) {
		n := *s
		change(&n)
		emit(text, 0, &n)
	}
	if !s.deadlineOver && !s.phase.ended() {
		set("the deadline passes", func(n *state) { n.deadlineOver = true })
	}
	if m.Class == jobs.IdempotencyKeyed && s.firstSent && !s.unsafe && s.phase != succeeded {
		set("safe_until passes", func(n *state) { n.unsafe = true })
	}
	if s.unsafe && !s.forgotten && s.windowMayEnd() {
		set("the gateway forgets the key", func(n *state) { n.forgotten = true })
	}
	if s.notFound > 0 && !s.spaceOver && !s.lagging {
		set("max(settle, 5 s) after the first not-found are over", func(n *state) { n.spaceOver = true })
	}
	if s.lagging {
		set("inquiries do not lag any more", func(n *state) { n.lagging = false })
	} else if n := *s; m.Inquiry && m.disturb(&n, lag) {
		n.lagging = true
		emit("inquiries lag: they are answered from before", 0, &n)
	}
	if n := *s; !s.moved && m.disturb(&n, move) {
		n.moved = true
		emit("base_url or credential is changed", 0, &n)
	}
	if n := *s; !s.reclassed && m.disturb(&n, reclass) {
		n.reclassed = true
		emit("the configured class is changed", 0, &n)
	}
}

// windowMayEnd: safe_until lies two claim leases before the end of the window,
// and a key under which something is being processed is not forgotten.
func (s *state) windowMayEnd() bool {
	for i := range s.sends {
		if a := &s.sends[i]; a.result != unused && a.early && !a.leaseOver || a.wire == processing || a.wire == accepted {
			return false
		}
	}
	return true
}
