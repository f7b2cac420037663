package model

import "redrive/internal/jobs"

// The violations that [check] can find, as they are printed.
const (
	noViolation     = ""
	sentTwice       = "P1: a send follows one that may have acted and is not settled"
	outsideKey      = "P1: a resend that the gateway does not take for the same"
	secondEffect    = "P1: a second effect"
	sentLate        = "P3: a first byte after the deadline"
	lie             = "it took effect and ended as not applied"
	untrueSuccess   = "succeeded, and nothing took effect"
	overwritten     = "a success was overwritten"
	endUnsettled    = "it ended while a send is unknown"
	orphanClaim     = "a claim that no run holds, and none was killed"
	noWayOut        = "P2: no way from here leads to an end without a disturbance"
	brokenStructure = "P2: claim, attempt and state do not agree"
)

// check judges the step from one state to the next.
func (m *Model) check(before, after *state) string {
	for i := range after.sends {
		was, is := before.sends[i].wire, after.sends[i].wire
		if was == unsent && is == travelling {
			if found := m.checkSend(before, after, i); found != noViolation {
				return found
			}
		}
		if was != acted && is == acted && m.secondEffect(after, i) {
			return secondEffect
		}
	}
	switch {
	case before.phase == succeeded && after.phase != succeeded:
		return overwritten
	case after.phase == succeeded && before.phase != succeeded && !after.acted():
		return untrueSuccess
	case (after.phase == attempting) != (after.claim != 0):
		return brokenStructure
	}
	if after.phase == attempting && !after.crashed && !after.held() {
		return orphanClaim
	}
	if settledEnd := after.phase == dead && after.reason == settledReason || after.phase == cancelled && !after.writtenOff; settledEnd && after.marked() {
		return endUnsettled
	}
	if (after.phase == dead || after.phase == cancelled) && !after.marked() && after.acted() {
		return lie
	}
	return noViolation
}

func (s *state) held() bool {
	for i := range s.workers {
		if s.workers[i].holds {
			return true
		}
	}
	return false
}

// checkSend judges the first byte of send j against every other send.
func (m *Model) checkSend(before, s *state, j int) string {
	if s.deadlineOver {
		return sentLate
	}
	a := &s.sends[j]
	for i := range s.sends {
		b := &s.sends[i]
		if i == j || !b.wire.mayAct() && b.result != unknown && b.result != open {
			continue
		}
		if before.sends[i].during {
			continue // it was reported after the grant
		}
		weak := a.weaker || m.Class == jobs.IdempotencyNone || m.Class == jobs.IdempotencyConditional
		switch {
		case weak:
			return sentTwice
		case a.elsewhere != b.elsewhere:
			return outsideKey
		case m.Class == jobs.IdempotencyKeyed && (!a.keyed || !b.keyed || s.forgotten):
			return outsideKey
		}
	}
	return noViolation
}

// secondEffect reports whether send i acted after another had, other than by
// what the request path did of its own.
func (m *Model) secondEffect(s *state, i int) bool {
	if s.reclassed {
		return false // a gateway that never was what was configured: the send itself is judged
	}
	for j := range s.sends {
		b := &s.sends[j]
		if j == i || b.wire != acted || b.alien || s.sends[i].alien {
			continue
		}
		if m.Class == jobs.IdempotencyNatural && b.elsewhere == s.sends[i].elsewhere {
			continue
		}
		return true
	}
	return false
}
