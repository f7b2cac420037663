//go:build !race

package gate

const (
	nightOutage = fullOutage
	naiveWatch  = naiveLimit
	withRace    = false
)
