package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"redrive/internal/jobs"
)

var testKinds = map[jobs.Kind]jobs.Dependency{"charge": "payrail", "refund": "payrail"}

// newTestMetrics returns metrics of one dependency with two kinds and the given
// state of the ledger.
func newTestMetrics(snapshots ...DependencySnapshot) *Metrics {
	m := New(Options{Version: "v1.2.3", Revision: "abc", Schema: 1})
	m.Declare([]jobs.Dependency{"payrail"}, testKinds)
	m.ObserveLedger(func(context.Context) ([]DependencySnapshot, error) { return snapshots, nil })
	return m
}

// callAll calls every method of m once for these names.
func callAll(m *Metrics, dep jobs.Dependency, kind jobs.Kind, call Call, result Result, why Refusal,
	class jobs.Class, state jobs.State, reason jobs.Reason) {
	m.Call(dep, kind, call, class, 30*time.Millisecond)
	m.FirstAttempts(dep, result, 3)
	m.RetryRefused(dep, why, class)
	m.RetryDelay(dep, 2*time.Second)
	m.StartLateness(dep, 4*time.Millisecond)
	m.Slots(dep, 10)
	m.SlotTaken(dep)
	m.SlotTaken(dep)
	m.SlotFreed(dep)
	m.Polled(dep, time.UnixMilli(1_700_000_000_250))
	m.OperationEnded(kind, state, reason, 2)
	m.DeadLettersExpired(kind, reason, 5)
	m.StaleDelivery(dep)
	m.Rescued(dep)
	m.LateResult(dep)
	m.Conflict(dep)
	m.IdempotentReplay(dep)
	m.LedgerRollback()
	m.ClockStep()
	m.ResultWriteRetry()
	m.Panic()
	m.RedisUp(true)
	m.RedisDurable(true)
	m.ClockSkew(-1500 * time.Millisecond)
}

func callTypical(m *Metrics, dep jobs.Dependency, kind jobs.Kind) {
	callAll(m, dep, kind, CallRetry, ResultTimedOut, Refusal(jobs.HoldBudget), jobs.ClassTimeout, jobs.Dead, jobs.ReasonDeadline)
}

var typicalSnapshot = DependencySnapshot{
	Dependency: "payrail", Tokens: 2.5, Cap: 100, Ratio: 0.1, Overridden: true, Paused: true, Breaker: BreakerHalfOpen,
	Operations:   map[jobs.State]int64{jobs.Waiting: 7, jobs.Dead: 2},
	Held:         map[jobs.Hold]int64{jobs.HoldPaused: 4},
	OldestDueAge: 90 * time.Second, OldestUnresolvedAge: time.Hour, DrainETA: 40 * time.Second, DeadlineMisses: 3,
	DeadLetters: map[jobs.Kind]map[jobs.Reason]int64{"charge": {jobs.ReasonUnsafe: 2}},
	Submissions: map[jobs.Kind]map[jobs.Answer]int64{"charge": {jobs.Accepted: 12, jobs.Duplicate: 3}},
}

