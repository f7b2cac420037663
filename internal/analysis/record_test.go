package analysis

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/policy"
)

func rendered(t testing.TB, r *Record) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func asJSON(t testing.TB, r *Record) string {
	t.Helper()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestTheRecordOfTheExampleIsItsGolden(t *testing.T) {
	t.Parallel()
	r := Build(example(t), DefaultLoad())
	golden(t, "example.golden.md", rendered(t, r))
	golden(t, "example.golden.json", asJSON(t, r))
}

// What programs read: every key is there, of the type given here, and a list is never null.
func TestTheJSONHoldsWhatTheRecordHolds(t *testing.T) {
	t.Parallel()
	load := DefaultLoad()
	load.PerSecond = 3
	for _, text := range []string{sound, file{dependency: "budget: {cap: 1}, rules: [{when: 'body.x == 1', verdict: retry_safe}]", kind: "idempotency: keyed, max_attempts: 1, " + askedAbout}.text()} {
		was := Build(parse(t, text), load)
		encoded := asJSON(t, was)
		var is Record
		d := json.NewDecoder(strings.NewReader(encoded))
		d.DisallowUnknownFields()
		if err := d.Decode(&is); err != nil {
			t.Fatal(err)
		}
		if again := asJSON(t, &is); again != encoded {
			t.Errorf("read and written again:\n%s\nwas\n%s", again, encoded)
		}
		for _, list := range []string{"kinds", "findings", "delays", "rules", "table", "limits", "alerts", "commands"} {
			if strings.Contains(encoded, `"`+list+`": null`) || !strings.Contains(encoded, `"`+list+`": [`) {
				t.Errorf("%s is no list in\n%s", list, encoded)
			}
		}
	}
}

func TestNoSectionOfTheMarkdownIsEmpty(t *testing.T) {
	t.Parallel()
	for _, text := range []string{sound, file{kind: "idempotency: keyed, max_attempts: 1"}.text(), file{kind: "idempotency: none, " + askedAbout}.text(),
		file{dependency: "preset: generic, breaker: {slow_call: 0, consecutive: 0, min_calls: 1, ramp: 0}, drain: {max_per_second: 0}", kind: "idempotency: natural"}.text()} {
		md := rendered(t, Build(parse(t, text), DefaultLoad()))
		for _, want := range []string{"## Findings\n", "### 1. ", "### 2. ", "### 3. ", "### 4. ", "### 5. "} {
			if strings.Count(md, want) != 1 {
				t.Errorf("%d of %q in\n%s", strings.Count(md, want), want, md)
			}
		}
		lines := strings.Split(strings.TrimSpace(md), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "## ") && !strings.Contains(line, " at ") || strings.HasPrefix(line, "### ") {
				if i+2 >= len(lines) || lines[i+1] != "" || lines[i+2] == "" || strings.HasPrefix(lines[i+2], "#") {
					t.Errorf("nothing under %q", line)
				}
			}
			if strings.HasPrefix(line, "| --- ") && (i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], "| ")) {
				t.Errorf("a table without rows under %q", lines[i-1])
			}
			if strings.Contains(line, "%!") || strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "<nil>") {
				t.Errorf("%q", line)
			}
		}
	}
}

func TestTheRecordShowsNoSecretAndNeedsNone(t *testing.T) {
	t.Parallel()
	r := Build(parse(t, file{dependency: `base_url: "https://${HOST}", headers: {Authorization: Bearer hunter2, X-Two: "${NOT_SET}"}, credentials: {m1: {headers: {X-Api-Key: hunter3}}}`}.text()), DefaultLoad())
	for _, text := range []string{rendered(t, r), asJSON(t, r)} {
		if strings.Contains(text, "hunter") || strings.Contains(text, "HOST") {
			t.Errorf("a secret in\n%s", text)
		}
	}
}

func TestCellsKeepTheirTable(t *testing.T) {
	t.Parallel()
	r := Build(parse(t, file{dependency: "rules: [{when: 'status == 402 || body.x == \"`\"', verdict: retry_after, after: 1h, processed: no}]"}.text()), DefaultLoad())
	want := "| R1 | `` status == 402 \\|\\| body.x == \"`\" `` | no | retry_after | sent again after 1h to 1h0m30s |\n"
	if md := rendered(t, r); !strings.Contains(md, want) {
		t.Errorf("no %q in\n%s", want, md)
	}
}

func TestARuleStandsInTheRecordAsItDecides(t *testing.T) {
	t.Parallel()
	r := Build(parse(t, file{dependency: `preset: "", rules: [
    {when: 'status == 402 && body.error.code == "processing_error"', verdict: retry_after, after: 1h, processed: no},
    {when: 'has(body.pending)', verdict: pending_poll},
    {when: 'has(body.gone)', verdict: permanent_failure, again: never}]`}.text()), DefaultLoad())
	got := r.Kinds[0].Failures.Rules
	if len(got) != 3 || got[0].Row != "R1" || got[0].Processed != policy.ProcessedNo || got[0].Then != "sent again after 1h to 1h0m30s" ||
		got[1].Processed != policy.ProcessedYes || got[1].Then != "dead (unsafe): a person looks" ||
		got[2].Processed != "" || got[2].Then != "dead (permanent)" {
		t.Errorf("%+v", got)
	}
}

