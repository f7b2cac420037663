package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

func TestStartAndStopMayBeCalledInAnyOrderAndOften(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w, err := New(b.options())
	if err != nil {
		t.Fatal(err)
	}
	w.Stop() // before Start
	if why := w.Ready(); len(why) != 1 {
		t.Errorf("not started, and ready: %v", why)
	}
	for range 2 {
		for range 2 {
			if err := w.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.submit("charge", 1, func(_ int, s *jobs.Submission) { s.Key = jobs.Key(fmt.Sprint("k", time.Now().UnixNano())) })
		b.until(5*time.Second, "a send", func() bool { return b.sender.total() > 0 })
		var all sync.WaitGroup
		for range 3 {
			all.Go(w.Stop)
			all.Go(w.StopNow)
		}
		receive(b, "the end of every stop", ended(&all))
		b.sender.mu.Lock()
		b.sender.sends = map[string]int{}
		b.sender.mu.Unlock()
	}
	if live, err := b.ledger.Workers(t.Context()); err != nil || len(live) != 0 {
		t.Errorf("heartbeats %v %v", live, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w, err := New(b.options())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- w.Run(ctx) }() // ends with ctx; the receive below waits
	b.submit("charge", 3)
	b.ended(10*time.Second, jobs.Succeeded, 3)
	cancel()
	select {
	case err := <-result:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not end")
	}
}

func TestStartSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	t.Run("redis does not answer", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		o := b.options()
		c, err := ledger.Connect("redis://127.0.0.1:1", ledger.ConnectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		o.Ledger = ledger.New(c, b.namespace)
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(t.Context()); err == nil {
			t.Error("it started")
		}
	})
	t.Run("newer schema", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		if err := b.rdb.Set(t.Context(), b.namespace+":schema", ledger.Schema+1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		w, err := New(b.options())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(t.Context()); !errors.Is(err, ledger.ErrNewerSchema) {
			t.Errorf("%v", err)
		}
	})
	t.Run("kind bound elsewhere", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.submit("charge", 1)
		specs := b.config.KindSpecs()
		for i := range specs {
			specs[i].Dependency = "elsewhere"
		}
		d := *b.config.Dependencies[dep]
		d.Name = "elsewhere"
		b.config.Dependencies["elsewhere"] = &d
		b.config.Kinds["charge"].Dependency = "elsewhere"
		w, err := New(b.options())
		if err != nil {
			t.Fatal(err)
		}
		var binding *ledger.BindingError
		if err := w.Start(t.Context()); !errors.As(err, &binding) || binding.Kind != "charge" {
			t.Errorf("%v", err)
		}
	})
	t.Run("options", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, break_ := range []func(*Options){
			func(o *Options) { o.Ledger = nil }, func(o *Options) { o.Queue = nil },
			func(o *Options) { o.Config = nil }, func(o *Options) { o.Sender = nil },
		} {
			o := b.options()
			break_(&o)
			if _, err := New(o); err == nil {
				t.Error("a worker without what it needs")
			}
		}
	})
}

// T76: a stop takes for ever, or cuts calls whose result is then lost.
func TestT76AStopLetsRunningCallsEndAndWritesTheRestUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.ShutdownGrace = 2 * time.Second
	waits := map[string]time.Duration{"payout:payout-0": 300 * time.Millisecond, "payout:payout-1": time.Second, "payout:payout-2": time.Minute}
	var flying sync.WaitGroup
	flying.Add(len(waits))
	b.sender.answer(func(ctx context.Context, call gateway.Call) gateway.Answer {
		flying.Done()
		select {
		case <-time.After(waits[name(call)]):
			return answered(200)
		case <-ctx.Done():
			return in(policy.PhaseCancelledSent, 100)
		}
	})
	b.submit("payout", 3)
	w := b.worker()
	receive(b, "all in flight", ended(&flying))
	at := time.Now()
	stopped := make(chan struct{})
	go func() { // ends with the stop; the receive below waits
		w.Stop()
		close(stopped)
	}()
	b.until(time.Second, "stopping", func() bool { return len(w.Ready()) > 0 })
	b.submit("charge", 1)
	receive(b, "the end of the stop", stopped)
	if took := time.Since(at); took < 2*time.Second || took > 4*time.Second {
		t.Errorf("stop took %s, want the grace of 2 s and at most 2 s more", took)
	}
	for i := range 2 {
		if d := b.get("payout", i); d.State != jobs.Succeeded {
			t.Errorf("a call that ended in time ended %s", d.State)
		}
	}
	if d := b.get("payout", 2); d.State != jobs.Dead || d.Applied != jobs.AppliedUnknown || *d.Reason != jobs.ReasonUnsafe {
		t.Errorf("the long call ended %s, applied %s", d.State, d.Applied)
	}
	if n := b.sender.total(); n != 3 {
		t.Errorf("%d sends: something began after the stop", n)
	}
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return answered(200) })
	b.worker()
	b.until(5*time.Second, "another worker takes what is left", func() bool { return b.sender.of("charge", 0) == 1 })
	if n := b.sender.total(); n != 4 || b.sender.most() != 1 {
		t.Errorf("%d sends, at most %d of one", n, b.sender.most())
	}
}

