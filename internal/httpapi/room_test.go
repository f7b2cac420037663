package httpapi

import (
	"strconv"
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// Retry-After was 2 before every full backlog, whether it takes a second or a day to shrink.
func TestAFullBacklogSaysWhenThereMayBeRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what       string
		pace       *budget.Pace
		most       int64
		least, max time.Duration // with the least jitter, and the most
	}{
		{"a hundredth at 50 a second", &budget.Pace{PerSecondMilli: 50_000}, 20_000, 4 * time.Second, 6 * time.Second},
		{"one, where a hundredth is less", &budget.Pace{PerSecondMilli: 500}, 3, 2 * time.Second, 3 * time.Second},
		{"at once", &budget.Pace{PerSecondMilli: 1_000_000}, 100, time.Second, time.Second},
		{"behind a breaker", &budget.Pace{PerSecondMilli: 100_000, InMS: 20_000}, 100, 20010 * time.Millisecond, 30015 * time.Millisecond},
		{"a day", &budget.Pace{PerSecondMilli: 1}, 1_000_000, 200 * time.Second, roomMost},
		{"nothing leaves", &budget.Pace{Stuck: true}, 100, 200 * time.Second, roomMost},
		{"nobody knows", nil, 100, 30 * time.Second, 45 * time.Second},
	} {
		if least, most := roomIn(c.pace, c.most, 0), roomIn(c.pace, c.most, 1); least != c.least || most != c.max {
			t.Errorf("%s: %s to %s, want %s to %s", c.what, least, most, c.least, c.max)
		}
	}
}

func TestRetryAfterOfAFullBacklogFollowsItsDependency(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) {
		for i := range a.Kinds {
			a.Kinds[i].MaxBacklog = 1
		}
	})
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	if _, err := b.ledger.Pause(t.Context(), "payrail", 0, ledger.Actor{By: "ann", Note: "x"}); err != nil {
		t.Fatal(err)
	}
	b.submit(`{"kind":"refund","key":"r-1","body":{}}`)
	wait := func(path, body string) int {
		t.Helper()
		g := b.post(path, body)
		g.is(t, body, backlogFull)
		seconds, err := strconv.Atoi(g.header.Get("Retry-After"))
		if err != nil {
			t.Errorf("%v", err)
		}
		return seconds
	}
	for range 3 {
		paused := wait("/v1/operations", `{"kind":"charge","key":"o-2","body":{}}`)
		unknown := wait("/v1/operations", `{"kind":"refund","key":"r-2","body":{}}`)
		if paused < 200 || paused > 300 || unknown < 30 || unknown > 45 {
			t.Errorf("of a dependency that is paused without end %d s, of one without a worker %d s", paused, unknown)
		}
	}
	if s := wait("/v1/operations/payout/old/reconcile", `{"note":"x"}`); s < 200 || s > 300 {
		t.Errorf("reconcile of what is taken in for it: %d s", s)
	}
}
