package model

import "redrive/internal/jobs"

// inForce is the weaker of the class at submission and the configured one.
func (m *Model) inForce(s *state) jobs.Idempotency {
	stored, configured := m.Class, m.configured(s)
	switch {
	case m.Without.StoredClassInForce:
		return configured
	case m.Without.ConfiguredClassInForce:
		return stored
	}
	return stored.Weaker(configured)
}

// configured is the class after somebody changed it: a strong one turns out to
// be none, a weak one is declared to be keyed.
func (m *Model) configured(s *state) jobs.Idempotency {
	if !s.reclassed {
		return m.Class
	}
	if m.Class == jobs.IdempotencyNone || m.Class == jobs.IdempotencyConditional {
		return jobs.IdempotencyKeyed
	}
	return jobs.IdempotencyNone
}

func (s *state) marked() bool {
	for i := range s.sends {
		if s.sends[i].result == unknown {
			return true
		}
	}
	return false
}

// safe reports whether a resend is safe now.
func (m *Model) safe(s *state) bool {
	if !s.marked() {
		return true
	}
	class := m.inForce(s)
	switch class {
	case jobs.IdempotencyNatural:
	case jobs.IdempotencyKeyed:
		if s.unsafe && !m.Without.SafeUntil {
			return false
		}
	default:
		return false
	}
	for i := range s.sends {
		a := &s.sends[i]
		if a.result != unknown {
			continue
		}
		if a.elsewhere != s.moved && !m.Without.SameTarget {
			return false
		}
		if class == jobs.IdempotencyKeyed && !a.keyed && !m.Without.SameKey {
			return false
		}
	}
	return true
}
