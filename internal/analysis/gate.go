package analysis

import (
	"time"

	"redrive/internal/config"
)

// extraCalls is the most calls beyond the first that the budget lets through in any such
// time: cap + ratio x first attempts of it and of one second more + floor x it. Probes
// and the drain lane are on top.
func extraCalls(b config.Budget, perSecond float64, in time.Duration) float64 {
	return float64(b.Cap) + float64(b.RatioMilli)/1000*perSecond*(in.Seconds()+1) + float64(b.FloorMilliPerSecond)/1000*in.Seconds()
}

// resultsInWindow is how many results the breaker's window of d holds at that load.
func resultsInWindow(d *config.Dependency, perSecond float64) float64 {
	return perSecond * d.Breaker.Window.Seconds()
}

// opensAfter is how long after such a share of the calls of a sound dependency began to
// time out its breaker opens; ok is false if only chance opens it. The first result is
// there after a timeout. Then failures displace successes in the window until they are
// failure_rate of it; or, where the window holds too few to be judged, they make a run,
// which is certain only if all fail.
func opensAfter(d *config.Dependency, perSecond, share float64) (after time.Duration, ok bool) {
	b := d.Breaker
	rate := float64(b.FailureRateMilli) / 1000
	switch {
	case resultsInWindow(d, perSecond) >= float64(b.MinCalls) && share >= rate:
		return d.Timeout + seconds(rate/share*b.Window.Seconds()), true
	case resultsInWindow(d, perSecond) < float64(b.MinCalls) && b.Consecutive > 0 && share == 1:
		return d.Timeout + seconds(float64(b.Consecutive)/perSecond), true
	default:
		return 0, false
	}
}

// drainPerSecond is how many calls per second a backlog at d leaves by once the
// dependency is well and the lane has grown: what the budget fills, and the drain lane,
// within what the rate leaves beside first attempts. 0: it does not leave.
func drainPerSecond(d *config.Dependency, perSecond float64) float64 {
	speed := float64(d.Budget.RatioMilli)/1000*perSecond + float64(d.Budget.FloorMilliPerSecond)/1000 + float64(d.Drain.MaxMilliPerSecond)/1000
	if d.Rate.MilliPerSecond > 0 {
		speed = min(speed, max(0, float64(d.Rate.MilliPerSecond)/1000-perSecond))
	}
	return speed
}

// drainsIn is how long the backlog of an outage at d takes to leave after it, ramp
// included; ok is false if it never does.
func drainsIn(d *config.Dependency, perSecond float64, outage time.Duration) (in time.Duration, ok bool) {
	backlog, speed := perSecond*outage.Seconds(), drainPerSecond(d, perSecond)
	if backlog == 0 {
		return 0, true
	}
	if speed == 0 {
		return 0, false
	}
	return d.Breaker.Ramp + seconds(backlog/speed), true
}
