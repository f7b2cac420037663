//go:build race

package model

const raceLimit = 5_000
