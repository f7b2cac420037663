package budget

import (
	_ "embed"
	"fmt"

	"redrive/internal/luascript"
)

//go:embed lua/gate.lua
var gateSource string

// Library is the Lua library of the gate.
var Library = luascript.Library{Name: "gate", Source: gateSource}

// Params are what the deciding process's configuration says of a dependency's gate.
// They come with each call; the store keeps only the gate's state, and the parameters
// last used for those who have no configuration at hand. The zero value lets nothing
// leave that needs a token, has no breaker, no lane and no other limit.
type Params struct {
	RatioMilli          int64 // milli-tokens put in per first attempt sent; 0: first attempts fill nothing
	Cap                 int64 // whole tokens at most
	FloorMilliPerSecond int64 // milli-tokens put in per second; 0: none
	DrainMilliPerSecond int64 // thousandths of a call per second that the drain lane grows to; 0: it is shut
	RateMilliPerSecond  int64 // thousandths of a call per second of all processes together; 0: no limit
	RateBurst           int64 // calls that may leave at one instant under the rate; 0: a tenth of a second's worth, at least 1
	MaxInFlight         int64 // calls under way of all processes; 0: no limit
	Slots               int64 // of one process: what the ramp starts from where MaxInFlight is 0
	Breaker             Breaker
}

// Breaker are the parameters of the breaker. It is off while MinCalls and Consecutive
// are both 0.
type Breaker struct {
	WindowMS         int64 // results of this span count; 0: ten seconds
	MinCalls         int64 // results in the window before the rate counts; 0: the rate never does
	FailureRateMilli int64 // thousandths of the window's results that are failures open it
	Consecutive      int64 // failures in a row open it where the window has fewer than MinCalls calls; 0: they do not
	OpenMS           int64 // how long it stays open the first time; doubled each time it opens again before its ramp is over
	MaxOpenMS        int64 // the longest that doubling leads to
	Probes           int64 // permits of a half-open period, and successes that close it
	RampMS           int64 // how long fill, cap and in-flight grow after it closed; 0: no ramp
}

// Text is the form in which parameters travel to the scripts.
func (p Params) Text() string {
	b := p.Breaker
	return fmt.Sprintf("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d", p.RatioMilli, p.Cap, p.FloorMilliPerSecond, p.DrainMilliPerSecond,
		p.RateMilliPerSecond, p.RateBurst, p.MaxInFlight, p.Slots, b.WindowMS, b.MinCalls, b.FailureRateMilli, b.Consecutive, b.OpenMS, b.MaxOpenMS,
		b.Probes, b.RampMS)
}

// ParseParams reads what [Params.Text] wrote.
func ParseParams(text string) (Params, error) {
	var p Params
	b := &p.Breaker
	_, err := fmt.Sscan(text, &p.RatioMilli, &p.Cap, &p.FloorMilliPerSecond, &p.DrainMilliPerSecond, &p.RateMilliPerSecond, &p.RateBurst,
		&p.MaxInFlight, &p.Slots, &b.WindowMS, &b.MinCalls, &b.FailureRateMilli, &b.Consecutive, &b.OpenMS, &b.MaxOpenMS, &b.Probes, &b.RampMS)
	if err != nil {
		return Params{}, fmt.Errorf("gate parameters %q: %w", text, err)
	}
	return p, nil
}

// Args adds the parameters to a script's arguments.
func (p Params) Args(a *luascript.Args) *luascript.Args { return a.Str("gate", p.Text()) }

// SpareArgs adds the parameters for a caller whose word counts only where no worker
// has ever said its own.
func (p Params) SpareArgs(a *luascript.Args) *luascript.Args {
	if p == (Params{}) {
		return a
	}
	return a.Str("gate_spare", p.Text())
}

func (b Breaker) off() bool { return b.MinCalls == 0 && b.Consecutive == 0 }

func (p Params) windowMS() int64 {
	if p.Breaker.WindowMS > 0 {
		return p.Breaker.WindowMS
	}
	return 10_000
}

// binMS is the width of a bin of the window: at most 60 of them are kept.
func (p Params) binMS() int64 { return max(1, (p.windowMS()+59_999)/60_000) * 1000 }

func (p Params) burstMilli() int64 {
	if p.RateBurst > 0 {
		return p.RateBurst * 1000
	}
	return max(1000, p.RateMilliPerSecond/10)
}

// Override replaces some parameters until an instant. It ends by itself.
type Override struct {
	UntilMS int64            // 0: there is none
	Values  map[string]int64 // by name: see the constants
}

// The parameters that an override may replace.
const (
	OverrideRatio    = "ratio"         // milli-tokens per first attempt
	OverrideCap      = "cap"           // tokens
	OverrideFloor    = "floor"         // milli-tokens per second
	OverrideRate     = "rate"          // thousandths of a call per second; 0: no limit
	OverrideDrain    = "drain"         // thousandths of a call per second; 0: the lane is shut
	OverrideInFlight = "max_in_flight" // calls; 0: no limit
)

// Overridable lists what an override may replace, in the order in which it is stored.
var Overridable = []string{OverrideRatio, OverrideCap, OverrideFloor, OverrideRate, OverrideDrain, OverrideInFlight}

// With returns the parameters as they are at nowMS under an override.
func (p Params) With(o Override, nowMS int64) Params {
	if o.UntilMS <= nowMS {
		return p
	}
	for name, field := range map[string]*int64{OverrideRatio: &p.RatioMilli, OverrideCap: &p.Cap, OverrideFloor: &p.FloorMilliPerSecond,
		OverrideRate: &p.RateMilliPerSecond, OverrideDrain: &p.DrainMilliPerSecond, OverrideInFlight: &p.MaxInFlight} {
		if v, ok := o.Values[name]; ok {
			*field = v
		}
	}
	return p
}
