package app

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/redistest"
)

var readAt = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// gateOf is a closed gate with tokens, read at readAt.
func gateOf() ledger.GateState {
	p := budget.Params{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 1000}
	g := budget.Gate{Known: true, State: budget.Closed, TokensMilli: 2500, FilledAtMS: readAt.UnixMilli()}
	return ledger.GateState{Dependency: "payrail", ReadAt: readAt, Gate: g, Params: p, InForce: p, Backlog: 5, Firsts: 3,
		Forecast: budget.Forecast{ETA: 50 * time.Second, Misses: 2}}
}

func TestStateOfALedgerInTheWordsOfTheMetrics(t *testing.T) {
	t.Parallel()
	s := ledger.Snapshot{Dependency: "payrail", ReadAt: readAt, OldestDueAt: readAt.Add(-90 * time.Second), Counts: []ledger.Count{
		{Kind: "charge", State: jobs.Waiting, N: 8}, {Kind: "void", State: jobs.Waiting, N: 1}, {Kind: "charge", State: jobs.Attempting, N: 2},
		{Kind: "charge", State: jobs.Dead, Reason: jobs.ReasonUnsafe, N: 4}}}
	got := stateOf(s, gateOf())
	if got.Operations[jobs.Waiting] != 9 || got.DeadLetters["charge"][jobs.ReasonUnsafe] != 4 || got.OldestDueAge != 90*time.Second {
		t.Errorf("state %+v", got)
	}
	if got.Tokens != 2.5 || got.Cap != 100 || got.Ratio != 0.1 || got.Overridden || got.Breaker != metrics.BreakerClosed {
		t.Errorf("gate %+v, want 2.5 tokens of 100, ratio 0.1, no override, closed", got)
	}
	if got.DrainETA != 50*time.Second || got.DrainStuck || got.DeadlineMisses != 2 {
		t.Errorf("forecast %v, stuck %v, %d misses: want 50s, false, 2", got.DrainETA, got.DrainStuck, got.DeadlineMisses)
	}
}

func TestAnOverrideShowsWhatIsInForceUntilItEnds(t *testing.T) {
	t.Parallel()
	g := gateOf()
	g.InForce.Cap, g.InForce.RatioMilli = 7, 500
	g.Gate.Override = budget.Override{UntilMS: readAt.UnixMilli() + 1, Values: map[string]int64{budget.OverrideCap: 7}}
	if got := stateOf(ledger.Snapshot{}, g); !got.Overridden || got.Cap != 7 || got.Ratio != 0.5 {
		t.Errorf("overridden %v, cap %v, ratio %v: want true, 7, 0.5", got.Overridden, got.Cap, got.Ratio)
	}
	g.Gate.Override.UntilMS = readAt.UnixMilli()
	if stateOf(ledger.Snapshot{}, g).Overridden {
		t.Error("an override that has ended is shown")
	}
}

func TestABacklogOfWhichNothingLeavesIsStuck(t *testing.T) {
	t.Parallel()
	g := gateOf()
	g.Forecast = budget.NewForecast(5, budget.Pace{Stuck: true}, []time.Duration{time.Hour}, []int64{4})
	if got := stateOf(ledger.Snapshot{}, g); !got.DrainStuck || got.DeadlineMisses != 4 {
		t.Errorf("stuck %v, %d misses: want true, 4", got.DrainStuck, got.DeadlineMisses)
	}
}

func TestMetricsKnowTheStatesOfTheBreaker(t *testing.T) {
	t.Parallel()
	var states []string
	for _, s := range budget.States {
		states = append(states, string(s))
	}
	if !slices.Equal(states, metrics.BreakerStates) {
		t.Errorf("the gate has states %v, the metrics show %v", states, metrics.BreakerStates)
	}
}

func TestWhatHoldsDueOperations(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(*ledger.GateState)
		want  map[jobs.Hold]int64
	}{
		{"a slot", func(g *ledger.GateState) { g.Gate.TokensMilli = 5000 }, map[jobs.Hold]int64{jobs.HoldSlots: 8}},
		{"a slot, for what two tokens pay", func(*ledger.GateState) {}, map[jobs.Hold]int64{jobs.HoldSlots: 5, jobs.HoldBudget: 3}},
		{"a token, for the backlog", func(g *ledger.GateState) { g.Gate.TokensMilli = 999 },
			map[jobs.Hold]int64{jobs.HoldSlots: 3, jobs.HoldBudget: 5}},
		{"a pause", func(g *ledger.GateState) { g.Gate.Held, g.Gate.TokensMilli = true, 0 }, map[jobs.Hold]int64{jobs.HoldPaused: 8}},
		{"a rollback", func(g *ledger.GateState) { g.Gate.RolledAtMS = 1 }, map[jobs.Hold]int64{jobs.HoldPaused: 8}},
		{"the breaker", func(g *ledger.GateState) { g.Gate.State = budget.Open }, map[jobs.Hold]int64{jobs.HoldBreaker: 8}},
		{"the dependency's own word", func(g *ledger.GateState) { g.Gate.ParkedUntilMS = readAt.UnixMilli() + 1 },
			map[jobs.Hold]int64{jobs.HoldRateHint: 8}},
		{"room in flight", func(g *ledger.GateState) { g.Params.MaxInFlight, g.InFlight = 40, 40 }, map[jobs.Hold]int64{jobs.HoldInFlight: 8}},
		{"a paused credential, for some", func(g *ledger.GateState) { g.Aside, g.Gate.TokensMilli = 2, 5000 },
			map[jobs.Hold]int64{jobs.HoldSlots: 8, jobs.HoldPaused: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := gateOf()
			tc.spoil(&g)
			got := stateOf(ledger.Snapshot{}, g).Held
			for _, h := range jobs.Holds {
				if got[h] != tc.want[h] {
					t.Errorf("held %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func TestAScrapeReadsTheGateOfEveryDependency(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	l, ctx := ledger.New(client, "test"), context.Background()
	if err := client.SAdd(ctx, "test:dependencies", "payrail").Err(); err != nil {
		t.Fatal(err)
	}
	params := budget.Params{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 1000,
		Breaker: budget.Breaker{WindowMS: 10_000, Consecutive: 5, OpenMS: 60_000, MaxOpenMS: 60_000, Probes: 3}}
	if _, err := l.Release(ctx, ledger.Terms{Dependency: "payrail", Gate: params}, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.FirstAttempts(ctx, "payrail", params, ledger.Firsts{Process: "p", Seq: 1, Failed: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Override(ctx, "payrail", map[string]int64{budget.OverrideCap: 7}, time.Hour, ledger.Actor{By: "test", Note: "why"}); err != nil {
		t.Fatal(err)
	}
	got, err := ledgerState(l)(ctx)
	if err != nil || len(got) != 1 {
		t.Fatalf("read %d dependencies, %v", len(got), err)
	}
	if got[0].Breaker != metrics.BreakerOpen || !got[0].Overridden || got[0].Cap != 7 {
		t.Errorf("gate %+v, want an open breaker and a cap of 7 by override", got[0])
	}
	client.Close()
	if _, err := ledgerState(l)(ctx); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a scrape without Redis gives %v, want the client's error", err)
	}
}
