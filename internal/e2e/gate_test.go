package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

const (
	outageRatio = 0.1
	outageFloor = 0.2 // tokens a second
	outageCap   = 10  // tokens
)

// TestT69AFailingDependencyLeavesTheOthersAlone: a dependency that fails everything
// while a thousand operations come due gets little more than probes, and no rush when
// it is back; the one beside it, with the same traffic and the same workers, notices
// nothing. With -outage 60s it is a minute of it.
func TestT69AFailingDependencyLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	const (
		before      = 2 * time.Second
		after       = 7 * time.Second // opens for 2 s at most, ramps for 2, then the lane
		open        = time.Second
		probes      = 3
		consecutive = 5
		inFlight    = 40
		lateMost    = 2 * time.Second // of what is due on a healthy dependency; held by the other, it would wait for the whole outage
	)
	server, bad, good := redisServer(t), startGateway(t), startGateway(t)
	// What budget and lane add stays below a fifth of the traffic: the operator's job.
	perSecond := newTraffic(time.Time{}).perSecond()
	dependency := func(g gateway) string {
		return fmt.Sprintf("base_url: '%s', timeout: 5s, slots: 10, max_in_flight: %d, budget: {ratio: %g, floor_per_second: %g, cap: %d}, drain: {max_per_second: %.3f}, "+
			"breaker: {window: 10s, consecutive: %d, open: %s, max_open: 2s, probes: %d, ramp: 2s, slow_call: 0}",
			g.url, inFlight, outageRatio, outageFloor, outageCap, perSecond/40, consecutive, open, probes)
	}
	// Probes are the operations with the earliest deadline, the same ones each time.
	s := newGateSetting(t, server, map[string]string{"bad": dependency(bad), "good": dependency(good)}, "max_attempts: 100, backoff: {base: 1s, cap: 4s}")
	s.gateWorkers(t, server, 5)

	f := newTraffic(time.Now().Add(2 * time.Second))
	n := f.within(before + *outage + after)
	f.submit(t, s, "bad", n)
	f.submit(t, s, "good", n)
	untilTime(t, f.start.Add(before), func() {})

	from, to := bad.down(t)
	opened, was := 0, gate{}
	untilTime(t, to, func() {
		gates := s.gates(t)
		if b := gates["bad"].Breaker; b.State != "closed" && b.Why != "" {
			opened++
		}
		g := gates["good"]
		if g.Breaker.State != "closed" || g.Breaker.Generation != 0 || g.Window.Failed != 0 || g.Window.Spent != 0 || g.Backlog.Due != 0 || g.Tokens < was.Tokens {
			t.Errorf("the healthy dependency's gate has changed: %+v, was %+v", g, was)
		}
		was = g
	})
	if opened == 0 {
		t.Errorf("the breaker was never seen open")
	}
	untilTime(t, f.due(n), func() {})
	await(t, 20*time.Second, "the breaker to close", func() bool { return s.gate(t, "bad").Breaker.State == "closed" })

	// No new traffic any more: an operator gives what waits the room that it leaves.
	night := time.Now()
	if _, code := s.enqueue(t, "gate", "override", "bad", "--drain", figure(10*perSecond), "--rate", figure(0.95*perSecond),
		"--max-in-flight", strconv.Itoa(max(1, int(perSecond/10))), "--for", "1h", "--note", "the day is over"); code != 0 {
		t.Fatalf("gate override: exit %d", code)
	}
	s.awaitStates(t, time.Minute+3**outage, map[string]int{"succeeded": 2 * n})
	t.Logf("drained %.1f s after the outage, %.1f s after the traffic", time.Since(to).Seconds(), time.Since(night).Seconds())

	seen, control := bad.calls(t), good.calls(t)
	// It opens at latest when all that was under way has failed, and is then open for
	// half of its time at least.
	periods := int(2 * to.Sub(from) / open)
	if most := consecutive + inFlight + probes*periods; seen.Unread > most {
		t.Errorf("the failing dependency got %d calls, want at most %d", seen.Unread, most)
	}
	if most := outageBound(f.within(to.Sub(from)), to.Sub(from)) + float64(probes*periods); float64(seen.Unread) > most {
		t.Errorf("the failing dependency got %d calls, the budget's bound is %.0f", seen.Unread, most)
	}
	peak := 0
	for _, second := range seen.Seconds {
		if second.At.Before(to.Truncate(time.Second)) {
			continue
		}
		// By day a machine that stalls makes both late, and both catch up.
		normal := perSecond
		if second.At.Before(night) {
			normal = max(normal, float64(control.around(second.At)))
		}
		got := second.Requests + second.Unread
		peak = max(peak, got)
		if float64(got) > 1.2*normal+1 { // 1: that falls on the other side of a second's edge
			t.Errorf("%s after the outage: %d calls in a second, normal are %.0f", second.At.Sub(to).Round(time.Second), got, normal)
		}
	}
	if control.Requests != n || control.Unread != 0 || control.Inquiries != 0 {
		t.Errorf("the healthy dependency got %d requests, %d unread, %d inquiries, want %d requests", control.Requests, control.Unread, control.Inquiries, n)
	}
	bad.chargedOnceEach(t, n)
	good.chargedOnceEach(t, n)
	late := good.lateness(t, f, from, to)
	if p99 := late[len(late)*99/100]; p99 > lateMost {
		t.Errorf("meanwhile the healthy dependency's first attempts were late by %s (p99), want at most %s", p99, lateMost)
	}
	t.Logf("the failing dependency: %d calls in %s of outage, then at most %d in a second; the healthy one: late by %s (p50), %s (p99)",
		seen.Unread, to.Sub(from), peak, late[len(late)/2], late[len(late)*99/100])
}

