package ledger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// wire notes what a client sends: a line per pipeline or single command.
type wire struct {
	mu   sync.Mutex // guards sent
	sent []string
}

func (w *wire) note(cmds ...redis.Cmder) {
	var names []string
	for _, c := range cmds {
		if c.Name() == "hello" { // a connection that is opened
			return
		}
		names = append(names, c.Name())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, strings.Join(names, " "))
}

// since returns what was sent since the last call.
func (w *wire) since() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.sent = nil }()
	return strings.Join(w.sent, "; ")
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.note(cmd)
		return next(ctx, cmd)
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.note(cmds...)
		return next(ctx, cmds)
	}
}

// waitingFor returns a bundle on the primary that waits for n replicas, over a pool
// of many connections that are all open.
func waitingFor(t *testing.T, primary *redistest.Redis, n int) (*bundle, *wire) {
	t.Helper()
	rdb, err := Connect(primary.URL(), ConnectOptions{PoolSize: 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	var open []*redis.Conn
	for range 20 {
		c := rdb.(*redis.Client).Conn()
		open = append(open, c)
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range open {
		c.Close() // back into the pool
	}
	if n := rdb.PoolStats().IdleConns; n != 20 {
		t.Fatalf("%d connections in the pool", n)
	}
	b := setup(t, rdb)
	b.Ledger = b.WaitingFor(n)
	b.unchecked = true // the checks would be seen on the wire, and in the times
	w := &wire{}
	rdb.AddHook(w)
	return b, w
}

func (b *bundle) answer(key string) (jobs.Answer, time.Duration) {
	b.Helper()
	began := time.Now()
	r := b.submit(key)
	return r.Answer, time.Since(began)
}

func TestAnAcceptedOperationSurvivesTheLossOfThePrimary(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicated(t, 2)
	b, _ := waitingFor(t, primary, 2)
	for _, key := range []string{"o1", "o2", "o3"} {
		if answer, took := b.answer(key); answer != jobs.Accepted {
			t.Fatalf("%s: %s in %v", key, answer, took)
		}
	}
	primary.Kill9()
	for _, replica := range replicas {
		rdb := replica.Client(t)
		if err := rdb.SlaveOf(t.Context(), "no", "one").Err(); err != nil {
			t.Fatal(err)
		}
		promoted := setup(t, rdb)
		for _, key := range []string{"o1", "o2", "o3"} {
			promoted.want(key, "waiting")
			if r := promoted.submit(key); r.Answer != jobs.Duplicate {
				t.Errorf("%s: %s on the promoted replica", key, r.Answer)
			}
		}
	}
}

// The repeated submission writes nothing, so it waits for what the first one wrote,
// which is a duplicate's whole worth.
func TestASubmissionIsUnsureUntilTheReplicasHaveIt(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicated(t, 2)
	b, _ := waitingFor(t, primary, 2)
	b.add("o0", deadline("2h"))
	// A WAIT that looks at anything but the last write would now find all acknowledged.
	rdb := primary.Client(t)
	eventually(t, "both replicas acknowledge all there is", func() bool {
		info, err := rdb.Info(t.Context(), "replication").Result()
		_, rest, _ := strings.Cut(info, "master_repl_offset:")
		offset, _, _ := strings.Cut(rest, "\r\n")
		return err == nil && strings.Count(info, "offset="+offset+",") == 2
	})
	replicas[1].Freeze()
	for i := range 3 {
		answer, took := b.answer("o1")
		if answer != jobs.Unsure || took < 900*time.Millisecond || took > 1300*time.Millisecond {
			t.Errorf("try %d: %s in %v, want unsure after a second", i+1, answer, took)
		}
	}
	b.want("o1", "waiting")
	// Also over a connection that never wrote anything.
	fresh, _ := waitingFor(t, primary, 2)
	if answer, took := fresh.answer("o1"); answer != jobs.Unsure {
		t.Errorf("over a fresh connection: %s in %v", answer, took)
	}
	one, _ := waitingFor(t, primary, 1)
	if answer, took := one.answer("o1"); answer != jobs.Duplicate || took > 500*time.Millisecond {
		t.Errorf("waiting for one: %s in %v, want duplicate at once", answer, took)
	}
	replicas[1].Thaw()
	if answer, took := b.answer("o1"); answer != jobs.Duplicate {
		t.Errorf("with the replica back: %s in %v", answer, took)
	}
	if answer, took := b.answer("o2"); answer != jobs.Accepted {
		t.Errorf("with the replica back: %s in %v", answer, took)
	}
}

func TestWhatAPersonDidOnTooFewReplicasIsDoneAndSaysSo(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicated(t, 2)
	b, _ := waitingFor(t, primary, 2)
	ctx := t.Context()
	b.class(jobs.IdempotencyNone)
	b.add("o1", deadline("2h"))
	for _, key := range []string{"o2", "o3", "o4"} {
		b.submit(key, deadline("2h"), b.sent("r1", jobs.OutcomeUnknown, time.Minute))
		b.want(key, "dead/unsafe")
	}
	keep := b.terms.Retention
	act := map[string]func(key string) (Done, error){
		"resolve": func(key string) (Done, error) {
			return b.Resolve(ctx, dep, id(key), ResolvedNotApplied, "", keep, ann)
		},
		"cancel": func(key string) (Done, error) { return b.Cancel(ctx, dep, id(key), keep, ann) },
		"requeue": func(key string) (Done, error) {
			d, err := b.Requeue(ctx, b.terms, b.target, id(key), Requeue{RequestID: "r-" + key, More: 2}, ann)
			return d.Done, err
		},
	}
	wanted := func(what, key string, verdict DoneVerdict, unsure bool) {
		t.Helper()
		d, err := act[what](key)
		if err != nil || d.Verdict != verdict || d.Unsure != unsure {
			t.Errorf("%s %s: %+v, %v, want %s, unsure %t", what, key, d, err, verdict, unsure)
		}
	}
	wanted("resolve", "o2", DoneOK, false)
	wanted("requeue", "o2", DoneOK, false)
	replicas[0].Freeze()
	wanted("cancel", "o1", DoneOK, true)
	wanted("resolve", "o3", DoneOK, true)
	wanted("requeue", "o3", DoneOK, true)
	wanted("requeue", "o4", DoneRefused, false) // changed nothing
	wanted("cancel", "o9", DoneMissing, false)
	b.want("o1", "cancelled")
	b.want("o3", "waiting")
	replicas[0].Thaw()
	wanted("resolve", "o4", DoneOK, false)
}

func TestABeginOnTooFewReplicasIsNoGrant(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicated(t, 2)
	b, _ := waitingFor(t, primary, 2)
	b.add("o1", deadline("2h"))
	d := b.releaseUpTo(1).Deliveries[0]
	replicas[0].Freeze()
	ask := func() (Begin, error) {
		return b.Begin(t.Context(), b.terms, b.target, b.maxAttempts, d, "run")
	}
	if g, err := ask(); !errors.Is(err, luascript.ErrTooFewReplicas) || g.Grant != nil || g.Status != "" {
		t.Fatalf("%+v %v", g, err)
	}
	stale := d
	stale.Number++
	if g, err := b.Begin(t.Context(), b.terms, b.target, b.maxAttempts, stale, "other"); err != nil || g.Status != BeginStale {
		t.Errorf("what sends nothing needs no replica: %+v %v", g, err)
	}
	replicas[0].Thaw()
	if g, err := ask(); err != nil || g.Status != BeginGranted || g.Grant.Attempt != 1 {
		t.Errorf("the same run, with the replica back: %+v %v", g, err)
	}
}

// WAIT knows only what its own connection wrote. That the pool has many connections
// must not part the two.
func TestAScriptAndItsWaitAreOnePipeline(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.Replicated(t, 2)
	b, w := waitingFor(t, primary, 2)
	const together = "evalsha set wait"
	w.since()
	b.submit("o1")
	// Redis did not know the script: once more with its source.
	if got := w.since(); got != together+"; eval set wait" && got != together {
		t.Errorf("submit sent %q", got)
	}
	for what, f := range map[string]func(){
		"submit":    func() { b.submit("o2") },
		"duplicate": func() { b.submit("o2") },
		"cancel":    func() { b.must(second(b.Cancel(t.Context(), dep, id("o2"), jobs.Retention{}, ann))) },
	} {
		f()
		w.since()
		if f(); w.since() != together {
			t.Errorf("%s is not one pipeline of script, fence and wait", what)
		}
	}
	d := b.releaseUpTo(1).Deliveries[0]
	if _, err := b.Begin(t.Context(), b.terms, b.target, b.maxAttempts, d, "run"); err != nil {
		t.Fatal(err)
	}
	sent := strings.Split(w.since(), "; ")
	if last := sent[len(sent)-1]; last != together && last != "eval set wait" {
		t.Errorf("begin sent %q", last)
	}
}

// The fence is what makes a repeated submission wait on every Redis: since 7.2 WAIT
// waits for the last write of the connection, not for its last command.
func TestWaitFollowsAWriteOfItsOwnConnection(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.Replicated(t, 2)
	b, _ := waitingFor(t, primary, 2)
	b.submit("o1")
	rdb := b.rdb
	key := b.slot(dep) + ":fence"
	offset := func() string {
		text, err := rdb.Info(t.Context(), "replication").Result()
		b.must(err)
		_, rest, _ := strings.Cut(text, "master_repl_offset:")
		n, _, _ := strings.Cut(rest, "\r\n")
		return n
	}
	before := offset()
	if err := rdb.Set(t.Context(), key, "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if offset() == before {
		t.Error("a fence that is there already is no write")
	}
}

func TestWithoutReplicasNothingMoreIsSent(t *testing.T) {
	t.Parallel()
	_, rdb := redistest.Mini(t)
	b := setup(t, rdb)
	b.unchecked = true
	b.submit("o0")
	w := &wire{}
	rdb.AddHook(w)
	b.Ledger = b.WaitingFor(0)
	b.submit("o1")
	if got := w.since(); got != "evalsha" {
		t.Errorf("submit sent %q", got)
	}
	if n := rdb.Exists(t.Context(), b.slot(dep)+":fence").Val(); n != 0 {
		t.Error("there is a fence")
	}
}

func second[T any](_ T, err error) error { return err }
