package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

// bench is a bundle on a real server whose steps are not checked.
func bench(t testing.TB) *bundle {
	b := setup(t, redistest.Server(t).Client(t))
	b.unchecked, b.maxBacklog, b.maxAttempts = true, 10_000_000, 1_000_000
	b.by = "checkout@shop-1"
	b.terms.Gate.Cap = 1_000_000_000
	b.spec.DeadlineMS = (1000 * hour).Milliseconds()
	b.fillBucket()
	return b
}

// submitMany hands in n operations with a body of size bytes, a hundred a call.
func (b *bundle) submitMany(prefix string, n, size int) {
	b.Helper()
	text := `{"amount":4200,"currency":"GBP","note":""}`
	text = strings.Replace(text, `""`, `"`+strings.Repeat("x", max(size-len(text), 0))+`"`, 1)
	for from := 0; from < n; from += MaxBatch {
		entries := make([]Entry, 0, MaxBatch)
		for i := from; i < min(from+MaxBatch, n); i++ {
			entries = append(entries, b.entry(fmt.Sprintf("%s-%07d", prefix, i), body(text)))
		}
		_, err := b.Submit(b.Context(), b.submitTerms(), entries)
		b.must(err)
	}
}

// BenchmarkScripts prints what a call of each script costs by Redis' own clock, with
// 100,000 due operations: the middle, the longest, and the commands it runs.
func BenchmarkScripts(t *testing.B) {
	b := bench(t)
	b.submitMany("due", 100_000, 500)
	b.must(b.rdb.ConfigSet(b.Context(), "slowlog-max-len", "100000").Err())
	b.must(b.rdb.ConfigSet(b.Context(), "slowlog-log-slower-than", "0").Err())
	var ds []Delivery
	var grants []*Grant
	ends := 0
	steps := []struct {
		name   string
		script *luascript.Script
		n      int
		call   func(i int)
	}{
		{"submit, 1 operation", submitScript, 200, func(i int) { b.submitMany(fmt.Sprint("one", i), 1, 500) }},
		{"submit, 100 operations", submitScript, 20, func(i int) { b.submitMany(fmt.Sprint("many", i), 100, 500) }},
		{"release, 100 first attempts", releaseScript, 20, func(int) { ds = append(ds, b.releaseUpTo(1_000_000).Deliveries...) }},
		{"begin", beginScript, 1800, func(i int) { grants = append(grants, b.begin(ds[i])) }},
		{"begin, the same run again", beginScript, 200, func(i int) { b.beginAs(ds[i], grants[i].RunID) }},
		{"abandon", abandonScript, 200, func(i int) { b.abandon(ds[1800+i], "run", 0) }},
		{"finish, unknown", finishScript, 1000, func(i int) { b.finish(grants[i], unknown(0)) }},
		{"finish, succeeded", finishScript, 800, func(i int) { b.finish(grants[1000+i], succeeded()) }},
		{"release, 100 retries", releaseScript, 5, func(int) { b.releaseUpTo(1_000_000) }},
		{"release, nothing may leave", releaseScript, 200, func(int) { b.releaseUpTo(0) }},
		{"sweep, nothing to end", sweepScript, 200, func(int) { b.sweep() }},
		{"recover, nothing lost", recoverScript, 200, func(int) { b.lostAttempts() }},
		{"cancel", cancelScript, 200, func(i int) { b.cancel(fmt.Sprintf("due-%07d", 99_999-i)) }},
		{"sweep, 100 past their deadline per lane", sweepScript, 20, func(int) { ends += len(b.sweep()) }},
		{"retention, 100 bodies", retentionScript, 10, func(int) { b.retire() }},
	}
	fmt.Printf("\n| with 100,000 due operations | Redis us/call | longest | commands/call |\n|---|---|---|---|\n")
	for _, s := range steps {
		switch s.name {
		case "sweep, 100 past their deadline per lane":
			b.terms.MinResponse = 2000 * hour
		case "retention, 100 bodies":
			b.moveDone()
		}
		b.must(b.rdb.Do(b.Context(), "SLOWLOG", "RESET").Err())
		b.must(b.rdb.ConfigResetStat(b.Context()).Err())
		for i := range s.n {
			s.call(i)
		}
		commands := b.commands() // before the log is read, which is a command too
		took := b.slowlog(s.script)
		slices.Sort(took)
		fmt.Printf("| %s | %d | %d | %.1f |\n", s.name, took[len(took)/2], took[len(took)-1], float64(commands)/float64(len(took)))
	}
	if ends == 0 {
		t.Fatal("nothing was ended")
	}
}

