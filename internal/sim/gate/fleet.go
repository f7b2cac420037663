package gate

import (
	"strconv"

	"redrive/internal/budget"
)

// Fleet is Redrive's part of a scenario. The rival policies that have a budget or a
// breaker too are fleets with less in their parameters.
type Fleet struct {
	Instances  int // of the request path
	Workers    int
	Slots      int // of each worker
	Params     budget.Params
	NoBudget   bool // whatever is due leaves as soon as the breaker lets it
	KeepTokens bool // tokens are not clamped when the breaker closes: what others do
}

const (
	// epochMS is the world's beginning for the gate, whose instants are never near 0.
	epochMS = int64(1_800_000_000_000)

	backoffFloorUS = 100 * millisecond
	backoffCapUS   = 10 * minute
	probeLeaseMS   = 7000 // send window, timeout and grace of a claim
	releaseLimit   = 100
	spacingUS      = 2 * millisecond // least time between two releases of a worker
	idleUS         = second
	slotsUS        = 50 * millisecond // when slots or in-flight held the rest back
)

type operation struct {
	number int64 // in the order of arrival, which is that of the deadlines
	sends  int
}

// fleet is the instances, the workers, the backlog and the one gate.
type fleet struct {
	Fleet
	w         *world
	d         dependency
	timeoutUS int64
	gate      budget.Gate
	arrived   int64
	inFlight  int64 // calls of the workers
	due       heap[operation]
	instances []*instance
	workers   []*worker
	turn      int // whose turn it is to be woken
}

// instance is one process of the request path.
type instance struct {
	flush  budget.Flush // since it last told
	closed bool         // the breaker, as the last answer said
}

type worker struct {
	busy    int
	askUS   int64 // when it asks next
	askedUS int64
}

func newFleet(w *world, d dependency, timeoutUS int64, opts Fleet) *fleet {
	f := &fleet{Fleet: opts, w: w, d: d, timeoutUS: timeoutUS}
	f.due.before = func(a, b operation) bool { return a.number < b.number }
	for range opts.Instances {
		i := &instance{closed: true}
		f.instances = append(f.instances, i)
		w.after(w.uniform(0, second), func() { f.tell(i) })
	}
	for range opts.Workers {
		k := &worker{askUS: -1}
		f.workers = append(f.workers, k)
		f.askIn(k, w.uniform(0, second))
	}
	return f
}

func (f *fleet) nowMS() int64 { return epochMS + f.w.nowUS/millisecond }

func (f *fleet) jitter() int64 { return f.w.rand.Int64N(1001) }

// change is one script on the gate.
func (f *fleet) change(script func(g budget.Gate, nowMS int64) budget.Gate) {
	before := f.gate
	g := f.gate.At(f.nowMS(), f.Params)
	tokens := g.TokensMilli
	f.gate = script(g, f.nowMS())
	if f.gate.State == budget.Open && before.State != budget.Open {
		f.w.result.Opened++
	}
	if f.KeepTokens && f.gate.State == budget.Closed && g.State == budget.HalfOpen {
		f.gate.TokensMilli = tokens
	}
}

// arrive makes the first attempt, unless the breaker is known not to be closed: then it
// is deferred, and is backlog.
func (f *fleet) arrive(number int) {
	f.w.second().Arrived++
	f.arrived++
	op, i := operation{number: f.arrived}, f.instances[number]
	if !i.closed {
		f.w.backlog(1)
		f.ready(op)
		return
	}
	f.w.result.First++
	op.sends = 1
	f.w.call(f.d, f.timeoutUS, func(sign budget.Sign, timedOut bool) {
		switch {
		case sign == budget.SignOK:
			i.flush.OK++
			f.w.second().Good++
			return
		case timedOut:
			i.flush.TimedOut++
		default:
			i.flush.Failed++
		}
		f.w.backlog(1)
		f.later(op)
	})
}

// tell is the script first_attempts. Its answer is how an instance knows the breaker.
func (f *fleet) tell(i *instance) {
	f.change(func(g budget.Gate, nowMS int64) budget.Gate {
		i.flush.Jitter = f.jitter()
		return g.Flush(i.flush, nowMS, f.Params)
	})
	i.flush, i.closed = budget.Flush{}, f.gate.State == budget.Closed
	f.w.after(f.w.uniform(250*millisecond, second), func() { f.tell(i) })
}

// later lets an operation that failed come due again after its back-off.
func (f *fleet) later(op operation) {
	wait := backoffFloorUS + f.w.uniform(0, backoff(backoffCapUS, op.sends))
	f.w.after(wait, func() { f.ready(op) })
}

