package budget

import "time"

// Paused reports whether a person, or a refused credential, holds the dependency.
func (g Gate) Paused(nowMS int64) bool { return g.held(nowMS) }

// Hold is why a backlog of so many due operations, and why first attempts that are none,
// do not leave while so many calls are under way; "" when nothing of the gate holds them.
// A backlog is held for as long as tokens and lane do not let all of it leave: a single
// token must not make a thousand look free. The words are those of package jobs.
func (g Gate) Hold(waiting, inFlight, nowMS int64, p Params) (backlog, firsts string) {
	most := g.InFlight(nowMS, p)
	ramping := g.ramp(nowMS, p.With(g.Override, nowMS)) < whole
	switch {
	case g.held(nowMS) || g.RolledAtMS > 0:
		return "paused", "paused"
	case g.ParkedUntilMS > nowMS:
		return "rate_hint", "rate_hint"
	case g.State != Closed:
		return "breaker", "breaker"
	case most >= 0 && inFlight >= most && ramping:
		return "ramp", "ramp"
	case most >= 0 && inFlight >= most:
		return "in_flight", "in_flight"
	case g.Rate(nowMS, p) == 0:
		return "rate", "rate"
	case g.Retries()+g.Lane() >= max(waiting, 1):
		return "", ""
	}
	return g.shortOf(ramping), ""
}

// shortOf is what a backlog waits for that nothing else holds.
func (g Gate) shortOf(ramping bool) string {
	switch {
	case ramping:
		return "ramp"
	case g.LaneMilli > 0 && g.Window().Failed == 0:
		return "lane"
	}
	return "budget"
}

// Pace is what a backlog can count on: calls a second, in thousandths, and in how many
// ms the first of them leaves.
type Pace struct {
	PerSecondMilli int64
	InMS           int64
	Stuck          bool // nobody knows when anything will leave: a pause without an end
}

// Pace returns the pace at which the backlog leaves: the floor, what first attempts of
// the window put in, and the drain lane, which grows to its most while all is well. While the breaker is open, or the dependency is
// held or parked until an instant, it is what the budget alone will let through from
// then on.
func (g Gate) Pace(nowMS int64, p Params) Pace {
	p = p.With(g.Override, nowMS)
	if g.RolledAtMS > 0 || g.held(nowMS) && g.HeldUntilMS == 0 {
		return Pace{Stuck: true}
	}
	until := max(g.ParkedUntilMS, g.HeldUntilMS)
	if g.State == Open {
		until = max(until, g.UntilMS)
	}
	firsts := g.Window().Firsts * 1000 / max(p.windowMS(), 1) // a second
	m := g.ramp(nowMS, p)
	lane := g.LaneMilli
	if g.Plain(nowMS, p) && g.Window().Failed == 0 {
		lane = p.DrainMilliPerSecond // it gets there within twenty seconds
	}
	perSecond := share(p.FloorMilliPerSecond, m) + firsts*share(p.RatioMilli, m) + lane
	if p.RateMilliPerSecond > 0 {
		perSecond = min(perSecond, p.RateMilliPerSecond)
	}
	return Pace{PerSecondMilli: perSecond, InMS: max(until-nowMS, 0)}
}

// Never is the ETA of a backlog of which nothing leaves.
const Never = time.Duration(1<<63 - 1)

// ETA is how long a backlog of n takes at a pace.
func (p Pace) ETA(n int64) time.Duration {
	switch {
	case n == 0:
		return 0
	case p.Stuck || p.PerSecondMilli == 0:
		return Never
	}
	seconds := float64(n)*1000/float64(p.PerSecondMilli) + float64(p.InMS)/1000
	if seconds > float64(Never/time.Second)/2 {
		return Never
	}
	return time.Duration(seconds * float64(time.Second))
}

// left is how many have left after a span.
func (p Pace) left(span time.Duration) int64 {
	if p.Stuck {
		return 0
	}
	return int64(max(span.Seconds()-float64(p.InMS)/1000, 0) * float64(p.PerSecondMilli) / 1000)
}

// Horizons are the instants, from now, at which the deadlines of a backlog are counted.
func Horizons(eta time.Duration) []time.Duration {
	most := min(eta, 10*365*24*time.Hour)
	var out []time.Duration
	for h := time.Second; h < most; h = h*3/2 + time.Second {
		out = append(out, h)
	}
	return append(out, most)
}

// Forecast is what becomes of a backlog if nothing changes.
type Forecast struct {
	ETA    time.Duration // until it has left; [Never]: nobody knows
	Misses int64         // will not be sent before their deadline
}

// NewForecast counts who misses: the earliest deadline leaves first, so that by each
// horizon only so many of those due by then have left. due[i] is how many have their
// deadline by horizons[i].
func NewForecast(backlog int64, p Pace, horizons []time.Duration, due []int64) Forecast {
	f := Forecast{ETA: p.ETA(backlog)}
	for i, h := range horizons {
		f.Misses = max(f.Misses, due[i]-p.left(h))
	}
	return f
}
