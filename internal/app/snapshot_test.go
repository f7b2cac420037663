package app

import (
	"testing"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func TestStateOfALedgerInTheWordsOfTheMetrics(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	d := config.NewDependency("payrail", "http://127.0.0.1:1")
	s := ledger.Snapshot{Dependency: "payrail", DueFirst: 3, DueRetry: 5, ReadAt: at, OldestDueAt: at.Add(-90 * time.Second),
		TokensMilli: 2500, TokensAt: at.Add(-4 * time.Second), Counts: []ledger.Count{
			{Kind: "charge", State: jobs.Waiting, N: 8}, {Kind: "void", State: jobs.Waiting, N: 1}, {Kind: "charge", State: jobs.Attempting, N: 2},
			{Kind: "charge", State: jobs.Dead, Reason: jobs.ReasonUnsafe, N: 4}}}
	got := stateOf(s, d)
	if got.Operations[jobs.Waiting] != 9 || got.DeadLetters["charge"][jobs.ReasonUnsafe] != 4 || got.OldestDueAge != 90*time.Second {
		t.Errorf("state %+v", got)
	}
	if got.Tokens != 6.5 || got.Cap != 100 || got.Ratio != 0.1 {
		t.Errorf("tokens %v, cap %v, ratio %v: want 2.5 and what the floor put in during 4 s, 100, 0.1", got.Tokens, got.Cap, got.Ratio)
	}
	if got := stateOf(s, nil); got.Tokens != 2.5 || got.Cap != 0 {
		t.Errorf("of a dependency that is not ours: tokens %v, cap %v", got.Tokens, got.Cap)
	}
	s.TokensMilli = -1
	if got := stateOf(s, d); got.Tokens != 1 {
		t.Errorf("a bucket that was never written holds %v tokens, want one second of floor", got.Tokens)
	}
}

func TestWhatHoldsDueOperations(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	base := ledger.Snapshot{Dependency: "payrail", DueFirst: 3, DueRetry: 5, ReadAt: at, TokensMilli: 5000, TokensAt: at}
	for _, tc := range []struct {
		name  string
		spoil func(*ledger.Snapshot)
		want  map[jobs.Hold]int64
	}{
		{"a slot", func(*ledger.Snapshot) {}, map[jobs.Hold]int64{jobs.HoldSlots: 8}},
		{"a token, for retries", func(s *ledger.Snapshot) { s.TokensMilli = 999 }, map[jobs.Hold]int64{jobs.HoldSlots: 3, jobs.HoldBudget: 5}},
		{"a pause", func(s *ledger.Snapshot) { s.Paused, s.TokensMilli = true, 0 }, map[jobs.Hold]int64{jobs.HoldPaused: 8}},
		{"room in flight", func(s *ledger.Snapshot) {
			s.Counts = []ledger.Count{{Kind: "charge", State: jobs.Attempting, N: 30}, {Kind: "charge", State: jobs.Released, N: 10}}
		}, map[jobs.Hold]int64{jobs.HoldInFlight: 8}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := base
			tc.spoil(&s)
			got := stateOf(s, config.NewDependency("payrail", "http://127.0.0.1:1")).Held
			for _, h := range jobs.Holds {
				if got[h] != tc.want[h] {
					t.Errorf("held %v, want %v", got, tc.want)
				}
			}
		})
	}
}
