package budget

// State is what the breaker lets through.
type State string

// The states of the breaker.
const (
	Closed   State = "closed"
	Open     State = "open"      // nothing leaves
	HalfOpen State = "half_open" // as many calls as there are probe permits
)

// States lists the states of the breaker.
var States = []State{Closed, Open, HalfOpen}

const (
	callMilli = 1000 // one call costs one token

	// GapMS is for how long no worker may have asked before what came due meanwhile is
	// backlog.
	GapMS = 30_000
	// HintsToPark is how many 429 or 503 with a Retry-After in a row park the dependency.
	HintsToPark = 3

	rampStart   = 100 // thousandths that are let through at once when the breaker closes
	whole       = 1000
	maxParkMS   = 24*3_600_000 + 30_000 // a day, and the jitter on top
	maxLeaseMS  = 3_600_000             // of a probe: no call is longer
	maxJitterMS = 30_000
	hourMS      = 3_600_000
)

// Gate is the state of one dependency's gate at an instant. The zero value is a lost
// key: it starts low. It is the oracle that the Lua library is tested against, and
// what the simulations run; not safe for concurrent use.
type Gate struct {
	Known       bool // false: the key is missing or garbled
	TokensMilli int64
	RestMicro   int64 // what is left of a milli-token: 0 to 999 of its thousandths
	FilledAtMS  int64

	State      State // "": closed
	Generation int64 // changes with every change of the state; results of an older one are ignored
	SinceMS    int64 // of the state; 0: since ever
	UntilMS    int64 // while open
	Opened     int64 // times in a row that it opened before a ramp was over
	Run        int64 // failures in a row
	ProbesOK   int64 // of this half-open period
	Neutral    int64 // probes of this half-open period that said nothing
	Why        string
	Probes     []Lease // permits that are out
	Bins       []Bin   // what came back and what left, oldest first

	ParkedUntilMS int64
	Hints         int64 // answers in a row that asked to wait

	LaneMilli       int64 // calls a second, in thousandths; 0: shut
	LaneTokensMilli int64
	LaneRestMicro   int64
	LaneFilledMS    int64
	LaneGrownMS     int64 // since when no bad sign and no growth
	LaneCutMS       int64 // last halving

	RateTokensMilli int64 // may be below 0: the request path asks nobody
	RateRestMicro   int64
	RateFilledMS    int64 // 0: never

	FreshMS      int64 // what came due before is backlog
	ReleasedAtMS int64 // when a worker asked last; 0: never
	Begun        bool  // something was sent once: the gate of a dependency with a past

	Hour       int64 // of Peak, in hours since the epoch
	Peak       int64 // most calls under way in that hour
	PeakBefore int64 // the same in the hour before

	Held        bool // by a person
	HeldUntilMS int64
	RolledAtMS  int64 // since when the store is known to have lost attempts
	Override    Override
}

// Lease is a probe's permit.
type Lease struct {
	ID      string
	UntilMS int64
}

// Bin counts what happened in one stretch of the window.
type Bin struct {
	AtMS      int64
	Calls     int64 // results that say something of the dependency
	Failed    int64
	Throttled int64
	Firsts    int64 // first attempts sent
	Spent     int64 // tokens spent
}

// At returns the gate as it stands at nowMS.
func (g Gate) At(nowMS int64, p Params) Gate {
	p = p.With(g.Override, nowMS)
	if g.State == "" {
		g.State = Closed
	}
	g = g.healed(nowMS, p)
	// The ramp of the last instant and not of this one: it only grows, so that this errs
	// on the strict side.
	before, was := g.State, g.ramp(g.FilledAtMS, p)
	if g.State == Open && nowMS >= g.UntilMS {
		g.turn(HalfOpen, nowMS)
		g.UntilMS, g.ProbesOK, g.Neutral = 0, 0, 0
	}
	if g.State != Closed && p.Breaker.off() {
		g.turn(Closed, nowMS)
		g.SinceMS, g.UntilMS, g.Why, g.FreshMS = 0, 0, "", nowMS
	}
	g.fill(nowMS, p, before == Closed, was)
	g = g.fresh(nowMS, p)
	g.lane(nowMS, p)
	g.rate(nowMS, p)
	g.prune(nowMS, p)
	return g
}