// moveDone makes what has ended due for its retention step.
func (b *bundle) moveDone() {
	for op := range b.index("done") {
		b.must(b.rdb.ZAdd(b.Context(), b.key(dep, "done"), redis.Z{Score: 1, Member: op}).Err())
	}
}

// slowlog returns how long each run of a script took, in us.
func (b *bundle) slowlog(script *luascript.Script) []int64 {
	b.Helper()
	entries, err := b.rdb.(*redis.Client).SlowLogGet(b.Context(), 100_000).Result()
	b.must(err)
	var took []int64
	for _, e := range entries {
		if len(e.Args) > 1 && strings.EqualFold(e.Args[0], "evalsha") && e.Args[1] == script.Hash() {
			took = append(took, e.Duration.Microseconds())
		}
	}
	if len(took) == 0 {
		b.Fatalf("script %s did not run", script.Name())
	}
	return took
}

// commands counts what scripts ran since the statistics were reset.
func (b *bundle) commands() int64 {
	b.Helper()
	info, err := b.rdb.Info(b.Context(), "commandstats").Result()
	b.must(err)
	var n int64
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok || strings.HasSuffix(name, "_evalsha") || strings.Contains(name, "_config") || strings.Contains(name, "_slowlog") || strings.Contains(name, "_info") {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		v, err := strconv.ParseInt(calls, 10, 64)
		b.must(err)
		n += v
	}
	return n
}

// BenchmarkMemory prints what one operation with a 500-byte body takes in Redis.
func BenchmarkMemory(t *testing.B) {
	b := bench(t)
	const n = 20_000
	used := func() int64 {
		b.Helper()
		info, err := b.rdb.Info(b.Context(), "memory").Result()
		b.must(err)
		_, rest, _ := strings.Cut(info, "used_memory:")
		text, _, _ := strings.Cut(rest, "\r\n")
		v, err := strconv.ParseInt(text, 10, 64)
		b.must(err)
		return v
	}
	b.submitMany("warm", 1000, 500) // buffers and scripts are there before it is counted
	for _, d := range b.drain() {
		b.finish(b.begin(d), succeeded())
	}
	before := used()
	b.submitMany("m", n, 500)
	fmt.Printf("\n| an operation with a 500-byte body | bytes of Redis |\n|---|---|\n| waiting | %d |\n", (used()-before)/n)
	for attempt := range 3 {
		for _, d := range b.drain() {
			b.finish(b.begin(d), unknown(0))
		}
		fmt.Printf("| waiting, %d attempts, each unknown | %d |\n", attempt+1, (used()-before)/n)
	}
	for _, d := range b.drain() {
		b.finish(b.begin(d), succeeded())
	}
	fmt.Printf("| succeeded after 4 attempts, answer kept | %d |\n", (used()-before)/n)
	b.moveDone()
	for more := true; more; {
		r, err := b.Retire(b.Context(), dep, b.terms.Retention)
		b.must(err)
		more = r.More
	}
	fmt.Printf("| tombstone | %d |\n", (used()-before)/n)
}

// drain releases all that is due.
func (b *bundle) drain() []Delivery {
	b.Helper()
	var all []Delivery
	for {
		r := b.releaseUpTo(1_000_000)
		all = append(all, r.Deliveries...)
		if len(r.Deliveries) == 0 {
			return all
		}
	}
}
