package app

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/redistest"
)

// crowd writes n members into an index as the scripts do, in order of their scores.
var crowd = redis.NewScript(`
local args = {}
for i = 1, tonumber(ARGV[1]) do
  args[#args + 1] = string.format('%.0f', tonumber(ARGV[2]) + i)
  args[#args + 1] = ARGV[3] .. string.format('%07d', i)
  if #args == 4000 or i == tonumber(ARGV[1]) then
    redis.call('ZADD', KEYS[1], unpack(args))
    args = {}
  end
end
return redis.call('ZCARD', KEYS[1])`)

// scraped is one namespace whose metrics are scraped.
type scraped struct {
	*testing.T
	rdb    redis.UniversalClient
	prefix string // of the dependency's keys
	m      *metrics.Metrics
}

// waiting returns a namespace of its own with that many thousand operations, spread over every
// index that an operation can wait or rest in.
func waiting(t *testing.T, rdb redis.UniversalClient, namespace string, thousands int64) *scraped {
	t.Helper()
	d := config.NewDependency("payrail", "https://api.payrail.example")
	c := config.Default()
	c.Dependencies["payrail"] = d
	c.Kinds["charge"] = config.NewKind("charge", d, "/v1/charges")
	l := ledger.New(rdb, namespace)
	if err := l.PublishKinds(t.Context(), c.KindSpecs()); err != nil {
		t.Fatal(err)
	}
	m := metrics.New(metrics.Options{})
	m.Declare([]jobs.Dependency{"payrail"}, map[jobs.Kind]jobs.Dependency{"charge": "payrail"})
	m.ObserveLedger(ledgerState(l))
	s := &scraped{T: t, rdb: rdb, prefix: namespace + ":{payrail}:", m: m}

	now := time.Now().UnixMilli()
	counts := map[string]any{}
	for _, in := range []struct {
		index, counted string
		share, from    int64 // of a thousand; score of the first
	}{
		{"due:retry", "charge waiting", 300, now},
		{"due:first", "charge waiting", 100, now},
		{"waiting", "charge waiting", 200, now + 3_600_000},
		{"aside", "charge waiting", 50, now},
		{"unresolved", "charge unresolved", 100, now},
		{"dead", "charge dead unsafe", 100, now},
		{"dead", "charge dead attempts", 50, now},
		{"done", "charge succeeded", 100, now},
	} {
		n := in.share * thousands
		s.crowd(in.index, n, in.from, in.counted)
		if in.index == "unresolved" { // the same operations stand there
			if err := rdb.ZUnionStore(t.Context(), s.prefix+"giveup", &redis.ZStore{Keys: []string{s.prefix + in.index}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := counts[in.counted].(int64)
		counts[in.counted] = before + n
	}
	pipe := rdb.Pipeline()
	pipe.HSet(t.Context(), s.prefix+"counts", counts)
	pipe.HSet(t.Context(), s.prefix+"submitted", "charge accepted", 1000*thousands)
	pipe.HSet(t.Context(), s.prefix+"gate", "tokens", 5000, "filled_at", now)
	for index, counted := range map[string]string{"due:retry": "charge waiting", "due:first": "charge waiting", "giveup": "charge unresolved"} {
		// Of the operations themselves a scrape reads those at the heads alone.
		pipe.HSet(t.Context(), s.prefix+"op:"+member(index, counted, 1), "state", "waiting", "next", now-90_000, "since", now-3_600_000)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func member(index, counted string, i int64) string {
	return fmt.Sprintf("charge/%s-%s-%07d", strings.ReplaceAll(index, "giveup", "unresolved"), counted[len("charge "):], i)
}

func (s *scraped) crowd(index string, n, from int64, counted string) {
	s.Helper()
	name := strings.TrimSuffix(member(index, counted, 0), "0000000")
	if err := crowd.Run(s.Context(), s.rdb, []string{s.prefix + index}, n, from, name).Err(); err != nil {
		s.Fatalf("fill %s: %v", index, err)
	}
}

// scrape returns what a scrape shows.
func (s *scraped) scrape() (text string, took time.Duration) {
	s.Helper()
	rec := httptest.NewRecorder()
	began := time.Now()
	s.m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	return rec.Body.String(), time.Since(began)
}

// cost is what f asks of Redis: how often each command runs, and how many bytes are
// answered.
func (s *scraped) cost(f func()) (calls map[string]string, answered int64) {
	s.Helper()
	if err := s.rdb.ConfigResetStat(s.Context()).Err(); err != nil {
		s.Fatal(err)
	}
	f()
	calls = map[string]string{}
	for line := range strings.Lines(s.rdb.Info(s.Context(), "commandstats").Val()) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if n, _, counted := strings.Cut(rest, ","); ok && counted && !strings.HasPrefix(name, "config") && name != "info" {
			calls[name] = n
		}
	}
	for line := range strings.Lines(s.rdb.Info(s.Context(), "stats").Val()) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "total_net_output_bytes:"); ok {
			answered, _ = strconv.ParseInt(n, 10, 64)
		}
	}
	return calls, answered
}

// A scrape reads sizes of indexes and heads of lanes: as many commands, none that walks,
// and answers as long, whether a thousand operations stand in Redis or a million.
func TestAScrapeCostsTheSameWhateverStandsInRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Server(t, redistest.WithConfig("appendonly no")).Client(t) // a million entries need not be logged
	few := waiting(t, rdb, "few", 1)
	many := waiting(t, rdb, "many", 1000)

	text, _ := many.scrape() // also opens the connection
	for _, want := range []string{
		`redrive_operations{dependency="payrail",state="waiting"} 650000`,
		`redrive_held_operations{dependency="payrail",reason="paused"} 50000`,
		`redrive_dead_letters{kind="charge",reason="unsafe"} 100000`,
		`redrive_submissions_total{answer="accepted",kind="charge"} 1e+06`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	for _, late := range []string{"oldest_due_age_seconds", "oldest_unresolved_age_seconds", "deadline_misses_forecast", "drain_eta_seconds"} {
		if strings.Contains(text, "redrive_"+late+`{dependency="payrail"} 0`+"\n") {
			t.Errorf("%s is 0: what stands there was not read", late)
		}
	}

	callsOfFew, bytesOfFew := few.cost(func() { few.scrape() })
	callsOfMany, bytesOfMany := many.cost(func() { many.scrape() })
	if len(callsOfFew) < 5 || !maps.Equal(callsOfFew, callsOfMany) {
		t.Errorf("commands of a scrape:\n%v with 1,000 operations\n%v with 1,000,000", callsOfFew, callsOfMany)
	}
	bounded := []string{"smembers", "zcard", "zcount", "zrange", "hgetall", "hget", "get", "exists", "time"}
	for _, name := range slices.Sorted(maps.Keys(callsOfMany)) {
		if !slices.Contains(bounded, name) {
			t.Errorf("a scrape uses %s: is it bounded?", name)
		}
	}
	const slack = 1024 // a million has more digits than a thousand
	if bytesOfMany > bytesOfFew+slack {
		t.Errorf("Redis answers a scrape with %d bytes, and with %d where 1,000,000 operations stand", bytesOfFew, bytesOfMany)
	}
	if _, walked := many.cost(func() { rdb.ZRange(t.Context(), many.prefix+"aside", 0, -1) }); walked < bytesOfFew+slack {
		t.Errorf("a walk over an index is seen as %d bytes: the comparison proves nothing", walked)
	}
	took := make([]time.Duration, 21)
	for i := range took {
		_, took[i] = many.scrape()
	}
	slices.Sort(took)
	t.Logf("1,000,000 operations: %d bytes, median %s, slowest %s; %v", bytesOfMany, took[10], took[20], callsOfMany)
}

func TestAScrapeOfAnUnreachableRedisEnds(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialTimeout: time.Second})
	t.Cleanup(func() { rdb.Close() })
	read := ledgerState(ledger.New(rdb, "away"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := read(ctx); err == nil || !strings.Contains(err.Error(), "read dependencies") {
		t.Errorf("got %v", err)
	}
}
