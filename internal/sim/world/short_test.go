//go:build !race

package world

// The short form, in numbers that take some seconds; the race detector makes all of
// it many times slower.
const (
	shortWorlds   = 60
	shortOutcomes = 4
)
