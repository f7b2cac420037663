package model

// handOut gives an inquiry to a handler: unresolved, none under way.
func (m *Model) handOut(s *state, q *inquiry) {
	*q = inquiry{at: handedOut, current: true, unchanged: true, settled: true, same: true,
		spaced: s.notFound > 0 && s.spaceOver, elsewhere: s.moved}
	for i := range s.sends {
		a := &s.sends[i]
		if a.result == unknown {
			q.settled = q.settled && a.settleOver
			q.same = q.same && a.elsewhere == s.moved
		}
	}
	s.asked = true
}

// truths lists what the gateway may answer at this instant. What is being
// processed does not show; a lagging replica shows nothing of ours. What the
// gateway accepted shows as pending once the settle time is over, which is what
// that time is chosen for; where it told us so (202), even that is not relied on.
func (s *state) truths(q *inquiry) []answer {
	if s.lagging {
		return []answer{foundNothing}
	}
	pending, hidden := false, true
	for i := range s.sends {
		a := &s.sends[i]
		if a.elsewhere != q.elsewhere {
			continue // another target, another account: not seen from here
		}
		if a.wire == acted {
			return []answer{foundApplied}
		}
		if a.wire == accepted {
			pending = true
			hidden = hidden && (a.took || !a.settleOver)
		}
	}
	switch {
	case pending && hidden:
		return []answer{foundPending, foundNothing}
	case pending:
		return []answer{foundPending}
	case s.failedRecord:
		return []answer{foundFailed, foundNothing}
	}
	return []answer{foundNothing}
}

// scriptInquired is inquired(run, answer). resend says whether failed_means and
// after_not_found let the stored intent happen.
func (m *Model) scriptInquired(s *state, q *inquiry, resend bool) {
	if q.current {
		s.asked = false
		q.current = false
	}
	if q.answer == foundApplied {
		if s.phase != succeeded {
			m.appliedByInquiry(s)
		}
		return
	}
	if q.written && !m.Without.NotFoundWrittenOnce {
		return
	}
	if s.phase != unresolved || !q.unchanged && !m.Without.NotFoundAttemptsUnchanged {
		return
	}
	proof := (q.settled || m.Without.NotFoundAfterSettle) && (q.same || m.Without.AskWhereItWasSent)
	took := s.tookAny()
	switch {
	case q.answer == foundFailed && (proof && !took || m.Without.FailedOnlyOfAllAttempts):
		s.settleAll()
		if resend {
			m.leave(s, s.intent)
		} else {
			m.leave(s, dead)
		}
	case q.answer == foundNothing && proof && (!took || m.Without.ActedNotSettledByNotFound):
		m.countNotFound(s, q, resend)
	case !m.Without.OtherAnswerResetsNotFound:
		s.notFound, s.spaceOver = 0, false
	}
}

func (m *Model) countNotFound(s *state, q *inquiry, resend bool) {
	if s.notFound == 0 && !m.Without.NotFoundTwice {
		s.notFound, s.spaceOver = 1, false
		return
	}
	if !q.spaced && !m.Without.NotFoundSpaced && !m.Without.NotFoundTwice {
		return
	}
	s.settleAll()
	if resend || s.intent != waiting {
		m.leave(s, s.intent)
		return
	}
	m.enter(s, dead)
	s.reason = settledReason
}

func (s *state) tookAny() bool {
	for i := range s.sends {
		if s.sends[i].result == unknown && s.sends[i].took {
			return true
		}
	}
	return false
}

// appliedByInquiry records a success that an inquiry saw: of whichever attempt,
// none of them is unknown any more.
func (m *Model) appliedByInquiry(s *state) {
	if s.phase == absent {
		return
	}
	m.succeedLate(s)
}

func (m *Model) inquirySteps(s *state, emit func(string, int, *state)) {
	for i := range s.inquiries {
		q := &s.inquiries[i]
		switch q.at {
		case noInquiry:
			if s.phase == unresolved && !s.asked && !(i > 0 && s.inquiries[0].at == noInquiry) {
				n := *s
				m.handOut(&n, &n.inquiries[i])
				emit("inquiry %c is handed out", i, &n)
			}
		case handedOut:
			for _, a := range s.truths(q) {
				n := *s
				n.inquiries[i].at, n.inquiries[i].answer = answered, a
				emit(answerText[a], i, &n)
			}
			n := *s
			n.inquiries[i].at, n.inquiries[i].answer = answered, foundPending
			emit("inquiry %c itself fails", i, &n)
		case answered:
			m.inquiredSteps(s, i, emit)
		}
		if n := *s; q.current && m.disturb(&n, slowInquiry) {
			n.asked, n.inquiries[i].current = false, false
			emit("the lease of inquiry %c runs out", i, &n)
		}
	}
}

var answerText = [...]string{foundApplied: "inquiry %c is answered: succeeded", foundPending: "inquiry %c is answered: pending",
	foundFailed: "inquiry %c is answered: failed", foundNothing: "inquiry %c is answered: not found"}

func (m *Model) inquiredSteps(s *state, i int, emit func(string, int, *state)) {
	for _, resend := range []bool{true, false} {
		n := *s
		m.scriptInquired(&n, &n.inquiries[i], resend)
		repeat := n
		n.inquiries[i] = inquiry{}
		text := "inquired(%c) is written"
		if n.phase == dead && !resend {
			text = "inquired(%c) is written (after_not_found: dead, or failed is final)"
		}
		emit(text, i, &n)
		if resend && !s.inquiries[i].written && m.disturb(&repeat, lostInquiredReply) {
			repeat.inquiries[i].written = true
			emit("inquired(%c) is written, its reply is lost", i, &repeat)
		}
	}
}
