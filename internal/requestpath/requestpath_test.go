package requestpath

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/redistest"
)

// bubble runs f in virtual time, with a Recorder on a store of its own.
func bubble(t *testing.T, o Options, f func(b *bundle)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, end := inMemory()
		defer end()
		b := setup(t, client, o)
		defer b.Stop()
		f(b)
	})
}

func TestFirstAttemptsAreToldToTheirGateWithinASecond(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.worker("other")
		b.Start()
		time.Sleep(10 * time.Second)
		b.record(3, metrics.ResultOK)
		b.record(2, metrics.ResultFailed)
		b.record(1, metrics.ResultTimedOut)
		b.record(1, "nonsense")
		b.Record("other", metrics.ResultOK)
		time.Sleep(time.Second + time.Millisecond)
		if mine, others := b.heard(dep), b.heard("other"); mine != 7 || others != 1 {
			b.Errorf("the gates heard of %d and %d first attempts, want 7 and 1", mine, others)
		}
		want := []string{"test:{other}: 1 ok 1 failed 0 timed_out 0", "test:{payrail}: 1 ok 3 failed 3 timed_out 1"}
		if got := slices.Sorted(slices.Values(b.link.said())); !slices.Equal(got, want) {
			b.Errorf("flushes %q, want %q", got, want)
		}
		for result, want := range map[metrics.Result]float64{metrics.ResultOK: 3, metrics.ResultFailed: 3, metrics.ResultTimedOut: 1} {
			if got := b.firstAttempts(result); got != want {
				b.Errorf("first_attempts_total %s is %v, want %v", result, got, want)
			}
		}
	})
}

func TestFlushesAreJittered(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		var mu sync.Mutex
		var pauses []time.Duration
		last := time.Now()
		b.link.meets(func(int) fate {
			mu.Lock()
			defer mu.Unlock()
			pauses, last = append(pauses, time.Since(last)), time.Now()
			return arrives
		})
		b.Start()
		for range 60_000 {
			b.Record(dep, metrics.ResultOK)
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(pauses)
		if least, most := pauses[0], pauses[len(pauses)-1]; least < 250*time.Millisecond || most > time.Second || most < 2*least {
			b.Errorf("%d pauses between %s and %s, want them spread over 250ms to 1s", len(pauses), least, most)
		}
	})
}

func TestALostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.link.meets(func(n int) fate {
			if n <= 3 {
				return replyLost
			}
			return arrives
		})
		b.record(5, metrics.ResultOK)
		b.Start()
		for len(b.link.said()) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		b.record(2, metrics.ResultFailed)
		time.Sleep(5 * time.Second)
		first, second := "test:{payrail}: 1 ok 5 failed 0 timed_out 0", "test:{payrail}: 2 ok 0 failed 2 timed_out 0"
		if got := b.link.said(); !slices.Equal(got, []string{first, first, first, first, second}) {
			b.Errorf("flushes %q, want the first one four times as it was, then what came later", got)
		}
		if got := b.heard(dep); got != 7 {
			b.Errorf("the gate heard of %d first attempts, want 7", got)
		}
	})
}

func TestALostReplyCountsOnceOnBothStores(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		t.Parallel()
		b := setup(t, newClient(t), Options{FlushEvery: 20 * time.Millisecond})
		b.link.meets(func(n int) fate { return []fate{replyLost, requestLost, replyLost, arrives}[n%4] })
		b.Start()
		for range 50 {
			b.record(10, metrics.ResultOK)
			time.Sleep(5 * time.Millisecond)
		}
		eventually(t, "the gate has heard of all", func() bool { return b.heard(dep) == 500 })
		b.Stop()
		if got := b.heard(dep); got != 500 {
			t.Errorf("the gate heard of %d first attempts, want 500", got)
		}
	})
}

func TestACrashForfeitsAtMostOneFlush(t *testing.T) {
	t.Parallel()
	for _, last := range []fate{requestLost, replyLost} {
		t.Run(fmt.Sprintf("fate %d", last), func(t *testing.T) {
			t.Parallel()
			bubble(t, Options{}, func(b *bundle) {
				b.Start()
				for range 10_000 { // 1,000 a second
					b.Record(dep, metrics.ResultOK)
					time.Sleep(time.Millisecond)
				}
				flushes := len(b.link.said())
				b.link.meets(func(n int) fate { // the next one is its last, what follows no longer happens
					if n == flushes+1 {
						return last
					}
					return requestLost
				})
				b.Stop()
				if got := b.heard(dep); got < 9_000 || got > 10_000 {
					b.Errorf("the gate heard of %d first attempts of 10,000, at 1,000 a second: want at most a second's lost", got)
				}
			})
		})
	}
}

