package gate

import (
	"math/rand/v2"

	"redrive/internal/budget"
)

// Spans in the world's microseconds.
const (
	millisecond = int64(1000)
	second      = 1000 * millisecond
	minute      = 60 * second
	hour        = 60 * minute
)

// Second is what happened in one second of a world.
type Second struct {
	Arrived int // operations
	Calls   int // that reached the dependency, of any kind
	Good    int // operations that succeeded, at their first attempt or a later one
	Wasted  int // calls that ended as failures, timed out ones included
	Backlog int // operations that wait for a retry, or for a deferred first attempt, at its end
}

// Result is what a scenario brought.
type Result struct {
	Second       // over the whole run; Backlog is what was left
	First    int // first attempts made when the operation arrived
	Opened   int // times that the breaker opened
	Seconds  []Second
	Finished bool // the run ended by itself and not at its limit
}

type event struct {
	atUS, seq int64
	do        func()
}

// world is the clock, the agenda and the counts of one simulation.
type world struct {
	nowUS  int64
	seq    int64
	agenda heap[event]
	rand   *rand.Rand
	result Result
	ended  bool
}

func newWorld(seed uint64) *world {
	return &world{
		rand: rand.New(rand.NewPCG(seed, 0)),
		agenda: heap[event]{before: func(a, b event) bool {
			return a.atUS < b.atUS || a.atUS == b.atUS && a.seq < b.seq
		}},
	}
}

// after puts something on the agenda. What stands there for the same instant happens in
// the order in which it was put.
func (w *world) after(us int64, do func()) {
	w.seq++
	w.agenda.push(event{w.nowUS + us, w.seq, do})
}

// run plays the agenda until an instant, or until somebody calls end.
func (w *world) run(untilUS int64) Result {
	for w.agenda.len() > 0 && !w.ended && w.agenda.first().atUS <= untilUS {
		e := w.agenda.pop()
		w.nowUS = e.atUS
		e.do()
	}
	w.result.Finished = w.ended
	w.second()
	backlog := w.result.Backlog
	for _, s := range w.result.Seconds {
		w.result.Arrived += s.Arrived
		w.result.Calls += s.Calls
		w.result.Good += s.Good
		w.result.Wasted += s.Wasted
	}
	w.result.Backlog = backlog
	return w.result
}

func (w *world) end() { w.ended = true }

// second returns the counts of the present second.
func (w *world) second() *Second {
	for int64(len(w.result.Seconds)) <= w.nowUS/second {
		w.result.Seconds = append(w.result.Seconds, Second{Backlog: w.result.Backlog})
	}
	return &w.result.Seconds[w.nowUS/second]
}

// backlog adds n to the operations that wait.
func (w *world) backlog(n int) {
	s := w.second() // with what waited until now
	w.result.Backlog += n
	s.Backlog = w.result.Backlog
}

// exponential draws a span with that mean.
func (w *world) exponential(meanUS float64) int64 { return int64(w.rand.ExpFloat64() * meanUS) }

// uniform draws a span between two, both included.
func (w *world) uniform(fromUS, toUS int64) int64 { return fromUS + w.rand.Int64N(toUS-fromUS+1) }

// poisson lets operations arrive at a mean rate from now until an instant, the first
// one after a draw of its own.
func (w *world) poisson(perSecond float64, untilUS int64, arrive func()) {
	var next func()
	next = func() {
		if w.nowUS >= untilUS {
			return
		}
		arrive()
		w.after(w.exponential(float64(second)/perSecond), next)
	}
	w.after(w.exponential(float64(second)/perSecond), next)
}

// evenly lets operations arrive at equal distances from now until an instant.
func (w *world) evenly(perSecond, untilUS int64, arrive func()) {
	start, n := w.nowUS, int64(0)
	var next func()
	next = func() {
		if w.nowUS >= untilUS {
			return
		}
		arrive()
		n++
		w.after(start+n*second/perSecond-w.nowUS, next)
	}
	w.after(0, next)
}

// call makes one call and hands over what the caller learns of it: after timeoutUS (0:
// it waits for ever) nobody listens any more, whatever the dependency still does.
func (w *world) call(d dependency, timeoutUS int64, done func(budget.Sign, bool)) {
	w.second().Calls++
	over := false
	end := func(sign budget.Sign, timedOut bool) {
		if over {
			return
		}
		over = true
		if sign != budget.SignOK {
			w.second().Wasted++
		}
		done(sign, timedOut)
	}
	if timeoutUS > 0 {
		w.after(timeoutUS, func() { end(budget.SignFailed, true) })
	}
	d.call(w, func(ok bool) {
		if ok {
			end(budget.SignOK, false)
		} else {
			end(budget.SignFailed, false)
		}
	})
}

// heap is a binary heap.
type heap[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) first() T { return h.items[0] }

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	for i := len(h.items) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(h.items[i], h.items[up]) {
			return
		}
		h.items[i], h.items[up] = h.items[up], h.items[i]
		i = up
	}
}

func (h *heap[T]) pop() T {
	top, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if h.before(h.items[down], h.items[least]) {
				least = down
			}
		}
		if least == i {
			return top
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
