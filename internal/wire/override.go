package wire

import (
	"fmt"
	"math"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Override is the JSON of an override in force.
type Override struct {
	Values map[string]*float64 `json:"values"` // by the names of [budget.Overridable], in people's units; null: not replaced
	Since  *jobs.Instant       `json:"since"`
	Until  *jobs.Instant       `json:"until"`
	By     string              `json:"by"`
	Note   string              `json:"note"`
}

// OverrideOf is the override that a gate is under; nil: none.
func OverrideOf(s ledger.GateState) *Override {
	if s.Gate.Override.UntilMS <= s.ReadAt.UnixMilli() {
		return nil
	}
	v := &Override{Values: map[string]*float64{}, Since: jobs.At(s.OverrideSince), Until: jobs.AtMS(s.Gate.Override.UntilMS),
		By: s.OverrideBy, Note: s.OverrideNote}
	for _, l := range limits {
		v.Values[l.name] = nil
		if stored, ok := s.Gate.Override.Values[l.name]; ok {
			shown := float64(stored) / float64(l.scale)
			v.Values[l.name] = &shown
		}
	}
	return v
}

// limit is a parameter of the gate that an override may replace.
type limit struct {
	name      string // of the override
	scale     int64  // stored units in one of people's
	low, high float64
	per       string // unit, behind the number
	nought    string // what 0 means, where it is not just none
}

// limits lists what may be replaced. The bounds are those of the configuration.
var limits = []limit{
	{name: budget.OverrideRatio, scale: 1000, high: 1},
	{name: budget.OverrideCap, scale: 1, low: 1, high: 1_000_000},
	{name: budget.OverrideFloor, scale: 1000, high: 10_000, per: "/s"},
	{name: budget.OverrideRate, scale: 1000, high: 1_000_000, per: "/s", nought: "no limit"},
	{name: budget.OverrideDrain, scale: 1000, high: 10_000, per: "/s", nought: "shut"},
	{name: budget.OverrideInFlight, scale: 1, high: 1_000_000, nought: "no limit"},
}

// StoredLimits turns limits as people write them, by the names of
// [budget.Overridable], into what an override stores. An [*Error] that names the field
// for a name that is unknown and a number out of range or too fine to be kept.
func StoredLimits(values map[string]float64) (map[string]int64, error) {
	stored := map[string]int64{}
	known := 0
	for _, l := range limits {
		v, ok := values[l.name]
		if !ok {
			continue
		}
		known++
		units := math.Round(v * float64(l.scale))
		switch {
		case !(v >= l.low && v <= l.high): // so that NaN is none
			return nil, &Error{Field: l.name, Err: fmt.Errorf("not from %v to %v", l.low, l.high)}
		case math.Abs(v*float64(l.scale)-units) > 1e-6:
			return nil, &Error{Field: l.name, Err: fmt.Errorf("finer than the gate keeps it: whole multiples of %v", 1/float64(l.scale))}
		}
		stored[l.name] = int64(units)
	}
	for name := range values {
		if _, ok := stored[name]; !ok && known != len(values) {
			return nil, &Error{Field: shorten(name), Err: fmt.Errorf("no limit that can be replaced: want %v", budget.Overridable)}
		}
	}
	return stored, nil
}

// Starved warns that under an override no token comes in any more; empty: some does, or
// nobody knows.
func Starved(s ledger.GateState) []string {
	given, in := s.Gate.Override.Values, s.InForce
	_, ratio := given[budget.OverrideRatio]
	_, floor := given[budget.OverrideFloor]
	if s.Params == (budget.Params{}) && !(ratio && floor) || in.RatioMilli > 0 || in.FloorMilliPerSecond > 0 {
		return []string{}
	}
	if in.DrainMilliPerSecond > 0 {
		return []string{"ratio and floor are both 0: once the tokens that are there are spent, only the drain lane lets retries and inquiries leave meanwhile"}
	}
	return []string{"ratio and floor are both 0: once the tokens that are there are spent, nothing will be retried or asked meanwhile"}
}
