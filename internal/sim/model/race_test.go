//go:build race

package model

const raceLimit = 20_000
