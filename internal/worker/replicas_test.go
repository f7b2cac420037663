package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

// pipelines notes each pipeline that a client sends, as the names of its commands.
type pipelines struct {
	mu   sync.Mutex // guards sent
	sent []string
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.note(cmd)
		return next(ctx, cmd)
	}
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.note(cmds...)
		return next(ctx, cmds)
	}
}

func (p *pipelines) note(cmds ...redis.Cmder) {
	var words []string
	for _, c := range cmds {
		word := scriptName(c)
		if word == "" {
			word = c.Name()
		}
		if word == "wait" {
			word = fmt.Sprint(c.Args()[:2]...)
		}
		words = append(words, word)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, strings.Join(words, " "))
}

func (p *pipelines) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.sent...)
}

func TestAnAttemptThatTooFewReplicasKnowIsNotSent(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicated(t, 2)
	b := setup(t, primary)
	b.config.Redis.WaitReplicas = 2
	b.worker()
	b.submit("charge", 1)
	b.ended(10*time.Second, jobs.Succeeded, 1)

	replicas[1].Freeze()
	b.submit("payout", 1) // over a ledger that waits for nobody
	b.until(10*time.Second, "two begins in vain", func() bool { return len(b.log.with("begin unclear, given back")) >= 2 })
	if n := b.sender.total(); n != 1 {
		t.Fatalf("%d sends, want that of the charge alone", n)
	}
	b.until(5*time.Second, "it waits again", func() bool { return b.states()[jobs.Waiting] == 1 })
	d := b.get("payout", 0)
	if d.Reason != nil || d.Applied != jobs.AppliedNo {
		t.Errorf("%+v", d.Operation)
	}
	for _, e := range d.Timeline {
		if e.Event == "attempt" && e.Outcome != "" && e.Outcome != jobs.OutcomeNotSent {
			t.Errorf("an attempt that was not sent is on record as %s", e.Outcome)
		}
	}
	if n := len(b.log.with("redis cannot be used")); n != 0 {
		t.Errorf("a missing replica is taken %d times for trouble of Redis itself", n)
	}

	replicas[1].Thaw()
	b.ended(15*time.Second, jobs.Succeeded, 2)
	if n := b.sender.of("payout", 0); n != 1 {
		t.Errorf("%d sends", n)
	}
	if used := b.rdb.HGet(t.Context(), b.key("op:payout/payout-0"), "used").Val(); used != "1" {
		t.Errorf("%s attempts count, want only the one that was sent", used)
	}
}

// A pipeline that holds a call which asks for replicas ends with the WAIT of the
// largest number, and only those calls fail; all others go over pipelines without.
func TestTheBatcherWaitsForReplicasOnThePipelineOfTheCalls(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicated(t, 2)
	b := setup(t, primary)
	c := b.client()
	seen := &pipelines{}
	c.AddHook(seen)
	batch := newBatcher(c)
	defer batch.close()
	b.submit("charge", 40)
	plan, err := newPlan(b.config)
	if err != nil {
		t.Fatal(err)
	}
	terms, target := plan.dependencies[dep].terms, plan.dependencies[dep].kinds["charge"].target
	ledgers := []*ledger.Ledger{ledger.New(batch, b.namespace), ledger.New(batch, b.namespace).WaitingFor(1), ledger.New(batch, b.namespace).WaitingFor(2)}
	// begin begins n attempts at a time for every number of replicas, and returns how
	// many were granted and how many were on too few replicas.
	begin := func(n int) (granted, tooFew [3]int, took [3]time.Duration) {
		var all sync.WaitGroup
		var mu sync.Mutex // guards the results
		d := b.released(3 * n)
		began := time.Now()
		for i, x := range d {
			all.Go(func() {
				asked := i % 3
				g, err := ledgers[asked].Begin(t.Context(), terms, target, 25, x, ledger.NewRunID())
				mu.Lock()
				defer mu.Unlock()
				took[asked] = max(took[asked], time.Since(began))
				switch {
				case err == nil && g.Status == ledger.BeginGranted:
					granted[asked]++
				case errors.Is(err, luascript.ErrTooFewReplicas):
					tooFew[asked]++
				default:
					t.Errorf("%s: %+v %v", x.ID, g, err)
				}
			})
		}
		receive(b, "every begin", ended(&all))
		return granted, tooFew, took
	}
	if granted, tooFew, _ := begin(5); granted != [3]int{5, 5, 5} || tooFew != [3]int{} {
		t.Errorf("granted %v, too few replicas %v", granted, tooFew)
	}
	replicas[0].Freeze()
	granted, tooFew, took := begin(5)
	if granted != [3]int{5, 5, 0} || tooFew != [3]int{0, 0, 5} {
		t.Errorf("with one replica of two: granted %v, too few replicas %v", granted, tooFew)
	}
	if took[0] > 500*time.Millisecond || took[2] < luascript.ReplicaWait {
		t.Errorf("took %v by the number of replicas", took)
	}
	replicas[0].Thaw()
	waits := 0
	for _, p := range seen.all() {
		words := strings.Fields(p)
		for i, w := range words {
			switch {
			case w == "begin" && i > 0 && words[i-1] != "begin":
				t.Errorf("begin after another command: %q", p)
			case strings.HasPrefix(w, "wait"):
				waits++
				if i != len(words)-1 || i < 2 || words[i-1] != "set" || words[0] != "begin" {
					t.Errorf("a wait that is not the end of its scripts' pipeline: %q", p)
				}
			}
		}
	}
	if waits == 0 {
		t.Error("nothing waited")
	}
}
