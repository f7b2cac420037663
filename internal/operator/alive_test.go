package operator

import (
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// A batch whose worker was killed was shown as running for ever.
func TestABulkActionGivesSignsOfLifeWhileItIsAtWork(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b", "refund/c")
		b.op.signEvery = time.Millisecond
		one := 1
		plan, err := RequeueWords{Canary: &one}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		alive := func(batch string, dep jobs.Dependency) time.Time {
			found, err := b.ledger.Batch(t.Context(), dep, batch)
			if err != nil || found.AliveAt == nil {
				t.Fatalf("%+v %v", found, err)
			}
			return found.AliveAt.Time
		}
		order := ann("x")
		order.ProgressFunc = func(p Progress) {
			if !p.Waiting {
				return
			}
			for _, dep := range []jobs.Dependency{"payrail", "bank"} {
				first := alive(p.Batch, dep)
				for end := time.Now().Add(10 * time.Second); !alive(p.Batch, dep).After(first); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("no sign of life at %s", dep)
					}
				}
			}
			b.attempt(succeeded, "charge/a")
		}
		r, err := b.op.Requeue(t.Context(), b.matching(FilterWords{}, DeadStates), plan, order)
		if err != nil || r.Failed != nil {
			t.Fatalf("%+v %v", r, err)
		}
		if now, err := b.op.Batch(t.Context(), r.Batch); err != nil || now.Phase != ledger.PhaseDone {
			t.Errorf("%+v %v", now, err)
		}
	})
}

func TestABatchIsAtWorkWhileOneOfItsDependenciesHasASign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ one, other, want ledger.Phase }{
		{ledger.PhaseCutOff, ledger.PhaseRunning, ledger.PhaseRunning},
		{ledger.PhaseRunning, ledger.PhaseCutOff, ledger.PhaseRunning},
		{ledger.PhaseDone, ledger.PhaseCutOff, ledger.PhaseCutOff},
		{ledger.PhaseCutOff, ledger.PhaseDone, ledger.PhaseCutOff},
		{ledger.PhaseCutOff, ledger.PhaseStopped, ledger.PhaseStopped},
	} {
		b := newBatchOf(ledger.Batch{Phase: c.one})
		b.join(ledger.Batch{Phase: c.other})
		if b.Phase != c.want {
			t.Errorf("%s and %s: %s, want %s", c.one, c.other, b.Phase, c.want)
		}
	}
}
