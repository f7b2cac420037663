package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// Failures that people reported of systems like this one, as far as workers that die
// bring them about.

// buried ends the leases that end before ARGV[1] (of claims) and ARGV[2] (of releases).
// It is a script, so that nothing comes between the look and the change.
var buried = redis.NewScript(`
local n = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1] .. 'claims', '-inf', '(' .. ARGV[1])) do
  redis.call('ZADD', KEYS[1] .. 'claims', 1, id)
  redis.call('HSET', KEYS[1] .. 'op:' .. id, 'lease', 1)
  n = n + 1
end
for _, lane in ipairs({'first', 'retry'}) do
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1] .. 'released:' .. lane, '-inf', '(' .. ARGV[2])) do
    redis.call('ZADD', KEYS[1] .. 'released:' .. lane, 1, id)
    n = n + 1
  end
end
return n`)

// everybody is an age for [testBundle.bury]: what was begun this very millisecond, too.
const everybody = -time.Minute

// bury ends the leases of what was begun or released longer than age ago, as the
// passing of time would: what the dead hold, if age is more than the living take.
func (b *testBundle) bury(age time.Duration) {
	b.Helper()
	const releaseLease = 30 * time.Second
	born := time.Now().Add(-age)
	claims, releases := born.Add(policy.ClaimLease(b.config.Dependencies[dep].Timeout)), born.Add(releaseLease)
	if err := buried.Run(context.Background(), b.rdb, []string{b.key("")}, claims.UnixMilli(), releases.UnixMilli()).Err(); err != nil {
		b.Fatal(err)
	}
}

// fatal is a hook under which a process dies at the nth script that it runs: before
// Redis sees it, or after and before the process sees the answer.
type fatal struct {
	left          atomic.Int64
	after         bool
	reached, dead chan struct{} // closed at the nth script; closed by the test, once it is dead
}

func newFatal(n int, after bool) *fatal {
	f := &fatal{after: after, reached: make(chan struct{}), dead: make(chan struct{})}
	f.left.Store(int64(n))
	return f
}

func (f *fatal) hit(cmds ...redis.Cmder) bool {
	for _, cmd := range cmds {
		if scriptName(cmd) != "" && f.left.Add(-1) == 0 {
			return true
		}
	}
	return false
}

func (f *fatal) around(hit bool, act func() error) error {
	die := func() { close(f.reached); <-f.dead }
	if hit && !f.after {
		die()
	}
	err := act()
	if hit && f.after {
		die()
	}
	return err
}

func (f *fatal) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fatal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.around(f.hit(cmd), func() error { return next(ctx, cmd) })
	}
}

func (f *fatal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.around(f.hit(cmds...), func() error { return next(ctx, cmds) })
	}
}

// accounted is the number of operations that stand in some state.
func (b *testBundle) accounted() (n int64) {
	for _, of := range b.states() {
		n += of
	}
	return n
}

// T26: a worker dies between taking work and writing what became of it. Here twenty die,
// each at another command of the cycle.
func TestT26WhereverWorkersAreKilledEveryOperationIsAccountedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 250
	b.submit("report", n) // natural: sent again until it succeeds
	b.submit("payout", n) // none: never sent twice
	var ending sync.WaitGroup
	for i := range 20 {
		f := newFatal(1+rand.IntN(30), i%2 == 1)
		w, kill := b.killable(hooked(f))
		select {
		case <-f.reached:
		case <-time.After(300 * time.Millisecond): // what there is has been taken by the dead
		}
		kill()
		close(f.dead)
		ending.Go(w.StopNow) // its calls end with it
		if sum := b.accounted(); sum != 2*n {
			t.Fatalf("after kill %d there are %d operations, want %d: %v", i+1, sum, 2*n, b.states())
		}
	}
	ending.Wait()
	b.bury(everybody)
	b.worker()
	b.until(20*time.Second, "all have ended", func() bool { s := b.states(); return s[jobs.Succeeded]+s[jobs.Dead] == 2*n })
	if sum := b.accounted(); sum != 2*n {
		t.Errorf("%d operations, want %d", sum, 2*n)
	}
	for i := range n {
		if d := b.get("report", i); d.State != jobs.Succeeded {
			t.Errorf("report-%d ended %s", i, d.State)
		}
		d := b.get("payout", i)
		if sends := b.sender.of("payout", i); sends > 1 || d.State == jobs.Dead && (*d.Reason != jobs.ReasonUnsafe || d.Applied != jobs.AppliedUnknown) || d.State == jobs.Succeeded && sends != 1 {
			t.Errorf("payout-%d ended %s, applied %s, after %d sends", i, d.State, d.Applied, sends)
		}
	}
	// T61's part: no key is blocked by anything but its own record.
	for _, index := range []string{"claims", "released:first", "released:retry", "waiting"} {
		if left := b.rdb.ZCard(t.Context(), b.key(index)).Val(); left != 0 {
			t.Errorf("%d left in %s", left, index)
		}
	}
}