// wholeScrape returns what a scrape shows.
func wholeScrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("scrape: status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// exposition returns what a scrape shows under our prefix.
func exposition(t *testing.T, m *Metrics) string {
	t.Helper()
	var ours strings.Builder
	for line := range strings.Lines(wholeScrape(t, m)) {
		if strings.HasPrefix(line, "redrive_") || strings.Contains(line, " redrive_") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}

func TestEveryMetricIsInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(redrive_[a-z_]+)` \\| (counter|gauge|histogram)[a-z, ]* \\| ([a-z, ]*)\\|")
	documented := map[string]string{}
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		documented[r[1]] = r[2] + " " + strings.TrimSpace(r[3])
	}
	m := newTestMetrics(typicalSnapshot)
	callTypical(m, "payrail", "charge")
	for _, f := range gather(t, m) {
		names := map[string]bool{}
		var labels []string
		for _, l := range f.Metric[0].Label {
			names[l.GetName()] = true
		}
		for _, l := range []string{"dependency", "kind", "call", "state", "result", "reason", "class", "answer", "version", "revision", "go", "schema"} {
			if names[l] {
				labels = append(labels, l)
				delete(names, l)
			}
		}
		if len(names) > 0 {
			t.Errorf("%s has labels the contract does not know: %v", f.GetName(), names)
		}
		got := strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ", ")
		if want := documented[f.GetName()]; strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s is %q, docs/metrics.md says %q", f.GetName(), got, want)
		}
		delete(documented, f.GetName())
	}
	for name := range documented {
		t.Errorf("docs/metrics.md lists %s, which no scrape shows", name)
	}
}

// gather returns our families.
func gather(t *testing.T, m *Metrics) []*dto.MetricFamily {
	t.Helper()
	all, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var ours []*dto.MetricFamily
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), "redrive_") {
			ours = append(ours, f)
		}
	}
	return ours
}

func TestCountersOfDeclaredNamesExistFromTheStart(t *testing.T) {
	t.Parallel()
	text := exposition(t, newTestMetrics())
	for _, want := range []string{
		`redrive_calls_total{call="retry",class="5xx",dependency="payrail",kind="refund"} 0`,
		`redrive_first_attempts_total{dependency="payrail",result="failed"} 0`,
		`redrive_retries_refused_total{class="429",dependency="payrail",reason="deadline"} 0`,
		`redrive_operations_ended_total{kind="charge",reason="",state="succeeded"} 0`,
		`redrive_operations_ended_total{kind="charge",reason="poison",state="dead"} 0`,
		`redrive_submissions_total{answer="conflict",kind="charge"} 0`,
		`redrive_dead_letters_expired_total{kind="charge",reason="unsafe"} 0`,
		`redrive_dead_letters{kind="refund",reason="unsafe"} 0`,
		`redrive_rescued_total{dependency="payrail"} 0`,
		`redrive_panics_total 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing at the start: %s", want)
		}
	}
	if strings.Contains(text, `dependency="other"`) || strings.Contains(text, `kind="other"`) {
		t.Error("nothing undeclared was met, yet it is shown as other")
	}
}

func seriesIn(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

func TestStateOfTheLedgerIsMissingWhenItCannotBeRead(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	m.Declare([]jobs.Dependency{"payrail"}, testKinds)
	m.ObserveLedger(func(ctx context.Context) ([]DependencySnapshot, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a scrape waits for the ledger without a bound")
		}
		return []DependencySnapshot{typicalSnapshot}, errors.New("redis is away")
	})
	text := exposition(t, m)
	if strings.Contains(text, "redrive_operations{") || strings.Contains(text, "redrive_dead_letters{") {
		t.Error("a scrape shows state that was not read")
	}
	if !strings.Contains(text, "redrive_panics_total 0") {
		t.Error("the counters of the process are missing too")
	}
	if !strings.Contains(log.String(), "redis is away") {
		t.Errorf("the log does not say why: %q", log.String())
	}
}

func TestDrainETAIsInfiniteWhileNothingLeaves(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		s    DependencySnapshot
		want string
	}{
		{DependencySnapshot{Dependency: "payrail"}, "0"},
		{DependencySnapshot{Dependency: "payrail", DrainETA: 1500 * time.Millisecond}, "1.5"},
		{DependencySnapshot{Dependency: "payrail", DrainETA: 1<<63 - 1, DrainStuck: true}, "+Inf"},
	} {
		if want := `redrive_drain_eta_seconds{dependency="payrail"} ` + tc.want + "\n"; !strings.Contains(exposition(t, newTestMetrics(tc.s)), want) {
			t.Errorf("%+v does not show %q", tc.s, want)
		}
	}
}

func TestTwoMetricsInOneProcessDoNotMeet(t *testing.T) {
	t.Parallel()
	a, b := newTestMetrics(), newTestMetrics()
	a.Panic()
	if !strings.Contains(exposition(t, b), "redrive_panics_total 0\n") {
		t.Error("the panic of one is counted by the other")
	}
}

func TestUseFromManyGoroutines(t *testing.T) {
	t.Parallel()
	m := newTestMetrics(typicalSnapshot)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				callTypical(m, "payrail", "charge")
				m.Declare([]jobs.Dependency{jobs.Dependency(fmt.Sprintf("dep-%d", i))}, nil)
			}
		})
	}
	wg.Go(func() { exposition(t, m) })
	wg.Wait()
	if !strings.Contains(exposition(t, m), "redrive_panics_total 400\n") {
		t.Error("counts were lost")
	}
}
