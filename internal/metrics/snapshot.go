package metrics

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"redrive/internal/jobs"
)

// snapshotTimeout bounds how long a scrape waits for the ledger.
const snapshotTimeout = 2 * time.Second

// DependencySnapshot is the state of one dependency in the ledger, as all
// processes see it.
type DependencySnapshot struct {
	Dependency jobs.Dependency

	Tokens     float64 // retry tokens there are
	Cap        float64 // most tokens there can be, an override included; 0 until a worker has said what is configured
	Ratio      float64 // tokens per first attempt, likewise
	Overridden bool    // a person's override is in force
	Paused     bool    // by a person, a refused credential, or a rollback of the store
	Breaker    string  // one of [BreakerStates]

	Operations map[jobs.State]int64 // by state; a missing state counts 0
	Held       map[jobs.Hold]int64  // due operations the gate holds; a missing reason counts 0

	OldestDueAge        time.Duration // how long the oldest due operation has waited beyond its time; 0: none is due
	OldestUnresolvedAge time.Duration // how long the oldest unresolved operation has been so; 0: none is

	DrainETA       time.Duration // until the backlog has left at the rate of this moment; 0: there is none
	DrainStuck     bool          // nothing of the backlog leaves now: DrainETA does not count
	DeadlineMisses int64         // operations of the backlog that will not be sent before their deadline at this rate

	DeadLetters map[jobs.Kind]map[jobs.Reason]int64

	// Submissions are those that the ledger answered since it began to count, by whom
	// ever they were made; a missing answer counts 0. They only grow.
	Submissions map[jobs.Kind]map[jobs.Answer]int64
}

// drainETA is DrainETA in seconds, infinite while nothing leaves.
func (s DependencySnapshot) drainETA() float64 {
	if s.DrainStuck {
		return math.Inf(1)
	}
	return s.DrainETA.Seconds()
}

// SnapshotFunc reads the state of every dependency. It is called once per scrape
// and must cost the same whatever the number of operations: sizes of indexes, never
// their members. It ends with its context.
type SnapshotFunc func(context.Context) ([]DependencySnapshot, error)

// ObserveLedger adds the state of the ledger to the metrics. When read returns an
// error these metrics are missing from that scrape (a stale number would look like
// a true one) and the error is logged. Call it once.
func (m *Metrics) ObserveLedger(read SnapshotFunc) {
	m.registry.MustRegister(&ledgerCollector{read: read, declared: &m.declared, log: m.log})
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	tokensDesc     = desc("budget_tokens", "Retry tokens there are.", "dependency")
	capDesc        = desc("budget_cap", "Most retry tokens there can be, an override included.", "dependency")
	ratioDesc      = desc("budget_ratio", "Retry tokens that each first attempt adds, an override included.", "dependency")
	overrideDesc   = desc("gate_override", "1 while a person's override of the gate is in force, else 0.", "dependency")
	pausedDesc     = desc("paused", "1 while a person, a refused credential or a rollback of Redis holds the dependency, else 0.", "dependency")
	breakerDesc    = desc("breaker_state", "1 for the state that the breaker is in, 0 for the others.", "dependency", "state")
	operationsDesc = desc("operations", "Operations by state.", "dependency", "state")
	heldDesc       = desc("held_operations", "Due operations that the gate holds, by why.", "dependency", "reason")
	dueAgeDesc     = desc("oldest_due_age_seconds", "How long the oldest due operation has waited beyond its time, 0 when none is due.", "dependency")
	askAgeDesc     = desc("oldest_unresolved_age_seconds", "How long the oldest unresolved operation has been so, 0 when none is.", "dependency")
	etaDesc        = desc("drain_eta_seconds", "Until the backlog has left at the rate of this moment: 0 without backlog, +Inf while nobody knows.", "dependency")
	missesDesc     = desc("deadline_misses_forecast", "Operations of the backlog that will not be sent before their deadline at the rate of this moment.", "dependency")
	deadDesc       = desc("dead_letters", "Dead letters that wait for a person.", "kind", "reason")
	submittedDesc  = desc("submissions_total", "Submissions of all processes by the ledger's answer.", "kind", "answer")
)

