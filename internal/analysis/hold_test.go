package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// The first three are the worked numbers of the field; the rest are their edges.
func TestHoldTimeAndExhaustionAreThoseOfTheField(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timeout            time.Duration
		resends, slots     int
		perSecond, failing float64
		hold               time.Duration
		exhaustion, wanted float64
		fills              time.Duration // 0: never
	}{
		"30 s x 3 resends": {30 * time.Second, 3, 200, 40, 0.4, 120 * time.Second, 0.10416666666666667, 1920, 12500 * time.Millisecond},
		"3 s x 1 resend":   {3 * time.Second, 1, 200, 40, 0.4, 6 * time.Second, 2.0833333333333335, 96, 0},
		"3 s, no resend":   {3 * time.Second, 0, 180, 40, 0.4, 3 * time.Second, 3.75, 48, 0},
		"just enough":      {4 * time.Second, 0, 10, 5, 0.5, 4 * time.Second, 1, 10, 0},
		"one too few":      {4 * time.Second, 0, 9, 5, 0.5, 4 * time.Second, 0.9, 10, 3600 * time.Millisecond},
		"nothing fails":    {4 * time.Second, 3, 1, 1000, 0, 16 * time.Second, math.Inf(1), 0, 0},
	} {
		p := Pool{Slots: tt.slots, Hold: Hold(tt.timeout, tt.resends), PerSecond: tt.perSecond, Failing: tt.failing}
		fills, ok := p.FillsIn()
		if p.Hold != tt.hold || !near(p.Exhaustion(), tt.exhaustion) || !near(p.Wanted(), tt.wanted) || fills != tt.fills || ok != (tt.fills > 0) {
			t.Errorf("%s: hold %v, exhaustion %v, wanted %v, full in %v (%v)", name, p.Hold, p.Exhaustion(), p.Wanted(), fills, ok)
		}
		if p.Exhausted() != (p.Exhaustion() < 1) || p.Exhausted() && fills > p.Hold {
			t.Errorf("%s: exhausted %v at a figure of %v, full in %v with a hold time of %v", name, p.Exhausted(), p.Exhaustion(), fills, p.Hold)
		}
	}
}

func near(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-9*math.Abs(b) }

// The same numbers, out of configurations and flags.
func TestTheWorkedNumbersComeOutOfTheRecord(t *testing.T) {
	t.Parallel()
	load := DefaultLoad()
	load.PerSecond = 40
	for _, tt := range []struct {
		keys    string
		resends int
		want    []string // lines of the record
		finding string   // about the request path
	}{
		{"timeout: 30s, slots: 200, max_in_flight: 200", 3, []string{"30s x 4 = 2m", "40 x 0.4 x 120 s = 1920 of 200", "200 / (40 x 0.4 x 120) = 0.104 s: exhausted", "after 200 / (40 x 0.4) = 12.5s"}, "request-path-exhausted"},
		{"timeout: 3s, slots: 200, max_in_flight: 200", 1, []string{"3s x 2 = 6s", "200 / (40 x 0.4 x 6) = 2.08 s: never exhausted"}, ""},
		{"timeout: 3s, slots: 180, max_in_flight: 180", 0, []string{"3s x 1 = 3s", "180 / (40 x 0.4 x 3) = 3.75 s: never exhausted"}, ""},
	} {
		load.ResendsInRequest = tt.resends
		r := Build(parse(t, file{dependency: tt.keys}.text()), load)
		text := rendered(t, r)
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", tt.keys, want, text)
			}
		}
		if path := r.Kinds[0].Slots.RequestPath; path.Sends != tt.resends+1 || path.ExhaustionS == nil {
			t.Errorf("%s: %+v", tt.keys, path)
		}
		if got := slices.Contains(ids(r.Findings), "request-path-exhausted"); got != (tt.finding != "") {
			t.Errorf("%s: findings %q", tt.keys, ids(r.Findings))
		}
	}
}

func TestWorkersShareWhatTheDependencyBears(t *testing.T) {
	t.Parallel()
	d := parse(t, file{dependency: "slots: 10, max_in_flight: 25, rate: {per_second: 30}"}.text()).Dependencies["payrail"]
	load := DefaultLoad()
	for processes, want := range map[int]int{1: 10, 2: 20, 3: 25} {
		load.Processes = processes
		if p := load.workerPool(d); p.Slots != want || p.PerSecond != 15 || p.Hold != 3*time.Second {
			t.Errorf("%d processes: %+v, want %d slots, half the rate, the timeout", processes, p, want)
		}
	}
	load.Processes, load.ResendsInRequest = 3, 2
	if p := load.requestPool(d); p.Slots != 30 || p.Hold != 9*time.Second {
		t.Errorf("%+v: max_in_flight is no matter of a request path", p)
	}
}

func TestALoadThatMeansNothingIsRefused(t *testing.T) {
	t.Parallel()
	if err := DefaultLoad().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Load){
		"load -1: ":                  func(l *Load) { l.PerSecond = -1 },
		"load NaN: ":                 func(l *Load) { l.PerSecond = math.NaN() },
		"load 1e-09: ":               func(l *Load) { l.PerSecond = 1e-9 },
		"load +Inf: ":                func(l *Load) { l.PerSecond = math.Inf(1) },
		"failing 1.5: ":              func(l *Load) { l.Failing = 1.5 },
		"failing NaN: ":              func(l *Load) { l.Failing = math.NaN() },
		"processes 0: ":              func(l *Load) { l.Processes = 0 },
		"resends in the request -1:": func(l *Load) { l.ResendsInRequest = -1 },
		"outage -1ns: ":              func(l *Load) { l.Outage = -1 },
	} {
		l := DefaultLoad()
		change(&l)
		if err := l.Validate(); err == nil || !strings.HasPrefix(err.Error(), strings.TrimSuffix(name, "-1ns: ")) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