func TestWhatCannotBeRepeatedInTimeIsNotSaidToBe(t *testing.T) {
	t.Parallel()
	then := func(kind, verdict, after string) string {
		text := file{dependency: "rules: [{when: 'status == 402', verdict: " + verdict + ", after: " + after + ", processed: no}]", kind: kind}.text()
		return Build(parse(t, text), DefaultLoad()).Kinds[0].Failures.Rules[0].Then
	}
	for _, tt := range []struct{ kind, after, want string }{
		{"idempotency: keyed", "3h", "dead (deadline)"},
		{"idempotency: keyed", "1h59m45s", "sent again after 1h59m45s or more, or dead (deadline) where that is too long"},
		{"idempotency: keyed", "1h59m", "sent again after 1h59m to 1h59m30s"},
		{"idempotency: keyed, max_attempts: 1", "1m", "dead (attempts)"},
	} {
		if got := then(tt.kind, "retry_after", tt.after); got != tt.want {
			t.Errorf("%s, after %s: %q, want %q", tt.kind, tt.after, got, tt.want)
		}
	}
	// What does not count is repeated even where one attempt is all there is.
	for _, line := range Build(parse(t, file{kind: "idempotency: keyed, max_attempts: 1"}.text()), DefaultLoad()).Kinds[0].Failures.Table {
		if again := strings.HasPrefix(line.Then, "sent again"); again && line.Counted {
			t.Errorf("%+v", line)
		}
	}
}

// Every row that an HTTP gateway can reach by what it answers stands in the record.
func TestTheFailureTableLeavesNoRowOut(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, line := range Build(parse(t, sound), DefaultLoad()).Kinds[0].Failures.Table {
		for _, row := range line.Rows {
			listed[row] = true
		}
	}
	for _, row := range policy.Table() {
		reached := len(row.On.Phases)+len(row.On.Statuses) > 0 || slices.Contains([]string{"H200G", "H413R", "H4XX", "HXXX"}, row.ID)
		if listed[row.ID] != reached {
			t.Errorf("%s (%s): listed %v", row.ID, row.On, listed[row.ID])
		}
	}
	if listed[policy.RowUnlisted] {
		t.Error("a sample that no row lists")
	}
}

func TestSpansAreThoseThatThePolicyDraws(t *testing.T) {
	t.Parallel()
	c := parse(t, file{dependency: "timeout: 2s", kind: "idempotency: keyed, max_attempts: 5, backoff: {base: 1s, cap: 3s}"}.text())
	k, d := c.Kinds["charge"], c.Dependencies["payrail"]
	// Waits up to 1, 2, 3, 3 s, each 0.1 s more.
	if got := meanSpan(k); got != 4900*time.Millisecond {
		t.Errorf("mean span %v", got)
	}
	if got := longestSpan(k, d); got != 17400*time.Millisecond {
		t.Errorf("longest span %v", got)
	}
	want := []Delay{{1, 1, 100, 600, 1100}, {2, 2, 100, 1100, 2100}, {3, 4, 100, 1600, 3100}}
	if got := delays(k); !slices.Equal(got, want) {
		t.Errorf("delays %v, want %v", got, want)
	}
	for _, mean := range []time.Duration{1, 600 * time.Millisecond, time.Second, 4900 * time.Millisecond, time.Minute} {
		n, ok := attemptsFor(k, mean)
		if !ok || waits(k, n, 0.5) < mean || waits(k, n-1, 0.5) >= mean {
			t.Errorf("%d attempts for %v", n, mean)
		}
	}
	if n, ok := attemptsFor(k, 1000*time.Hour); ok {
		t.Errorf("%d attempts of at most 3.1 s for 1000 h", n)
	}
}

func TestAWindowForASpanIsTheShortestThatIsSafe(t *testing.T) {
	t.Parallel()
	for _, safe := range []time.Duration{time.Millisecond, time.Second, 56 * time.Second, 2 * time.Hour, 1000 * time.Hour} {
		for _, timeout := range []time.Duration{time.Second, 10 * time.Minute} {
			lease, w := policy.ClaimLease(timeout), windowFor(safe, timeout)
			if policy.ResendSafe(w, lease) < safe || policy.ResendSafe(w-2*time.Millisecond, lease) >= safe {
				t.Errorf("safe %v, timeout %v: window %v", safe, timeout, w)
			}
		}
	}
}

