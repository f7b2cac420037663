package metrics

import "github.com/prometheus/client_golang/prometheus"

// The constructors register under the prefix and panic on a name declared twice:
// that is a mistake in New, found by its first test.

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	return m.counters(name, help).WithLabelValues()
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return m.gauges(name, help).WithLabelValues()
}
