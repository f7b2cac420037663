package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestT09ThousandDueInOneSecond: 1,000 operations due at one instant, two workers,
// 1,000 sends.
func TestT09ThousandDueInOneSecond(t *testing.T) {
	g := startGateway(t)
	s := newSetting(t, redisServer(t).URL(), "money", g.url, "")
	s.worker(t)
	s.worker(t)
	s.awaitKinds(t)
	due := time.Now().Add(4 * time.Second).UTC().Truncate(time.Second)
	file := charges(t, 1000, func(_ int, line map[string]any) { line["not_before"] = due.Format(time.RFC3339) })
	if a, code := s.importFile(t, file); a.Accepted != 1000 || code != 0 {
		t.Fatalf("import: %+v, exit %d", a, code)
	}
	s.awaitStates(t, time.Minute, map[string]int{"succeeded": 1000})
	if requests, effects, twice := g.totals(t); requests != 1000 || effects != 1000 || twice != 0 {
		t.Errorf("the gateway saw %d requests, %d effects, %d twice", requests, effects, twice)
	}
}

// TestKilledWorkerIsRescued: kill -9 in the middle of slow calls. What it was
// sending is back within attempt timeout + 6 s, and every operation is accounted
// for: keyed ones are resent under their key, class none goes to a person.
func TestKilledWorkerIsRescued(t *testing.T) {
	const keyed, none = 300, 100
	g := startGateway(t)
	s := newSetting(t, redisServer(t).URL(), "money", g.url, "")
	victim := s.worker(t)
	s.worker(t)
	s.awaitKinds(t)
	g.fault(t, `{"mode":"slow","latency":"300ms"}`)
	file := charges(t, keyed+none, func(i int, line map[string]any) {
		if i >= keyed {
			line["kind"] = "payout"
		}
	})
	if a, code := s.importFile(t, file); a.Accepted != keyed+none || code != 0 {
		t.Fatalf("import: %+v, exit %d", a, code)
	}
	await(t, 30*time.Second, "half of them to be sent", func() bool {
		requests, _, _ := g.totals(t)
		return requests > (keyed+none)/2
	})
	victim.kill()
	killed := time.Now()
	g.fault(t, `{"mode":"none"}`)
	// The timeout is 2 s: whatever the victim was sending must have left that state
	// 8 s later. The survivor's own calls come and go meanwhile, each within its
	// timeout, so what is looked at is each operation that was attempting at the kill.
	out, _ := s.enqueue(t, "list", "--state", "attempting", "--limit", "1000", "-o", "name")
	await(t, 2*time.Second+6*time.Second-time.Since(killed), "the victim's attempts to be rescued", func() bool {
		still, _ := s.enqueue(t, "list", "--state", "attempting", "--limit", "1000", "-o", "name")
		for _, id := range strings.Fields(out) {
			if slices.Contains(strings.Fields(still), id) {
				return false
			}
		}
		return true
	})
	t.Logf("the victim's attempts were rescued %.1f s after the kill", time.Since(killed).Seconds())
	// What it had taken and not begun returns when its release lease of 30 s ends.
	await(t, 45*time.Second, "everything to be at rest", func() bool {
		states := s.states(t)
		return states["attempting"] == 0 && states["released"] == 0 && states["waiting"] == 0
	})
	t.Logf("everything at rest %.1f s after the kill", time.Since(killed).Seconds())
	states := s.states(t)
	if states["succeeded"]+states["dead"] != keyed+none {
		t.Errorf("states %v do not account for %d operations", states, keyed+none)
	}
	if states["succeeded"] < keyed {
		t.Errorf("%d succeeded, all %d keyed ones must", states["succeeded"], keyed)
	}
	for _, e := range g.ledger(t) {
		if e.SideEffects > 1 {
			t.Errorf("%s was charged %d times (keys %v)", e.Reference, e.SideEffects, e.Keys)
		}
	}
}