// ledgerCollector reads the ledger when it is scraped.
type ledgerCollector struct {
	read     SnapshotFunc
	declared *declared
	log      *slog.Logger
}

// Describe implements prometheus.Collector.
func (*ledgerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{tokensDesc, capDesc, ratioDesc, overrideDesc, pausedDesc, breakerDesc, operationsDesc, heldDesc,
		dueAgeDesc, askAgeDesc, etaDesc, missesDesc, deadDesc, submittedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *ledgerCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), snapshotTimeout)
	defer cancel()
	read, err := c.read(ctx)
	if err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "state of the ledger is missing from a scrape", slog.Any("err", err))
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	dead, submitted := perKind(c.declared, jobs.Reasons), perKind(c.declared, Answers)
	for _, s := range c.merge(read) {
		dep := string(s.Dependency)
		if dep != other { // several gates have no common number
			gauge(tokensDesc, s.Tokens, dep)
			gauge(capDesc, s.Cap, dep)
			gauge(ratioDesc, s.Ratio, dep)
			gauge(overrideDesc, bit(s.Overridden), dep)
			gauge(pausedDesc, bit(s.Paused), dep)
			for _, state := range BreakerStates {
				gauge(breakerDesc, bit(s.Breaker == state), dep, state)
			}
		}
		for _, state := range jobs.States {
			gauge(operationsDesc, float64(s.Operations[state]), dep, string(state))
		}
		for _, hold := range jobs.Holds {
			gauge(heldDesc, float64(s.Held[hold]), dep, string(hold))
		}
		gauge(dueAgeDesc, s.OldestDueAge.Seconds(), dep)
		gauge(askAgeDesc, s.OldestUnresolvedAge.Seconds(), dep)
		gauge(etaDesc, s.drainETA(), dep)
		gauge(missesDesc, float64(s.DeadlineMisses), dep)
		dead.add(c.declared, s.DeadLetters)
		submitted.add(c.declared, s.Submissions)
	}
	dead.each(func(kind, reason string, n int64) { gauge(deadDesc, float64(n), kind, reason) })
	submitted.each(func(kind, answer string, n int64) {
		ch <- prometheus.MustNewConstMetric(submittedDesc, prometheus.CounterValue, float64(n), kind, answer)
	})
}

// merge puts the dependencies that stand in Redis but not in this process's
// configuration together as "other": counts are added, the greatest age and wait stay.
func (c *ledgerCollector) merge(read []DependencySnapshot) []DependencySnapshot {
	var merged []DependencySnapshot
	rest := DependencySnapshot{
		Dependency:  other,
		Operations:  map[jobs.State]int64{},
		Held:        map[jobs.Hold]int64{},
		DeadLetters: map[jobs.Kind]map[jobs.Reason]int64{},
		Submissions: map[jobs.Kind]map[jobs.Answer]int64{},
	}
	undeclared := false
	for _, s := range read {
		if c.declared.dependency(s.Dependency) != other {
			merged = append(merged, s)
			continue
		}
		undeclared = true
		for state, n := range s.Operations {
			rest.Operations[state] += n
		}
		for hold, n := range s.Held {
			rest.Held[hold] += n
		}
		sum(rest.DeadLetters, s.DeadLetters)
		sum(rest.Submissions, s.Submissions)
		rest.OldestDueAge = max(rest.OldestDueAge, s.OldestDueAge)
		rest.OldestUnresolvedAge = max(rest.OldestUnresolvedAge, s.OldestUnresolvedAge)
		rest.DrainETA = max(rest.DrainETA, s.DrainETA)
		rest.DrainStuck = rest.DrainStuck || s.DrainStuck
		rest.DeadlineMisses += s.DeadlineMisses
	}
	if undeclared {
		merged = append(merged, rest)
	}
	return merged
}