func TestAwayRedisLosesNothingThatIsStillWorthTelling(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.worker("other")
		b.link.meets(func(int) fate { return requestLost })
		b.Start()
		for range 500 {
			b.Record(dep, metrics.ResultOK)
			b.Record("other", metrics.ResultOK)
			time.Sleep(10 * time.Millisecond)
		}
		b.link.meets(nil)
		time.Sleep(2 * time.Second)
		if got, others := b.heard(dep), b.heard("other"); got != 500 || others != 500 {
			b.Errorf("after 5s without Redis the gates heard of %d and %d first attempts, want 500 each", got, others)
		}
		if away, back := b.log.count("cannot be told"), b.log.count("again\" forgotten=0"); away != 1 || back != 1 {
			b.Errorf("said %d times that Redis is away and %d times that it is back, want once each:\n%s", away, back, b.log)
		}
		if got := b.firstAttempts(metrics.ResultOK); got != 500 {
			b.Errorf("first_attempts_total is %v, want 500", got)
		}
	})
}

func TestWhatIsLongOverIsForgottenAndSaid(t *testing.T) {
	t.Parallel()
	bubble(t, Options{Keep: 10 * time.Second}, func(b *bundle) {
		b.link.meets(func(int) fate { return requestLost })
		b.Start()
		const away = 3600
		for range away {
			b.Record(dep, metrics.ResultFailed)
			time.Sleep(time.Second)
		}
		b.link.meets(nil)
		time.Sleep(2 * time.Second)
		got := b.heard(dep)
		if got > 11 {
			b.Errorf("after an hour without Redis the gate heard of %d first attempts at one a second, want those of 10s", got)
		}
		if said := fmt.Sprintf("forgotten=%d\n", away-got); b.log.count(said) != 1 {
			b.Errorf("the log does not say %q:\n%s", said, b.log)
		}
		if got := b.firstAttempts(metrics.ResultFailed); got != away {
			b.Errorf("first_attempts_total is %v, want %d whatever the gate heard", got, away)
		}
	})
}

func TestStopTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.link.meets(func(n int) fate {
			switch n {
			case 1:
				return replyLost
			case 2:
				return requestLost
			}
			return arrives
		})
		b.Start()
		b.record(4, metrics.ResultOK)
		for len(b.link.said()) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		b.record(2, metrics.ResultOK)
		b.Stop()
		if got := b.heard(dep); got != 6 {
			b.Errorf("the gate heard of %d first attempts, want 6: those whose fate was not known, and those behind", got)
		}
	})
}

func TestStopEndsWithinItsBoundWhateverRedisDoes(t *testing.T) {
	t.Parallel()
	for _, f := range []fate{requestLost, hangs} {
		bubble(t, Options{}, func(b *bundle) {
			b.link.meets(func(int) fate { return f })
			b.Start()
			b.record(4, metrics.ResultOK)
			time.Sleep(1100 * time.Millisecond)
			began := time.Now()
			b.Stop()
			if took := time.Since(began); took > StopWithin {
				b.Errorf("Stop took %s, want at most %s", took, StopWithin)
			}
			if b.log.count("unheard=4") != 1 {
				b.Errorf("the log does not say what was lost:\n%s", b.log)
			}
		})
	}
}

func TestStartAndStopMayBeCalledInAnyOrderAndNumber(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.Stop()
		b.record(1, metrics.ResultOK)
		b.Start()
		b.Start()
		time.Sleep(2 * time.Second)
		if got := b.link.said(); len(got) != 1 {
			b.Errorf("flushes %q, want one", got)
		}
		b.Stop()
		b.Stop()
		b.record(1, metrics.ResultOK)
		time.Sleep(2 * time.Second)
		if got := b.heard(dep); got != 1 {
			b.Errorf("a stopped Recorder told of %d first attempts, want 1", got)
		}
		b.Start()
		time.Sleep(2 * time.Second)
		if got := b.heard(dep); got != 2 {
			b.Errorf("started again: %d first attempts heard, want 2", got)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(b.Start)
			wg.Go(b.Stop)
		}
		wg.Wait()
	})
}

func TestNothingIsFlushedWithoutNeed(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.Start()
		b.record(1, metrics.ResultOK)
		time.Sleep(time.Hour)
		if got := b.link.said(); len(got) != 1 {
			b.Errorf("%d flushes in an idle hour, want the one", len(got))
		}
	})
}

func TestStateIsTheGatesLastAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.Start()
		if s, known := b.State(dep); known {
			b.Errorf("a state before any answer: %+v", s)
		}
		time.Sleep(time.Second)
		if s, known := b.State(dep); !known || s.Breaker != budget.Closed || s.Hold != jobs.HoldNone || !s.Until.IsZero() || s.Age() > time.Second {
			b.Errorf("asked a second ago: %+v, %v: want a fresh closed gate", s, known)
		}
		if _, err := b.gates.Pause(b.Context(), dep, time.Hour, ledger.Actor{By: "ann", Note: "why"}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Second)
		s, _ := b.State(dep)
		if s.Hold != jobs.HoldPaused || time.Until(s.Until) < 59*time.Minute || time.Until(s.Until) > time.Hour {
			b.Errorf("paused for an hour: %+v", s)
		}
		time.Sleep(time.Minute)
		if s, _ := b.State(dep); s.Age() < 58*time.Second {
			b.Errorf("age %s, after a minute in which nobody asked", s.Age())
		}
		time.Sleep(time.Second)
		if s, _ := b.State(dep); s.Age() > time.Second {
			b.Errorf("age %s, a second after somebody asked", s.Age())
		}
	})
}

