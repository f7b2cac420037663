package bench

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/budget"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
)

// gateParams is a gate with everything on.
var gateParams = budget.Params{RatioMilli: 100, Cap: 1_000_000, FloorMilliPerSecond: 1_000_000, DrainMilliPerSecond: 10_000, RateMilliPerSecond: 900_000_000, MaxInFlight: 40, Slots: 10,
	Breaker: budget.Breaker{WindowMS: 10_000, MinCalls: 20, FailureRateMilli: 500, Consecutive: 5, OpenMS: 5000, MaxOpenMS: 60_000, Probes: 3, RampMS: 60_000}}

func gateScript(name, body string, more ...luascript.Library) *luascript.Script {
	return luascript.Must(name, "--[[ "+name+": for benchmarks\nKEYS[1]  slot\nARGV     gate\nRETURNS  any\nLIMIT    one gate\nINVARIANT none\n]]\n"+body,
		append([]luascript.Library{luascript.Base}, more...)...)
}

// perCall is the CPU that Redis' main thread takes for each of n calls, in us: the least of
// five rounds, because a machine that is shared can only add to it.
func perCall(b *testing.B, rdb redis.UniversalClient, n int, do func()) float64 {
	b.Helper()
	cpu := func() float64 {
		return info(b, rdb, "cpu", "used_cpu_user_main_thread") + info(b, rdb, "cpu", "used_cpu_sys_main_thread")
	}
	least := math.Inf(1)
	for range 5 {
		before := cpu()
		do()
		least = min(least, (cpu()-before)/float64(n)*1e6)
	}
	return least
}

// BenchmarkGateDecision: what a decision of the gate costs Redis on top of a script that
// decides nothing.
func BenchmarkGateDecision(b *testing.B) {
	const n = 20_000
	rdb := connect(b, server(b))
	run := func(s *luascript.Script) func() {
		return func() {
			for range n {
				if _, err := s.Run(context.Background(), rdb, "bench:{d}", gateParams.Args(new(luascript.Args))); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	empty := gateScript("empty", "return {int(clock())}")
	decide := gateScript("decide", `local g = gate.load(clock())
local why = gate.closed(g)
if not why and gate.retries(g) > 0 and (gate.allowed(g) or 1) > 0 then
  gate.spend(g)
  gate.take_rate(g, 1)
end
gate.report(g, 'ok', g.generation, 'charge/order-1', 0, 500)
gate.save()
return {why or ''}`, budget.Library)
	run(decide)() // the window has its bins
	nothing := perCall(b, rdb, n, run(empty))
	decision := perCall(b, rdb, n, run(decide))
	record(b, "gate: look, spend, report and save, one script", fmt.Sprintf("%.0f us of Redis CPU (an empty script %.0f us)", decision-nothing, nothing), "<= 60 us",
		met(decision-nothing <= 60))
}

// BenchmarkMillionDue: a million due operations held by an open breaker: what a worker
// costs while they wait, and the longest script.
func BenchmarkMillionDue(b *testing.B) {
	const n, span = 1_000_000, 15 * time.Second
	server := server(b)
	bundle := setup(b, server, 1, "budget: {ratio: 0.001, cap: 1, floor_per_second: 0}")
	ctx, dep := context.Background(), bundle.spec(0).Dependency
	stop := bundle.work(b, func(gateway.Call) {})
	time.Sleep(3 * time.Second)
	own, cpu := processCPU(b), redisCPU(b, bundle.rdb)
	time.Sleep(span)
	idle := (processCPU(b) - own + redisCPU(b, bundle.rdb) - cpu) / span.Seconds() * 100
	if _, err := bundle.ledger.Pause(ctx, dep, 0, ledger.Actor{By: "bench", Note: "a million waits"}); err != nil {
		b.Fatal(err)
	}
	for from := 0; from < n; from += 50_000 {
		bundle.submit(b, 0, bundle.entries(b, 0, from, 50_000, func(s *jobs.Submission) { s.Deadline = "100h" }))
	}
	if err := bundle.rdb.Do(ctx, "CONFIG", "SET", "slowlog-log-slower-than", "5000").Err(); err != nil {
		b.Fatal(err)
	}
	if err := bundle.rdb.Do(ctx, "SLOWLOG", "RESET").Err(); err != nil {
		b.Fatal(err)
	}
	await(b, "the million is due", func() bool {
		s, err := bundle.ledger.Snapshot(ctx, dep)
		return err == nil && s.DueFirst+s.DueRetry >= n
	})
	own, cpu = processCPU(b), redisCPU(b, bundle.rdb)
	time.Sleep(span)
	held := (processCPU(b) - own + redisCPU(b, bundle.rdb) - cpu) / span.Seconds() * 100
	slow, err := bundle.rdb.SlowLogGet(ctx, 100).Result()
	if err != nil {
		b.Fatal(err)
	}
	longest := time.Duration(0)
	for _, l := range slow {
		if len(l.Args) > 0 && (l.Args[0] == "evalsha" || l.Args[0] == "eval") {
			longest = max(longest, l.Duration)
		}
	}
	stop()
	record(b, "1,000,000 held operations, added CPU", fmt.Sprintf("%.2f %% of a core (idle %.2f %%)", held-idle, idle), "unchanged (< 1 %)", met(held-idle < 1))
	figure := "none above 5 ms"
	if longest > 0 {
		figure = longest.String()
	}
	record(b, "longest script with 1,000,000 due", figure, "<= 5 ms", met(longest <= 5*time.Millisecond))
}

// BenchmarkFirstAttempts: what 50,000 first attempts a second of 200 processes cost Redis.
func BenchmarkFirstAttempts(b *testing.B) {
	const processes, perSecond, flushes, each = 200, 50_000, 1.6, 156 // a second and process: every 250 ms to a second
	rdb := connect(b, server(b))
	l := ledger.New(rdb, "bench")
	ctx := context.Background()
	const calls = 20_000
	seq := int64(0)
	once := perCall(b, rdb, calls, func() {
		for i := range calls {
			seq++
			_, err := l.FirstAttempts(ctx, "d", gateParams, ledger.Firsts{Process: strconv.Itoa(i % processes), Seq: seq, OK: each, Jitter: 500})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	share := once * processes * flushes / 1e6 * 100
	record(b, "50,000 first attempts/s of 200 processes that tell every 250 ms to a second", fmt.Sprintf("%.1f %% of a Redis core (%.0f us a call)", share, once), "<= 5 %", met(share <= 5))
}
