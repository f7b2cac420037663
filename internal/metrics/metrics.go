package metrics

import (
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"redrive/internal/jobs"
)

// namespace prefixes every name.
const namespace = "redrive"

// Options describe the build that build_info shows.
type Options struct {
	Version  string // of the binary; "" is shown as "unknown"
	Revision string // of the sources; "" is shown as "unknown"
	Schema   int    // schema number of the records in Redis

	// Log receives a line when the state of the ledger could not be read for
	// a scrape. nil: no line.
	Log *slog.Logger
}

// Metrics are the metrics of one process. All methods are safe for concurrent use
// and none blocks on the network except a scrape.
type Metrics struct {
	registry *prometheus.Registry
	declared declared
	log      *slog.Logger

	calls           *prometheus.CounterVec
	callDuration    *prometheus.HistogramVec
	firstAttempts   *prometheus.CounterVec
	retriesRefused  *prometheus.CounterVec
	retryDelay      *prometheus.HistogramVec
	startLateness   *prometheus.HistogramVec
	slots           *prometheus.GaugeVec
	slotsBusy       *prometheus.GaugeVec
	lastPoll        *prometheus.GaugeVec
	ended           *prometheus.CounterVec
	operationCalls  *prometheus.HistogramVec
	deadExpired     *prometheus.CounterVec
	staleDeliveries *prometheus.CounterVec
	rescued         *prometheus.CounterVec
	lateResults     *prometheus.CounterVec
	conflicts       *prometheus.CounterVec
	replays         *prometheus.CounterVec

	clockSteps         prometheus.Counter
	rollbacks          prometheus.Counter
	resultWriteRetries prometheus.Counter
	panics             prometheus.Counter
	redisUp            prometheus.Gauge
	redisDurable       prometheus.Gauge
	clockSkew          prometheus.Gauge
}

// Bucket bounds, in seconds unless said otherwise. Durations of calls span what
// a timeout may be set to, delays what a backoff or a Retry-After may ask for.
var (
	callBuckets     = []float64{.1, .25, .5, 1, 2, 5, 15} // few: there is one histogram for each sort of call and class
	delayBuckets    = []float64{.1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}
	latenessBuckets = []float64{.001, .005, .01, .025, .05, .1, .25, 1, 5, 30, 300, 3600}
	amplifyBuckets  = []float64{1, 2, 3, 4, 5, 8, 13, 25, 50, 100} // calls
)

