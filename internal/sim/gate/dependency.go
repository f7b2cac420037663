package gate

// dependency takes a call and says once whether it succeeded, never in the same
// instant's turn.
type dependency interface {
	call(w *world, done func(ok bool))
}

// flaky fails a share of calls, however many there are; both ways of a call take an
// exponential time.
type flaky struct {
	failureRate float64
	legUS       float64
}

func (d flaky) call(w *world, done func(bool)) {
	w.after(w.exponential(d.legUS), func() {
		ok := w.rand.Float64() >= d.failureRate
		w.after(w.exponential(d.legUS), func() { done(ok) })
	})
}

// servers share calls in turn; each works on some at once and keeps the others in a
// queue without end. What a caller no longer waits for is worked on all the same.
type servers struct {
	all     []*server
	next    int
	meanUS  float64
	outFrom int64 // the first server refuses at once from then
	outTo   int64 // until then
}

type server struct {
	slots int
	busy  int
	queue []func(bool)
}

func (d *servers) call(w *world, done func(bool)) {
	n := d.next % len(d.all)
	d.next++
	if n == 0 && w.nowUS >= d.outFrom && w.nowUS < d.outTo {
		w.after(0, func() { done(false) })
		return
	}
	s := d.all[n]
	if s.busy == s.slots {
		s.queue = append(s.queue, done)
		return
	}
	s.work(w, d.meanUS, done)
}

func (s *server) work(w *world, meanUS float64, done func(bool)) {
	s.busy++
	w.after(w.exponential(meanUS), func() {
		s.busy--
		done(true)
		if len(s.queue) > 0 {
			next := s.queue[0]
			s.queue = s.queue[1:]
			s.work(w, meanUS, next)
		}
	})
}

// loaded fails everything during an outage. Otherwise it bears capacity calls a second;
// of more, it serves capacity/offered of what it could: the goodput falls to
// capacity^2/offered. The offered load is what arrived in the second before.
type loaded struct {
	capacity  int // 0: any load
	latencyUS int64
	outFrom   int64
	outTo     int64
	lately    []int64 // instants of the calls of the last second, oldest first
}

func (d *loaded) call(w *world, done func(bool)) {
	ok := w.nowUS < d.outFrom || w.nowUS >= d.outTo
	if d.capacity > 0 {
		d.lately = append(d.lately, w.nowUS)
		for d.lately[0] <= w.nowUS-second {
			d.lately = d.lately[1:]
		}
		if offered := len(d.lately); offered > d.capacity {
			// Of offered calls capacity^2/offered succeed.
			ok = ok && w.rand.IntN(offered*offered) < d.capacity*d.capacity
		}
	}
	w.after(d.latencyUS, func() { done(ok) })
}
