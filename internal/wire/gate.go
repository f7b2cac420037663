package wire

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Gate is the JSON of a dependency's gate, in people's units. null is what there
// is none of, and what nobody can know before a worker said its parameters.
type Gate struct {
	Dependency     jobs.Dependency    `json:"dependency"`
	ReadAt         *jobs.Instant      `json:"read_at"`
	Known          bool               `json:"parameters_known"` // false: no worker ever said them
	Tokens         *float64           `json:"tokens"`
	Cap            *float64           `json:"cap"` // this and the next two: in force, so under the override
	Ratio          *float64           `json:"ratio"`
	FloorPerSecond *float64           `json:"floor_per_second"`
	Window         Window             `json:"window"`
	Breaker        Breaker            `json:"breaker"`
	Ramp           *Ramp              `json:"ramp"` // null unless the breaker is closed
	Drain          Drain              `json:"drain"`
	Rate           *Rate              `json:"rate"` // null: no limit
	InFlight       InFlight           `json:"in_flight"`
	ParkedUntil    *jobs.Instant      `json:"parked_until"` // the dependency asked to wait
	Paused         *PausedBy          `json:"paused"`
	RolledBackAt   *jobs.Instant      `json:"rolled_back_at"` // since when the store is known to have lost attempts
	Credentials    []PausedCredential `json:"paused_credentials"`
	Backlog        Due                `json:"backlog"`        // due, and held to tokens, ramp and lane
	Firsts         Due                `json:"first_attempts"` // due, and no backlog
	Aside          int64              `json:"aside"`          // due, and its credential is paused
	Forecast       *Forecast          `json:"forecast"`
	Override       *Override          `json:"override"`
}

// Window is what happened in the breaker's window.
type Window struct {
	SpanSeconds     float64  `json:"span_seconds"`
	FirstAttempts   int64    `json:"first_attempts"` // sent
	FirstsPerSecond float64  `json:"first_attempts_per_second"`
	Spent           int64    `json:"spent"` // tokens
	SpentPerSecond  float64  `json:"spent_per_second"`
	FillPerSecond   *float64 `json:"fill_per_second"` // tokens that floor and first attempts put in
	Results         int64    `json:"results"`         // that speak of the dependency
	Failed          int64    `json:"failed"`
	Throttled       int64    `json:"throttled"` // of those that failed
}

// Breaker is the state of the breaker.
type Breaker struct {
	Enabled    *bool         `json:"enabled"` // false: it never opens
	State      budget.State  `json:"state"`
	Since      *jobs.Instant `json:"since"` // null: since ever
	Until      *jobs.Instant `json:"until"` // while it is open
	Why        *string       `json:"why"`
	Generation int64         `json:"generation"`
	Opened     int64         `json:"opened_in_a_row"` // before a ramp was over
	Probes     *Probes       `json:"probes"`          // null unless it is half open
}

// Probes are the calls that a half-open breaker lets through.
type Probes struct {
	Out     int64 `json:"out"`     // under way
	OK      int64 `json:"ok"`      // of this period
	Neutral int64 `json:"neutral"` // said nothing
	Permits int64 `json:"permits"` // that are left
	Most    int64 `json:"max"`
}

// Ramp is the slow start after the breaker closed.
type Ramp struct {
	Percent float64       `json:"percent"` // 100: it is over
	Until   *jobs.Instant `json:"until"`
}

// Drain is the drain lane.
type Drain struct {
	PerSecond float64  `json:"per_second"` // 0: shut
	Most      *float64 `json:"max_per_second"`
}

// Rate is the limit of all calls.
type Rate struct {
	PerSecond float64 `json:"per_second"`
	Burst     float64 `json:"burst"`
	Free      int64   `json:"free"` // calls that may leave now
}

// InFlight counts calls under way.
type InFlight struct {
	Now  int64  `json:"now"`
	Most *int64 `json:"max"` // null: no limit
}

// Due counts due operations.
type Due struct {
	Due    int64      `json:"due"`
	HeldBy *jobs.Hold `json:"held_by"`
}

// PausedCredential is a credential that was refused, and since when nothing is sent under it.
type PausedCredential struct {
	Name  string        `json:"credential"`
	Since *jobs.Instant `json:"since"`
}

// Forecast says when the backlog will have left.
type Forecast struct {
	PerSecond float64  `json:"per_second"`
	ETA       *float64 `json:"eta_seconds"`     // null: nobody knows
	Misses    int64    `json:"deadline_misses"` // will not be sent before their deadline
}

