package model

import (
	"slices"

	"redrive/internal/jobs"
)

// Found is what an exploration brought.
type Found struct {
	States, Transitions int
	Cut                 bool     // stopped at the limit: not all states were seen
	Violation           string   // empty when nothing was found
	Steps               []string // the shortest way to the violation
}

// Explore visits every reachable state, nearest first, until a violation or the
// limit of states. A limit of 0 means none.
func (m *Model) Explore(limit int) Found {
	x := &exploration{m: m, ids: map[state]int32{}}
	for _, s := range m.submitted() {
		s.canonical(m.windows(), nil)
		x.visit(s, -1)
	}
	var found Found
	for at := 0; at < len(x.states) && found.Violation == noViolation; at++ {
		if limit > 0 && len(x.states) > limit {
			found.Cut = true
			break
		}
		s := x.states[at]
		m.steps(&s, func(_ string, _ int, next *state) {
			if found.Violation != noViolation {
				return
			}
			found.Transitions++
			next.tidy()
			violation := m.check(&s, next)
			if violation == m.overlook { // noViolation by default
				violation = noViolation
			}
			calm := next.left == s.left
			next.canonical(m.windows(), nil)
			id := x.visit(*next, int32(at))
			if calm && !s.phase.ended() {
				x.calm = append(x.calm, edge{int32(at), id})
			}
			if violation != noViolation {
				found.Violation, found.Steps = violation, x.way(int32(at), next)
			}
		})
	}
	found.States = len(x.states)
	if found.Violation == noViolation && !found.Cut {
		if stuck := x.stuck(); stuck >= 0 {
			found.Violation, found.Steps = noWayOut, x.way(stuck, nil)
		}
	}
	return found
}

// exploration is the memory of one run.
type exploration struct {
	m      *Model
	ids    map[state]int32
	states []state
	from   []int32 // the state from which each was first reached, -1 for a root
	calm   []edge  // steps without disturbance out of what has not ended
}

type edge struct{ from, to int32 }

func (x *exploration) visit(s state, from int32) int32 {
	if id, ok := x.ids[s]; ok {
		return id
	}
	id := int32(len(x.states))
	x.ids[s] = id
	x.states = append(x.states, s)
	x.from = append(x.from, from)
	return id
}

// stuck returns a state from which no calm way leads to an end, or -1.
func (x *exploration) stuck() int32 {
	// Edges by target, as a list threaded through next: the first one of a
	// target is in head.
	head := make([]int32, len(x.states))
	next := make([]int32, len(x.calm))
	for i := range head {
		head[i] = -1
	}
	for i, e := range x.calm {
		next[i], head[e.to] = head[e.to], int32(i)
	}
	ends := make([]bool, len(x.states))
	var todo []int32
	for i := range x.states {
		if x.states[i].phase.ended() {
			ends[i] = true
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		to := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for e := head[to]; e >= 0; e = next[e] {
			if from := x.calm[e].from; !ends[from] {
				ends[from] = true
				todo = append(todo, from)
			}
		}
	}
	for i, ok := range ends {
		if !ok {
			return int32(i)
		}
	}
	return -1
}

// way tells how state id was reached, and the step from there to last (nil for
// none): each step is looked for again among those of the state before it.
func (x *exploration) way(id int32, last *state) []string {
	var path []state
	for at := id; at >= 0; at = x.from[at] {
		path = append(path, x.states[at])
	}
	slices.Reverse(path)
	if last != nil {
		path = append(path, *last)
	}
	who := names{workers: [...]int{0, 1}, inquiries: [...]int{0, 1}, sends: [...]int{0, 1, 2}}
	lines := []string{"submitted: " + path[0].text()}
	for i := 1; i < len(path); i++ {
		lines = append(lines, x.m.stepBetween(&path[i-1], &path[i], &who)+"  -> "+path[i].text())
	}
	return lines
}

func (m *Model) stepBetween(s, want *state, who *names) string {
	line, before := "", *who
	m.steps(s, func(text string, place int, next *state) {
		after := before
		next.tidy()
		next.canonical(m.windows(), &after)
		if line == "" && *next == *want {
			line, *who = describe(text, place, before), after
		}
	})
	if line == "" {
		panic("model: a recorded step cannot be taken again")
	}
	return line
}

// windows reports whether keys have windows, so that it matters when one began.
func (m *Model) windows() bool { return m.Class == jobs.IdempotencyKeyed }
