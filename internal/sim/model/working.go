package model

// workerSteps are the ways in which worker i can go on.
func (m *Model) workerSteps(s *state, i int, emit func(string, int, *state)) {
	w := &s.workers[i]
	if w.at != idle && m.can(s, crash) {
		m.crashStep(s, i, emit)
	}
	switch w.at {
	case idle:
		for fresh, tasks := range s.tasks {
			if tasks > 0 {
				n := *s
				n.tasks[fresh]--
				n.workers[i] = worker{at: taken, fresh: fresh == 1}
				emit("worker %c takes a delivery and draws a run id", i, &n)
			}
		}
	case taken:
		m.beginSteps(s, i, emit)
	case asking:
		n := *s
		n.workers[i].at = granted
		n.workers[i].slack = m.Without.ClockBeforeBegin && s.sends[w.line].leaseOver
		emit("worker %c reads the grant", i, &n)
		if l := *s; m.disturb(&l, lostBeginReply) {
			l.workers[i].at = unclear
			emit("worker %c: the reply of begin is lost", i, &l)
		}
	case unclear:
		m.beginSteps(s, i, emit)
		n := *s
		m.scriptAbandon(&n, &n.workers[i])
		n.endRun(i)
		emit("worker %c abandons the delivery", i, &n)
	case granted:
		m.sendSteps(s, i, emit)
	case sending:
		m.answerSteps(s, i, emit)
	case finished:
		m.finishSteps(s, i, emit)
	}
	if (w.at == granted || w.at == sending) && !s.sends[w.line].recorded {
		m.shutdownStep(s, i, emit)
	}
}

// endRun leaves worker i idle. What bore its run id bears nobody's now.
func (s *state) endRun(i int) { s.workers[i] = worker{} }

func (m *Model) beginSteps(s *state, i int, emit func(string, int, *state)) {
	n := *s
	w := &n.workers[i]
	switch m.scriptBegin(&n, w.fresh, w) {
	case grantedAnswer:
		w.at = asking
		emit("worker %c: begin is applied, granted", i, &n)
	case noRoom: // the gate can still refuse, below
	case stale:
		n.endRun(i)
		emit("worker %c: begin answers stale", i, &n)
	case held:
		n.endRun(i)
		emit("worker %c: begin ends the delivery: no safe resend, or no time left", i, &n)
	}
	if s.phase == released && s.workers[i].fresh {
		h := *s
		m.enter(&h, waiting)
		h.endRun(i)
		emit("worker %c: begin is refused by the gate", i, &h)
	}
	if s.begin == 0 {
		if d := *s; m.disturb(&d, delayedBegin) {
			d.begin = 1
			if s.workers[i].fresh {
				d.begin = 2
			}
			d.workers[i].delayed, d.workers[i].at = true, unclear
			emit("worker %c: begin times out on its way", i, &d)
		}
	}
}

// delayedSteps apply, or drop, the begin that is under way in the network.
func (m *Model) delayedSteps(s *state, emit func(string, int, *state)) {
	if s.begin == 0 {
		return
	}
	n := *s
	var w *worker
	for i := range n.workers {
		if n.workers[i].delayed {
			w = &n.workers[i]
		}
	}
	was := worker{}
	if w != nil {
		was = *w
	}
	if m.scriptBegin(&n, s.begin == 2, w) != noRoom {
		if w != nil {
			w.delayed = false
			if was.at > unclear { // it is past begin: its place does not change
				w.line = was.line
			}
		}
		n.begin = 0
		emit("the begin under way is applied, nobody reads its reply", 0, &n)
	}
	d := *s
	d.begin = 0
	for i := range d.workers {
		d.workers[i].delayed = false
	}
	emit("the begin under way never arrives", 0, &d)
}

func (m *Model) sendSteps(s *state, i int, emit func(string, int, *state)) {
	w := &s.workers[i]
	a := &s.sends[w.line]
	inTime := !a.leaseOver || w.slack || m.Without.SendBy
	if inTime && (!s.deadlineOver || m.Without.DeadlineAtFirstByte) && a.wire == unsent {
		n := *s
		n.sends[w.line].wire = travelling
		n.workers[i].at = sending
		emit("worker %c writes the first byte", i, &n)
	}
	n := *s
	n.workers[i].at, n.workers[i].outcome = finished, sawNotSent
	emit("worker %c sends nothing: no connection, or too late", i, &n)
}

func (m *Model) answerSteps(s *state, i int, emit func(string, int, *state)) {
	read := func(text string, saw outcome) {
		n := *s
		n.workers[i].at, n.workers[i].outcome = finished, saw
		emit(text, i, &n)
	}
	read("worker %c: no answer (timeout, reset)", sawNothing)
	switch s.sends[s.workers[i].line].wire {
	case acted, repeated:
		read("worker %c reads: succeeded", sawSuccess)
	case declined:
		read("worker %c reads a definite refusal", sawRefusal)
	case accepted:
		read("worker %c reads: accepted, not finished (202)", sawAccepted)
	}
}

func (m *Model) finishSteps(s *state, i int, emit func(string, int, *state)) {
	for _, end := range []bool{false, true} {
		n := *s
		m.scriptFinish(&n, &n.workers[i], end)
		done := n
		done.endRun(i)
		text := finishText[s.workers[i].outcome]
		if end {
			if n.phase == s.phase || n.phase == succeeded {
				continue
			}
			text = "worker %c: finish is written, no attempt left or worth it"
		}
		emit(text, i, &done)
		if !end && m.disturb(&n, lostFinishReply) {
			emit("worker %c: finish is written, its reply is lost", i, &n)
		}
	}
}

var finishText = [...]string{sawNothing: "worker %c: finish(unknown) is written", sawSuccess: "worker %c: finish(succeeded) is written",
	sawRefusal: "worker %c: finish(refused) is written", sawAccepted: "worker %c: finish(unknown, acted) is written",
	sawNotSent: "worker %c: finish(not sent) is written"}

// shutdownStep writes the attempt unknown while it is still under way.
func (m *Model) shutdownStep(s *state, i int, emit func(string, int, *state)) {
	if n := *s; m.disturb(&n, shutdown) {
		saw := n.workers[i].outcome
		n.workers[i].outcome = sawNothing
		m.scriptFinish(&n, &n.workers[i], false)
		n.workers[i].outcome = saw
		emit("worker %c shuts down: finish(unknown) is written while its send goes on", i, &n)
	}
}

func (m *Model) crashStep(s *state, i int, emit func(string, int, *state)) {
	n := *s
	m.disturb(&n, crash)
	n.crashed = true
	fresh := 0
	if n.workers[i].fresh {
		fresh = 1
	}
	n.tasks[fresh] = min(n.tasks[fresh]+1, 2)
	n.endRun(i)
	emit("worker %c is killed; its task comes back", i, &n)
}
