package budget

import (
	"testing"
	"time"
)

// The forecast counts as a queue would that lets the earliest deadline leave first.
func TestForecastIsThatOfAQueue(t *testing.T) {
	t.Parallel()
	deadlines := func(spans ...int) (due func([]time.Duration) []int64) {
		return func(horizons []time.Duration) []int64 {
			out := make([]int64, len(horizons))
			for i, h := range horizons {
				for _, s := range spans {
					if time.Duration(s)*time.Second <= h {
						out[i]++
					}
				}
			}
			return out
		}
	}
	for name, c := range map[string]struct {
		pace    Pace
		spans   []int
		wantETA time.Duration
		misses  int64
	}{
		"all in time":                       {Pace{PerSecondMilli: 1000}, []int{100, 100, 100}, 3 * time.Second, 0},
		"an open breaker is no miss":        {Pace{PerSecondMilli: 1000, InMS: 30_000}, []int{100, 100, 100}, 33 * time.Second, 0},
		"but for those it outlasts":         {Pace{PerSecondMilli: 1000, InMS: 30_000}, []int{5, 10, 100}, 33 * time.Second, 2},
		"too slow for a crowd":              {Pace{PerSecondMilli: 500}, []int{4, 4, 4, 4, 4, 4}, 12 * time.Second, 4},
		"a pause without an end, all of it": {Pace{Stuck: true}, []int{10, 20}, Never, 2},
		"nothing puts anything in, all too": {Pace{}, []int{10, 20}, Never, 2},
	} {
		horizons := Horizons(c.pace.ETA(int64(len(c.spans))))
		f := NewForecast(int64(len(c.spans)), c.pace, horizons, deadlines(c.spans...)(horizons))
		if f.ETA != c.wantETA || f.Misses < c.misses || f.Misses > c.misses+1 {
			t.Errorf("%s: eta %v, %d miss; want %v and %d", name, f.ETA, f.Misses, c.wantETA, c.misses)
		}
	}
	const now = 1_796_000_000_000
	p := Params{RatioMilli: 100, Cap: 10, FloorMilliPerSecond: 2000, Breaker: Breaker{Consecutive: 1, OpenMS: 5000, MaxOpenMS: 5000, Probes: 1}}
	g := Gate{}.At(now, p)
	g = g.Report(Report{Sign: SignFailed, Jitter: 1000}, now, p)
	if got := g.Pace(now, p); got != (Pace{PerSecondMilli: 2000, InMS: 5000}) {
		t.Errorf("open: %+v", got)
	}
}
