package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// senderFunc is a Sender of one worker alone.
type senderFunc func(ctx context.Context, call gateway.Call) gateway.Answer

func (f senderFunc) Send(ctx context.Context, call gateway.Call) gateway.Answer { return f(ctx, call) }

// Ask finds nobody who can say anything.
func (f senderFunc) Ask(context.Context, gateway.Question) gateway.Answer { return gateway.Answer{} }

// T04: several recoverers pick the same lost attempts.
func TestT04WhatAKilledWorkerHadInFlightIsRecoveredOnceByMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Dependencies[dep].Slots = 200
	const n = 100
	var flying sync.WaitGroup
	flying.Add(2 * n)
	_, kill := b.killable(func(o *Options) {
		o.Sender = senderFunc(func(ctx context.Context, call gateway.Call) gateway.Answer {
			flying.Done()
			<-ctx.Done()
			return answered(200)
		})
	})
	b.submit("charge", n)
	b.submit("payout", n)
	receive(b, "all in flight", ended(&flying))
	kill()
	killedAt := time.Now()
	for range 5 {
		b.worker()
	}
	// timeout 1 s: the claims last 5 s, and recover runs every second.
	b.until(12*time.Second, "all are accounted for", func() bool {
		s := b.states()
		return s[jobs.Succeeded] == n && s[jobs.Dead] == n
	})
	t.Logf("back after %s", time.Since(killedAt))
	if b.sender.most() != 1 || b.sender.total() != n {
		t.Errorf("%d follow-up calls, at most %d of one operation", b.sender.total(), b.sender.most())
	}
	for i := range n {
		if d := b.get("charge", i); d.Sends != 2 {
			t.Errorf("charge-%d has %d sends", i, d.Sends)
		}
		if d := b.get("payout", i); *d.Reason != jobs.ReasonUnsafe || d.Sends != 1 {
			t.Errorf("payout-%d: %s after %d sends", i, *d.Reason, d.Sends)
		}
	}
	b.until(time.Second, "each counted once", func() bool { return b.value(`redrive_rescued_total{dependency="payrail"}`) == 2*n })
}

// holdBetween is a hook that holds a recovery between its listing and its writing.
type holdBetween struct {
	lossy
	listed, goOn chan struct{}
	once         sync.Once
}

func (h *holdBetween) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if scriptName(cmd) == "recover" {
			if reply, _ := cmd.(*redis.Cmd).Slice(); len(reply) > 0 {
				h.once.Do(func() {
					close(h.listed)
					<-h.goOn
				})
			}
		}
		return err
	}
}

// T05: a recovery that decided on an old listing must not undo a success.
func TestT05AResultThatComesWhileARecoveryIsUnderWayStands(t *testing.T) {
	t.Parallel()
	for what, asks := range map[string]bool{"nobody can be asked": false, "with an inquiry": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if asks {
				b.asks()
			}
			arrived, answer := make(chan struct{}), make(chan struct{})
			b.worker(func(o *Options) {
				o.Sender = senderFunc(func(context.Context, gateway.Call) gateway.Answer {
					close(arrived)
					<-answer
					return answered(200)
				})
				// This one recovers nothing: its listings are lost.
				o.Ledger.Client().AddHook(&lossy{lose: func(script string) bool { return script == "recover" }})
			})
			b.submit("payout", 1)
			receive(b, "a call", arrived)
			b.expire("payout", 0)
			hold := &holdBetween{listed: make(chan struct{}), goOn: make(chan struct{})}
			b.worker(hooked(hold))
			receive(b, "a listing", hold.listed)
			close(answer)
			b.ended(5*time.Second, jobs.Succeeded, 1)
			close(hold.goOn)
			b.until(5*time.Second, "the recovery tried to write", func() bool {
				return hold.runs("finish") > 0 || b.value("redrive_rescued_total{dependency=\"payrail\"}") > 0
			})
			if d := b.get("payout", 0); d.State != jobs.Succeeded || len(d.Flags) != 0 || d.Inquiries != 0 || b.sender.total() != 0 {
				t.Errorf("%s %v, %d inquiries, %d sends more", d.State, d.Flags, d.Inquiries, b.sender.total())
			}
			if n := b.value(`redrive_rescued_total{dependency="payrail"}`); n != 0 {
				t.Errorf("rescued_total is %v", n)
			}
		})
	}
}

