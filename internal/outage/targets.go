package outage

import (
	"fmt"
	"slices"
	"time"
)

// verdict is what the targets are judged by.
type verdict struct {
	*Report
	scenario *Scenario
	clock    clock
	calls    map[Client][]arrival
	accounts map[Client]*Account
	slips    []time.Duration // how late each customer was let in
}

// judgeFunc says what a scenario must reach, and whether it did. What cannot be said
// without a client that was not played is left out.
type judgeFunc func(*verdict) []Target

func target(reached bool, name, want, format string, args ...any) Target {
	return Target{Name: name, Want: want, Got: fmt.Sprintf(format, args...), Reached: reached}
}

// targets are the scenario's own, and those of each.
func (v *verdict) targets() []Target {
	var all []Target
	for _, judge := range append(slices.Clone(v.scenario.judge), nothingLost, keptUp) {
		all = append(all, judge(v)...)
	}
	return all
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func loadStays(v *verdict) []Target {
	got := v.accounts[Redrive].LoadFirstMinute
	return []Target{target(got <= 1.1, "load in the first minute of the outage", "at most 1.10 times the first attempts", "%.3f", got)}
}

func naiveLoad(v *verdict) []Target {
	naive := v.accounts[Naive]
	if naive == nil {
		return nil
	}
	return []Target{target(naive.LoadFirstMinute >= 3.5, "the same of the naive client, to compare with", "at least 3.50", "%.3f", naive.LoadFirstMinute)}
}

// holdStays allows a fifth for handing over, on a clock that makes it longer than it is.
func holdStays(v *verdict) []Target {
	got := v.accounts[Redrive].HoldTime
	return []Target{target(got <= timeout*6/5, "how long a customer of the outage waits", "about one timeout: at most 1.20 s", "%s", seconds(got))}
}

// holdShorter is for gateways that keep customers waiting: where calls fail at once,
// so does whoever gives up.
func holdShorter(v *verdict) []Target {
	naive := v.accounts[Naive]
	if naive == nil {
		return nil
	}
	got := v.accounts[Redrive].HoldTime
	return []Target{target(5*got <= 2*naive.HoldTime, "against the naive client's", "at most 0.4 of it", "%s against %s", seconds(got), seconds(naive.HoldTime))}
}

func budgetBeforeFailures(v *verdict) []Target {
	alerts := map[string]Alert{}
	for _, a := range v.Alerts {
		alerts[a.Name] = a
	}
	budget := alerts[alertBudget]
	fired := func(a Alert) string {
		if !a.Fired {
			return "never"
		}
		return "at " + a.At.Round(time.Second).String()
	}
	first := budget.Fired
	for _, name := range []string{alertFirsts, alertOrders, alertNaive} {
		if a := alerts[name]; a.Fired && a.At <= budget.At {
			first = false
		}
	}
	return []Target{target(first, "the budget's alert fires before any of the failure rate", "first", "budget %s, failed first attempts %s, failed orders %s, the naive client's %s",
		fired(budget), fired(alerts[alertFirsts]), fired(alerts[alertOrders]), fired(alerts[alertNaive]))}
}

func delaysFlat(v *verdict) []Target {
	delays, judged, flat := 0, 0, true
	worst := 1.0
	for _, b := range v.Bands {
		delays += b.Delays
		if b.Judged {
			judged++
			flat = flat && b.Flat
			worst = min(worst, b.P)
		}
	}
	return []Target{target(judged > 0 && flat && delays >= 1000, "retry delays are spread evenly in each band", "chi-square at 1 % for all bands of 100 delays or more, 1,000 in all",
		"p at least %.4f in %d bands (want %.4f), %d delays in all", worst, judged, flatAt/float64(max(judged, 1)), delays)}
}

func breakerOpens(v *verdict) []Target {
	const within = 30 * time.Second
	from, to := v.scenario.outage()
	for _, g := range v.Gate {
		if g.At >= from && g.At < to && g.Breaker != "closed" {
			return []Target{target(g.At-from <= within, "the breaker opens", "within 30 s of the outage", "after %s", seconds(g.At-from))}
		}
	}
	return []Target{target(false, "the breaker opens", "within 30 s of the outage", "never")}
}

// drainsGently: what the configuration allows beside the customers' own calls.
func drainsGently(v *verdict) []Target {
	const span = 10 * time.Second
	_, to := v.scenario.outage()
	customers := float64(v.scenario.PerMin) / 60
	// Customers come in slots: ten seconds may hold one more than their share.
	allowed := customers*(1+ratio) + floor + v.scenario.gate.drain + (tokens+probes+1)/span.Seconds()
	most, first := 0, 0
	calls := v.calls[Redrive]
	for i := range calls {
		for calls[i].at-calls[first].at > span {
			first++
		}
		if calls[first].at >= to {
			most = max(most, i-first+1)
		}
	}
	got := float64(most) / span.Seconds()
	last := time.Duration(0)
	for _, g := range v.Gate {
		if g.Backlog > 0 {
			last = g.At
		}
	}
	drained := v.Gate[len(v.Gate)-1].Backlog == 0
	return []Target{
		target(got <= allowed, "most calls a second after the recovery, over ten seconds", fmt.Sprintf("customers, lane and budget: at most %.1f", allowed), "%.1f", got),
		target(drained && last <= deadline, "the backlog has left", "before its deadline of "+deadline.String(), "%s after the recovery", (last - to).Round(time.Second)),
	}
}

// hintsKept: Retry-After is in seconds of the wall, and so is what it is held to.
func hintsKept(v *verdict) []Target {
	asked := time.Duration(float64(time.Second-time.Millisecond) * v.clock.speed)
	refusedAt := map[string]time.Duration{}
	early, hints := 0, 0
	for _, c := range v.calls[Redrive] {
		if c.inquiry {
			continue
		}
		if at, ok := refusedAt[c.reference]; ok && c.at < at+asked {
			early++
		}
		delete(refusedAt, c.reference)
		if c.status == 429 {
			refusedAt[c.reference] = c.ended
			hints++
		}
	}
	return []Target{target(early == 0 && hints > 0, "retries earlier than Retry-After", "0", "%d of %d that were asked to wait", early, hints)}
}

// deployKeepsGate: what was known when the first worker left is known until the outage ends.
func deployKeepsGate(v *verdict) []Target {
	_, to := v.scenario.outage()
	deployed := v.scenario.deploy[0].at
	before, most := 0.0, 0.0
	closed := 0
	for _, g := range v.Gate {
		switch {
		case g.At < deployed:
			before = g.Tokens
		case g.At < to:
			most = max(most, g.Tokens)
			if g.Breaker == "closed" {
				closed++
			}
		}
	}
	return []Target{
		target(closed == 0, "the breaker is closed between the deployment and the recovery", "never", "in %d samples", closed),
		target(most <= before, "tokens after the deployment", fmt.Sprintf("no more than before: %.1f", before), "%.1f at most", most),
	}
}

func nothingLost(v *verdict) []Target {
	a := v.accounts[Redrive]
	ended := a.Succeeded + a.Declined + a.Failed
	return []Target{
		target(a.RetriesOn4xx == 0, "calls again after a refusal for good", "0", "%d", a.RetriesOn4xx),
		target(a.ChargedTwice == 0, "charged twice", "0", "%d", a.ChargedTwice),
		target(a.Unknowingly == 0, "charged and not known of", "0", "%d", a.Unknowingly),
		target(ended == a.FirstAttempts && a.Failed == 0, "orders that ended, and none in failure", fmt.Sprintf("%d, 0", a.FirstAttempts), "%d, %d", ended, a.Failed),
	}
}

// keptUp: where the machine is too busy, the figures say more of it than of the clients.
func keptUp(v *verdict) []Target {
	const most, rare = 250 * time.Millisecond, time.Second
	slips := slices.Sorted(slices.Values(v.slips))
	if len(slips) == 0 {
		return []Target{target(false, "the machine kept up", "customers", "none")}
	}
	p99, p999, last := slips[len(slips)*99/100], slips[len(slips)*999/1000], slips[len(slips)-1]
	return []Target{target(p99 <= most && p999 <= rare, "the machine kept up: customers are let in late", "99 of 100 by at most 0.25 s, 999 of 1,000 by at most 1 s",
		"%s, %s; the last by %s", seconds(p99), seconds(p999), seconds(last))}
}
