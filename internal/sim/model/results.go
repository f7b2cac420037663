package model

// endAttempt closes the attempt in flight; next says where it goes if neither a
// late success nor a cancel was noted meanwhile.
func (m *Model) endAttempt(s *state, late, cancelAsked bool, next func()) {
	switch {
	case late:
		m.enter(s, succeeded)
	case cancelAsked:
		m.settle(s, cancelled)
	default:
		next()
	}
}

// scriptFinish is finish(run, attempt, outcome). end asks for an end (permanent,
// attempts, deadline) instead of another attempt.
func (m *Model) scriptFinish(s *state, w *worker, end bool) {
	a := &s.sends[w.line]
	own := s.phase == attempting && (w.holds || m.Without.FinishFencedByRun)
	if a.recorded && !m.Without.ResultOncePerRun {
		return
	}
	if a.recorded && w.holds {
		return
	}
	if !own {
		m.lateResult(s, a, w.outcome)
		return
	}
	if s.claim != w.line+1 { // an unfenced finish ends the attempt of another
		a = &s.sends[s.claim-1]
	}
	a.recorded = true
	s.changed()
	late, asked := s.lateSuccess, s.cancelAsked
	switch w.outcome {
	case sawSuccess:
		a.result = applied
		m.enter(s, succeeded)
		return
	case sawRefusal:
		a.result = refused
		if m.Without.LaterRefusalSettlesNothing {
			s.settleAll()
		}
	case sawNotSent:
		a.result = notSent
	case sawAccepted:
		a.result, a.took = unknown, true
	case sawNothing:
		a.result = unknown
	}
	m.endAttempt(s, late, asked, func() {
		if end {
			m.settle(s, dead)
			return
		}
		m.again(s)
	})
}

func (s *state) settleAll() {
	for i := range s.sends {
		if s.sends[i].result == unknown {
			s.sends[i].result = settled
		}
	}
}

// lateResult is what a worker without the claim has to say.
func (m *Model) lateResult(s *state, a *send, saw outcome) {
	switch saw {
	case sawSuccess:
		a.recorded, a.result = true, applied
		s.changed()
		m.succeedLate(s)
	case sawRefusal, sawNotSent:
		if a.workerLost && a.result == unknown && s.phase != succeeded {
			a.recorded = true
			a.result = refused
			s.changed()
			if s.phase == unresolved && !s.marked() {
				m.leave(s, s.intent)
			}
		}
		if m.Without.ResultOncePerRun && a.recorded {
			a.result = refused
		}
	default:
		if m.Without.ResultOncePerRun && a.recorded {
			a.result = unknown
		}
		a.recorded = true
	}
}

func (m *Model) succeedLate(s *state) {
	if s.phase == attempting {
		s.lateSuccess = !m.Without.LateSuccessKept
		return
	}
	if s.phase != absent {
		m.enter(s, succeeded)
	}
}

// scriptRecover closes the attempt whose lease ran out.
func (m *Model) scriptRecover(s *state, poison bool) {
	a := &s.sends[s.claim-1]
	a.result, a.workerLost = unknown, true
	if m.Without.WriteAhead {
		a.result = notSent
	}
	s.changed()
	m.endAttempt(s, s.lateSuccess, s.cancelAsked, func() {
		if poison {
			m.settle(s, dead)
			return
		}
		m.again(s)
	})
}
