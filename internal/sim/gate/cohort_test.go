package gate

import (
	"math/rand/v2"
	"testing"
	"time"

	"redrive/internal/policy"
)

// T54: of a thousand operations that failed in the same second, no later second holds a
// twentieth. The first rounds' waits are too short for jitter alone, so that there the
// gate spreads them; later, and after a Retry-After that all got alike, the jitter does.
func TestT54ACohortDoesNotStayInLockstep(t *testing.T) {
	t.Parallel()
	const cohort, most = 1000, 50
	t.Run("by the gate, while everything fails and after", func(t *testing.T) {
		t.Parallel()
		for name, breaker := range map[string]bool{"the whole gate": true, "the budget alone": false} {
			p := Defaults()
			p.Cap = 40 // a full bucket is what may leave in one second
			if !breaker {
				p.Breaker.MinCalls, p.Breaker.Consecutive = 0, 0
			}
			w := newWorld(54)
			f := newFleet(w, flaky{failureRate: 1, legUS: float64(10 * millisecond)}, second, Fleet{Instances: 10, Workers: 5, Slots: 10, Params: p})
			for i := range cohort {
				w.after(w.uniform(0, second), func() { f.arrive(i % 10) })
			}
			r := w.run(10 * minute)
			if busiest := r.Peak(2); busiest >= most || r.Backlog != cohort-r.Good {
				t.Errorf("%s: busiest second %d of %d, %d of them wait", name, busiest, cohort, r.Backlog)
			}
			if !breaker && r.Calls < cohort+500 {
				t.Errorf("%s: only %d calls: nothing was retried", name, r.Calls)
			}
		}
	})
	busiest := func(wait func(float64) time.Duration) (most int) {
		rnd := rand.New(rand.NewPCG(54, 0))
		seconds := map[int64]int{}
		for range cohort {
			at := time.Duration(rnd.Int64N(int64(time.Second))) + wait(rnd.Float64())
			seconds[int64(at/time.Second)]++
			most = max(most, seconds[int64(at/time.Second)])
		}
		return most
	}
	t.Run("by the jitter, once waits are longer", func(t *testing.T) {
		t.Parallel()
		b := policy.Backoff{Base: time.Second, Cap: 10 * time.Minute}
		for attempt := 6; attempt <= 9; attempt++ {
			if got := busiest(func(x float64) time.Duration { return b.Delay(attempt, func() float64 { return x }) }); got >= most {
				t.Errorf("attempt %d: busiest second %d of %d", attempt+1, got, cohort)
			}
		}
	})
	t.Run("and after the same Retry-After", func(t *testing.T) {
		t.Parallel()
		if got := busiest(func(x float64) time.Duration {
			return policy.Wait(time.Minute, time.Second, func() float64 { return x })
		}); got >= most {
			t.Errorf("busiest second %d of %d", got, cohort)
		}
	})
}
