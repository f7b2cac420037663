package outage

import (
	"time"
)

// evaluateEach is how often Prometheus would look at the rules.
const evaluateEach = 15 * time.Second

// rule is an alert: what must hold, and for how long.
type rule struct {
	name, text string
	holds      time.Duration // for
	holdsFunc  func(at time.Duration) bool
}

// fires looks at a rule as Prometheus does: it is pending from the first look at which
// it holds, fires at the first look after holds has passed, and one look at which it does
// not hold ends it. The first time that it fires counts.
func fires(r rule, end time.Duration) Alert {
	a := Alert{Name: r.name, Rule: r.text, For: r.holds}
	pending := false
	for at := evaluateEach; at <= end; at += evaluateEach {
		switch {
		case !r.holdsFunc(at):
			pending = false
			continue
		case !pending:
			pending, a.Began = true, at
		}
		if at-a.Began >= r.holds {
			a.Fired, a.At = true, at
			return a
		}
	}
	if !a.Fired {
		a.Began = 0
	}
	return a
}

// counter is a counter as it is scraped: its value at the end of each [every], from 0.
type counter []float64

// increase is how much it grew in the span that ends at an instant: what is last known
// then against what was known at its beginning.
func (c counter) increase(at, span time.Duration) float64 { return c.value(at) - c.value(at-span) }

func (c counter) value(at time.Duration) float64 {
	i := min(int(at/every), len(c))
	if i < 1 {
		return 0
	}
	return c[i-1]
}

// tally counts instants: the counter of those that lie before each sample.
func tally(instants []time.Duration, end time.Duration) counter {
	c := make(counter, int(end/every)+1)
	for _, at := range instants {
		if i := int(at / every); at >= 0 && i < len(c) {
			c[i]++
		}
	}
	for i := 1; i < len(c); i++ {
		c[i] += c[i-1]
	}
	return c
}

// gauge is what the gate's samples say, at the end of each [every].
func gauge(samples []GateSample, end time.Duration, of func(*GateSample) float64) counter {
	c := make(counter, int(end/every)+1)
	next := 0
	last := 0.0
	for i := range c {
		for next < len(samples) && samples[next].At < time.Duration(i+1)*every {
			last = of(&samples[next])
			next++
		}
		c[i] = last
	}
	return c
}

// observed is what the rules look at.
type observed struct {
	end                     time.Duration
	gate                    []GateSample
	firsts, firstsFailed    []time.Duration // ends of redrive's first attempts
	ended, failed           []time.Duration // ends of redrive's orders
	naiveEnded, naiveFailed []time.Duration
	compared                bool // there is a naive client
}

// The names, spans and shares are those of the rules that are shipped for Prometheus,
// where there is such a rule.
const (
	refusedSpan  = time.Minute
	failureSpan  = 5 * time.Minute
	failureShare = 0.05

	alertBudget  = "RedriveRetriesRefusedForBudget"
	alertRefused = "RedriveRetriesRefused"
	alertBreaker = "RedriveBreakerOpen"
	alertFirsts  = "RedriveFailureRateHigh"
	alertOrders  = "OrderFailureRate"
	alertNaive   = "OrderFailureRateOfNaive"
)

// alertsOf evaluates every rule.
func alertsOf(o observed) []Alert {
	budget := gauge(o.gate, o.end, func(g *GateSample) float64 { return float64(g.Refused["budget"]) })
	refused := gauge(o.gate, o.end, func(g *GateSample) float64 {
		sum := 0.0
		for _, reason := range gateReasons {
			sum += float64(g.Refused[reason])
		}
		return sum
	})
	open := gauge(o.gate, o.end, func(g *GateSample) float64 {
		if g.Breaker == "closed" {
			return 0
		}
		return 1
	})
	grows := func(c counter) func(time.Duration) bool {
		return func(at time.Duration) bool { return c.increase(at, refusedSpan) > 0 }
	}
	rate := func(all, failed []time.Duration) func(time.Duration) bool {
		n, bad := tally(all, o.end), tally(failed, o.end)
		return func(at time.Duration) bool {
			of := n.increase(at, failureSpan)
			return of > 0 && bad.increase(at, failureSpan)/of > failureShare
		}
	}
	rules := []rule{
		{alertBudget, "increase(retries refused for the budget)[1m] > 0 for 2m", 2 * time.Minute, grows(budget)},
		{alertRefused, "increase(retries refused by the gate, whatever the reason)[1m] > 0 for 2m", 2 * time.Minute, grows(refused)},
		{alertBreaker, "breaker not closed for 5m", 5 * time.Minute, func(at time.Duration) bool { return open.value(at) > 0 }},
		{alertFirsts, "more than 5 % of first attempts failed over 5m, for 5m", failureSpan, rate(o.firsts, o.firstsFailed)},
		{alertOrders, "more than 5 % of redrive's orders ended in failure over 5m, for 5m", failureSpan, rate(o.ended, o.failed)},
	}
	if o.compared {
		rules = append(rules, rule{alertNaive, "more than 5 % of the naive client's orders ended in failure over 5m, for 5m", failureSpan, rate(o.naiveEnded, o.naiveFailed)})
	}
	alerts := make([]Alert, len(rules))
	for i, r := range rules {
		alerts[i] = fires(r, o.end)
	}
	return alerts
}

// gateReasons are those for which the gate itself holds a retry back.
var gateReasons = []string{"budget", "breaker", "ramp", "lane", "in_flight", "rate", "rate_hint", "paused"}