// T33: a counter of calls in flight leaks with every worker that dies.
func TestT33TheSharedLimitHoldsAndEmptiesHoweverManyWorkersDie(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const limit, kills, n = 10, 10, 900
	d := b.config.Dependencies[dep]
	d.MaxInFlight, d.Slots, d.Timeout = limit, 4, 100*time.Millisecond
	var now, most atomic.Int64
	b.sender.answer(func(ctx context.Context, _ gateway.Call) gateway.Answer {
		flying := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); flying > m && !most.CompareAndSwap(m, flying); m = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		return answered(200)
	})
	b.submit("report", n)
	// held is what the shared limit counts: what is promised and what is under way.
	held := func() (n int64) {
		pipe := b.rdb.TxPipeline() // in one moment
		for _, index := range []string{"claims", "released:first", "released:retry"} {
			pipe.ZCard(context.Background(), b.key(index))
		}
		cmds, err := pipe.Exec(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		for _, cmd := range cmds {
			n += cmd.(*redis.IntCmd).Val()
		}
		return n
	}
	type victim struct {
		w    *Worker
		kill func()
	}
	live := make(chan victim, 4)
	start := func() {
		w, kill := b.killable()
		live <- victim{w, kill}
	}
	for range cap(live) {
		start()
	}
	var ending sync.WaitGroup
	for range kills {
		sends := b.sender.total()
		b.until(10*time.Second, "calls", func() bool {
			b.bury(1200 * time.Millisecond) // a call takes 20 ms, a living worker writes its result at once
			if h := held(); h > limit {
				t.Errorf("%d held, the limit is %d", h, limit)
			}
			return b.sender.total() > sends+8
		})
		v := <-live
		v.kill()
		ending.Go(v.w.StopNow)
		start()
	}
	ending.Wait()
	b.until(20*time.Second, "all have ended", func() bool {
		b.bury(1200 * time.Millisecond)
		s := b.states()
		return s[jobs.Succeeded]+s[jobs.Dead] == n
	})
	if m := most.Load(); m > limit || m < limit/2 {
		t.Errorf("at most %d calls at once, the limit is %d", m, limit)
	}
	b.until(2*time.Second, "nothing is held", func() bool { return held() == 0 })
	sends := b.sender.total()
	b.submit("charge", 200)
	b.until(15*time.Second, "throughput is back", func() bool { return b.sender.total() == sends+200 })
	if m := most.Load(); m > limit {
		t.Errorf("%d calls at once, the limit is %d", m, limit)
	}
}

// T31: a record is missing, and whoever recovers stumbles over it for ever.
func TestT31AMissingRecordIsToldOnceAndHarmsNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("payout", 3)
	p, err := newPlan(b.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range b.released(3) { // by a worker that then dies
		if g, err := b.ledger.Begin(t.Context(), p.dependencies[dep].terms, p.dependencies[dep].kinds["payout"].target, 25, d, ledger.NewRunID()); err != nil || g.Status != ledger.BeginGranted {
			t.Fatalf("%+v %v", g, err)
		}
	}
	b.bury(everybody)
	if err := b.rdb.Del(t.Context(), b.key("op:payout/payout-1"), b.key("request:payout/payout-1")).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.worker()
	}
	b.until(5*time.Second, "the others are recovered", func() bool {
		return b.get("payout", 0).State == jobs.Dead && b.get("payout", 2).State == jobs.Dead
	})
	time.Sleep(2500 * time.Millisecond) // two rounds of each
	if n := b.rdb.ZCard(t.Context(), b.key("claims")).Val(); n != 0 {
		t.Errorf("%d claims are left", n)
	}
	told := 0
	for _, m := range b.rdb.XRange(t.Context(), b.key("events"), "-", "+").Val() {
		told += strings.Count(fmt.Sprint(m.Values["ops"]), "payout/payout-1 gone")
	}
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	logged := 0
	for _, line := range b.log.lines {
		if strings.Contains(fmt.Sprint(line), "payout-1") {
			logged++
		}
	}
	if told != 1 || logged > 1 {
		t.Errorf("told %d times in the events and %d times in the log, want once", told, logged)
	}
}

// T31, the other half: the worker died holding an operation that must not be retried.
func TestT31AWorkerThatDiesWithAFinalAnswerIsRecoveredOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	arrived, dead := make(chan struct{}), make(chan struct{})
	w, kill := b.killable(func(o *Options) {
		o.Sender = senderFunc(func(context.Context, gateway.Call) gateway.Answer {
			close(arrived)
			<-dead
			return answered(402)
		})
	})
	b.submit("payout", 1)
	receive(b, "a call", arrived)
	kill()
	close(dead)
	w.StopNow()
	b.bury(everybody)
	b.worker()
	b.ended(5*time.Second, jobs.Dead, 1)
	time.Sleep(2500 * time.Millisecond) // two rounds
	if n := len(b.log.with("lost attempt closed")); n != 1 || b.sender.total() != 0 {
		t.Errorf("closed %d times, %d sends more", n, b.sender.total())
	}
}

// T37: a crash in the last attempt makes a dead letter of what may have succeeded.
func TestT37ACrashOnTheLastAttemptIsAskedAboutBeforeItIsDead(t *testing.T) {
	t.Parallel()
	resend := func(q *config.Inquiry) { q.AfterNotFoundDead = false }
	stay := func(q *config.Inquiry) { q.AfterNotFoundDead = true }
	for what, c := range map[string]struct {
		asks   func(*config.Inquiry) // nil: nobody can be asked
		says   string
		state  jobs.State
		reason jobs.Reason
		known  jobs.Applied
	}{
		"it took effect":                     {resend, `{"data":[{"status":"succeeded"}]}`, jobs.Succeeded, "", jobs.AppliedYes},
		"it did not":                         {resend, `{"data":[]}`, jobs.Dead, jobs.ReasonAttempts, jobs.AppliedNo},
		"it did not, and a person must look": {stay, `{"data":[]}`, jobs.Dead, jobs.ReasonUnresolved, jobs.AppliedNo},
		"nobody can be asked":                {nil, "", jobs.Dead, jobs.ReasonUnsafe, jobs.AppliedUnknown},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.config.Kinds["payout"].MaxAttempts = 1
			if c.asks != nil {
				b.asks(c.asks)
				b.sender.saysBody(200, c.says)
			}
			sent := make(chan struct{})
			w, kill := b.killable(func(o *Options) {
				o.Sender = senderFunc(func(ctx context.Context, _ gateway.Call) gateway.Answer {
					close(sent)
					<-ctx.Done()
					return in(policy.PhaseCancelledSent, 100)
				})
			})
			b.submit("payout", 1)
			receive(b, "the attempt", sent)
			kill()
			w.StopNow()
			b.bury(everybody)
			b.worker()
			b.ended(20*time.Second, c.state, 1)
			d := b.get("payout", 0)
			reason := jobs.Reason("")
			if d.Reason != nil {
				reason = *d.Reason
			}
			if d.Applied != c.known || d.Last.Class != jobs.ClassWorkerLost || reason != c.reason || c.asks != nil && d.Inquiries == 0 {
				t.Errorf("reason %q, applied %s, last %+v, %d inquiries", reason, d.Applied, d.Last, d.Inquiries)
			}
			if b.sender.total() != 0 {
				t.Errorf("%d sends more", b.sender.total())
			}
			for _, m := range b.rdb.XRange(t.Context(), b.key("events"), "-", "+").Val() {
				if c.state != jobs.Dead && strings.Contains(fmt.Sprint(m.Values["ops"]), " dead") {
					t.Errorf("a success was shown as a dead letter: %v", m.Values)
				}
			}
		})
	}
}
