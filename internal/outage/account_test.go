package outage

import (
	"fmt"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/sandbox"
)

func TestAnAccountHoldsTheGatewaysWordAgainstTheClients(t *testing.T) {
	t.Parallel()
	s := &Scenario{PerMin: 60, Parts: course(10*sec, time.Minute, 10*sec)}
	e := evidence{name: Naive, refused: map[string]time.Duration{"f": 13 * sec}}
	order := func(reference string, at time.Duration, v visit, effects int, calls ...arrival) {
		e.orders = append(e.orders, order{n: len(e.orders), at: at, reference: reference})
		e.visits = append(e.visits, v)
		e.entries = append(e.entries, sandbox.Entry{Reference: reference, SideEffects: effects})
		for _, c := range calls {
			c.reference = reference
			e.calls = append(e.calls, c)
		}
	}
	visited := func(f fate, came, left time.Duration) visit {
		return visit{fate: f, came: came, left: left, ended: left}
	}
	order("a", 2*sec, visited(succeeded, 2*sec, 3*sec), 1, arrival{at: 2 * sec, ended: 3 * sec, status: 201})
	order("b", 11*sec, visited(succeeded, 11*sec, 12*sec), 2, arrival{at: 11 * sec, ended: 12 * sec, status: 201})
	order("c", 11*sec, visited(gaveUp, 11*sec, 14*sec), 1, arrival{at: 11 * sec, ended: 12 * sec, late: true}, arrival{at: 12 * sec, ended: 14 * sec})
	order("d", 12*sec, visited(gaveUp, 12*sec, 12*sec), 0, arrival{at: 12*sec + 1, ended: 12*sec + 2, status: 500})
	order("e", 12*sec, visited(waiting, 12*sec, 13*sec), 1, arrival{at: 12*sec + 1, ended: 12*sec + 2, status: 502})
	order("f", 12*sec, visited(refused, 12*sec, 13*sec), 0, arrival{at: 12*sec + 1, ended: 13 * sec, status: 400}, arrival{at: 14 * sec, ended: 15 * sec, status: 400},
		arrival{at: 15 * sec, ended: 16 * sec, status: 200, inquiry: true})
	a := account(e, s, 30*sec)
	samples := a.Samples
	a.Samples = nil
	want := Account{Client: Naive, FirstAttempts: 6, Calls: 9, Inquiries: 1, Amplification: 1.5, LoadFirstMinute: 8.0 / 5, PeakPerSecond: 4, PeakConnections: 4,
		HoldTime: 6 * sec / 5, LongestHold: 3 * sec, CustomerSeconds: 7, Succeeded: 1, Failed: 2, Declined: 1, ChargedTwice: 1, Unknowingly: 2, RetriesOn4xx: 1}
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", want) {
		t.Errorf("\n%+v, want\n%+v", a, want)
	}
	if len(samples) != 30 {
		t.Fatalf("%d samples of 30 s", len(samples))
	}
	if got, want := samples[12], (Sample{At: 13 * sec, Calls: 4, Failed: 3, Connections: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := samples[20], (Sample{At: 21 * sec}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWhatWasHandedOverEndsAsTheLedgerSays(t *testing.T) {
	t.Parallel()
	began := time.Now().UTC().Truncate(time.Second)
	c := clock{began: began, speed: 10}
	permanent, attempts := jobs.ReasonPermanent, jobs.ReasonAttempts
	ended := jobs.At(began.Add(3 * time.Second))
	operations := []jobs.Operation{
		{Key: "a", State: jobs.Succeeded, EndedAt: ended},
		{Key: "b", State: jobs.Dead, Reason: &permanent, Last: &jobs.LastAttempt{Class: jobs.Class4xx}, EndedAt: ended},
		{Key: "c", State: jobs.Dead, Reason: &attempts, Last: &jobs.LastAttempt{Class: jobs.ClassTimeout}, EndedAt: ended},
		{Key: "d", State: jobs.Waiting},
	}
	orders := []order{{reference: "a"}, {reference: "b"}, {reference: "c"}, {reference: "d"}, {reference: "lost"}, {reference: "answered"}}
	visits := make([]visit, len(orders))
	for i := range visits {
		visits[i] = visit{fate: handedOver, left: sec, ended: sec}
	}
	visits[5].fate = gaveUp
	told(visits, orders, operations, c)
	for i, want := range []visit{{fate: succeeded, left: sec, ended: 30 * sec}, {fate: refused, left: sec, ended: 30 * sec}, {fate: gaveUp, left: sec, ended: 30 * sec},
		{fate: waiting, left: sec, ended: -1}, {fate: waiting, left: sec, ended: -1}, {fate: gaveUp, left: sec, ended: sec}} {
		if visits[i] != want {
			t.Errorf("%s: %+v, want %+v", orders[i].reference, visits[i], want)
		}
	}
}

// verdictOf is a report of redrive alone to judge by.
func verdictOf(s Scenario, a Account, gate ...GateSample) *verdict {
	return &verdict{Report: &Report{Gate: gate}, scenario: &s, clock: clock{speed: 10}, accounts: map[Client]*Account{Redrive: &a}, calls: map[Client][]arrival{}}
}

func TestATargetIsMissedWhereItIs(t *testing.T) {
	t.Parallel()
	s, err := Find("deploy_during_outage")
	if err != nil {
		t.Fatal(err)
	}
	good := Account{FirstAttempts: 10, Succeeded: 9, Declined: 1, LoadFirstMinute: 1.1, HoldTime: 1200 * time.Millisecond}
	bad := Account{FirstAttempts: 10, Succeeded: 8, Failed: 1, LoadFirstMinute: 1.11, HoldTime: 1201 * time.Millisecond, ChargedTwice: 1, Unknowingly: 1, RetriesOn4xx: 1}
	from, to := s.outage()
	sample := func(at time.Duration, breaker string, tokens float64, backlog int64) GateSample {
		return GateSample{At: at, Breaker: breaker, Tokens: tokens, Backlog: backlog}
	}
	deployed := s.deploy[0].at
	hinted := func(again time.Duration) *verdict {
		v := verdictOf(s, good)
		v.calls[Redrive] = []arrival{{reference: "a", at: sec, ended: 2 * sec, status: 429}, {reference: "a", at: again, ended: again, status: 201}}
		return v
	}
	flooded := func(n int) *verdict {
		v := verdictOf(s, good, sample(to, "closed", 0, 0))
		for i := range n {
			v.calls[Redrive] = append(v.calls[Redrive], arrival{at: to + time.Duration(i)*time.Millisecond})
		}
		return v
	}
	slipped := func(last time.Duration) *verdict {
		v := verdictOf(s, good)
		v.slips = []time.Duration{0, last}
		return v
	}
	spread := func(p float64, n int) *verdict {
		v := verdictOf(s, good)
		v.Bands = []Band{{Delays: n, P: p, Judged: true, Flat: p >= flatAt}}
		return v
	}
	for name, tc := range map[string]struct {
		judge     judgeFunc
		good, bad *verdict
	}{
		"load":    {loadStays, verdictOf(s, good), verdictOf(s, bad)},
		"hold":    {holdStays, verdictOf(s, good), verdictOf(s, bad)},
		"lost":    {nothingLost, verdictOf(s, good), verdictOf(s, bad)},
		"breaker": {breakerOpens, verdictOf(s, good, sample(from+sec, "open", 0, 0)), verdictOf(s, good, sample(from+31*sec, "open", 0, 0))},
		"deployed": {deployKeepsGate, verdictOf(s, good, sample(deployed-1, "open", 3, 0), sample(deployed, "half_open", 3, 0), sample(to, "closed", 9, 0)),
			verdictOf(s, good, sample(deployed-1, "open", 3, 0), sample(deployed, "closed", 4, 0))},
		"hints":   {hintsKept, hinted(12 * sec), hinted(11 * sec)},
		"drain":   {drainsGently, flooded(70), flooded(90)},
		"machine": {keptUp, slipped(200 * time.Millisecond), slipped(2 * sec)},
		"delays":  {delaysFlat, spread(0.5, 1000), spread(0.001, 1000)},
		"too few": {delaysFlat, spread(0.5, 1000), spread(0.5, 999)},
	} {
		for _, got := range tc.judge(tc.good) {
			if !got.Reached {
				t.Errorf("%s: %+v is missed", name, got)
			}
		}
		missed := 0
		for _, got := range tc.judge(tc.bad) {
			if !got.Reached {
				missed++
			}
		}
		if missed == 0 {
			t.Errorf("%s: nothing is missed: %+v", name, tc.judge(tc.bad))
		}
	}
}