// healed takes back instants that lie in the future: the clock stepped back, or a hand
// wrote them.
func (g Gate) healed(nowMS int64, p Params) Gate {
	for _, at := range []*int64{&g.SinceMS, &g.LaneFilledMS, &g.LaneGrownMS, &g.LaneCutMS, &g.RateFilledMS, &g.FreshMS, &g.ReleasedAtMS} {
		*at = min(*at, nowMS)
	}
	g.UntilMS = min(g.UntilMS, nowMS+p.Breaker.MaxOpenMS)
	g.ParkedUntilMS = min(g.ParkedUntilMS, nowMS+maxParkMS)
	return g
}

// turn changes the breaker's state. Results of what was sent before count no more.
func (g *Gate) turn(to State, nowMS int64) {
	g.State, g.SinceMS = to, nowMS
	g.Generation++
	g.Run, g.Probes = 0, nil
	bins := make([]Bin, len(g.Bins)) // what left stays known, what came back does not count again
	for i, b := range g.Bins {
		bins[i] = Bin{AtMS: b.AtMS, Firsts: b.Firsts, Spent: b.Spent}
	}
	g.Bins = bins
}

// ramp is how much of fill, cap and in-flight is let through, in thousandths.
func (g Gate) ramp(atMS int64, p Params) int64 {
	if g.State != Closed || g.SinceMS == 0 || p.Breaker.RampMS == 0 {
		return whole
	}
	return max(rampStart, min(whole, (atMS-g.SinceMS)*whole/p.Breaker.RampMS))
}

func share(n, thousandths int64) int64 { return n * thousandths / whole }

// limit is the most that the bucket holds.
func (g Gate) limit(nowMS int64, p Params) int64 {
	m := g.ramp(nowMS, p)
	if m == whole || p.Cap == 0 {
		return p.Cap * callMilli
	}
	return max(callMilli, share(p.Cap*callMilli, m))
}

func (g *Gate) fill(nowMS int64, p Params, closed bool, was int64) {
	limit := g.limit(nowMS, p)
	if !g.Known {
		g.TokensMilli, g.RestMicro, g.FilledAtMS, g.Known = min(limit, p.FloorMilliPerSecond), 0, nowMS, true
		return
	}
	floor := share(p.FloorMilliPerSecond, was)
	elapsed := max(nowMS-g.FilledAtMS, 0)
	if !closed {
		elapsed = 0 // no fill while nothing may be sent
	}
	if floor > 0 {
		elapsed = min(elapsed, limit*1000/floor+1) // that fills it; longer would overflow
	}
	g.TokensMilli, g.RestMicro = add(g.TokensMilli, g.RestMicro, floor, elapsed)
	g.FilledAtMS = nowMS
	if g.TokensMilli >= limit {
		g.TokensMilli, g.RestMicro = limit, 0
	}
}

// add is what a rate of milli-units a second adds in a span: a thousandth of a
// milli-unit a ms.
func add(milli, micro, perSecond, spanMS int64) (int64, int64) {
	micro += perSecond * spanMS
	return milli + micro/1000, micro % 1000
}

// fresh finds since when a first attempt that comes due is none of the backlog.
func (g Gate) fresh(nowMS int64, p Params) Gate {
	ends := []int64{g.ParkedUntilMS}
	if g.State == Closed && g.SinceMS > 0 {
		ends = append(ends, g.SinceMS+p.Breaker.RampMS)
	}
	if g.Held {
		ends = append(ends, g.HeldUntilMS)
	}
	for _, end := range ends {
		if end <= nowMS {
			g.FreshMS = max(g.FreshMS, end)
		}
	}
	if g.gap(nowMS) {
		g.FreshMS = nowMS
	}
	return g
}

// gap: for a while nobody worked, so that what is due came due behind everybody's back.
func (g Gate) gap(nowMS int64) bool {
	if g.ReleasedAtMS == 0 {
		return g.Begun
	}
	return nowMS-g.ReleasedAtMS > GapMS
}

