package config

import (
	"strings"
	"testing"
	"time"
)

// dependency returns payrail of a configuration in which keys stand in its mapping.
func dependency(t *testing.T, keys string) *Dependency {
	t.Helper()
	return mustParse(t, strings.Replace(minimal, "payrail: {", "payrail: {"+keys+", ", 1)).Dependencies["payrail"]
}

func TestBreakerWindowFollowsATimeoutUnlessItIsWritten(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]time.Duration{
		"timeout: 1ms":                         10 * time.Second,
		"timeout: 10s":                         10 * time.Second,
		"timeout: 10001ms":                     11 * time.Second,
		"timeout: 12s":                         12 * time.Second,
		"timeout: 10m":                         10 * time.Minute,
		"breaker: {probes: 1}, timeout: 15s":   15 * time.Second, // the order of keys means nothing
		"timeout: 15s, breaker: {window: 20s}": 20 * time.Second,
		"timeout: 1s, breaker: {window: 1s}":   time.Second,
	} {
		if got := dependency(t, keys).Breaker.Window; got != want {
			t.Errorf("%s: window is %s, want %s", keys, got, want)
		}
	}
}

func TestBreakerOpensUpToItsOpenTimeUnlessMaxOpenIsWritten(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]time.Duration{
		"open: 1s":                 time.Minute,
		"open: 60s":                time.Minute,
		"open: 2m":                 2 * time.Minute,
		"open: 1h":                 time.Hour,
		"max_open: 3m, open: 2m":   3 * time.Minute,
		"open: 10s, max_open: 10s": 10 * time.Second,
	} {
		if got := dependency(t, "breaker: {"+keys+"}").Breaker.MaxOpen; got != want {
			t.Errorf("%s: max_open is %s, want %s", keys, got, want)
		}
	}
}

func TestGateTakesTheEndsOfItsRanges(t *testing.T) {
	t.Parallel()
	low := dependency(t, `timeout: 1s, rate: {per_second: 0, burst: 0}, drain: {max_per_second: 0},
  breaker: {window: 1s, min_calls: 1, failure_rate: 0.001, consecutive: 0, slow_call: 0, open: 1ms, max_open: 1ms, probes: 1, ramp: 0}`)
	if low.Rate != (Rate{}) || low.Drain != (Drain{}) ||
		low.Breaker != (Breaker{Window: time.Second, MinCalls: 1, FailureRateMilli: 1, Open: time.Millisecond, MaxOpen: time.Millisecond, Probes: 1}) {
		t.Errorf("got %+v %+v %+v", low.Rate, low.Drain, low.Breaker)
	}
	high := dependency(t, `rate: {per_second: 1000000, burst: 1000000}, drain: {max_per_second: 10000},
  breaker: {window: 10m, min_calls: 1000000, failure_rate: 1, consecutive: 1000, slow_call: 2999ms, open: 1h, max_open: 1h, probes: 100, ramp: 1h}`)
	if high.Rate != (Rate{MilliPerSecond: 1_000_000_000, Burst: 1_000_000}) || high.Drain != (Drain{MaxMilliPerSecond: 10_000_000}) ||
		high.Breaker != (Breaker{Window: 10 * time.Minute, MinCalls: 1_000_000, FailureRateMilli: 1000, Consecutive: 1000, SlowCall: 2999 * time.Millisecond,
			Open: time.Hour, MaxOpen: time.Hour, Probes: 100, Ramp: time.Hour}) {
		t.Errorf("got %+v %+v %+v", high.Rate, high.Drain, high.Breaker)
	}
}

func TestSlowCallIsWarnedOfOnlyWhereSomebodyWroteIt(t *testing.T) {
	t.Parallel()
	const sound = "operations: {charge: {dependency: payrail, request: {path: /c}, idempotency: natural}}\n"
	for keys, want := range map[string]int{
		"timeout: 1s":                                 0, // the default of 2s is above it, and nobody's mistake
		"timeout: 2s, breaker: {probes: 1}":           0,
		"timeout: 2s, breaker: {slow_call: 1999ms}":   0,
		"timeout: 2s, breaker: {slow_call: 0}":        0,
		"timeout: 2s, breaker: {slow_call: 2s}":       1,
		"timeout: 1s, breaker: {slow_call: 5s}":       1,
		"timeout: 2s, breaker: {<<: {slow_call: 2s}}": 1,
	} {
		c := mustParse(t, "redis: {url: \"redis://127.0.0.1:6379/0\"}\ndependencies: {payrail: {base_url: https://a.example, "+keys+"}}\n"+sound)
		got := c.Warnings()
		if len(got) != want || want == 1 && !strings.HasPrefix(got[0], "dependencies.payrail.breaker.slow_call: ") {
			t.Errorf("%s: got %q, want %d warnings", keys, got, want)
		}
	}
	c := built()
	c.Kinds["charge"].Idempotency = "natural"
	c.Dependencies["payrail"].Breaker.SlowCall = time.Minute
	if got := c.Warnings(); len(got) != 0 {
		t.Errorf("a configuration built in code was written by nobody, and got %q", got)
	}
}
