package budget

// Sign is what a call's end says of the dependency.
type Sign string

// The signs.
const (
	SignOK        Sign = "ok"
	SignDeclined  Sign = "declined"  // it works, and refused this one: no failure; of a probe it proves nothing
	SignFailed    Sign = "failed"    // timeout, reset, no connection, 5xx, an answer that is none
	SignSlow      Sign = "slow"      // answered later than slow_call: a failure
	SignThrottled Sign = "throttled" // 429: a failure
	SignNothing   Sign = "nothing"   // our own cancel, a lost worker, not sent in time
)

// Signs lists the signs.
var Signs = []Sign{SignOK, SignDeclined, SignFailed, SignSlow, SignThrottled, SignNothing}

// Report is one call's end as the gate is told of it.
type Report struct {
	Sign       Sign
	Generation int64  // of the breaker when the call began
	ID         string // whose permit the call used, where it was a probe
	HintMS     int64  // the Retry-After of a 429 or 503; 0: none
	Jitter     int64  // 0 to 1000, drawn by the caller: of the open time and of the parking
}

// Report takes a call's end in. Results of an older generation are ignored.
func (g Gate) Report(r Report, nowMS int64, p Params) Gate {
	p = p.With(g.Override, nowMS)
	probe := g.Probing(r.ID)
	g = g.Unprobe(r.ID)
	if r.Sign == SignNothing || r.Generation != g.Generation {
		return g
	}
	g = g.hint(r, nowMS)
	switch {
	case g.State == Closed:
		failed, throttled := bit(failure(r.Sign)), bit(r.Sign == SignThrottled)
		return g.count(1-failed, failed, throttled, r.Jitter, nowMS, p)
	case g.State == HalfOpen && probe:
		return g.probed(r.Sign, 1, r.Jitter, nowMS, p)
	}
	return g
}

// hint parks the dependency when it asked several times in a row to wait.
func (g Gate) hint(r Report, nowMS int64) Gate {
	if r.HintMS == 0 {
		g.Hints = 0
		return g
	}
	g.Hints++
	if g.Hints >= HintsToPark {
		jitter := share(min(r.HintMS/2, maxJitterMS), r.Jitter)
		g.ParkedUntilMS = max(g.ParkedUntilMS, nowMS+min(r.HintMS+jitter, maxParkMS))
		g.Hints = 0
	}
	return g
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func failure(s Sign) bool { return s == SignFailed || s == SignSlow || s == SignThrottled }

// count takes results into the window of a closed breaker, and opens it when there are
// too many failures. Of a mixture nobody knows the order: it is no run of failures. A run
// of failures counts where the window has too few calls for the rate; among many calls a
// short run comes by chance (docs/adr/0009), so that there it must be as long as min_calls.
func (g Gate) count(ok, failed, throttled, jitter, nowMS int64, p Params) Gate {
	b := g.bin(nowMS, p)
	b.Calls += ok + failed
	b.Failed += failed
	b.Throttled += throttled
	g.Run += failed
	if ok > 0 {
		g.Run = 0
	}
	if failed == 0 {
		return g
	}
	w, k := g.Window(), p.Breaker
	switch {
	case k.Consecutive > 0 && g.Run >= k.Consecutive && (w.Calls < k.MinCalls || g.Run >= k.MinCalls):
		return g.open("consecutive", jitter, nowMS, p)
	case k.MinCalls > 0 && w.Calls >= k.MinCalls && w.Failed*whole >= k.FailureRateMilli*w.Calls:
		return g.open("failure_rate", jitter, nowMS, p)
	}
	if g.LaneMilli > 0 {
		g.LaneGrownMS = nowMS
		if (throttled > 0 || w.Failed*20 > w.Calls) && nowMS-g.LaneCutMS >= 1000 {
			g.LaneMilli, g.LaneTokensMilli, g.LaneCutMS = max(min(1000, p.DrainMilliPerSecond), g.LaneMilli/2), 0, nowMS
		}
	}
	return g
}

// probed takes the results of n probes in.
func (g Gate) probed(s Sign, n, jitter, nowMS int64, p Params) Gate {
	switch {
	case failure(s):
		return g.open("probe", jitter, nowMS, p)
	case s == SignDeclined:
		g.Neutral += n
	default:
		g.ProbesOK += n
	}
	if g.ProbesOK >= p.Breaker.Probes || g.Neutral >= p.Breaker.Probes {
		g.turn(Closed, nowMS)
		g.Why = ""
		g.TokensMilli, g.RestMicro, g.FilledAtMS = min(g.TokensMilli, p.FloorMilliPerSecond), 0, nowMS
		g.TokensMilli = min(g.TokensMilli, g.limit(nowMS, p))
	}
	return g
}

// open opens the breaker for a time that doubles with each opening before a ramp was
// over, drawn between its half and its whole.
func (g Gate) open(why string, jitter, nowMS int64, p Params) Gate {
	k := p.Breaker
	if g.State == Closed && g.ramp(nowMS, p) == whole {
		g.Opened = 0
	}
	g.Opened++
	span := k.OpenMS
	for n := int64(1); n < g.Opened && span < k.MaxOpenMS; n++ {
		span *= 2
	}
	span = min(span, k.MaxOpenMS)
	g.turn(Open, nowMS)
	g.Why, g.UntilMS = why, nowMS+span-share(span-span/2, whole-jitter)
	g.LaneMilli, g.LaneTokensMilli, g.LaneRestMicro, g.LaneFilledMS, g.LaneGrownMS = 0, 0, 0, nowMS, nowMS
	return g
}

// Flush is what a request path did since it last told of it: first attempts that it
// sent itself, by how they ended.
type Flush struct {
	OK, Failed, TimedOut int64
	Unsent               int64 // of no byte arrived: failures that fill nothing
	Jitter               int64 // as in [Report]
}

// Flush takes first attempts of the request path in. They fill the bucket and count
// against the rate. While the breaker is open they say nothing; half-open they count as
// probes once all that was sent before must be over: the window is at least a timeout.
func (g Gate) Flush(f Flush, nowMS int64, p Params) Gate {
	failed := f.Failed + f.TimedOut + f.Unsent
	n := f.OK + failed
	if n == 0 {
		return g
	}
	n -= f.Unsent
	g = g.First(n, nowMS, p).TakeRate(n, nowMS, p)
	p = p.With(g.Override, nowMS)
	switch {
	case g.State == Closed:
		return g.count(f.OK, failed, 0, f.Jitter, nowMS, p)
	case g.State == HalfOpen && nowMS-g.SinceMS >= p.windowMS():
		if failed > 0 {
			return g.probed(SignFailed, failed, f.Jitter, nowMS, p)
		}
		return g.probed(SignOK, f.OK, f.Jitter, nowMS, p)
	}
	return g
}
