package policy

import (
	"math"
	"testing"
	"time"
)

func TestT52NoOverflowAtAnyAttemptNumber(t *testing.T) {
	t.Parallel()
	attempts := []int{math.MinInt, -1, 0, 1 << 31, math.MaxInt}
	for n := 1; n <= 10_000; n++ {
		attempts = append(attempts, n)
	}
	for _, base := range []time.Duration{-1, 0, 1, time.Millisecond, time.Second, 24 * time.Hour, math.MaxInt64} {
		for _, limit := range []time.Duration{-1, 0, time.Millisecond, 10 * time.Minute, 24 * time.Hour, math.MaxInt64} {
			b := Backoff{Base: base, Cap: limit}
			last := time.Duration(0)
			for _, n := range attempts {
				c := b.Ceiling(n)
				if n >= 1 && n <= 10_000 {
					if c < last {
						t.Fatalf("%+v: the ceiling falls from %v to %v at attempt %d", b, last, c, n)
					}
					last = c
				}
				for _, r := range []float64{0, 0.5, math.Nextafter(1, 0)} {
					d := b.Delay(n, func() float64 { return r })
					if d < MinDelay || d > MinDelay+max(0, min(limit, MaxWait)) {
						t.Fatalf("%+v attempt %d: delay %v is out of bounds", b, n, d)
					}
				}
			}
		}
	}
}

func TestBackoffDoublesToItsCap(t *testing.T) {
	t.Parallel()
	b := Backoff{Base: time.Second, Cap: 10 * time.Second}
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 6: 10 * time.Second} {
		if got := b.Ceiling(n); got != want {
			t.Errorf("attempt %d: ceiling %v, want %v", n, got, want)
		}
	}
	// Full jitter: uniform, so the mean is half the ceiling and all of it is used.
	rnd, sum, low, high := seeded(7), time.Duration(0), time.Hour, time.Duration(0)
	const draws = 10_000
	for range draws {
		d := b.Delay(4, rnd) - MinDelay
		sum, low, high = sum+d, min(low, d), max(high, d)
	}
	if mean := sum / draws; mean < 3900*time.Millisecond || mean > 4100*time.Millisecond || low > 50*time.Millisecond || high < 7950*time.Millisecond {
		t.Errorf("mean %v, lowest %v, highest %v", mean, low, high)
	}
}

// The delay is a span that counts from the end of the attempt: nothing in the
// decision knows when the attempt began, so how long it lasted cannot shorten it.
func TestT53TheDelayCountsFromTheEndOfTheAttempt(t *testing.T) {
	t.Parallel()
	b := Backoff{Base: 20 * time.Second, Cap: 20 * time.Second}
	endedAt := received.Add(60 * time.Second) // an attempt of a minute
	next := endedAt.Add(b.Delay(1, half))
	if next.Sub(endedAt) < 10*time.Second {
		t.Errorf("next attempt %v after the end, want at least 10s", next.Sub(endedAt))
	}
}

func TestWaitIsNeverEarlierThanTheHint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ hint, backoff, least, most time.Duration }{
		{0, time.Second, time.Second, time.Second},
		{10 * time.Second, time.Second, 10 * time.Second, 15 * time.Second},
		{10 * time.Second, time.Minute, time.Minute, time.Minute + 5*time.Second},
		{time.Hour, time.Second, time.Hour, time.Hour + MaxExtra},
		{math.MaxInt64, math.MaxInt64, MaxWait, MaxWait + MaxExtra},
		{-1, time.Second, time.Second, time.Second},
	} {
		for seed := range uint64(100) {
			if got := Wait(tc.hint, tc.backoff, seeded(seed)); got < tc.least || got > tc.most {
				t.Fatalf("hint %v, backoff %v: wait %v, want %v to %v", tc.hint, tc.backoff, got, tc.least, tc.most)
			}
		}
	}
}

// Those who got the same hint must not come back in the same second.
func TestTheSameHintDoesNotKeepACohortInLockstep(t *testing.T) {
	t.Parallel()
	rnd, seconds := seeded(11), map[int]int{}
	b := Backoff{Base: time.Second, Cap: 10 * time.Minute}
	for range 1000 {
		seconds[int(Wait(time.Minute, b.Delay(2, rnd), rnd).Seconds())]++
	}
	for second, n := range seconds {
		if n >= 50 {
			t.Errorf("%d of 1000 come back in second %d", n, second)
		}
	}
}