// Plain reports whether nothing holds the dependency back: the breaker is closed and
// its ramp over, and nobody asked to wait.
func (g Gate) Plain(nowMS int64, p Params) bool {
	p = p.With(g.Override, nowMS)
	return g.State == Closed && g.ramp(nowMS, p) == whole && !g.held(nowMS) && g.ParkedUntilMS <= nowMS && g.RolledAtMS == 0
}

func (g Gate) held(nowMS int64) bool { return g.Held && (g.HeldUntilMS == 0 || g.HeldUntilMS > nowMS) }

// Deferred reports whether a first attempt that came due at dueMS is backlog.
func (g Gate) Deferred(dueMS, nowMS int64, p Params) bool {
	return !g.Plain(nowMS, p) || dueMS < g.FreshMS
}

// lane grows the drain lane by a twentieth of its most for each second without a bad
// sign, and fills its own small bucket.
func (g *Gate) lane(nowMS int64, p Params) {
	most := p.DrainMilliPerSecond
	if most == 0 || !g.Plain(nowMS, p) || g.gap(nowMS) {
		g.LaneMilli, g.LaneTokensMilli, g.LaneRestMicro, g.LaneFilledMS, g.LaneGrownMS = 0, 0, 0, nowMS, nowMS
		return
	}
	if g.LaneMilli == 0 {
		g.LaneMilli, g.LaneFilledMS, g.LaneGrownMS = min(1000, most), nowMS, nowMS
	}
	// With the rate before it grew: that errs on the strict side.
	g.LaneTokensMilli, g.LaneRestMicro = add(g.LaneTokensMilli, g.LaneRestMicro, g.LaneMilli, min(nowMS-g.LaneFilledMS, 10_000))
	g.LaneFilledMS = nowMS
	steps := (nowMS - g.LaneGrownMS) / 1000
	g.LaneMilli = min(most, g.LaneMilli+min(steps, 20_000)*max(1, most/20))
	g.LaneGrownMS += steps * 1000
	if burst := max(callMilli, g.LaneMilli/4); g.LaneTokensMilli >= burst {
		g.LaneTokensMilli, g.LaneRestMicro = burst, 0
	}
}

func (g *Gate) rate(nowMS int64, p Params) {
	if p.RateMilliPerSecond == 0 {
		g.RateTokensMilli, g.RateRestMicro, g.RateFilledMS = 0, 0, 0
		return
	}
	if g.RateFilledMS == 0 {
		g.RateTokensMilli, g.RateRestMicro = callMilli, 0
	} else {
		g.RateTokensMilli, g.RateRestMicro = add(g.RateTokensMilli, g.RateRestMicro, p.RateMilliPerSecond, min(nowMS-g.RateFilledMS, 1_000_000))
	}
	g.RateFilledMS = nowMS
	if burst := p.burstMilli(); g.RateTokensMilli >= burst {
		g.RateTokensMilli, g.RateRestMicro = burst, 0
	}
}

func (g *Gate) prune(nowMS int64, p Params) {
	var bins []Bin
	for _, b := range g.Bins {
		if b.AtMS <= nowMS && b.AtMS > nowMS-p.windowMS()-p.binMS() {
			bins = append(bins, b)
		}
	}
	g.Bins = bins
	var probes []Lease
	for _, l := range g.Probes {
		if l.UntilMS > nowMS && l.UntilMS <= nowMS+maxLeaseMS {
			probes = append(probes, l)
		}
	}
	g.Probes = probes
}

// bin returns the window's newest bin, that of nowMS.
func (g *Gate) bin(nowMS int64, p Params) *Bin {
	at := nowMS - nowMS%p.binMS()
	if n := len(g.Bins); n == 0 || g.Bins[n-1].AtMS < at {
		g.Bins = append(g.Bins[:n:n], Bin{AtMS: at})
	} else {
		g.Bins = append([]Bin(nil), g.Bins...)
	}
	return &g.Bins[len(g.Bins)-1]
}

// Window sums up the bins.
func (g Gate) Window() (sum Bin) {
	for _, b := range g.Bins {
		sum.Calls += b.Calls
		sum.Failed += b.Failed
		sum.Throttled += b.Throttled
		sum.Firsts += b.Firsts
		sum.Spent += b.Spent
	}
	return sum
}
