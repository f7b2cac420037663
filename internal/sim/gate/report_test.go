package gate

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write tables and plots into docs, every scenario played in full")

const page = "../../../docs/budget.md"

// table is one of the page, between two comments with its name.
type table struct {
	name string
	head []string
	rows []row
}

// row is a line of a table. Slow ones are played for the report alone.
type row struct {
	slow  bool
	cells func() []any
}

func (t table) text() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(t.head)))
	for _, r := range t.rows {
		b.WriteString(r.text())
	}
	return b.String()
}

func (r row) text() string {
	var cells []string
	for _, c := range r.cells() {
		cells = append(cells, fmt.Sprint(c))
	}
	return fmt.Sprintf("| %s |\n", strings.Join(cells, " | "))
}

// The page shows what the scenarios bring. With -update everything is played and
// written, without only what takes no long time is played and compared.
func TestTheManualShowsWhatTheScenariosBring(t *testing.T) {
	t.Parallel()
	read, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	for _, tab := range tables() {
		begin, end := "<!-- "+tab.name+" -->\n", "<!-- end of "+tab.name+" -->"
		before, rest, ok := strings.Cut(text, begin)
		old, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s has no place for %s: %q and %q", page, tab.name, begin, end)
		}
		if *update {
			text = before + begin + tab.text() + end + after
			continue
		}
		for _, r := range tab.rows {
			if r.slow {
				continue
			}
			if row := r.text(); !strings.Contains(old, row) {
				t.Errorf("%s: %s lacks\n%s(make sim-report writes it)", page, tab.name, row)
			}
		}
	}
	if !*update {
		return
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, plot := range plots() {
		if err := os.WriteFile("../../../docs/img/"+name+".svg", plot(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func tables() []table {
	return []table{ratesTable(), instancesTable(), metastableTable(), nightTable(), recoveryTable()}
}

func ratesTable() table {
	t := table{name: "failure rates", head: []string{"failing", "none", "3 retries", "bucket per instance", "ours, 1", "ours, 10", "ours, 100", "ours, 1000",
		"ours with breaker and lane"}}
	for _, rate := range failureRates {
		t.rows = append(t.rows, row{slow: withRace, cells: func() []any {
			cells := []any{fmt.Sprintf("%.2f", rate)}
			for _, r := range []Result{rates("none", 100, rate), rates("3 retries", 100, rate), rates("own buckets", 100, rate), rates("budget", 1, rate),
				rates("budget", 10, rate), rates("budget", 100, rate), rates("budget", 1000, rate), rates("gate", 100, rate)} {
				cells = append(cells, fmt.Sprintf("%.3f / %.3f", r.Amplification(), r.Success()))
			}
			return cells
		}})
	}
	return t
}

func instancesTable() table {
	t := table{name: "instances", head: []string{"instances", "bucket per instance", "published", "ours", "our bound"}}
	for _, n := range counts {
		t.rows = append(t.rows, row{slow: withRace, cells: func() []any {
			r := instances("budget", n)
			return []any{n, fmt.Sprintf("%.3f", instances("own buckets", n).Amplification()), publishedBuckets[n],
				fmt.Sprintf("%.3f", r.Amplification()), fmt.Sprintf("%.3f", bound(r))}
		}})
	}
	return t
}

func metastableTable() table {
	t := table{name: "metastable", head: []string{"load", "strategy", "goodput per s, t = 20-24 s", "t = 50-59 s", "published, t = 50-59 s", "calls per s, t = 50-59 s",
		"back after, s"}}
	for _, load := range []float64{70, 85} {
		for _, s := range []struct{ name, strategy, published string }{
			{"none", "none", map[float64]string{70: "67-74", 85: "83-86"}[load]},
			{"3 retries at once", "3 retries", "0"},
			{"bucket of 10 per instance", "own buckets 10", map[float64]string{70: "66-74", 85: "83-87"}[load]},
			{"ours without breaker and lane", "budget", ""},
			{"**ours**", "gate", ""},
		} {
			t.rows = append(t.rows, row{cells: func() []any {
				var early, late, calls, back []string
				for _, sd := range seeds {
					r := metastable(s.strategy, load, sd)
					early = append(early, fmt.Sprintf("%.0f", float64(r.Span(20, 25).Good)/5))
					late = append(late, fmt.Sprintf("%.0f", float64(r.Span(50, 60).Good)/10))
					calls = append(calls, fmt.Sprintf("%.0f", float64(r.Span(50, 60).Calls)/10))
					back = append(back, seconds(r.BackAfter(ServerOutTo)))
				}
				return []any{load, s.name, strings.Join(early, ", "), strings.Join(late, ", "), s.published, strings.Join(calls, ", "), strings.Join(back, ", ")}
			}})
		}
	}
	return t
}

func seconds(n int) string {
	if n < 0 {
		return "never"
	}
	return fmt.Sprint(n)
}

func nightTable() table {
	t := table{name: "night", head: []string{"policy", "drained after", "left at the end of the night", "then by day (computed)", "most calls in a second after the outage",
		"fluid model: drained, peak"}}
	for _, s := range []struct {
		name, strategy, fluid string
		perSecond             float64 // by day, at 100 first attempts a second
	}{
		{"no budget", "night: no budget", "0 h, 360,000", 0},
		{"ratio 0.1", "night: ratio", "17.8 h, 110", 10},
		{"ratio 0.1, floor 1/s", "night: floor 1", "16.2 h, 111", 11},
		{"ratio 0.1, floor 10/s", "night: floor 10", "8.9 h, 120", 20},
		{"**ours**: and a lane of 85/s", "night: gate", "1.33 h, 100", 0},
	} {
		t.rows = append(t.rows, row{slow: s.strategy != "night: gate" || withRace, cells: func() []any {
			r := night(s.strategy, fullOutage)
			outTo := NightOutFrom + fullOutage
			if r.Finished {
				return []any{s.name, hours(len(r.Seconds) - outTo), 0, "", thousands(r.Peak(outTo)), s.fluid}
			}
			return []any{s.name, "not in 8 h", thousands(r.Backlog), hours(int(float64(r.Backlog) / s.perSecond)), thousands(r.Peak(outTo)), s.fluid}
		}})
	}
	return t
}

func hours(s int) string { return fmt.Sprintf("%.2f h", float64(s)/3600) }

func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func recoveryTable() table {
	t := table{name: "recovery", head: []string{"design", "most calls in a second after the outage", "seconds above 100 calls", "wasted calls", "drained after the outage",
		"fluid model: peak, wasted, drained"}}
	for _, s := range []struct {
		name, strategy, fluid string
		limit                 int
		played                bool // by another test anyway
	}{
		{"full jitter, cap 60 s, no limit", "full jitter 60 s", "32,441, 226 x the operations, never", naiveLimit, false},
		{"full jitter, cap 20 min, no limit", "full jitter 1200s", "140, 1.25 x, 4,799 s", naiveLimit, false},
		{"budget with cap 80, no breaker", "recovery: budget", "78, 46,864, 5,249 s", recoveryLimit, false},
		{"and a breaker", "recovery: breaker", "150, 573, 5,445 s", recoveryLimit, false},
		{"the same with cap 700", "recovery: breaker 700", "721, 1,793, 5,452 s", recoveryLimit, false},
		{"cap 80, clamp and ramp of 60 s", "recovery: ramp", "78, 490, 5,473 s", recoveryLimit, false},
		{"**ours**: and a lane of 16/s", "recovery: gate", "90, 490, 2,220 s", recoveryLimit, true},
		{"ours, the lane set to 60/s: too much", "recovery: wrong lane", "", recoveryLimit, false},
	} {
		t.rows = append(t.rows, row{slow: !s.played, cells: func() []any {
			r := recovery(s.strategy, s.limit)
			drained := thousands(len(r.Seconds)-RecoveryOutTo) + " s"
			if !r.Finished {
				end := r.Span(RecoveryOutTo+s.limit-10, RecoveryOutTo+s.limit)
				drained = fmt.Sprintf("not in %d s: then %s calls/s, %d succeed", s.limit, thousands(end.Calls/10), end.Good/10)
			}
			return []any{s.name, thousands(r.Peak(RecoveryOutTo)), thousands(r.Above(RecoveryOutTo, RecoveryCapacity)), thousands(r.Wasted), drained, s.fluid}
		}})
	}
	return t
}