// GateOf shows a gate.
func GateOf(s ledger.GateState) Gate {
	g, in, now := s.Gate, s.InForce, s.ReadAt.UnixMilli()
	known := s.Params != (budget.Params{})
	ramp := s.Ramp()
	v := Gate{Dependency: s.Dependency, ReadAt: jobs.At(s.ReadAt), Known: known, Window: window(s, known, ramp), Breaker: breaker(s, known, ramp),
		Drain: Drain{PerSecond: units(g.LaneMilli)}, InFlight: InFlight{Now: s.InFlight}, Paused: pauseOf(s), RolledBackAt: jobs.AtMS(g.RolledAtMS),
		Credentials: credentialsOf(s), Backlog: Due{Due: s.Backlog}, Firsts: Due{Due: s.Firsts}, Aside: s.Aside, Override: OverrideOf(s)}
	// An override alone says nothing of what it does not replace.
	limit := func(name string, milli int64) *float64 {
		if _, replaced := g.Override.Values[name]; !known && (!replaced || v.Override == nil) {
			return nil
		}
		u := units(milli)
		return &u
	}
	v.Cap, v.Ratio = limit(budget.OverrideCap, in.Cap*1000), limit(budget.OverrideRatio, in.RatioMilli)
	v.FloorPerSecond, v.Drain.Most = limit(budget.OverrideFloor, in.FloorMilliPerSecond), limit(budget.OverrideDrain, in.DrainMilliPerSecond)
	if known {
		tokens := units(g.TokensMilli)
		v.Tokens = &tokens
	}
	if known && g.State == budget.Closed {
		v.Ramp = &Ramp{Percent: float64(ramp) / 10}
		if ramp < 1000 {
			v.Ramp.Until = jobs.AtMS(g.SinceMS + s.Params.Breaker.RampMS)
		}
	}
	if in.RateMilliPerSecond > 0 {
		// Without a burst of its own the rate has a tenth of a second's worth: see budget.Params.
		burst := cmp.Or(in.RateBurst*1000, max(1000, in.RateMilliPerSecond/10))
		v.Rate = &Rate{PerSecond: units(in.RateMilliPerSecond), Burst: units(burst), Free: g.Rate(now, s.Params)}
	}
	if most := g.InFlight(now, s.Params); most >= 0 {
		v.InFlight.Most = &most
	}
	if g.ParkedUntilMS > now {
		v.ParkedUntil = jobs.AtMS(g.ParkedUntilMS)
	}
	backlog, firsts := s.Hold()
	v.Backlog.HeldBy, v.Firsts.HeldBy = holdOf(backlog, known), holdOf(firsts, known)
	if known {
		v.Forecast = &Forecast{PerSecond: units(g.Pace(now, s.Params).PerSecondMilli), Misses: s.Forecast.Misses}
		if s.Forecast.ETA != budget.Never {
			eta := rounded(s.Forecast.ETA.Seconds())
			v.Forecast.ETA = &eta
		}
	}
	return v
}

func window(s ledger.GateState, known bool, ramp int64) Window {
	span := time.Duration(cmp.Or(s.Params.Breaker.WindowMS, 10_000)) * time.Millisecond
	w := s.Gate.Window()
	v := Window{SpanSeconds: span.Seconds(), FirstAttempts: w.Firsts, FirstsPerSecond: rounded(float64(w.Firsts) / span.Seconds()),
		Spent: w.Spent, SpentPerSecond: rounded(float64(w.Spent) / span.Seconds()), Results: w.Calls, Failed: w.Failed, Throttled: w.Throttled}
	if known {
		fill := 0.0 // nothing is put in while nothing but probes may leave
		if s.Gate.State == budget.Closed {
			fill = (units(s.InForce.FloorMilliPerSecond) + float64(w.Firsts)/span.Seconds()*units(s.InForce.RatioMilli)) * units(ramp)
		}
		fill = rounded(fill)
		v.FillPerSecond = &fill
	}
	return v
}

func breaker(s ledger.GateState, known bool, ramp int64) Breaker {
	g, k := s.Gate, s.Params.Breaker
	v := Breaker{State: g.State, Since: jobs.AtMS(g.SinceMS), Until: jobs.AtMS(g.UntilMS), Generation: g.Generation, Opened: g.Opened}
	if known {
		enabled := k.MinCalls > 0 || k.Consecutive > 0
		v.Enabled = &enabled
	}
	if g.Why != "" {
		v.Why = &g.Why
	}
	switch {
	case g.State == budget.HalfOpen:
		v.Probes = &Probes{Out: int64(len(g.Probes)), OK: g.ProbesOK, Neutral: g.Neutral, Permits: g.Permits(s.Params), Most: k.Probes}
	case g.State == budget.Closed:
		v.Until = nil // it keeps the one that it had
		if ramp == 1000 {
			v.Opened = 0
		}
	}
	return v
}

// holdOf leaves out what follows from parameters that nobody said.
func holdOf(h jobs.Hold, known bool) *jobs.Hold {
	if h == jobs.HoldNone || !known && h != jobs.HoldPaused && h != jobs.HoldRateHint && h != jobs.HoldBreaker {
		return nil
	}
	return &h
}

// PausedBy says who holds a dependency, and why.
type PausedBy struct {
	By    string        `json:"by"`
	Note  string        `json:"note"`
	Since *jobs.Instant `json:"since"`
	Until *jobs.Instant `json:"until"` // null: until it is resumed
}

func pauseOf(s ledger.GateState) *PausedBy {
	if !s.Gate.Paused(s.ReadAt.UnixMilli()) {
		return nil
	}
	return &PausedBy{By: s.PausedBy, Note: s.PausedNote, Since: jobs.AtMS(s.PausedSince.UnixMilli()), Until: jobs.AtMS(s.Gate.HeldUntilMS)}
}

func credentialsOf(s ledger.GateState) []PausedCredential {
	out := []PausedCredential{}
	for _, name := range slices.Sorted(maps.Keys(s.PausedCredentials)) {
		out = append(out, PausedCredential{name, jobs.At(s.PausedCredentials[name])})
	}
	return out
}

// units turns thousandths into what people write.
func units(milli int64) float64 { return float64(milli) / 1000 }

// rounded cuts what was divided to thousandths, the finest that the gate knows.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }
