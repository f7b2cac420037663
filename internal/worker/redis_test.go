package worker

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// tap counts what a worker asks of Redis, and may answer in its place.
type tap struct {
	commands, dials atomic.Int64
	mu              sync.Mutex                  // guards instead, names
	instead         func(cmd redis.Cmder) error // nil: Redis answers
	names           map[string]int
}

func (p *tap) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		p.dials.Add(1)
		return next(ctx, network, addr)
	}
}

func (p *tap) answer(f func(cmd redis.Cmder) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = f
}

func (p *tap) take(cmd redis.Cmder) error {
	p.commands.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil {
		p.names = map[string]int{}
	}
	what := cmd.Name()
	if s := scriptName(cmd); s != "" {
		what = s
	}
	p.names[what]++
	if p.instead == nil {
		return nil
	}
	return p.instead(cmd)
}

func (p *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := p.take(cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (p *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var refused error
		for _, cmd := range cmds {
			if err := p.take(cmd); err != nil {
				refused = err
			}
		}
		if refused != nil {
			for _, cmd := range cmds {
				cmd.SetErr(refused)
			}
			return refused
		}
		return next(ctx, cmds)
	}
}

func TestAnIdleDependencyCostsAtMostFiveCommandsASecond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &tap{}
	b.worker(hooked(p))
	time.Sleep(time.Second) // scripts are loaded, names read
	var rates []float64
	for range 3 { // on a busy machine a lost reply costs some more
		from, at := p.commands.Load(), time.Now()
		time.Sleep(3 * time.Second)
		rates = append(rates, float64(p.commands.Load()-from)/time.Since(at).Seconds())
		if rates[len(rates)-1] <= 5 {
			t.Logf("%.2f commands a second", rates)
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Errorf("%.2f commands a second: %v", rates, p.names)
}

func TestANewOperationStartsAtOnceThoughTheConveyorSleeps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.worker()
	time.Sleep(300 * time.Millisecond) // it sleeps until the end of its second
	const n = 10
	var waited time.Duration
	for i := range n {
		at := time.Now()
		b.submit("charge", 1, func(_ int, s *jobs.Submission) { s.Key = jobs.Key(fmt.Sprint("late-", i)) })
		b.until(3*time.Second, "a send", func() bool { return b.sender.total() == i+1 })
		waited += time.Since(at)
	}
	t.Logf("%s on average from submission to send", waited/n)
	if waited/n > 300*time.Millisecond { // without a nudge it would be half a second
		t.Errorf("%s on average", waited/n)
	}
}

// T24: Redis restarts, and the worker never takes up its work again.
func TestT24WorkResumesAfterEachRestartOfRedisWithItsData(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Server(t))
	w := b.worker()
	const cycles, n = 3, 60
	for i := range cycles {
		b.submit("report", n, func(j int, s *jobs.Submission) {
			s.Key = jobs.Key(fmt.Sprintf("r%d-%d", i, j))
			s.NotBefore = time.Now().Add(time.Duration(j) * 10 * time.Millisecond).UTC().Format(time.RFC3339Nano)
		})
		time.Sleep(200 * time.Millisecond) // some are sent, some not yet due
		b.srv.Kill9()
		b.until(5*time.Second, "not ready", func() bool { return len(w.Ready()) > 0 && strings.Contains(w.Ready()[0], "redis") })
		if err := w.Alive(); err != nil {
			t.Errorf("a restart would not help: %v", err)
		}
		time.Sleep(500 * time.Millisecond)
		back := float64(time.Now().UnixMilli()) / 1e3
		b.srv.Restart()
		b.ended(15*time.Second, jobs.Succeeded, int64(n*(i+1)))
		b.until(5*time.Second, "ready", func() bool { return len(w.Ready()) == 0 })
		b.until(5*time.Second, "the time of the last poll moves", func() bool {
			return b.value(`redrive_last_poll_timestamp_seconds{dependency="payrail"}`) > back
		})
	}
}

// T24: the same, and Redis has lost everything.
func TestT24WorkResumesAfterRedisCameBackEmpty(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Server(t))
	w := b.worker()
	b.submit("charge", 5)
	b.ended(10*time.Second, jobs.Succeeded, 5)
	if err := b.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b.srv.Stop() // in order: the flush is in the append-only file
	time.Sleep(500 * time.Millisecond)
	b.srv.Restart()
	b.until(15*time.Second, "it is known again", func() bool {
		kinds, err := b.ledger.Kinds(t.Context())
		live, err2 := b.ledger.Workers(t.Context())
		return err == nil && err2 == nil && len(kinds) == len(b.config.Kinds) && len(live) == 1 && live[0].ID == w.ID()
	})
	// Nobody knows what else the store has lost: what cannot be repeated waits for a person.
	b.submit("payout", 5)
	b.until(15*time.Second, "the charges are on record again", func() bool { return b.states()[jobs.Succeeded] == 5 })
	if err := b.ledger.Resume(t.Context(), dep, ledger.Actor{By: "ann@desk", Note: "looked"}); err != nil {
		t.Fatal(err)
	}
	b.ended(15*time.Second, jobs.Succeeded, 10)
	if b.sender.total() != 10 || b.sender.most() != 1 {
		t.Errorf("%d sends, at most %d of one", b.sender.total(), b.sender.most())
	}
}

func TestAResultSurvivesTheLossOfItsRecord(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Server(t))
	arrived, answer := make(chan struct{}), make(chan struct{})
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer {
		close(arrived)
		<-answer
		return answered(200)
	})
	b.worker()
	b.submit("payout", 1)
	receive(b, "a call", arrived)
	if err := b.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	close(answer)
	b.ended(10*time.Second, jobs.Succeeded, 1)
	if d := b.get("payout", 0); len(d.Flags) != 1 || d.Flags[0] != jobs.FlagRecreated {
		t.Errorf("flags %v", d.Flags)
	}
}

