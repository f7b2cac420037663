package fleet

import (
	"flag"
	"net/http"
	"sync"
	"testing"
	"time"

	"redrive"
	"redrive/internal/ledger"
	"redrive/internal/sandbox"
)

// warm is how long the gateway is well before it goes down.
const warm = 2 * time.Second

var outage = flag.Duration("outage", 3*time.Second, "how long the gateway is down")

// byDefault is what P4 allows under the default budget.
var byDefault = bound{ratio: 0.1, cap: 100, floor: 1}

// Not one service's budget but one budget: however many services there are, the gateway
// that is down sees no more calls than P4 allows, and once it is back every charge is made
// once.
func TestAGatewayThatIsDownSeesNoStorm(t *testing.T) {
	for name, tc := range map[string]struct {
		services  int
		sockets   bool
		traffic   traffic
		breaker   string
		halfOpens func(time.Duration) int // periods in an outage, at most; nil: there is no breaker
	}{
		"20 services over sockets":                 {20, true, traffic{perSecond: 10, reads: 4, of: 10}, noBreaker, nil},
		"20 services over sockets, with a breaker": {20, true, traffic{perSecond: 10, reads: 4, of: 10}, aBreaker, func(d time.Duration) int { return 1 + int(d/leastOpen) }},
		// Of a hundred calls one is an operation: what Redis can keep of a storm.
		"100 services in the process": {100, false, traffic{perSecond: 100, reads: 99, of: 100}, noBreaker, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, tc.breaker)
			var transport http.RoundTripper
			if !tc.sockets {
				transport = inProcess{b.meter}
			}
			services := make([]*service, tc.services)
			for i := range services {
				services[i] = b.service(i, transport)
			}
			tc.traffic.calls = int((warm + *outage).Seconds() * float64(tc.traffic.perSecond))
			goDown := time.AfterFunc(warm, func() { b.fault(sandbox.Down) })
			defer goDown.Stop()
			var running sync.WaitGroup
			for _, s := range services {
				running.Go(func() { s.run(tc.traffic) })
			}
			running.Wait()
			got := b.meter.read()
			spare := 0
			if tc.halfOpens != nil {
				const probes = 3
				spare = probes * tc.halfOpens(got.span)
			}
			if err := got.check(byDefault, spare); err != nil {
				t.Error(err)
			}
			most := byDefault.of(got.firsts, got.span) + spare
			t.Logf("%d services, down %s: %d first attempts and %d calls beyond (P4 allows %d) in %.1f s: %.3f calls a first attempt; reads stopped by %v",
				tc.services, *outage, got.firsts, got.extras, most, got.span.Seconds(), float64(got.firsts+got.extras)/float64(got.firsts), b.stops)
			b.checkStops(tc.halfOpens != nil)
			if tc.halfOpens == nil && got.extras < most/10 {
				t.Errorf("%d calls beyond the first where %d were allowed: nothing was held back by the budget", got.extras, most)
			}
			b.recover()
			b.checkTotals()
		})
	}
}

func (b *bundle) fault(mode sandbox.Mode) {
	if err := b.gateway.SetFault(sandbox.Fault{Mode: mode}); err != nil {
		b.Error(err)
	}
}

// checkStops: what was not repeated was so for the budget's sake, or the breaker's.
func (b *bundle) checkStops(breaker bool) {
	b.Helper()
	want := redrive.StopBudget
	if breaker {
		want = redrive.StopBreaker
	}
	if b.stops[want] == 0 {
		b.Errorf("no read was stopped by the %s: %v", want, b.stops)
	}
	for _, never := range []redrive.Stop{redrive.StopPermanent, redrive.StopDeadline} {
		if n := b.stops[never]; n > 0 {
			b.Errorf("%d reads stopped by %s", n, never)
		}
	}
}

// recover brings the gateway back, opens the lane, and waits until every operation has
// been charged: each once.
func (b *bundle) recover() {
	b.Helper()
	began, before := time.Now(), b.meter.read()
	b.fault(sandbox.None)
	open := map[string]int64{"drain": 1_000_000, "floor": 100_000}
	if _, err := b.ledger.Override(b.Context(), dep, open, time.Hour, ledger.Actor{By: "test"}); err != nil {
		b.Fatal(err)
	}
	charged := 0
	for deadline := time.Now().Add(5 * time.Minute); charged < len(b.keys); time.Sleep(100 * time.Millisecond) {
		charged = b.gateway.Stats().SideEffects
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d charges were made", charged, len(b.keys))
		}
	}
	for _, key := range b.keys {
		if n := b.gateway.SideEffects("charges", key); n != 1 {
			b.Errorf("%s was charged %d times", key, n)
		}
	}
	after := b.meter.read()
	b.Logf("%d operations (%d by the spool), all charged once, %.1f s after the gateway was back, in %d calls", len(b.keys), b.spooled, time.Since(began).Seconds(), after.extras-before.extras)
}

// checkTotals holds the meter against the gateway's own books.
func (b *bundle) checkTotals() {
	b.Helper()
	all, stats := b.meter.read(), b.gateway.Stats()
	if counted := stats.Requests + stats.Unread + stats.Inquiries; counted != all.firsts+all.extras {
		b.Errorf("the gateway counts %d calls, the meter in front of it %d", counted, all.firsts+all.extras)
	}
}