// T03: the call goes on after its time is over, and succeeds.
func TestT03ASuccessAfterTheLeaseIsKeptAsLate(t *testing.T) {
	t.Parallel()
	for what, asks := range map[string]bool{"nobody can be asked": false, "with an inquiry": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if asks {
				b.asks()
				b.saysPending(-1)
			}
			arrived, answer := make(chan struct{}), make(chan struct{})
			b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { // it ignores that it is out of time
				close(arrived)
				<-answer
				return answered(200)
			})
			b.submit("payout", 1)
			b.worker()
			receive(b, "a call", arrived)
			b.expire("payout", 0)
			if asks {
				b.until(10*time.Second, "inquiries", func() bool { return b.sender.questions() > 1 })
				if d := b.get("payout", 0); d.State != jobs.Unresolved || d.Last.Class != jobs.ClassWorkerLost {
					t.Errorf("%s, class %s", d.State, d.Last.Class)
				}
			} else {
				b.ended(5*time.Second, jobs.Dead, 1)
				if d := b.get("payout", 0); *d.Reason != jobs.ReasonUnsafe || d.Last.Class != jobs.ClassWorkerLost {
					t.Errorf("reason %s, class %s", *d.Reason, d.Last.Class)
				}
			}
			close(answer)
			b.ended(5*time.Second, jobs.Succeeded, 1)
			if d := b.get("payout", 0); len(d.Flags) != 1 || d.Flags[0] != jobs.FlagLate || b.sender.total() != 1 || b.sender.doubly != 0 {
				t.Errorf("flags %v, %d sends, %d at once", d.Flags, b.sender.total(), b.sender.doubly)
			}
			b.until(time.Second, "late result counted", func() bool { return b.value(`redrive_late_results_total{dependency="payrail"}`) == 1 })
		})
	}
}

func TestALostReplyOfBeginDoesNotCostTheAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("payout", 20)
	b.worker(hooked(loseFirst("begin", 3)))
	b.ended(10*time.Second, jobs.Succeeded, 20)
	if b.sender.most() != 1 || b.sender.total() != 20 {
		t.Errorf("%d sends, at most %d of one", b.sender.total(), b.sender.most())
	}
	for i := range 20 {
		if d := b.get("payout", i); d.Sends != 1 {
			t.Errorf("payout-%d: %d sends in the ledger, 1 on the wire", i, d.Sends)
		}
	}
}

func TestWithoutAClearGrantNothingIsSentAndTheOperationGoesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// A lost NOSCRIPT would mean that begin never ran: here it must run and be lost.
	for _, script := range ledger.Scripts {
		if err := b.ledger.Client().ScriptLoad(t.Context(), script.Source()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.submit("payout", 5)
	var until time.Time
	lossy := &lossy{lose: func(script string) bool {
		if script == "begin" && until.IsZero() {
			until = time.Now().Add(beginWithin + time.Second) // longer than anybody asks again
		}
		return script == "begin" && time.Now().Before(until)
	}}
	b.worker(hooked(lossy))
	b.until(10*time.Second, "a send", func() bool { return b.sender.total() > 0 })
	lossy.mu.Lock()
	b.sender.mu.Lock()
	early := until.Sub(b.sender.first)
	b.sender.mu.Unlock()
	lossy.mu.Unlock()
	if early > 0 {
		t.Errorf("sent %s before a grant could be clear", early)
	}
	b.ended(10*time.Second, jobs.Succeeded, 5)
	if b.sender.most() != 1 {
		t.Errorf("%d sends of one operation", b.sender.most())
	}
	for i := range 5 {
		d := b.get("payout", i)
		if d.Sends < 2 || d.Timeline[1].Outcome != jobs.OutcomeNotSent {
			t.Errorf("payout-%d: %d attempts, the first %s", i, d.Sends, d.Timeline[1].Outcome)
		}
	}
}

func TestALostReplyOfFinishIsWrittenAgainAndNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("payout", 20)
	b.worker(hooked(loseFirst("finish", 2)))
	b.ended(10*time.Second, jobs.Succeeded, 20)
	b.until(5*time.Second, "it was written again", func() bool { return b.value("redrive_result_write_retries_total") > 0 })
	if b.sender.most() != 1 || b.sender.total() != 20 {
		t.Errorf("%d sends, at most %d of one", b.sender.total(), b.sender.most())
	}
}

