package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// skewed is a bundle on a store whose clock runs, and steps when it is told to.
func skewed(t *testing.T) (b *testBundle, step func(time.Duration)) {
	t.Helper()
	m, rdb := redistest.Mini(t)
	var offset atomic.Int64
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	set := func() { m.SetTime(time.Now().Add(time.Duration(offset.Load()))) }
	set()
	ticking.Go(func() { // ends with stop, which the cleanup waits for
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				set()
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		ticking.Wait()
	})
	b = &testBundle{T: t, namespace: fmt.Sprintf("t%08x", rand.Uint32()), sender: newCounter(), log: &logbook{}, rdb: rdb, url: "redis://" + m.Addr()}
	b.outfit()
	return b, func(d time.Duration) {
		offset.Add(int64(d))
		set()
	}
}

// T82: Redis' clock steps while calls are under way. Nobody takes over what another
// process is at work on, nothing is poisoned, and the step is told.
func TestT82AStepOfRedisClockStealsNothing(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 30 * time.Second, -30 * time.Second} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			b, step := skewed(t)
			const n = 8
			var flying sync.WaitGroup
			flying.Add(n)
			answer := make(chan struct{})
			b.sender.answer(func(ctx context.Context, _ gateway.Call) gateway.Answer {
				flying.Done()
				<-answer
				return answered(200)
			})
			b.submit("payout", n, func(_ int, s *jobs.Submission) { s.Deadline = "5h" })
			for range 2 {
				b.worker()
			}
			receive(b, "all calls under way", ended(&flying))
			time.Sleep(1200 * time.Millisecond) // every loop has read the clock
			step(by)
			time.Sleep(1200 * time.Millisecond) // and every one has looked again
			if n := b.value(`redrive_rescued_total{dependency="payrail"}`); n != 0 {
				t.Errorf("%v attempts were taken from their workers", n)
			}
			close(answer)
			b.ended(15*time.Second, jobs.Succeeded, n)
			if b.sender.most() != 1 {
				t.Errorf("%d sends of one operation", b.sender.most())
			}
			for i := range n {
				// A begin that got no clear answer in time is on record too, as not sent.
				d := b.get("payout", i)
				sent := slices.DeleteFunc(attempts(d), func(e jobs.Event) bool { return e.Outcome == jobs.OutcomeNotSent })
				if len(d.Flags) != 0 || len(sent) != 1 {
					t.Errorf("payout-%d: flags %v, attempts %+v", i, d.Flags, sent)
				}
			}
			if v := b.value("redrive_clock_steps_total"); v < 1 {
				t.Errorf("%v steps counted", v)
			}
		})
	}
}

// T82: an instance whose own clock is minutes off does as the others do, because only
// Redis' clock decides; the difference is shown.
func TestT82AProcessWhoseClockIsOffShowsItAndWorks(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			b, step := skewed(t)
			step(by) // to Redis every process is off by that much
			b.submit("payout", 5, func(i int, s *jobs.Submission) { s.Deadline = fmt.Sprint(3+i, "s") })
			b.worker()
			b.ended(10*time.Second, jobs.Succeeded, 5)
			want := -by.Seconds()
			if got := b.value("redrive_clock_skew_seconds"); got < want-1 || got > want+1 {
				t.Errorf("skew %v s, want about %v", got, want)
			}
			if v := b.value("redrive_clock_steps_total"); v != 0 {
				t.Errorf("%v steps counted", v)
			}
		})
	}
}

func TestT82NothingIsSentPastItsDeadlineByRedisClock(t *testing.T) {
	t.Parallel()
	b, step := skewed(t)
	step(-2 * time.Minute)
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return answered(503) })
	b.worker() // first: none may fall due before it is there
	b.submit("charge", 5, func(_ int, s *jobs.Submission) { s.Deadline = "2s" })
	b.ended(20*time.Second, jobs.Dead, 5)
	sends := b.sender.total()
	time.Sleep(500 * time.Millisecond)
	if b.sender.total() != sends {
		t.Error("sent after its end")
	}
	for i := range 5 {
		if d := b.get("charge", i); d.Intent == nil || *d.Intent != "dead deadline" { // a 503 leaves it unknown
			t.Errorf("charge-%d is dead(%s), intent %v", i, *d.Reason, d.Intent)
		}
	}
}

// A script that finds Redis' clock elsewhere than it is expected to be decides nothing.
func TestAStepIsFoundBeforeAnythingIsDecided(t *testing.T) {
	t.Parallel()
	b, step := skewed(t)
	b.submit("payout", 1, func(_ int, s *jobs.Submission) { s.Deadline = "10s" })
	now := time.Now()
	step(time.Hour)
	terms := ledger.Terms{Dependency: dep, Expect: now}
	if _, _, err := b.ledger.Sweep(t.Context(), terms, []jobs.Kind{"payout"}); err != ledger.ErrClockStepped {
		t.Errorf("sweep: %v", err)
	}
	if _, err := b.ledger.Release(t.Context(), terms, []jobs.Kind{"payout"}, 1); err != ledger.ErrClockStepped {
		t.Errorf("release: %v", err)
	}
	if _, err := b.ledger.LostAttempts(t.Context(), dep, 0, now); err != ledger.ErrClockStepped {
		t.Errorf("recover: %v", err)
	}
	if _, err := b.ledger.Inquire(t.Context(), terms, []jobs.Kind{"payout"}, 1, "run", time.Second); err != ledger.ErrClockStepped {
		t.Errorf("inquire: %v", err)
	}
	if d := b.get("payout", 0); d.State != jobs.Waiting {
		t.Errorf("it is %s", d.State)
	}
}