// Who asks all the time must not make the gate be asked all the time.
func TestAskingForTheStateCostsNoMoreThanRecording(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.link.meets(func(int) fate {
			b.State(dep) // somebody asks while the gate answers
			return arrives
		})
		b.State(dep)
		b.Start()
		time.Sleep(100 * time.Second)
		if got := len(b.link.said()); got < 100 || got > 400 {
			b.Errorf("%d flushes in 100s, want one in 250ms to 1s", got)
		}
	})
}

func TestFailuresOfTheRequestPathOpenTheBreakerAndAreLogged(t *testing.T) {
	t.Parallel()
	params := budget.Params{RatioMilli: 100, Cap: 10, Breaker: budget.Breaker{WindowMS: 10_000, Consecutive: 5, OpenMS: 5000, MaxOpenMS: 60_000, Probes: 3}}
	bubble(t, Options{Spare: map[jobs.Dependency]budget.Params{"fresh": params}}, func(b *bundle) {
		b.Start()
		for range 5 {
			b.Record("fresh", metrics.ResultTimedOut)
		}
		time.Sleep(time.Second)
		s, _ := b.State("fresh")
		if s.Breaker != budget.Open || s.Hold != jobs.HoldBreaker || !s.Until.After(time.Now()) {
			b.Errorf("state %+v, want an open breaker by the parameters of this process, for no worker said any", s)
		}
		if line := "dependency=fresh change=open reason=consecutive"; b.log.count(line) != 1 {
			b.Errorf("the log does not say %q:\n%s", line, b.log)
		}
	})
}

func TestInventedDependenciesTakeNoMoreThanTheirBound(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(b *bundle) {
		b.Start()
		for i := range 10_000 {
			b.Record(jobs.Dependency(fmt.Sprintf("invented-%d", i)), metrics.ResultOK)
		}
		if _, known := b.State("invented-9999"); known {
			b.Error("a dependency beyond the bound has a state")
		}
		time.Sleep(3 * time.Second)
		if got := len(b.link.said()); got != MaxDependencies {
			b.Errorf("%d flushes, want %d", got, MaxDependencies)
		}
		if b.log.count("too many dependencies") != 1 {
			b.Errorf("the log does not say it once:\n%s", b.log)
		}
	})
}

func TestNamesakesAreNotTakenForEachOther(t *testing.T) {
	t.Parallel()
	bubble(t, Options{Process: "shop"}, func(b *bundle) {
		second, err := New(b.gates, Options{Process: "shop"})
		if err != nil {
			b.Fatal(err)
		}
		defer second.Stop()
		b.Start()
		second.Start()
		b.record(3, metrics.ResultOK)
		second.Record(dep, metrics.ResultOK)
		time.Sleep(2 * time.Second)
		if got := b.heard(dep); got != 4 {
			b.Errorf("the gate heard of %d first attempts of two namesakes, want 4", got)
		}
	})
}

func TestEveryRecordOfManyGoroutinesIsToldOnce(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := setup(t, client, Options{FlushEvery: 4 * time.Millisecond})
	b.Start()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5000 {
				b.Record(dep, metrics.Results[i%3])
				b.Record(jobs.Dependency(fmt.Sprintf("dep-%d", i)), metrics.ResultOK)
			}
		})
	}
	wg.Wait()
	b.Stop()
	if got := b.heard(dep); got != 40_000 {
		t.Errorf("the gate heard of %d first attempts, want 40,000", got)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	l := ledger.New(client, "test")
	for _, o := range []Options{{FlushEvery: -1}, {FlushEvery: time.Microsecond}, {FlushEvery: time.Second + 1}, {Keep: -1}, {Keep: time.Second},
		{Keep: time.Minute + 1}} {
		if _, err := New(l, o); err == nil || !strings.Contains(err.Error(), "request path options") {
			t.Errorf("%+v gives %v", o, err)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("no ledger is accepted")
	}
}

// Not parallel: it counts what the whole process allocates.
func TestRecordAllocatesNothing(t *testing.T) {
	_, client := redistest.Mini(t)
	b := setup(t, client, Options{})
	b.record(1, metrics.ResultOK)
	if n := testing.AllocsPerRun(1000, func() { b.Record(dep, metrics.ResultTimedOut) }); n != 0 {
		t.Errorf("a record allocates %v times", n)
	}
}
