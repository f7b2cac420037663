//go:build !race

package model

const raceLimit = 0 // none