// TestTheBudgetAloneHoldsAnOutage: the same outage with a breaker that does not open.
// All first attempts are sent and fail; retries beyond them are the budget's.
func TestTheBudgetAloneHoldsAnOutage(t *testing.T) {
	t.Parallel()
	const before = 2 * time.Second
	server, bad := redisServer(t), startGateway(t)
	s := newGateSetting(t, server, map[string]string{"bad": fmt.Sprintf(
		"base_url: '%s', timeout: 5s, slots: 10, budget: {ratio: %g, floor_per_second: %g, cap: %d}, drain: {max_per_second: 0}, breaker: {min_calls: 1000000, consecutive: 0}",
		bad.url, outageRatio, outageFloor, outageCap)}, "max_attempts: 100, backoff: {base: 1s, cap: 4s}")
	s.gateWorkers(t, server, 5)

	f := newTraffic(time.Now().Add(2 * time.Second))
	n := f.within(before + *outage)
	f.submit(t, s, "bad", n)
	untilTime(t, f.start.Add(before), func() {})
	from, to := bad.down(t)
	spent := 0
	untilTime(t, to, func() {
		g := s.gate(t, "bad")
		if b := g.Breaker; b.State != "closed" || b.Generation != 0 {
			t.Errorf("the breaker is %+v", b)
		}
		spent = max(spent, g.Window.Spent)
	})
	if held := s.gate(t, "bad").Backlog; held.HeldBy != "budget" || held.Due == 0 {
		t.Errorf("at the end of the outage the backlog is %+v, want it held by the budget", held)
	}
	if _, code := s.enqueue(t, "gate", "override", "bad", "--floor", "300", "--cap", "300", "--for", "1h", "--note", "they are back"); code != 0 {
		t.Fatalf("gate override: exit %d", code)
	}
	s.awaitStates(t, time.Minute, map[string]int{"succeeded": n})

	// First attempts fill from a second before the outage on.
	span, got := to.Sub(from), bad.calls(t).Unread
	firsts := f.within(span + time.Second)
	if most := outageBound(firsts, span); float64(got) > most {
		t.Errorf("%d calls in the outage, want at most %.0f", got, most)
	}
	if spent == 0 {
		t.Errorf("no token was spent in the outage: none of %d calls was a retry", got)
	}
	t.Logf("%d calls in %s of outage, in which %d operations came due; the bound is %.0f", got, span, f.within(span), outageBound(firsts, span))
	bad.chargedOnceEach(t, n)
}

// outageBound is the budget's bound on all calls, of which so many are first attempts.
func outageBound(firsts int, span time.Duration) float64 {
	return (1+outageRatio)*float64(firsts) + outageFloor*span.Seconds() + outageCap
}

// chargedOnceEach: n references, each with one effect under one key.
func (g gateway) chargedOnceEach(t *testing.T, n int) {
	t.Helper()
	ledger := g.ledger(t)
	if len(ledger) != n {
		t.Errorf("the gateway knows %d references, want %d", len(ledger), n)
	}
	for _, e := range ledger {
		if e.SideEffects != 1 || len(e.Keys) != 1 {
			t.Errorf("%s was charged %d times (keys %v)", e.Reference, e.SideEffects, e.Keys)
		}
	}
}

// lateness is by how much the first attempts that came due in a span were late, in order.
func (g gateway) lateness(t *testing.T, f traffic, from, to time.Time) []time.Duration {
	t.Helper()
	var late []time.Duration
	for _, e := range g.ledger(t) {
		var i int
		if _, err := fmt.Sscanf(e.Reference, "order-%d", &i); err != nil {
			t.Fatalf("reference %q: %v", e.Reference, err)
		}
		if at := f.due(i); at.After(from) && at.Before(to) {
			late = append(late, e.FirstAt.Sub(at))
		}
	}
	slices.Sort(late)
	return late
}

// figure writes a rate to the thousandth, as flags take it.
func figure(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
