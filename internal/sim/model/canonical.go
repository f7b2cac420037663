package model

// canonical makes states that differ in nothing that can matter one and the
// same: what has no identity is ordered, what nobody can read is dropped. who, if
// not nil, follows whom each place belongs to.
func (s *state) canonical(windows bool, who *names) {
	for i := range s.sends {
		s.sends[i].forget(s.refersTo(i), windows)
	}
	s.sortSends(who)
	if s.workers[0].key() > s.workers[1].key() {
		s.workers[0], s.workers[1] = s.workers[1], s.workers[0]
		if who != nil {
			who.workers[0], who.workers[1] = who.workers[1], who.workers[0]
		}
	}
	for i := range s.inquiries {
		if s.inquiries[i].at == noInquiry {
			s.inquiries[i] = inquiry{}
		}
	}
	if s.inquiries[0].key() > s.inquiries[1].key() {
		s.inquiries[0], s.inquiries[1] = s.inquiries[1], s.inquiries[0]
		if who != nil {
			who.inquiries[0], who.inquiries[1] = who.inquiries[1], who.inquiries[0]
		}
	}
	if s.phase != unresolved && s.phase != dead {
		s.intent = absent
	}
	if s.left == 0 {
		s.spent = 0
	}
}

// forget drops what no step can read any more of a send: held says whether a run
// or the claim still refers to it, windows whether keys have windows.
func (a *send) forget(held, windows bool) {
	if !windows {
		a.early = false
	}
	if held {
		return
	}
	a.recorded, a.workerLost = false, false
	if a.wire == declined || a.wire == repeated || a.wire == unsent && a.result != unused {
		a.wire = lost
	}
	if a.result != unknown {
		a.took, a.settleOver = false, false
	}
}

// sortSends puts the sends into an order that depends on nothing but themselves;
// claim and workers go on referring to theirs.
func (s *state) sortSends(who *names) {
	swap := func(i, j int) {
		s.sends[i], s.sends[j] = s.sends[j], s.sends[i]
		if who != nil {
			who.sends[i], who.sends[j] = who.sends[j], who.sends[i]
		}
		other := func(n int) int {
			switch n {
			case i:
				return j
			case j:
				return i
			}
			return n
		}
		if s.claim != 0 {
			s.claim = uint8(other(int(s.claim)-1) + 1)
		}
		for k := range s.workers {
			if w := &s.workers[k]; w.at >= asking {
				w.line = uint8(other(int(w.line)))
			}
		}
	}
	rank := func(i int) uint64 {
		r := uint64(s.sends[i].key()) << 8
		if int(s.claim) == i+1 {
			r |= 128
		}
		for k := range s.workers {
			if w := &s.workers[k]; w.at >= asking && int(w.line) == i {
				r |= uint64(w.at) // equal sends are told apart by who is at them
			}
		}
		return r
	}
	for i := 1; i < len(s.sends); i++ {
		for j := i; j > 0 && rank(j-1) < rank(j); j-- {
			swap(j-1, j)
		}
	}
}

// names says whom the places of a state belong to, for a trace in which each
// worker, inquiry and send keeps its letter or number.
type names struct {
	workers   [maxWorkers]int
	inquiries [maxInquiries]int
	sends     [maxSends]int
}

func bits(flags ...bool) (n uint32) {
	for _, f := range flags {
		n <<= 1
		if f {
			n |= 1
		}
	}
	return n
}

func (a *send) key() uint32 {
	return uint32(a.result)<<20 | uint32(a.wire)<<16 |
		bits(a.recorded, a.workerLost, a.took, a.leaseOver, a.settleOver, a.early, a.elsewhere, a.keyed, a.during, a.alien, a.weaker)
}

func (w *worker) key() uint32 {
	return uint32(w.at)<<16 | uint32(w.outcome)<<12 | uint32(w.line)<<8 | bits(w.fresh, w.holds, w.delayed, w.slack)
}

func (q *inquiry) key() uint32 {
	return uint32(q.at)<<16 | uint32(q.answer)<<8 | bits(q.current, q.unchanged, q.settled, q.spaced, q.same, q.elsewhere, q.written)
}
