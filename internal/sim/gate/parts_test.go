package gate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTheAgendaIsKeptInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		waits := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 60).Draw(t, "waits")
		w := newWorld(1)
		var order []int
		var at []int64
		for i, us := range waits {
			w.after(us, func() {
				order, at = append(order, i), append(at, w.nowUS)
			})
		}
		w.run(100)
		want := make([]int, len(waits))
		for i := range want {
			want[i] = i
		}
		slices.SortStableFunc(want, func(a, b int) int { return int(waits[a] - waits[b]) })
		if !slices.Equal(order, want) || !slices.IsSorted(at) {
			t.Fatalf("waits %v happened in the order %v at %v", waits, order, at)
		}
	})
}

func TestOperationsArriveAtTheRateAsked(t *testing.T) {
	t.Parallel()
	w, even, random := newWorld(1), 0, 0
	w.evenly(70, 100*second, func() { even++ })
	w.poisson(70, 100*second, func() { random++ })
	w.run(200 * second)
	if even != 7000 {
		t.Errorf("%d arrived evenly, want 7000", even)
	}
	if random < 6700 || random > 7300 { // three and a half standard deviations
		t.Errorf("%d arrived at random, want about 7000", random)
	}
}

func TestTooMuchLoadCostsGoodput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ offered, good int64 }{{50, 50}, {100, 100}, {200, 50}, {400, 25}} {
		w, d, good := newWorld(1), &loaded{capacity: 100, latencyUS: millisecond}, int64(0)
		w.evenly(c.offered, 101*second, func() {
			d.call(w, func(ok bool) {
				if ok && w.nowUS >= second { // the first second has none before it
					good++
				}
			})
		})
		w.run(102 * second)
		if good < 92*c.good || good > 108*c.good {
			t.Errorf("offered %d/s: %d succeeded in 100 s, want about %d", c.offered, good, 100*c.good)
		}
	}
}

func TestAServerWorksOnWhatNobodyWaitsForAnyMore(t *testing.T) {
	t.Parallel()
	w, d := newWorld(1), &servers{meanUS: float64(second), all: []*server{{slots: 1}}}
	answers := 0
	for range 20 {
		d.call(w, func(bool) { answers++ })
	}
	r := &rival{w: w, d: d, timeoutUS: millisecond, rule: retries(0)}
	r.arrive(0)
	w.run(second / 2)
	if w.result.Seconds[0].Wasted != 1 || answers > 5 {
		t.Errorf("after half a second: %+v, %d answers", w.result.Seconds[0], answers)
	}
	w.run(hour)
	if answers != 20 || w.nowUS < 10*second {
		t.Errorf("%d answers after %d s of work", answers, w.nowUS/second)
	}
}

func TestASpanBeyondTheRunCountsNothing(t *testing.T) {
	t.Parallel()
	r := Result{Seconds: []Second{{Arrived: 10, Good: 10, Calls: 12, Backlog: 3}, {Arrived: 10, Good: 2, Calls: 40, Backlog: 9}}}
	if got, want := r.Span(0, 9), (Second{Arrived: 20, Good: 12, Calls: 52, Backlog: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.Span(5, 9); got != (Second{}) {
		t.Errorf("%+v, want nothing", got)
	}
	if r.Peak(0) != 40 || r.Peak(2) != 0 || r.Above(0, 12) != 1 || r.BackAfter(0) != -1 {
		t.Errorf("peak %d and %d, above %d, back after %d", r.Peak(0), r.Peak(2), r.Above(0, 12), r.BackAfter(0))
	}
}
