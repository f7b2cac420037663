package model

import "redrive/internal/jobs"

// peopleSteps are what a person may do, once each.
func (m *Model) peopleSteps(s *state, emit func(string, int, *state)) {
	m.cancelStep(s, emit)
	if s.phase == dead && m.can(s, requeue) && (m.safe(s) || m.Without.UnknownRefusedToPeople) {
		n := *s
		m.disturb(&n, requeue)
		n.deadlineOver = false
		m.enter(&n, waiting)
		n.notFound, n.spaceOver = 0, false
		emit("a person requeues it with time granted", 0, &n)
	}
	if (s.phase == unresolved || s.phase == dead) && s.marked() && m.can(s, resolve) {
		m.resolveSteps(s, emit)
	}
	if m.Inquiry && m.can(s, reconcile) && (s.phase == waiting || s.phase == dead || s.phase == cancelled) {
		n := *s
		m.disturb(&n, reconcile)
		n.intent = s.phase
		m.enter(&n, unresolved)
		emit("a person has it reconciled", 0, &n)
	}
}

func (m *Model) cancelStep(s *state, emit func(string, int, *state)) {
	n := *s
	if !m.disturb(&n, cancel) {
		return
	}
	switch s.phase {
	case waiting, released, unresolved:
		m.settle(&n, cancelled)
	case attempting:
		n.cancelAsked = true
	case dead:
		if s.marked() && !m.Without.UnknownRefusedToPeople {
			return
		}
		m.enter(&n, cancelled)
	default:
		return
	}
	emit("a person cancels it", 0, &n)
}

// resolveSteps are what a person who looks at the gateway now may truthfully
// say. What is on its way or being processed, that person cannot see.
func (m *Model) resolveSteps(s *state, emit func(string, int, *state)) {
	seen, settledAll := false, true
	for i := range s.sends {
		a := &s.sends[i]
		seen = seen || a.wire == acted || a.wire == accepted
		settledAll = settledAll && (a.result != unknown || a.settleOver)
	}
	n := *s
	m.disturb(&n, resolve)
	switch {
	case s.acted():
		yes := n
		m.enter(&yes, succeeded)
		emit("a person resolves it as applied", 0, &yes)
	case !seen && (settledAll || m.Without.ResolveAfterSettle):
		no := n
		no.settleAll()
		if s.phase == unresolved {
			m.leave(&no, s.intent)
		} else {
			no.reason = settledReason
		}
		emit("a person resolves it as not applied", 0, &no)
	}
	m.enter(&n, cancelled)
	n.writtenOff = true
	emit("a person writes it off", 0, &n)
}

func (s *state) acted() bool {
	for i := range s.sends {
		if s.sends[i].wire == acted {
			return true
		}
	}
	return false
}

// submitted are the states in which an operation can enter: never sent, refused
// before, or sent by the request path with its outcome unknown.
func (m *Model) submitted() []state {
	plain := state{phase: waiting, left: m.Disturbances}
	roots := []state{plain}
	if m.Inquiry {
		declinedBefore := plain
		declinedBefore.failedRecord = true
		roots = append(roots, declinedBefore)
	}
	for _, keyed := range []bool{false, true} {
		if keyed && m.Class != jobs.IdempotencyKeyed {
			continue
		}
		s := plain
		s.sends[0] = send{result: unknown, wire: processing, leaseOver: true, keyed: keyed, early: true, alien: !keyed}
		s.firstSent = true
		m.again(&s)
		roots = append(roots, s)
	}
	return roots
}

// pathSteps are the request path's: a duplicate submission that reports a send,
// and the same key anew after the record expired.
func (m *Model) pathSteps(s *state, emit func(string, int, *state)) {
	if line := m.freeLine(s); line >= 0 && m.can(s, report) {
		for _, keyed := range []bool{false, true} {
			if keyed && m.Class != jobs.IdempotencyKeyed {
				continue
			}
			n := *s
			m.disturb(&n, report)
			m.scriptMerge(&n, line, keyed)
			text := "a duplicate submission reports send %d, unknown, without the key"
			if keyed {
				text = "a duplicate submission reports send %d, unknown, under the key"
			}
			emit(text, line, &n)
		}
	}
	if (s.phase == dead || s.phase == cancelled) && (!s.marked() || m.Without.MarkNeverExpires) && s.still() {
		n := *s
		if m.disturb(&n, expire) {
			n = state{phase: waiting, left: n.left, spent: n.spent, moved: n.moved, reclassed: n.reclassed, crashed: n.crashed,
				failedRecord: n.failedRecord, forgotten: n.forgotten}
			for i := range n.sends {
				n.sends[i].wire = s.sends[i].wire
				n.sends[i].elsewhere, n.sends[i].keyed, n.sends[i].leaseOver = s.sends[i].elsewhere, s.sends[i].keyed, true
				if !n.sends[i].wire.mayAct() {
					n.sends[i] = send{}
				}
			}
			emit("its record expires, the same key is submitted anew", 0, &n)
		}
	}
}

// still reports whether nothing is under way anywhere: records live for days.
func (s *state) still() bool {
	for i := range s.workers {
		if s.workers[i].at != idle {
			return false
		}
	}
	for i := range s.inquiries {
		if s.inquiries[i].at != noInquiry {
			return false
		}
	}
	for i := range s.sends {
		if s.sends[i].result != unused && !s.sends[i].leaseOver {
			return false
		}
	}
	return s.begin == 0 && s.tasks == [2]uint8{}
}
