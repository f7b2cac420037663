package budget

import "time"

// Paused reports whether a person, or a refused credential, holds the dependency.
func (g Gate) Paused(nowMS int64) bool { return g.held(nowMS) }

// Hold is why the backlog, and why first attempts that are none, do not leave while so
// many calls are under way; "" when nothing of the gate holds them. The words are those
// of package jobs.
func (g Gate) Hold(inFlight, nowMS int64, p Params) (backlog, firsts string) {
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
	case g.Retries() > 0 || g.Lane() > 0:
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

// PerSecondMilli is how many calls a second the backlog may take now, in thousandths:
// the floor, what first attempts of the window put in, and the drain lane. 0 while
// nothing leaves.
func (g Gate) PerSecondMilli(nowMS int64, p Params) int64 {
	p = p.With(g.Override, nowMS)
	if g.State != Closed || g.held(nowMS) || g.ParkedUntilMS > nowMS || g.RolledAtMS > 0 {
		return 0
	}
	m := g.ramp(nowMS, p)
	firsts := g.Window().Firsts * 1000 / max(p.windowMS(), 1) // a second
	perSecond := share(p.FloorMilliPerSecond, m) + firsts*share(p.RatioMilli, m) + g.LaneMilli
	if p.RateMilliPerSecond > 0 {
		perSecond = min(perSecond, p.RateMilliPerSecond)
	}
	return perSecond
}

// Never is the ETA of a backlog of which nothing leaves.
const Never = time.Duration(1<<63 - 1)

// ETA is how long a backlog of n takes at a rate in thousandths of a call per second.
func ETA(n, perSecondMilli int64) time.Duration {
	switch {
	case n == 0:
		return 0
	case perSecondMilli == 0:
		return Never
	}
	seconds := float64(n) * 1000 / float64(perSecondMilli)
	if seconds > float64(Never/time.Second)/2 {
		return Never
	}
	return time.Duration(seconds * float64(time.Second))
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
	ETA    time.Duration // until it has left; [Never]: nothing leaves now
	Misses int64         // will not be sent before their deadline
}

// NewForecast counts who misses: the earliest deadline leaves first, so that by each
// horizon at most rate x horizon of those due by then have left. due[i] is how many have
// their deadline by horizons[i].
func NewForecast(backlog, perSecondMilli int64, horizons []time.Duration, due []int64) Forecast {
	f := Forecast{ETA: ETA(backlog, perSecondMilli)}
	for i, h := range horizons {
		left := int64(h.Seconds() * float64(perSecondMilli) / 1000)
		f.Misses = max(f.Misses, due[i]-left)
	}
	return f
}
