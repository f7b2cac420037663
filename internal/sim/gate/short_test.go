//go:build !race

package gate

const (
	nightOutage = fullOutage
	naiveWatch  = 60
	withRace    = false
)
