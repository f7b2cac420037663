package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
	"redrive/internal/metrics"
)

func TestAClockStepIsToldFromDriftAndFromASlowAnswer(t *testing.T) {
	t.Parallel()
	local := time.Now()
	redis := local.Add(42 * time.Hour) // another zone of time is no step
	for _, c := range []struct {
		name        string
		local       time.Duration // between the two readings
		redis       time.Duration
		took        time.Duration // of the second reading
		wantStepped bool
	}{
		{"in step", time.Second, time.Second, time.Millisecond, false},
		{"drift of 1 %", time.Minute, time.Minute + 600*time.Millisecond, time.Millisecond, false},
		{"ahead", time.Second, 4 * time.Second, time.Millisecond, true},
		{"back", time.Second, -2 * time.Second, time.Millisecond, true},
		{"back, a little at a time", time.Second, -time.Second - 100*time.Millisecond, time.Millisecond, true},
		{"slow answer", time.Second, 5 * time.Second, 8 * time.Second, false},
		{"after an hour away", time.Hour, time.Hour, time.Millisecond, false},
	} {
		var k clock
		if k.saw(local, local, redis) {
			t.Errorf("%s: the first reading is a step", c.name)
		}
		asked := local.Add(c.local)
		if got := k.saw(asked, asked.Add(c.took), redis.Add(c.redis)); got != c.wantStepped {
			t.Errorf("%s: stepped %t", c.name, got)
		}
		after := asked.Add(c.took + time.Second)
		if got := k.steady(after, 5*time.Second); got == c.wantStepped {
			t.Errorf("%s: steady %t a second later", c.name, got)
		}
		if !k.steady(after.Add(5*time.Second), 5*time.Second) {
			t.Errorf("%s: not steady after a lease", c.name)
		}
	}
}

func TestAnOldReadingThatComesLateIsNoStep(t *testing.T) {
	t.Parallel()
	at := time.Now()
	var k clock
	k.saw(at.Add(10*time.Second), at.Add(10*time.Second), at.Add(10*time.Second))
	if k.saw(at, at.Add(11*time.Second), at) {
		t.Error("it counts as a step")
	}
	if got := k.now(at.Add(20 * time.Second)); !got.Equal(at.Add(20 * time.Second)) {
		t.Errorf("now is %s off", got.Sub(at.Add(20*time.Second)))
	}
}

func TestAfterAClockStepLeasesAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.worker()
	r := w.current()
	b.until(3*time.Second, "a reading", func() bool { return !r.clock.readAt().IsZero() })
	r.sawClock(time.Now(), time.Now().Add(time.Hour))
	b.submit("charge", 1)
	if why := w.Ready(); len(why) != 1 || !strings.Contains(why[0], "clock") {
		t.Errorf("ready: %v", why)
	}
	time.Sleep(1500 * time.Millisecond) // two releases would have come
	if n := b.sender.total(); n != 0 {
		t.Errorf("%d sends within a claim lease of the step", n)
	}
	if n := b.value("redrive_clock_steps_total"); n < 1 {
		t.Errorf("clock_steps_total is %v", n)
	}
	b.ended(15*time.Second, jobs.Succeeded, 1)
}

func TestOnlyWhatSpeaksOfRedisIsTrouble(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("script begin: %w", err) }
	for err, want := range map[error]bool{
		nil:                              false,
		redis.Nil:                        false,
		wrap(context.Canceled):           false,
		wrap(context.DeadlineExceeded):   true,
		wrap(io.EOF):                     true,
		redis.ErrClosed:                  true,
		reply("OOM command not allowed"): true,
		wrap(reply("ERR OOM command not allowed when used memory > 'maxmemory'.")): true,
		wrap(reply("ERR NOREPLICAS Not enough good replicas to write.")):           true,
		reply("READONLY You can't write"):                                          true,
		reply("MISCONF Redis is"):                                                  true,
		reply("LOADING Redis is loading"):                                          true,
		reply("NOAUTH Authentication"):                                             true,
		reply("ERR user_script:12: bad"):                                           false,
		reply("WRONGTYPE Operation"):                                               false,
		reply("NOT FOUND"):                                                         false,
		reply("ERR Error running script (call to f_x): @user_script: 7: -OOM command not allowed when"): true, // before Redis 7
	} {
		if got := troubles(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
		if err != nil && err != redis.Nil {
			if got := troubles(wrap(err)); got != want {
				t.Errorf("wrapped %v: %t", err, got)
			}
		}
	}
}

func TestHealthProbesUntilRedisTakesWritesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHealth(slog.New(slog.DiscardHandler), metrics.New(metrics.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		var probes int
		backAt := time.Now().Add(20 * time.Second)
		go h.watch(ctx, func(context.Context) error { // ends with ctx
			probes++
			if time.Now().Before(backAt) {
				return io.EOF
			}
			return nil
		})
		if !h.await(ctx.Done()) {
			t.Fatal("not usable at first")
		}
		h.note(nil)
		h.note(io.EOF)
		h.note(io.EOF)
		if h.trouble() == nil {
			t.Fatal("usable after an error")
		}
		if !h.await(ctx.Done()) || time.Now().Before(backAt) || time.Since(backAt) > 2*time.Second {
			t.Errorf("usable again at %s from its return", time.Since(backAt))
		}
		if probes > 30 {
			t.Errorf("%d probes in 20 s", probes)
		}
		cancel()
		synctest.Wait()
		if h.await(ctx.Done()) {
			t.Error("await says that one may go on after the end")
		}
	})
}

func TestPendingWritesAreRepeatedUntilTakenAndBoundWhatBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHealth(slog.New(slog.DiscardHandler), metrics.New(metrics.Options{}))
		var eased atomic.Int64
		p := newPending(h, func() { eased.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tries, taken atomic.Int64
		goodAt := time.Now().Add(10 * time.Second)
		go h.watch(ctx, func(context.Context) error { return nil }) // ends with ctx
		for range maxPending {
			p.add(func(context.Context) error {
				tries.Add(1)
				if time.Now().Before(goodAt) {
					return reply("OOM command not allowed")
				}
				taken.Add(1)
				return nil
			})
		}
		if !p.full() {
			t.Error("not full")
		}
		go p.loop(ctx) // ends with ctx
		time.Sleep(5 * time.Second)
		if !p.full() || taken.Load() != 0 {
			t.Errorf("%d waiting, %d taken", p.len(), taken.Load())
		}
		time.Sleep(7 * time.Second)
		if p.len() != 0 || taken.Load() != maxPending || eased.Load() != 1 {
			t.Errorf("%d waiting, %d taken, eased %d times", p.len(), taken.Load(), eased.Load())
		}
		if n := tries.Load() - maxPending; n > 20*maxPending/10 {
			t.Errorf("%d tries in vain", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestWhileResultsPileUpNothingIsBegun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.worker()
	r := w.current()
	relent := make(chan struct{})
	for range maxPending {
		r.pending.add(func(ctx context.Context) error {
			select {
			case <-relent:
				return nil
			case <-time.After(10 * time.Millisecond):
				return reply("ERR not yet")
			}
		})
	}
	b.submit("charge", 1)
	time.Sleep(1200 * time.Millisecond)
	if n := b.sender.total(); n != 0 {
		t.Errorf("%d sends", n)
	}
	if why := w.Ready(); len(why) != 1 || !strings.Contains(why[0], "wait to be written") {
		t.Errorf("ready: %v", why)
	}
	close(relent)
	b.ended(10*time.Second, jobs.Succeeded, 1)
}

func TestTheBatcherAnswersEachCallAndRunsManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &tap{}
	c := b.client()
	c.AddHook(p)
	batch := newBatcher(c)
	l := ledger.New(batch, b.namespace)
	b.submit("charge", 300)
	d := b.released(100)
	plan, err := newPlan(b.config)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var granted atomic.Int64
	for _, x := range d {
		all.Go(func() {
			run := ledger.NewRunID()
			g, err := l.Begin(t.Context(), plan.dependencies[dep].terms, plan.dependencies[dep].kinds["charge"].target, 25, x, run)
			if err != nil || g.Status != ledger.BeginGranted || g.Grant.ID != x.ID || g.Grant.RunID != run {
				t.Errorf("%s: %+v %v", x.ID, g, err)
				return
			}
			granted.Add(1)
		})
	}
	receive(b, "every grant", ended(&all))
	if granted.Load() != 100 || p.commands.Load() > 60 {
		t.Errorf("%d grants in %d commands", granted.Load(), p.commands.Load())
	}
	// Redis forgot the scripts.
	if err := b.rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if g, err := l.Begin(t.Context(), plan.dependencies[dep].terms, plan.dependencies[dep].kinds["charge"].target, 25, d[0], ledger.NewRunID()); err != nil || g.Status != ledger.BeginStale {
		t.Errorf("%+v %v", g, err)
	}
	batch.close()
}

func TestWhoHasLeftTheBatcherIsNotSentLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.client()
	busy, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p := &tap{}
	p.answer(func(redis.Cmder) error {
		once.Do(func() {
			close(busy)
			<-goOn
		})
		return nil
	})
	c.AddHook(p)
	batch := newBatcher(c)
	call := func(ctx context.Context) error {
		_, err := batch.RunScript(ctx, ledger.Scripts[0], "x:{y}", new(luascript.Args).Int("n", 0).Int("cap", 1).Int("keys", 1))
		return err
	}
	batch.mu.Lock()
	batch.plain.running = maxPipelines - 1 // so that the second waits for the first
	batch.mu.Unlock()
	first := make(chan error, 1)
	go func() { first <- call(t.Context()) }() // ends when Redis has answered; received below
	receive(b, "a pipeline", busy)
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { second <- call(ctx) }() // ends with ctx; received below
	b.until(2*time.Second, "the second waits", func() bool {
		batch.mu.Lock()
		defer batch.mu.Unlock()
		return len(batch.plain.waiting) == 1
	})
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(goOn)
	<-first
	batch.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.names["submit"]; n > 2 { // the first, and again once its script was loaded
		t.Errorf("%d runs: the call was sent after its caller had left", n)
	}
}

func TestTraysCarryEveryDeliveryOnceAndSuspectsApart(t *testing.T) {
	t.Parallel()
	var all []ledger.Delivery
	for i := range 50 {
		d := ledger.Delivery{ID: jobs.ID{Kind: "charge", Key: jobs.Key(fmt.Sprintf("a#%d/x", i))}, Number: int64(i + 1), Lane: ledger.LaneRetry, DueAt: time.UnixMilli(1764490000000 + int64(i))}
		if i%7 == 0 {
			d.Losses = 2
		}
		all = append(all, d)
	}
	var back []ledger.Delivery
	for _, on := range trays(all, 5) {
		if len(on) > 5 {
			t.Errorf("a tray of %d", len(on))
		}
		got, err := parseTray(on.payload())
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range got {
			if d != on[i] {
				t.Errorf("%+v became %+v", on[i], d)
			}
			if (d.Losses > 0) != got.suspects() {
				t.Error("suspects and others on one tray")
			}
		}
		back = append(back, got...)
	}
	slices.SortFunc(back, func(a, b ledger.Delivery) int { return int(a.Number - b.Number) })
	if !slices.Equal(back, all) {
		t.Errorf("%d deliveries became %d", len(all), len(back))
	}
}

func FuzzParseTray(f *testing.F) {
	f.Add([]byte("charge/order-1#7 first 0 1764490000000\ncharge/b#1 retry 2 0"))
	f.Add([]byte(""))
	f.Add([]byte("charge/x#-1 first 0 1"))
	f.Add([]byte("charge/x#1 lane 0 1"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		on, err := parseTray(payload)
		if err != nil {
			return
		}
		again, err := parseTray(on.payload())
		if err != nil || !slices.Equal(again, on) {
			t.Errorf("%q is read as %v, which is read as %v, %v", payload, on, again, err)
		}
	})
}

func FuzzPayloadOf(f *testing.F) {
	f.Add("\x0a\x07attempt\x12\x03abc\x1a\x02id")
	f.Add("\x12")
	f.Add("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, message string) {
		payload, err := payloadOf(message)
		if err == nil && !strings.Contains(message, string(payload)) {
			t.Errorf("payload %q is not in the message", payload)
		}
	})
}
