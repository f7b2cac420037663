package budget

// First puts in what n first attempts are worth that are sent at nowMS. g is as [Gate.At]
// returned it for that instant, here as below.
func (g Gate) First(n, nowMS int64, p Params) Gate {
	g.bin(nowMS, p).Firsts += n
	return g.Deposit(n, nowMS, p)
}

// Deposit fills the bucket for n first attempts; not while the breaker lets nothing
// but probes through.
func (g Gate) Deposit(n, nowMS int64, p Params) Gate {
	p = p.With(g.Override, nowMS)
	if g.State == Closed {
		g.TokensMilli = min(g.limit(nowMS, p), g.TokensMilli+n*share(p.RatioMilli, g.ramp(nowMS, p)))
	}
	return g
}

// Spend takes the token of one retry or inquiry; false, and nothing taken, when there
// is none or the breaker is not closed.
func (g Gate) Spend(nowMS int64, p Params) (Gate, bool) {
	if g.State != Closed || g.TokensMilli < callMilli {
		return g, false
	}
	g.TokensMilli -= callMilli
	g.bin(nowMS, p).Spent++
	return g, true
}

// Retries is how many calls the bucket can pay for now.
func (g Gate) Retries() int64 {
	if g.State != Closed {
		return 0
	}
	return g.TokensMilli / callMilli
}

// Lane is how many calls the drain lane lets leave now.
func (g Gate) Lane() int64 { return g.LaneTokensMilli / callMilli }

// TakeLane takes n calls out of the lane.
func (g Gate) TakeLane(n int64) Gate {
	g.LaneTokensMilli -= n * callMilli
	return g
}

// Rate is how many calls the rate allows now, -1: any number.
func (g Gate) Rate(nowMS int64, p Params) int64 {
	if p.With(g.Override, nowMS).RateMilliPerSecond == 0 {
		return -1
	}
	return max(g.RateTokensMilli, 0) / callMilli
}

// TakeRate counts n calls against the rate. The request path's may bring it below 0,
// to a second's worth at most.
func (g Gate) TakeRate(n, nowMS int64, p Params) Gate {
	if rate := p.With(g.Override, nowMS).RateMilliPerSecond; rate > 0 {
		g.RateTokensMilli = max(g.RateTokensMilli-n*callMilli, -max(rate, callMilli))
	}
	return g
}

// InFlight is how many calls may be under way, -1: any number.
func (g Gate) InFlight(nowMS int64, p Params) int64 {
	p = p.With(g.Override, nowMS)
	most := p.MaxInFlight
	m := g.ramp(nowMS, p)
	if m == whole {
		if most == 0 {
			return -1
		}
		return most
	}
	if most == 0 {
		most = max(p.Slots, g.Peak, g.PeakBefore)
	}
	return max(1, share(most, m))
}

// Released records that a worker asked at nowMS while so many calls were under way.
func (g Gate) Released(nowMS, inFlight int64) Gate {
	g.ReleasedAtMS = nowMS
	if hour := nowMS / hourMS; hour != g.Hour {
		before := int64(0)
		if hour == g.Hour+1 {
			before = g.Peak
		}
		g.Hour, g.Peak, g.PeakBefore = hour, 0, before
	}
	g.Peak = max(g.Peak, inFlight)
	return g
}

// Permits is how many probes may still leave in this half-open period.
func (g Gate) Permits(p Params) int64 {
	if g.State != HalfOpen {
		return 0
	}
	return max(p.Breaker.Probes-g.ProbesOK-int64(len(g.Probes)), 0)
}

// Probe gives a permit to id, or lets the one that it has last until untilMS; false
// when there is none left.
func (g Gate) Probe(id string, untilMS int64, p Params) (Gate, bool) {
	probes := g.without(id)
	if g.State != HalfOpen || len(probes) == len(g.Probes) && g.Permits(p) == 0 {
		return g, false
	}
	g.Probes = append(probes, Lease{ID: id, UntilMS: untilMS})
	return g, true
}

// Probing reports whether id has a permit.
func (g Gate) Probing(id string) bool { return len(g.without(id)) < len(g.Probes) }

// Unprobe takes the permit of id back: nothing was sent, or nobody knows what came of it.
func (g Gate) Unprobe(id string) Gate {
	g.Probes = g.without(id)
	return g
}

func (g Gate) without(id string) []Lease {
	var left []Lease
	for _, l := range g.Probes {
		if l.ID != id {
			left = append(left, l)
		}
	}
	return left
}