// ready puts an operation that is due into the backlog's lane, and lets a worker ask:
// release tells when the next one comes due.
func (f *fleet) ready(op operation) {
	f.due.push(op)
	k := f.workers[f.turn%len(f.workers)]
	f.turn++
	f.askIn(k, max(k.askedUS+spacingUS-f.w.nowUS, 0))
}

// askIn lets a worker ask in so much time, unless it does so earlier anyway.
func (f *fleet) askIn(k *worker, us int64) {
	at := f.w.nowUS + us
	if k.askUS >= f.w.nowUS && k.askUS <= at {
		return
	}
	k.askUS = at
	f.w.after(us, func() {
		if k.askUS == at {
			k.askUS = -1
			f.ask(k)
		}
	})
}

// ask is the script release with the begin of what it gave: as many as slots, in-flight,
// rate, permits, lane and tokens allow.
func (f *fleet) ask(k *worker) {
	k.askedUS = f.w.nowUS
	next := idleUS
	f.change(func(g budget.Gate, nowMS int64) budget.Gate {
		room, wait := f.room(g, nowMS, int64(f.Slots-k.busy))
		g = g.Released(nowMS, f.inFlight)
		given := int64(0)
		for ; given < room && f.due.len() > 0; given++ {
			probe, ok := "", false
			if g, probe, ok = f.pay(g, nowMS); !ok {
				wait = f.payableIn(g)
				break
			}
			f.send(k, f.due.pop(), probe, g.Generation)
		}
		if f.due.len() > 0 {
			next = wait
		}
		return g.TakeRate(given, nowMS, f.Params)
	})
	f.askIn(k, next)
}

// room is how many may leave for all that is no matter of payment, and when to ask
// again if that was too few.
func (f *fleet) room(g budget.Gate, nowMS, slots int64) (n, againUS int64) {
	n, againUS = slots, slotsUS
	least := func(m, us int64) {
		if m >= 0 && m < n {
			n, againUS = m, us
		}
	}
	if most := g.InFlight(nowMS, f.Params); most >= 0 {
		least(max(most-f.inFlight, 0), slotsUS)
	}
	least(g.Rate(nowMS, f.Params), slotsUS)
	switch {
	case g.State == budget.Open:
		least(0, min((g.UntilMS-nowMS)*millisecond, idleUS))
	case g.State == budget.HalfOpen:
		least(g.Permits(f.Params), idleUS)
	}
	if !f.NoBudget {
		least(releaseLimit, spacingUS)
	}
	return n, againUS
}

// pay finds what lets the first of the backlog leave: a probe's permit, else the lane,
// which deferred first attempts take before tokens and retries after them.
func (f *fleet) pay(g budget.Gate, nowMS int64) (after budget.Gate, probe string, ok bool) {
	op := f.due.first()
	if g.State == budget.HalfOpen {
		probe = strconv.FormatInt(op.number, 10)
		g, ok = g.Probe(probe, nowMS+probeLeaseMS, f.Params)
		return g, probe, ok
	}
	if f.NoBudget {
		return g, "", true
	}
	if g.Lane() > 0 && (op.sends == 0 || g.Retries() == 0) {
		return g.TakeLane(1), "", true
	}
	g, ok = g.Spend(nowMS, f.Params)
	return g, "", ok
}

// payableIn is when the floor or the lane will have paid for one more.
func (f *fleet) payableIn(g budget.Gate) int64 {
	wait := idleUS
	if floor := f.Params.FloorMilliPerSecond; floor > 0 {
		wait = min(wait, (1000-g.TokensMilli)*second/floor)
	}
	if g.LaneMilli > 0 {
		wait = min(wait, (1000-g.LaneTokensMilli)*second/g.LaneMilli)
	}
	return max(wait, 20*millisecond)
}

// send makes one call of the backlog and reports its end to the gate.
func (f *fleet) send(k *worker, op operation, probe string, generation int64) {
	k.busy++
	f.inFlight++
	op.sends++
	f.w.call(f.d, f.timeoutUS, func(sign budget.Sign, _ bool) {
		k.busy--
		f.inFlight--
		f.change(func(g budget.Gate, nowMS int64) budget.Gate {
			return g.Report(budget.Report{Sign: sign, Generation: generation, ID: probe, Jitter: f.jitter()}, nowMS, f.Params)
		})
		if sign != budget.SignOK {
			f.later(op)
			return
		}
		f.w.second().Good++
		f.w.backlog(-1)
	})
}
