package model

import "redrive/internal/jobs"

// live reports whether a worker is still about attempt i: its lease ends only
// when that worker is stopped for long.
func (s *state) live(i int) bool {
	for k := range s.workers {
		if w := &s.workers[k]; w.at >= asking && int(w.line) == i {
			return true
		}
	}
	return false
}

// gatewaySteps are what can become of send i, and the clocks that belong to it.
func (m *Model) gatewaySteps(s *state, i int, emit func(string, int, *state)) {
	a := &s.sends[i]
	turn := func(text string, to wire) {
		n := *s
		n.sends[i].wire = to
		emit(text, i, &n)
	}
	switch a.wire {
	case travelling:
		turn("send %d arrives", processing)
	case processing:
		m.processSteps(s, i, emit)
	case accepted:
		turn("send %d, accepted earlier, takes effect", acted)
		turn("send %d, accepted earlier, comes to nothing", declined)
	}
	n := *s
	if a.result != unused && !a.leaseOver && (!s.live(i) || m.disturb(&n, stall)) {
		b := &n.sends[i]
		b.leaseOver = true
		if b.wire == travelling && !m.Without.NoBytesAfterLease {
			b.wire = lost
		}
		emit("the claim lease of send %d ends", i, &n)
	}
	// A gateway decides within the settle time after it got the request.
	if a.result == unknown && !a.settleOver && (a.leaseOver || m.Without.SettleFromLeaseEnd) && a.wire != processing {
		n := *s
		n.sends[i].settleOver = true
		emit("the settle time of send %d ends", i, &n)
	}
}

func (m *Model) processSteps(s *state, i int, emit func(string, int, *state)) {
	switch m.sameThere(s, i) {
	case acted:
		n := *s
		n.sends[i].wire = repeated
		emit("the gateway recognises send %d as a repetition", i, &n)
		return
	case accepted:
		return // the earlier one is decided first
	}
	for _, to := range []wire{acted, declined, accepted} {
		n := *s
		n.sends[i].wire = to
		emit(processText[to], i, &n)
	}
	if !s.failedRecord && m.Inquiry {
		n := *s
		n.sends[i].wire, n.failedRecord = declined, true
		emit("the gateway declines send %d and keeps a failed record", i, &n)
	}
}

var processText = [...]string{acted: "send %d takes effect", declined: "the gateway refuses send %d",
	accepted: "the gateway takes send %d for later (202)"}

// sameThere says what became of an earlier send that the gateway takes send i
// for: by key within its window, or by the operation itself (conditional).
func (m *Model) sameThere(s *state, i int) wire {
	found := unsent
	for j := range s.sends {
		b := &s.sends[j]
		if j == i || !b.wire.mayAct() || b.wire == travelling || b.wire == processing || !m.dedupes(s, &s.sends[i], b) {
			continue
		}
		if b.wire == acted {
			return acted
		}
		found = accepted
	}
	return found
}

// dedupes reports whether the gateway takes two sends for the same operation.
func (m *Model) dedupes(s *state, a, b *send) bool {
	if a.elsewhere != b.elsewhere {
		return false
	}
	if m.Class == jobs.IdempotencyKeyed || m.configured(s) == jobs.IdempotencyKeyed {
		return a.keyed && b.keyed && !s.forgotten && !(m.Class == jobs.IdempotencyKeyed && s.reclassed)
	}
	return m.Class == jobs.IdempotencyConditional
}