// T76: the second signal ends it at once, and loses nothing.
func TestT76StopNowCutsAStopThatIsUnderWayShort(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.ShutdownGrace = time.Minute
	arrived := make(chan struct{})
	b.sender.answer(func(ctx context.Context, call gateway.Call) gateway.Answer {
		if name(call) != "payout:payout-0" {
			return answered(200)
		}
		close(arrived)
		<-ctx.Done()
		return in(policy.PhaseCancelledSent, 100)
	})
	b.submit("payout", 1)
	w := b.worker()
	receive(b, "a call", arrived)
	ended := make(chan struct{})
	go func() { // ends with the stop; the receive below waits
		w.Stop()
		close(ended)
	}()
	b.until(2*time.Second, "stopping", func() bool { return len(w.Ready()) > 0 })
	at := time.Now()
	w.StopNow()
	receive(b, "the end of the stop", ended)
	if took := time.Since(at); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	if d := b.get("payout", 0); d.State != jobs.Dead || d.Applied != jobs.AppliedUnknown {
		t.Errorf("%s, applied %s", d.State, d.Applied)
	}
	b.worker()
	b.submit("charge", 1)
	b.until(5*time.Second, "another worker is at work", func() bool { return b.sender.of("charge", 0) == 1 })
	if n := b.sender.of("payout", 0); n != 1 {
		t.Errorf("%d sends of what was cut", n)
	}
}

func TestAStopHandsBackWhatWaitsForASlot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Dependencies[dep].Slots = 4
	b.config.ShutdownGrace = 3 * time.Second
	slow := make(chan struct{})
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer {
		<-slow
		return answered(200)
	})
	w := b.worker()
	c := w.current().conveyors[dep]
	c.took(time.Millisecond) // calls are taken for fast: as many as there are slots may wait
	b.submit("payout", 40)
	b.until(5*time.Second, "the slots are taken and others wait", func() bool {
		s := b.states()
		return s[jobs.Attempting] == 4 && s[jobs.Released] >= 1
	})
	stopped := make(chan struct{})
	go func() { // ends with the stop; the receive below waits
		w.Stop()
		close(stopped)
	}()
	// Long before any release lease, and while the calls still run.
	b.until(2*time.Second, "what waited is back", func() bool {
		s := b.states()
		return s[jobs.Waiting] == 36 && s[jobs.Released] == 0
	})
	close(slow)
	receive(b, "the end of the stop", stopped)
	b.worker()
	b.ended(10*time.Second, jobs.Succeeded, 40)
	if b.sender.most() != 1 {
		t.Errorf("%d sends of one operation", b.sender.most())
	}
}

func TestASlowSenderNeverHoldsMoreThanItsSlots(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Dependencies[dep].Slots = 3
	var mu sync.Mutex
	now, most := 0, 0
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		return answered(200)
	})
	b.submit("charge", 100)
	b.worker()
	b.ended(15*time.Second, jobs.Succeeded, 100)
	if most != 3 {
		t.Errorf("%d calls at once, want 3", most)
	}
}