func TestTheGateIsWorkedOut(t *testing.T) {
	t.Parallel()
	d := parse(t, file{dependency: "rate: {per_second: 50}"}.text()).Dependencies["payrail"]
	if got := extraCalls(d.Budget, 10, time.Hour); !near(got, 100+0.1*10*3601+3600) {
		t.Errorf("extra calls %v", got)
	}
	if after, ok := opensAfter(d, 10, 1); !ok || after != 8*time.Second {
		t.Errorf("all fail: %v %v, want the timeout and half the window", after, ok)
	}
	if after, ok := opensAfter(d, 10, 0.4); ok {
		t.Errorf("less than failure_rate fails: %v", after)
	}
	if after, ok := opensAfter(d, 1, 1); !ok || after != 8*time.Second {
		t.Errorf("few calls, all fail: %v %v, want the timeout and five of them", after, ok)
	}
	if got := drainPerSecond(d, 10); !near(got, 1+1+10) {
		t.Errorf("drain %v", got)
	}
	if got := drainPerSecond(d, 45); !near(got, 5) {
		t.Errorf("drain %v, want what the rate leaves", got)
	}
	if in, ok := drainsIn(d, 50, time.Minute); ok {
		t.Errorf("a backlog that has no room leaves in %v", in)
	}
	if in, ok := drainsIn(d, 10, 2*time.Minute); !ok || in != 160*time.Second {
		t.Errorf("1200 at 12/s after a ramp of 60 s: %v %v", in, ok)
	}
}

// The names, spans and severities of the record are those of the rules that fire.
func TestTheAlertsAreThoseThatFire(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "rules", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	fires := map[string]string{}
	var name, held string
	field := regexp.MustCompile(`^\s+(?:- )?(alert|for|labels): (.*)$`)
	for line := range bytes.Lines(rules) {
		m := field.FindStringSubmatch(strings.TrimRight(string(line), "\n"))
		switch {
		case m == nil:
		case m[1] == "alert":
			name, held = m[2], ""
		case m[1] == "for":
			held = m[2]
		default:
			fires[name] = held + " " + strings.TrimSuffix(strings.TrimPrefix(m[2], "{severity: "), "}")
		}
	}
	seen := map[string]bool{}
	for _, a := range Build(parse(t, sound), DefaultLoad()).Kinds[0].Observability.Alerts {
		if got := a.For + " " + a.Severity; fires[a.Alert] != got {
			t.Errorf("%s: the record says %q, the rules %q", a.Alert, got, fires[a.Alert])
		}
		if seen[a.Alert] {
			t.Errorf("%s stands twice", a.Alert)
		}
		seen[a.Alert] = true
	}
}

func TestNumbersAndSpansAreWrittenAsPeopleDo(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{0: "0", 0.10416666: "0.104", 3.75: "3.75", 12.5: "12.5", 1920: "1920", 40: "40", 2.0833: "2.08", 143.7: "144", 1e6: "1000000"} {
		if got := number(f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 104 * time.Millisecond: "104ms", 12500 * time.Millisecond: "12.5s", 2 * time.Minute: "2m", 24 * time.Hour: "24h", 4713400 * time.Millisecond: "1h18m33s"} {
		if got := span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for _, d := range []time.Duration{time.Nanosecond, 999 * time.Microsecond, 1001 * time.Millisecond, 61001 * time.Millisecond, 601 * time.Second, 36001 * time.Second} {
		if up, err := time.ParseDuration(upward(d)); err != nil || up < d {
			t.Errorf("%v: %q (%v)", d, upward(d), err)
		}
	}
}

// Whatever the load, the record can be written, and its figures agree with each other.
func FuzzEveryValidLoadGivesARecord(f *testing.F) {
	f.Add(0.0, 0.4, 1, 0, int64(time.Hour))
	f.Add(40.0, 0.4, 5, 3, int64(0))
	f.Add(leastPart, leastPart, maxProcesses, maxResends, int64(math.MaxInt64))
	f.Add(float64(maxPerSecond), 1.0, 1, maxResends, int64(24*time.Hour))
	c := parse(f, file{dependency: "rate: {per_second: 0.001}, budget: {cap: 1}, drain: {max_per_second: 0}, max_in_flight: 0", kinds: "  refund: {dependency: payrail, request: {path: /r}}"}.text())
	f.Fuzz(func(t *testing.T, perSecond, failing float64, processes, resends int, outage int64) {
		l := Load{PerSecond: perSecond, Failing: failing, Processes: processes, ResendsInRequest: resends, Outage: time.Duration(outage)}
		if l.Validate() != nil {
			return
		}
		r := Build(c, l)
		asJSON(t, r)
		if md := rendered(t, r); strings.Contains(md, "NaN") || strings.Contains(md, "Inf") {
			t.Errorf("%+v:\n%s", l, md)
		}
		for _, k := range r.Kinds {
			for _, p := range []PoolRecord{k.Slots.Worker, k.Slots.RequestPath} {
				if exhausted := p.ExhaustionS != nil && *p.ExhaustionS < 1; exhausted != (p.FillsInMS != nil) {
					t.Errorf("%+v: %+v", l, p)
				}
				if p.FillsInMS != nil && *p.FillsInMS > p.HoldMS {
					t.Errorf("%+v: full after more than the hold time: %+v", l, p)
				}
			}
		}
	})
}