// released lets go of what is due, as a worker would that then dies.
func (b *testBundle) released(n int) []ledger.Delivery {
	b.Helper()
	p, err := newPlan(b.config)
	if err != nil {
		b.Fatal(err)
	}
	rel, err := b.ledger.Release(b.Context(), p.dependencies[dep].terms, p.dependencies[dep].known, n)
	if err != nil || len(rel.Deliveries) != n {
		b.Fatalf("released %d of %d: %v", len(rel.Deliveries), n, err)
	}
	return rel.Deliveries
}

func TestADeliveryThatTheQueueLostComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("payout", 1)
	lost := b.released(1)[0]
	b.worker()
	b.lapse(ledger.LaneFirst, "payout", 0)
	b.ended(5*time.Second, jobs.Succeeded, 1)
	if b.sender.total() != 1 {
		t.Errorf("%d sends", b.sender.total())
	}
	// The task turns up after all.
	b.worker().current().conveyors[dep].deliver(t.Context(), lost)
	if b.sender.total() != 1 || b.value(`redrive_stale_deliveries_total{dependency="payrail"}`) != 1 {
		t.Errorf("%d sends, stale_deliveries_total %v", b.sender.total(), b.value(`redrive_stale_deliveries_total{dependency="payrail"}`))
	}
}

// enqueue puts a task into the queue of the bundle's dependency.
func (b *testBundle) enqueue(id string, payload []byte) {
	b.Helper()
	_, err := asynq.NewClientFromRedisClient(b.rdb).Enqueue(asynq.NewTask(taskType, payload), asynq.Queue(b.namespace+":"+string(dep)), asynq.TaskID(id))
	if err != nil {
		b.Fatal(err)
	}
}

func TestWhatADeadWorkerLeftInTheQueueIsTakenByAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("payout", 40)
	for _, on := range trays(b.released(40), 8) {
		b.enqueue(on.taskID(), on.payload())
	}
	b.worker()
	b.ended(6*time.Second, jobs.Succeeded, 40) // long before the release leases of 30 s
	if b.sender.most() != 1 {
		t.Errorf("%d sends of one operation", b.sender.most())
	}
}

func TestATaskOfNobodyIsDroppedAndHarmsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue("foreign", []byte("what is this"))
	b.enqueue("gone", tray{{ID: jobs.ID{Kind: "payout", Key: "never-was"}, Number: 3, Lane: ledger.LaneFirst}}.payload())
	b.worker()
	b.until(5*time.Second, "both are through", func() bool {
		return len(b.log.with("foreign task dropped")) == 1 && b.value(`redrive_stale_deliveries_total{dependency="payrail"}`) == 1
	})
	b.submit("payout", 3)
	b.ended(5*time.Second, jobs.Succeeded, 3)
	b.until(5*time.Second, "asynq's data is empty", func() bool {
		n, err := b.rdb.Keys(t.Context(), "asynq:{"+b.namespace+":payrail}:t:*").Result()
		return err == nil && len(n) == 0
	})
}

func TestARunThatComesSecondSendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("payout", 30)
	var twice []ledger.Delivery
	for _, d := range b.released(30) {
		twice = append(twice, d, d, d)
	}
	w := b.worker()
	c := w.current().conveyors[dep]
	var all sync.WaitGroup
	for _, d := range twice {
		all.Go(func() { c.deliver(context.Background(), d) })
	}
	receive(b, "every run", ended(&all))
	b.ended(5*time.Second, jobs.Succeeded, 30)
	if b.sender.most() != 1 || b.sender.total() != 30 {
		t.Errorf("%d sends, at most %d of one", b.sender.total(), b.sender.most())
	}
}

func TestSuspectsRunOneAtATimePerProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	now, most := 0, 0
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		if !strings.HasPrefix(name(call), "charge") {
			return answered(200)
		}
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		return answered(200)
	})
	b.submit("charge", 3)
	for i := range 3 {
		if err := b.rdb.HSet(t.Context(), b.key(fmt.Sprintf("op:charge/charge-%d", i)), "losses", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.submit("payout", 20)
	b.worker()
	b.ended(15*time.Second, jobs.Succeeded, 23)
	if most != 1 {
		t.Errorf("%d suspects at once", most)
	}
}

// T77: one operation costs every process its life that sends it.
func TestT77APoisonPillIsQuarantinedAfterThreeLossesAndTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sent := make(chan struct{}, 9) // the pill, that often
	b.sender.answer(func(ctx context.Context, call gateway.Call) gateway.Answer {
		if name(call) != "report:report-0" {
			return answered(200)
		}
		sent <- struct{}{}
		<-ctx.Done() // with the process
		return in(policy.PhaseCancelledSent, 100)
	})
	b.submit("report", 100)
	for n := 1; n <= 3; n++ {
		w, kill := b.killable()
		receive(b, fmt.Sprintf("attempt %d", n), sent)
		kill()
		w.StopNow()
		b.bury(everybody)
	}
	b.worker()
	b.until(10*time.Second, "it is quarantined", func() bool { return b.get("report", 0).State == jobs.Dead })
	if d := b.get("report", 0); d.Intent == nil || *d.Intent != "dead poison" {
		t.Errorf("%s, intent %v", d.State, d.Intent)
	}
	b.until(5*time.Second, "the others succeeded", func() bool { return b.states()[jobs.Succeeded] == 99 })
	if n := b.sender.of("report", 0); n != 3 {
		t.Errorf("%d sends of it", n)
	}
}

// begun makes the attempt of an operation, as a worker would that then dies.
func (b *testBundle) begun(kind jobs.Kind) {
	b.Helper()
	p, err := newPlan(b.config)
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range b.released(1) {
		g, err := b.ledger.Begin(b.Context(), p.dependencies[dep].terms, p.dependencies[dep].kinds[kind].target, 25, d, ledger.NewRunID())
		if err != nil || g.Status != ledger.BeginGranted {
			b.Fatalf("%+v %v", g, err)
		}
	}
}

func TestALostAttemptOfAnUnknownKindIsLeftToOthersThenPutBack(t *testing.T) {
	t.Parallel()
	for what, forget := range map[string]func(*testBundle){
		"kind": func(b *testBundle) { delete(b.config.Kinds, "report") },
		"dependency": func(b *testBundle) {
			d := config.NewDependency("elsewhere", "http://127.0.0.1:1")
			b.config.Dependencies = map[jobs.Dependency]*config.Dependency{"elsewhere": d}
			b.config.Kinds = map[jobs.Kind]*config.Kind{"other": config.NewKind("other", d, "/v1/others")}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.submit("report", 1)
			b.begun("report")
			forget(b)
			b.expire("report", 0)
			b.worker()
			time.Sleep(2500 * time.Millisecond) // two rounds
			if d := b.get("report", 0); d.State != jobs.Attempting {
				t.Fatalf("%s, though those who know it may be alive", d.State)
			}
			past := time.Now().Add(-orphanGrace - time.Second).UnixMilli()
			if err := b.rdb.HSet(t.Context(), b.key("op:report/report-0"), "lease", past).Err(); err != nil {
				t.Fatal(err)
			}
			b.until(5*time.Second, "it is put back", func() bool { return b.get("report", 0).State == jobs.Waiting })
			if d := b.get("report", 0); d.Applied != jobs.AppliedUnknown || b.sender.total() != 0 {
				t.Errorf("applied %s, %d sends", d.Applied, b.sender.total())
			}
		})
	}
}
