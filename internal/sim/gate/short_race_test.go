//go:build race

package gate

// The race detector makes the worlds ten times as slow: they are shorter there.
const (
	nightOutage = 600
	naiveWatch  = 20
	withRace    = true
)