// New returns metrics without a declared dependency or kind: see [Metrics.Declare].
func New(o Options) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		declared: declared{dependencies: map[jobs.Dependency]bool{}, kinds: map[jobs.Kind]jobs.Dependency{}},
		log:      o.Log,
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.calls = m.counters("calls_total", "Network calls made: attempts and inquiries.", "dependency", "kind", "call", "class")
	m.callDuration = m.histograms("call_duration_seconds", "How long network calls took.", callBuckets, "dependency", "call", "class")
	m.firstAttempts = m.counters("first_attempts_total", "First attempts, those of the request path included: what fills the retry budget.", "dependency", "result")
	m.retriesRefused = m.counters("retries_refused_total", "Retries that could not go at their due time, or were stopped, by why and by the class of the last answer.", "dependency", "reason", "class")
	m.retryDelay = m.histograms("retry_delay_seconds", "Delay given to the next attempt after one that failed.", delayBuckets, "dependency")
	m.startLateness = m.histograms("start_lateness_seconds", "How much later than due an attempt was sent.", latenessBuckets, "dependency")
	m.slots = m.gauges("slots", "Calls this process may run at once.", "dependency")
	m.slotsBusy = m.gauges("slots_busy", "Calls this process runs now.", "dependency")
	m.lastPoll = m.gauges("last_poll_timestamp_seconds", "When this process last asked the gate for due operations, as Unix time.", "dependency")
	m.ended = m.counters("operations_ended_total", "Operations that ended, by state; the reason is that of a dead letter.", "kind", "state", "reason")
	m.operationCalls = m.histograms("operation_calls", "Network calls per ended operation: the amplification.", amplifyBuckets, "kind")
	m.deadExpired = m.counters("dead_letters_expired_total", "Dead letters removed because retention.dead had passed.", "kind", "reason")
	m.staleDeliveries = m.counters("stale_deliveries_total", "Deliveries dropped because the ledger had moved on.", "dependency")
	m.rescued = m.counters("rescued_total", "Operations taken back from a lost worker.", "dependency")
	m.lateResults = m.counters("late_results_total", "Results recorded by a worker that no longer held the claim.", "dependency")
	m.conflicts = m.counters("conflicts_total", "Operations whose results contradict each other.", "dependency")
	m.replays = m.counters("idempotent_replays_total", "Answers to attempts that said that they repeat an earlier one, given under the same key.", "dependency")

	m.rollbacks = m.counter("ledger_rollbacks_total", "Times that Redis was found to have lost attempts it had acknowledged.")
	m.clockSteps = m.counter("clock_steps_total", "Steps of Redis' clock against this process's monotonic clock.")
	m.resultWriteRetries = m.counter("result_write_retries_total", "Results written again because Redis had not taken them.")
	m.panics = m.counter("panics_total", "Panics caught in handlers.")
	m.redisUp = m.gauge("redis_up", "1 while Redis answers and takes writes, else 0.")
	m.redisDurable = m.gauge("redis_durable", "1 while Redis is as durable as the configuration asks for, else 0.")
	m.clockSkew = m.gauge("clock_skew_seconds", "This process's wall clock minus Redis' clock.")

	buildInfo := m.gauges("build_info", "1, with the build in its labels.", "version", "revision", "go", "schema")
	buildInfo.WithLabelValues(orUnknown(o.Version), orUnknown(o.Revision), runtime.Version(), strconv.Itoa(o.Schema)).Set(1)
	return m
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Declare names the dependencies, and the kinds with their dependency, that may
// be label values, and creates their counters with 0. What is not declared is
// counted under "other". It may be called again; it only adds.
func (m *Metrics) Declare(deps []jobs.Dependency, kinds map[jobs.Kind]jobs.Dependency) {
	m.declared.add(deps, kinds)
	for _, dep := range deps {
		d := string(dep)
		for _, r := range Results {
			m.firstAttempts.WithLabelValues(d, string(r))
		}
		for _, r := range Refusals {
			for _, c := range jobs.Classes {
				m.retriesRefused.WithLabelValues(d, string(r), string(c))
			}
		}
		for _, v := range []*prometheus.CounterVec{m.staleDeliveries, m.rescued, m.lateResults, m.conflicts, m.replays} {
			v.WithLabelValues(d)
		}
		for _, v := range []*prometheus.HistogramVec{m.retryDelay, m.startLateness} {
			v.WithLabelValues(d)
		}
		for _, call := range Calls {
			for _, c := range jobs.Classes {
				if timed(c) {
					m.callDuration.WithLabelValues(d, string(call), string(c))
				}
			}
		}
		m.slotsBusy.WithLabelValues(d)
	}
	for kind, dep := range kinds {
		k := string(kind)
		for _, call := range Calls {
			for _, c := range jobs.Classes {
				m.calls.WithLabelValues(string(dep), k, string(call), string(c))
			}
		}
		for _, r := range jobs.Reasons {
			m.ended.WithLabelValues(k, string(jobs.Dead), string(r))
			m.deadExpired.WithLabelValues(k, string(r))
		}
		for _, end := range Ends {
			if end != jobs.Dead {
				m.ended.WithLabelValues(k, string(end), "")
			}
		}
		m.operationCalls.WithLabelValues(k)
	}
}

// Handler serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Gatherer gives the metrics to a reader inside the process, such as a test.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Call counts one network call and how long it took. The durations of undeclared
// dependencies, which have nothing in common, are not kept.
func (m *Metrics) Call(dep jobs.Dependency, kind jobs.Kind, call Call, class jobs.Class, took time.Duration) {
	d, k := m.declared.pair(dep, kind)
	c, cl := label(call, Calls), jobs.Class(label(class, jobs.Classes))
	m.calls.WithLabelValues(d, k, c, string(cl)).Inc()
	if d != other && c != other && timed(cl) {
		m.callDuration.WithLabelValues(d, c, string(cl)).Observe(took.Seconds())
	}
}

// timed reports whether calls of a class have a duration: of one that died with its
// worker nobody knows it.
func timed(c jobs.Class) bool { return c != jobs.ClassWorkerLost }

// FirstAttempts counts n first attempts, a worker's or the request path's.
func (m *Metrics) FirstAttempts(dep jobs.Dependency, result Result, n int) {
	m.firstAttempts.WithLabelValues(m.declared.dependency(dep), label(result, Results)).Add(float64(n))
}

// RetryRefused counts a retry that could not go when it was due, or was stopped;
// class is that of the operation's last answer; for an undeclared dependency it is
// "other", as everything about it.
func (m *Metrics) RetryRefused(dep jobs.Dependency, why Refusal, class jobs.Class) {
	d, cl := m.declared.dependency(dep), label(class, jobs.Classes)
	if d == other {
		cl = other
	}
	m.retriesRefused.WithLabelValues(d, label(why, Refusals), cl).Inc()
}

