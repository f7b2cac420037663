package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"redrive/internal/jobs"
)

// The configuration that docs/metrics.md states the number of series for.
var (
	statedDependencies = []jobs.Dependency{"cards", "payrail"}
	statedKinds        = map[jobs.Kind]jobs.Dependency{"charge": "payrail", "refund": "payrail", "capture": "cards", "void": "cards"}
)

// statedSeries is the most that a scrape of a process with that configuration shows,
// go_* and process_* included, and what a dependency, a kind and the rest have in it.
const (
	statedSeries  = 2000
	ofADependency = 650
	ofAKind       = 100
	ofTheRest     = 230
)

// story is what befalls operations that a test makes up: names and texts differ from
// one to the next as they would in life.
type story struct {
	m        *Metrics
	instance string
}

// operation plays one operation: known, or of an invented dependency or kind.
func (s *story) operation(i int) {
	kinds := slices.Sorted(maps.Keys(statedKinds))
	kind := kinds[i%len(kinds)]
	dep := statedKinds[kind]
	key := fmt.Sprintf("order-%d-tenant-%d", i, i%97)
	text := fmt.Sprintf("dial tcp 10.0.%d.%d: i/o timeout for %s by %s", i%500/250, i%250, key, s.instance)
	class, why := jobs.Classes[i%len(jobs.Classes)], Refusals[i/12%len(Refusals)]
	call, result := Calls[i/3%len(Calls)], Results[i%len(Results)]
	state, reason := jobs.States[i%len(jobs.States)], jobs.Reasons[i/7%len(jobs.Reasons)]
	switch i % 10 {
	case 6:
		dep = jobs.Dependency(fmt.Sprint("invented-", i/10%300))
	case 7:
		kind = jobs.Kind(fmt.Sprint("made-up-", i/10%300))
	case 8:
		dep, kind = jobs.Dependency(fmt.Sprint("invented-", i/10%300)), jobs.Kind(fmt.Sprint("made-up-", i/10%300))
	case 9: // a caller that takes an error text, a key or a number for a label
		class, why, call, result = jobs.Class(text), Refusal(text), Call(fmt.Sprint("attempt-", i)), Result(key)
		state, reason = jobs.State(text), jobs.Reason(s.instance)
	}
	callAll(s.m, dep, kind, call, result, why, class, state, reason)
}

// invented is what 300 dependencies and kinds look like in a shared Redis that this
// process does not know.
func invented() []DependencySnapshot {
	var out []DependencySnapshot
	for i := range 300 {
		s := typicalSnapshot
		s.Dependency = jobs.Dependency(fmt.Sprint("invented-", i))
		s.DeadLetters = map[jobs.Kind]map[jobs.Reason]int64{jobs.Kind(fmt.Sprint("made-up-", i)): {jobs.Reason(fmt.Sprint("order-", i)): 1}}
		s.Submissions = map[jobs.Kind]map[jobs.Answer]int64{jobs.Kind(fmt.Sprint("made-up-", i)): {jobs.Answer(fmt.Sprint("order-", i)): 1, jobs.Accepted: 2}}
		out = append(out, s)
	}
	for _, dep := range statedDependencies {
		s := typicalSnapshot
		s.Dependency = dep
		out = append(out, s)
	}
	return out
}

// restarted returns the metrics of one more instance.
func restarted() *Metrics {
	m := New(Options{Version: "v1.2.3", Revision: "abc", Schema: 1})
	m.Declare(statedDependencies, statedKinds)
	m.ObserveLedger(func(context.Context) ([]DependencySnapshot, error) { return invented(), nil })
	return m
}

