//go:build race

package world

const (
	shortWorlds   = 15
	shortOutcomes = 1
)
