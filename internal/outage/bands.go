package outage

import (
	"maps"
	"math"
	"slices"
	"time"

	"redrive/internal/policy"
)

// delay is one wait that was drawn before a retry: [policy.MinDelay], and a share of
// the band.
type delay struct {
	attempt int // after which
	drawn   time.Duration
}

const (
	bins     = 10
	judgedAt = 100  // delays of a band
	flatAt   = 0.01 // what is less likely by chance, all judged bands together, is not flat
)

// bandsOf sorts delays by the upper end between 0 and which each was drawn, and says
// how even each band is. The store keeps whole milliseconds, rounded up: each bin is
// expected to hold what its milliseconds stand for. Spans of the result are on the
// scenario's clock.
func bandsOf(delays []delay, b policy.Backoff, c clock) []Band {
	byUpper := map[time.Duration]*Band{}
	for _, d := range delays {
		upper := b.Ceiling(d.attempt)
		band := byUpper[upper]
		if band == nil {
			band = &Band{Attempt: d.attempt, Upper: time.Duration(float64(upper) * c.speed), Counts: make([]int, bins)}
			byUpper[upper] = band
		}
		band.Attempt = min(band.Attempt, d.attempt)
		band.Counts[bin(wholeMS(d.drawn-policy.MinDelay), upper)]++
		band.Delays++
	}
	uppers := slices.Sorted(maps.Keys(byUpper))
	bands := make([]Band, len(uppers))
	judged := 0
	for i, upper := range uppers {
		band := byUpper[upper]
		band.Chi2 = chi2(band.Counts, shares(upper))
		band.P = tail(band.Chi2, bins-1)
		if band.Judged = band.Delays >= judgedAt; band.Judged {
			judged++
		}
		bands[i] = *band
	}
	// Each at its share of the level: of many bands that are even one looks uneven sooner
	// than one alone would (Bonferroni).
	for i := range bands {
		bands[i].Flat = bands[i].P >= flatAt/float64(max(judged, 1))
	}
	return bands
}

// wholeMS is the millisecond, from 1, in which a wait ends.
func wholeMS(d time.Duration) int {
	return max(int((d+time.Millisecond-1)/time.Millisecond), 1)
}

// bin is the part of a band in which the middle of a millisecond lies.
func bin(ms int, upper time.Duration) int {
	middle := (float64(ms) - 0.5) * float64(time.Millisecond)
	return min(int(middle/float64(upper)*bins), bins-1)
}

// shares is how much of an even distribution falls into each bin.
func shares(upper time.Duration) []float64 {
	even := make([]float64, bins)
	for k := 1; k <= wholeMS(upper); k++ {
		width := min(time.Duration(k)*time.Millisecond, upper) - time.Duration(k-1)*time.Millisecond
		even[bin(k, upper)] += float64(width) / float64(upper)
	}
	return even
}

// chi2 is Pearson's measure of how far counts are from their expected shares.
func chi2(counts []int, shares []float64) float64 {
	n := 0
	for _, c := range counts {
		n += c
	}
	sum := 0.0
	for i, c := range counts {
		if expected := float64(n) * shares[i]; expected > 0 {
			sum += (float64(c) - expected) * (float64(c) - expected) / expected
		}
	}
	return sum
}

// tail is how likely a chi2 of x or more is by chance, with df degrees of freedom, at
// least one: the upper regularized gamma function of df/2 at x/2, by its recurrence
// Q(a+1, x) = Q(a, x) + x^a e^-x / Gamma(a+1) (Abramowitz and Stegun, 6.5.21).
func tail(x float64, df int) float64 {
	x /= 2
	a, q := 1.0, math.Exp(-x)
	if df%2 == 1 {
		a, q = 0.5, math.Erfc(math.Sqrt(x))
	}
	for ; a < float64(df)/2; a++ {
		q += math.Exp(a*math.Log(x) - x - lgamma(a+1))
	}
	return q
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