// T89: what comes from outside (keys, tenants, error texts, numbers of attempts, names
// of instances, of dependencies and of kinds) becomes no series.
func TestT89WhatComesFromOutsideBecomesNoSeries(t *testing.T) {
	t.Parallel()
	// One process lives through all of it; of the others each sees a little, under a name of its own.
	long := story{m: restarted(), instance: "host-7-4711-cafe"}
	for i := range t89Operations {
		long.operation(i)
	}
	text := exposition(t, long.m)
	known, all := labelSets(gather(t, long.m)), seriesIn(wholeScrape(t, long.m))
	for i := range t89Restarts {
		short := story{m: New(Options{Version: "v1.2.3", Revision: "abc", Schema: 1}), instance: fmt.Sprintf("host-%d-%d", i, 1000+i)}
		short.m.Declare(statedDependencies, statedKinds)
		for n := range 10 {
			short.operation(10*i + n)
		}
		if i%10 > 0 {
			continue // scrapes take longer than all the rest here
		}
		for set := range labelSets(gather(t, short.m)) {
			if !known[set] {
				t.Fatalf("restart %d brought a series that no other process has: %s", i, set)
			}
		}
	}
	t.Logf("%d series after %d operations, %d of them ours", all, t89Operations, len(known))
	if all >= statedSeries {
		t.Errorf("%d series, want fewer than %d", all, statedSeries)
	}
	for _, leak := range []string{"order-", "tenant", "dial tcp", "attempt-", "host-", "invented", "made-up"} {
		if i := strings.Index(text, leak); i >= 0 {
			t.Errorf("%q became a label: %s", leak, text[max(0, i-80):min(len(text), i+80)])
		}
	}
	strange := t89Operations / 5 // of an invented dependency; as many of an invented kind
	for _, want := range []string{
		`redrive_operations{dependency="other",state="waiting"} 2100`,
		`redrive_oldest_due_age_seconds{dependency="other"} 90`,
		`redrive_drain_eta_seconds{dependency="other"} 40`,
		`redrive_deadline_misses_forecast{dependency="other"} 900`,
		`redrive_dead_letters{kind="other",reason="other"} 300`,
		`redrive_submissions_total{answer="accepted",kind="other"} 600`,
		`redrive_submissions_total{answer="other",kind="other"} 300`,
		fmt.Sprint(`redrive_idempotent_replays_total{dependency="other"} `, strange),
		fmt.Sprint(`redrive_operation_calls_count{kind="other"} `, strange),
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	for _, gate := range []string{`redrive_budget_tokens{dependency="other"}`, `redrive_breaker_state{dependency="other"`, `redrive_call_duration_seconds_count{call="first",class="2xx",dependency="other"`} {
		if strings.Contains(text, gate) {
			t.Errorf("several dependencies are shown as one: %s", gate)
		}
	}
}

// labelSets names each series of ours.
func labelSets(families []*dto.MetricFamily) map[string]bool {
	sets := map[string]bool{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			sets[name] = true
		}
	}
	return sets
}

// The bound that docs/metrics.md states, with every combination of labels that there can be.
func TestSeriesStayWithinTheStatedBound(t *testing.T) {
	t.Parallel()
	m := restarted()
	everything(m)
	n := seriesIn(wholeScrape(t, m))
	bound := len(statedDependencies)*ofADependency + len(statedKinds)*ofAKind + ofTheRest
	t.Logf("%d series of at most %d", n, bound)
	if n > bound || bound >= statedSeries {
		t.Errorf("%d series, docs/metrics.md promises at most %d, and fewer than %d", n, bound, statedSeries)
	}
}

// everything uses every label value that a caller can hand in, with every other.
func everything(m *Metrics) {
	for _, dep := range append([]jobs.Dependency{"elsewhere"}, statedDependencies...) {
		for _, kind := range append([]jobs.Kind{"unheard-of"}, slices.Sorted(maps.Keys(statedKinds))...) {
			for _, class := range jobs.Classes {
				for _, call := range append([]Call{"odd"}, Calls...) {
					m.Call(dep, kind, call, class, time.Second)
				}
				for _, why := range append([]Refusal{"odd"}, Refusals...) {
					m.RetryRefused(dep, why, class)
				}
			}
			for _, reason := range append([]jobs.Reason{"odd"}, jobs.Reasons...) {
				for _, state := range append([]jobs.State{"odd"}, jobs.States...) {
					m.OperationEnded(kind, state, reason, 1)
				}
				m.DeadLettersExpired(kind, reason, 1)
			}
			callTypical(m, dep, kind)
		}
	}
}
