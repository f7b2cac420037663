package model

import "redrive/internal/jobs"

// aboutToSend reports whether a run has its grant and has not sent.
func (s *state) aboutToSend() bool {
	for i := range s.workers {
		if at := s.workers[i].at; at >= asking && at <= granted {
			return true
		}
	}
	return false
}

// tidy forgets what nothing can refer to any more. The key's window goes on: it began
// with the first send, whatever became of it.
func (s *state) tidy() {
	quiet, canAct, late := true, false, s.aboutToSend()
	for i := range s.sends {
		a := &s.sends[i]
		a.during = a.during && late
		if a.result == unknown || a.result == open || a.result == applied {
			quiet = false
			continue
		}
		if a.wire.mayAct() {
			canAct = true
			continue
		}
		if !s.refersTo(i) {
			*a = send{}
		}
	}
	if quiet {
		s.forgotten = s.forgotten && canAct
	}
}

func (s *state) refersTo(line int) bool {
	if int(s.claim) == line+1 {
		return true
	}
	for i := range s.workers {
		if w := &s.workers[i]; w.at >= asking && int(w.line) == line {
			return true
		}
	}
	return false
}

// enter moves the operation; what belonged to the state it leaves goes.
func (m *Model) enter(s *state, to phase) {
	if to == unresolved && s.phase != unresolved && !m.Without.EnteringResetsNotFound {
		s.notFound, s.spaceOver = 0, false
	}
	if to != unresolved {
		s.asked = false
		for i := range s.inquiries {
			s.inquiries[i].current = false
		}
	}
	if to != attempting && s.claim != 0 {
		s.claim = 0
		for i := range s.workers {
			s.workers[i].holds = false
		}
		s.cancelAsked, s.lateSuccess = false, false
	}
	if to != dead {
		s.reason = noReason
	}
	s.writtenOff = s.writtenOff && to == s.phase
	s.phase = to
}

// settle is how an operation leaves for x while nobody may know what became of
// its sends.
func (m *Model) settle(s *state, x phase) {
	if s.marked() && !m.Without.SettleOnEveryEnd {
		s.intent = x
		if m.Inquiry {
			m.enter(s, unresolved)
			return
		}
		m.enter(s, dead)
		s.reason = unsafeReason
		return
	}
	m.leave(s, x)
}

// leave is settle when nothing is unknown: x happens.
func (m *Model) leave(s *state, x phase) {
	if x == waiting && s.deadlineOver {
		x = dead
	}
	m.enter(s, x)
	if x == dead {
		s.reason = settledReason
	}
}

// again is what follows an attempt that left the operation to be tried again.
func (m *Model) again(s *state) {
	if m.safe(s) {
		m.leaveOrSettleDeadline(s)
		return
	}
	m.settle(s, waiting)
}

func (m *Model) leaveOrSettleDeadline(s *state) {
	if s.deadlineOver {
		m.settle(s, dead)
		return
	}
	m.enter(s, waiting)
}

// changed voids inquiries under way: the list of attempts is not what it was.
func (s *state) changed() {
	for i := range s.inquiries {
		s.inquiries[i].unchanged = false
	}
}

// freeLine returns where one more send can be recorded, -1 for nowhere.
func (m *Model) freeLine(s *state) int {
	for i := range s.sends[:m.lines()] {
		if s.sends[i] == (send{}) && !s.refersTo(i) {
			return i
		}
	}
	return -1
}

// beginAnswer is what begin said.
type beginAnswer uint8

const (
	stale beginAnswer = iota
	held
	grantedAnswer
	noRoom // more sends than the model follows: the step is left out
)

// scriptBegin is begin(delivery, run). w is nil when the run has ended meanwhile.
func (m *Model) scriptBegin(s *state, fresh bool, w *worker) beginAnswer {
	if s.phase == attempting && w != nil {
		if w.holds && !m.Without.SameRunSameGrant {
			return grantedAnswer
		}
		if m.Without.ClaimByRunID && fresh {
			w.line = s.claim - 1
			return grantedAnswer
		}
	}
	right := fresh || m.Without.BeginSameDelivery
	if !(s.phase == released && right || m.Without.BeginOnlyReleased && s.phase == waiting && right) {
		return stale
	}
	if !m.Without.SafeLookedAtByBegin && !m.safe(s) {
		m.settle(s, waiting)
		return held
	}
	if s.deadlineOver && !m.Without.DeadlineAtBegin {
		m.settle(s, dead)
		return held
	}
	line := m.freeLine(s)
	if line < 0 {
		return noRoom
	}
	m.enter(s, attempting)
	s.changed()
	for i := range s.sends {
		s.sends[i].during = false
	}
	if !m.Without.EnteringResetsNotFound {
		s.notFound, s.spaceOver = 0, false
	}
	s.sends[line] = send{result: open, early: !s.unsafe, elsewhere: s.moved, weaker: s.reclassed,
		keyed: m.inForce(s) == jobs.IdempotencyKeyed || m.configured(s) == jobs.IdempotencyKeyed}
	s.claim = uint8(line + 1)
	s.firstSent = true
	if w != nil {
		w.holds, w.line = true, uint8(line)
	}
	return grantedAnswer
}

// scriptAbandon is abandon(delivery, run).
func (m *Model) scriptAbandon(s *state, w *worker) {
	switch {
	case s.phase == released && w.fresh && !m.Without.AbandonTakesDeliveryBack:
		m.enter(s, waiting)
	case s.phase == attempting && w.holds && !m.Without.AbandonClosesClaim:
		a := &s.sends[s.claim-1]
		a.result, a.recorded = notSent, true
		late, asked := s.lateSuccess, s.cancelAsked
		m.endAttempt(s, late, asked, func() { m.again(s) })
	}
}

// scriptMerge is a duplicate submission that reports a send.
func (m *Model) scriptMerge(s *state, line int, keyed bool) {
	a := &s.sends[line]
	*a = send{wire: processing, leaseOver: true, elsewhere: s.moved, keyed: keyed,
		early: !s.unsafe, during: s.aboutToSend(), alien: true, weaker: s.reclassed}
	if m.Without.MergeNeverDropped {
		return
	}
	a.result = unknown
	a.settleOver = m.Without.MergeStartsSettleAnew
	s.firstSent = true
	s.changed()
	if !m.Without.MergeResetsNotFound {
		s.notFound, s.spaceOver = 0, false
	}
	switch s.phase {
	case waiting, released:
		if s.phase == released && m.Without.MergeTakesDeliveryBack {
			return
		}
		m.again(s)
	case unresolved:
		s.asked = false
		for i := range s.inquiries {
			s.inquiries[i].current = false
		}
	case succeeded:
		if m.Without.SuccessNeverOverwritten {
			m.settle(s, dead)
		}
	case dead, cancelled:
		m.settle(s, s.phase)
	}
}
