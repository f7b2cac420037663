package outage

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"redrive/internal/policy"
)

func TestTheTailOfChiSquareIsThatOfTheTables(t *testing.T) {
	t.Parallel()
	// Upper quantiles as every table of statistics has them.
	for _, tc := range []struct {
		x  float64
		df int
		p  float64
	}{{6.635, 1, 0.01}, {9.210, 2, 0.01}, {16.919, 9, 0.05}, {21.666, 9, 0.01}, {2.088, 9, 0.99}, {23.209, 10, 0.01}, {0, 9, 1}} {
		if got := tail(tc.x, tc.df); math.Abs(got-tc.p) > 1e-4 {
			t.Errorf("chi-square of %v with %d degrees of freedom: %v, want %v", tc.x, tc.df, got, tc.p)
		}
	}
}

// drawn makes delays as the policy draws them and the store keeps them.
func drawn(n int, b policy.Backoff, seed uint64, bend func(float64) float64) []delay {
	r := rand.New(rand.NewPCG(seed, 9))
	delays := make([]delay, n)
	for i := range delays {
		attempt := 1 + i%4
		d := b.Delay(attempt, func() float64 { return bend(r.Float64()) })
		delays[i] = delay{attempt, (d + time.Millisecond - 1).Truncate(time.Millisecond)}
	}
	return delays
}

func TestEvenDelaysAreFlatAtAnySpeedAndSkewedOnesAreNot(t *testing.T) {
	t.Parallel()
	const seed, each = 11, 20_000
	for _, speed := range []float64{8, 10, 13, 20} {
		c := clock{speed: speed}
		b := policy.Backoff{Base: c.wallMS(time.Second), Cap: c.wallMS(4 * time.Second)}
		for _, tc := range []struct {
			name string
			bend func(float64) float64
			flat bool
		}{
			{"even", func(x float64) float64 { return x }, true},
			{"early", func(x float64) float64 { return x * x }, false},
			{"equal jitter", func(x float64) float64 { return 0.5 + x/2 }, false},
			{"a ripple", func(x float64) float64 { return x + 0.02*math.Sin(4*math.Pi*x) }, false},
		} {
			bands := bandsOf(drawn(4*each, b, seed, tc.bend), b, c)
			if len(bands) != 3 || bands[0].Attempt != 1 || bands[2].Attempt != 3 || bands[0].Delays != each || bands[2].Delays != 2*each {
				t.Fatalf("speed %v, %s: %+v", speed, tc.name, bands)
			}
			for _, band := range bands {
				if !band.Judged || (band.P > 1e-6) != tc.flat || band.Flat != (band.P >= flatAt/3) {
					t.Errorf("speed %v, seed %d, %s: %+v", speed, seed, tc.name, band)
				}
			}
		}
	}
}

func TestABandOfFewDelaysIsNotJudged(t *testing.T) {
	t.Parallel()
	c := clock{speed: 10}
	b := policy.Backoff{Base: 100 * time.Millisecond, Cap: time.Second}
	bands := bandsOf([]delay{{1, policy.MinDelay}, {1, policy.MinDelay + 100*time.Millisecond}}, b, c)
	if len(bands) != 1 || bands[0].Judged || bands[0].Upper != time.Second || bands[0].Counts[0] != 1 || bands[0].Counts[9] != 1 {
		t.Errorf("%+v", bands)
	}
}

func FuzzSharesOfABandAreAWhole(f *testing.F) {
	f.Add(int64(100 * time.Millisecond))
	f.Add(int64(62500 * time.Microsecond))
	f.Fuzz(func(t *testing.T, upper int64) {
		if upper < int64(10*time.Millisecond) || upper > int64(time.Minute) {
			return // no band is like that
		}
		sum := 0.0
		for _, s := range shares(time.Duration(upper)) {
			sum += s
			if s <= 0 {
				t.Errorf("upper %d: a part is empty", upper)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("upper %d: the parts are %v together", upper, sum)
		}
	})
}
