package budget

import (
	_ "embed"

	"redrive/internal/luascript"
)

//go:embed lua/gate.lua
var gateSource string

// Gate is the Lua library of the gate.
var Gate = luascript.Library{Name: "gate", Source: gateSource}

// Params are the bucket's parameters. They come from the deciding process's
// configuration with every call; the bucket itself stores only its state.
type Params struct {
	RatioMilli          int64 // milli-tokens put in per first attempt sent; 0: first attempts fill nothing
	Cap                 int64 // whole tokens at most
	FloorMilliPerSecond int64 // milli-tokens put in per second; 0: none
}

// Args adds the parameters to a script's arguments.
func (p Params) Args(a *luascript.Args) *luascript.Args {
	return a.Int("ratio", p.RatioMilli).Int("cap", p.Cap).Int("floor", p.FloorMilliPerSecond)
}

const callMilli = 1000 // one call costs one token

// Bucket is the state of one dependency's bucket at an instant. The zero value is
// a lost key: it starts low. Not safe for concurrent use: it is the oracle, not
// the store.
type Bucket struct {
	TokensMilli int64
	RestMicro   int64 // what is left of a milli-token: 0 to 999 of its thousandths
	FilledAtMS  int64
	Known       bool // false: the key is missing or garbled
}

// At returns the bucket as it stands at nowMS.
func (b Bucket) At(nowMS int64, p Params) Bucket {
	limit := p.Cap * callMilli
	if !b.Known {
		return Bucket{TokensMilli: min(limit, p.FloorMilliPerSecond), FilledAtMS: nowMS, Known: true}
	}
	elapsed := max(nowMS-b.FilledAtMS, 0)
	if p.FloorMilliPerSecond > 0 {
		elapsed = min(elapsed, limit*1000/p.FloorMilliPerSecond+1) // that fills it; longer would overflow
	}
	rest := b.RestMicro + elapsed*p.FloorMilliPerSecond // a milli-token a second is a thousandth of one a ms
	b.TokensMilli, b.RestMicro, b.FilledAtMS = b.TokensMilli+rest/1000, rest%1000, nowMS
	if b.TokensMilli >= limit {
		b.TokensMilli, b.RestMicro = limit, 0
	}
	return b
}

// First puts in what one first attempt is worth.
func (b Bucket) First(p Params) Bucket {
	b.TokensMilli = min(p.Cap*callMilli, b.TokensMilli+p.RatioMilli)
	return b
}

// Spend takes one token; false, and nothing taken, when there is none.
func (b Bucket) Spend() (Bucket, bool) {
	if b.TokensMilli < callMilli {
		return b, false
	}
	b.TokensMilli -= callMilli
	return b, true
}