// While Redis refuses every write, and after, the worker behaves: this is the test
// for each way of refusing.
func testRefusal(t *testing.T, refuse, relent func(t *testing.T, c redis.UniversalClient)) {
	t.Helper()
	b := setup(t, redistest.Server(t))
	answer := make(chan struct{})
	var flying atomic.Int64
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer {
		flying.Add(1)
		<-answer
		return answered(200)
	})
	p := &tap{}
	w := b.worker(hooked(p))
	b.submit("payout", 5)
	b.until(5*time.Second, "five in flight", func() bool { return flying.Load() == 5 })
	refuse(t, b.rdb)
	b.until(15*time.Second, "not ready", func() bool { return len(w.Ready()) > 0 })
	if receipts, err := b.handIn(b.entry("payout", 99)); err == nil {
		t.Errorf("a submission was answered %+v, want an error", receipts)
	}
	close(answer) // the results meet a Redis that does not take them
	time.Sleep(300 * time.Millisecond)
	from, at := p.commands.Load(), time.Now()
	time.Sleep(2 * time.Second)
	if rate := float64(p.commands.Load()-from) / time.Since(at).Seconds(); rate > 20 {
		t.Errorf("%.0f commands a second while Redis refuses", rate)
	}
	relent(t, b.rdb)
	b.until(15*time.Second, "ready", func() bool { return len(w.Ready()) == 0 })
	b.ended(15*time.Second, jobs.Succeeded, 5)
	b.submit("charge", 5)
	b.ended(15*time.Second, jobs.Succeeded, 10)
	if b.sender.most() != 1 || b.sender.total() != 10 {
		t.Errorf("%d sends, at most %d of one", b.sender.total(), b.sender.most())
	}
}

func do(args ...any) func(*testing.T, redis.UniversalClient) {
	return func(t *testing.T, c redis.UniversalClient) {
		t.Helper()
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// T23: Redis is full, everything is wedged, and health says all is well.
func TestT23AFullRedisIsWaitedForQuietly(t *testing.T) {
	t.Parallel()
	testRefusal(t, do("config", "set", "maxmemory", "1"), do("config", "set", "maxmemory", "0"))
}

// T23, of the same kind: Redis answers and takes no write, not even a result.
func TestT23AReadOnlyRedisIsWaitedForQuietly(t *testing.T) {
	t.Parallel()
	testRefusal(t, do("replicaof", "127.0.0.1", "1"), do("replicaof", "no", "one"))
}

func TestWhileRedisIsAwayNothingSpins(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Server(t))
	p := &tap{}
	w := b.worker(hooked(p))
	b.submit("charge", 1)
	b.ended(5*time.Second, jobs.Succeeded, 1)
	b.srv.Stop()
	b.until(5*time.Second, "not ready", func() bool { return len(w.Ready()) > 0 })
	time.Sleep(500 * time.Millisecond)
	commands, dials, at := p.commands.Load(), p.dials.Load(), time.Now()
	time.Sleep(3 * time.Second)
	seconds := time.Since(at).Seconds()
	// A probe a second, dialled up to five times by go-redis; the subscription tries too.
	if rate := float64(p.dials.Load()-dials) / seconds; rate > 30 {
		t.Errorf("%.0f dials a second", rate)
	}
	if rate := float64(p.commands.Load()-commands) / seconds; rate > 10 {
		t.Errorf("%.0f commands a second", rate)
	}
	b.srv.Restart()
	b.until(15*time.Second, "ready", func() bool { return len(w.Ready()) == 0 })
}

type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// T25: one failed poll ends the timer for good.
func TestT25OneBadAnswerDoesNotStopTheTimer(t *testing.T) {
	t.Parallel()
	for _, bad := range []error{reply("BUSY Redis is busy running a script"), reply("LOADING Redis is loading the dataset in memory"),
		reply("READONLY You can't write against a read only replica."), reply("ERR something of this script alone"),
		fmt.Errorf("redis: can't parse %q", "*nonsense"), context.DeadlineExceeded} {
		t.Run(strings.Fields(bad.Error())[0], func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := &tap{}
			w := b.worker(hooked(p))
			// Known before the bad answer: afterwards nothing but the timer wakes anybody.
			b.submit("charge", 1, func(_ int, s *jobs.Submission) {
				s.NotBefore = time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
			})
			time.Sleep(100 * time.Millisecond)
			bads := make(chan struct{})
			var once sync.Once
			p.answer(func(cmd redis.Cmder) (err error) {
				if scriptName(cmd) == "release" {
					once.Do(func() { err = bad; close(bads) })
				}
				return err
			})
			receive(b, "a bad answer", bads) // it asks every second
			b.ended(8*time.Second, jobs.Succeeded, 1)
			if err := w.Alive(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAHangingRedisIsSurvivedAndStopStillEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, redistest.Server(t))
	w := b.worker()
	stop := b.worker()
	b.submit("charge", 3)
	b.ended(5*time.Second, jobs.Succeeded, 3)
	if err := syscall.Kill(b.srv.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := sync.OnceFunc(func() { syscall.Kill(b.srv.PID(), syscall.SIGCONT) })
	defer goOn()
	b.until(10*time.Second, "not ready", func() bool { return len(w.Ready()) > 0 })
	at := time.Now()
	stop.StopNow()
	if took := time.Since(at); took > 15*time.Second { // that it ends at all; how fast, a busy machine decides
		t.Errorf("stop took %s", took)
	}
	goOn()
	b.until(15*time.Second, "ready", func() bool { return len(w.Ready()) == 0 })
	b.submit("payout", 3)
	b.ended(15*time.Second, jobs.Succeeded, 6)
}