// RetryDelay observes the delay given to an operation's next attempt.
func (m *Metrics) RetryDelay(dep jobs.Dependency, delay time.Duration) {
	m.retryDelay.WithLabelValues(m.declared.dependency(dep)).Observe(delay.Seconds())
}

// StartLateness observes how much later than due an attempt was sent.
func (m *Metrics) StartLateness(dep jobs.Dependency, late time.Duration) {
	m.startLateness.WithLabelValues(m.declared.dependency(dep)).Observe(late.Seconds())
}

// Slots sets how many calls this process may run at once.
func (m *Metrics) Slots(dep jobs.Dependency, n int) {
	m.slots.WithLabelValues(m.declared.dependency(dep)).Set(float64(n))
}

// SlotTaken counts a slot as busy until [Metrics.SlotFreed].
func (m *Metrics) SlotTaken(dep jobs.Dependency) {
	m.slotsBusy.WithLabelValues(m.declared.dependency(dep)).Inc()
}

// SlotFreed ends what [Metrics.SlotTaken] began.
func (m *Metrics) SlotFreed(dep jobs.Dependency) {
	m.slotsBusy.WithLabelValues(m.declared.dependency(dep)).Dec()
}

// Polled records that the gate was asked for due operations at the instant at.
func (m *Metrics) Polled(dep jobs.Dependency, at time.Time) {
	m.lastPoll.WithLabelValues(m.declared.dependency(dep)).Set(float64(at.UnixMilli()) / 1e3)
}

// OperationEnded counts the end of an operation and the calls it took. reason
// counts for [jobs.Dead] alone.
func (m *Metrics) OperationEnded(kind jobs.Kind, state jobs.State, reason jobs.Reason, calls int) {
	k := m.declared.kind(kind)
	m.ended.WithLabelValues(k, label(state, Ends), endLabel(state, reason)).Inc()
	m.operationCalls.WithLabelValues(k).Observe(float64(calls))
}

// DeadLettersExpired counts n dead letters that retention removed.
func (m *Metrics) DeadLettersExpired(kind jobs.Kind, reason jobs.Reason, n int) {
	m.deadExpired.WithLabelValues(m.declared.kind(kind), label(reason, jobs.Reasons)).Add(float64(n))
}

// StaleDelivery counts a delivery that was dropped because the ledger had moved on.
func (m *Metrics) StaleDelivery(dep jobs.Dependency) { m.inc(m.staleDeliveries, dep) }

// Rescued counts an operation taken back from a lost worker.
func (m *Metrics) Rescued(dep jobs.Dependency) { m.inc(m.rescued, dep) }

// LateResult counts a result that came from a worker without the claim.
func (m *Metrics) LateResult(dep jobs.Dependency) { m.inc(m.lateResults, dep) }

// Conflict counts an operation whose results contradict each other.
func (m *Metrics) Conflict(dep jobs.Dependency) { m.inc(m.conflicts, dep) }

// IdempotentReplay counts the answer to an attempt that said that it repeats an
// earlier one, given under the same key.
func (m *Metrics) IdempotentReplay(dep jobs.Dependency) { m.inc(m.replays, dep) }

func (m *Metrics) inc(v *prometheus.CounterVec, dep jobs.Dependency) {
	v.WithLabelValues(m.declared.dependency(dep)).Inc()
}

// LedgerRollback counts one rollback of the store that this process noticed.
func (m *Metrics) LedgerRollback() { m.rollbacks.Inc() }

// ClockStep counts a step of Redis' clock.
func (m *Metrics) ClockStep() { m.clockSteps.Inc() }

// ResultWriteRetry counts a result that was written again.
func (m *Metrics) ResultWriteRetry() { m.resultWriteRetries.Inc() }

// Panic counts a panic caught in a handler.
func (m *Metrics) Panic() { m.panics.Inc() }

// RedisUp says whether Redis answers and takes writes.
func (m *Metrics) RedisUp(up bool) { m.redisUp.Set(bit(up)) }

// RedisDurable says whether Redis is as durable as configured.
func (m *Metrics) RedisDurable(durable bool) { m.redisDurable.Set(bit(durable)) }

// ClockSkew sets this process's wall clock minus Redis' clock.
func (m *Metrics) ClockSkew(skew time.Duration) { m.clockSkew.Set(skew.Seconds()) }

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
