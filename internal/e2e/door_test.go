package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestThousandsThroughTheDoor: 2,000 charges are handed in over HTTPS by somebody who knows
// no Redis, and the worker that takes them is killed in the middle. They are handed in
// again at the other, as the message says, while the gateway loses replies. What is right
// is what the gateway's ledger says: each was charged once, but for those cancelled.
func TestThousandsThroughTheDoor(t *testing.T) {
	t.Parallel() // it waits for processes more than it works
	const charged, cancelled, declined = 2000, 5, 3
	g := startGateway(t)
	s := newSetting(t, redisServer(t).URL(), "money", g.url, ", breaker: {window: 10s, min_calls: 1000000, consecutive: 0}, drain: {max_per_second: 1000}")
	d := newDoors(t, s)
	victim, first := d.open(t)
	_, second := d.open(t)
	road := newRoad(t, first)

	// Dead letters, and the cards work again.
	g.fault(t, `{"mode":"decline","share":1}`)
	var dead []string
	for i := range declined {
		name := fmt.Sprintf("declined-%d", i)
		dead = append(dead, "payout/"+name)
		body := fmt.Sprintf(`{"amount":5,"currency":"GBP","reference":"%s"}`, name)
		d.must(t, 0, "submit", road.at(), "add", "payout/"+name, "--body", body)
	}
	s.awaitStates(t, 30*time.Second, map[string]int{"dead": declined})
	g.fault(t, `{"mode":"none"}`)
	d.must(t, 0, "operate", road.at(), append([]string{"dlq", "requeue", "-y", "--note", "the cards work again"}, dead...)...)
	s.awaitStates(t, 30*time.Second, map[string]int{"succeeded": declined})
	g.fault(t, `{"mode":"lost_replies","share":0.2}`)

	// Who may only look changes nothing, and who may only hand in does not look.
	says(t, d.must(t, 1, "read", second, "pause", "payrail", "--note", "x"), "read-only has not the role operate")
	says(t, d.must(t, 1, "submit", second, "list"), "submit-only has not the role read")
	says(t, d.must(t, 1, "operate", second, "add", "charge/none", "--body", "{}"), "operate-only has not the role submit", "nothing was written")
	d.must(t, 0, "operate", second, "pause", "payrail", "--note", "not while they are handed in")

	// The import, with the worker gone in its middle.
	file := charges(t, charged, nil)
	road.lead(first, 100_000) // of some 250 kB
	env, args := d.asking("submit", road.at(), "import", file)
	cut := startWith(t, env, "enqueue", args...)
	within(t, 30*time.Second, "the import to be held up", road.held)
	await(t, 30*time.Second, "a part of it to be taken", func() bool { return s.states(t)["waiting"] > 0 })
	victim.kill()
	within(t, 30*time.Second, "the import to end", cut.done)
	if code := cut.cmd.ProcessState.ExitCode(); code != 6 {
		t.Errorf("the import that was cut: exit %d", code)
	}
	says(t, cut.out.String(), "surely taken; importing the same file again is safe")
	taken := s.states(t)["waiting"]
	if taken == 0 || taken >= charged {
		t.Fatalf("%d of %d were taken: the worker did not die in the middle", taken, charged)
	}

	// Again, at the other.
	out, _, code := d.ask(t, "submit", second, "import", file, "-o", "json")
	var again answers
	if err := json.Unmarshal([]byte(out), &again); err != nil || code != 0 || again != (answers{Accepted: charged - taken, Duplicate: taken}) {
		t.Errorf("the import again: %+v, exit %d, %v; %d were taken before", again, code, err, taken)
	}

	// While all of them wait some are cancelled, by who may.
	var gone []string
	for i := range cancelled {
		gone = append(gone, fmt.Sprintf("charge/order-%04d", i*399))
	}
	says(t, d.must(t, 1, "read", second, append([]string{"cancel", "-y", "--note", "x"}, gone...)...), "has not the role operate")
	d.must(t, 0, "operate", second, append([]string{"cancel", "-y", "--note", "customers withdrew"}, gone...)...)
	s.awaitStates(t, 10*time.Second, map[string]int{"waiting": charged - cancelled, "cancelled": cancelled, "succeeded": declined})

	// The dead worker comes back behind its URL, and everything is let go there.
	_, first = d.open(t)
	road.lead(first, 0)
	d.must(t, 0, "operate", road.at(), "resume", "payrail", "--note", "all of them are there")
	s.awaitStates(t, 60*time.Second, map[string]int{"succeeded": charged - cancelled + declined, "cancelled": cancelled})

	d.judge(t, g, gone, charged-cancelled+declined)
	d.agree(t, second)
}

// judge asks the gateway's ledger.
func (d doors) judge(t *testing.T, g gateway, cancelled []string, want int) {
	t.Helper()
	never := map[string]bool{}
	for _, name := range cancelled {
		never[strings.TrimPrefix(name, "charge/")] = true
	}
	applied, more := 0, 0
	for _, e := range g.ledger(t) {
		if e.SideEffects != 1 || len(e.Keys) > 1 || never[e.Reference] {
			t.Errorf("%s: %d effects under the keys %v, cancelled %t", e.Reference, e.SideEffects, e.Keys, never[e.Reference])
		}
		applied += e.SideEffects
		more += e.Requests - 1
	}
	if applied != want {
		t.Errorf("%d were applied, want %d", applied, want)
	}
	if more == 0 {
		t.Error("no request was made twice: the gateway lost no reply")
	}
	t.Logf("%d applied, %d calls beyond the first", applied, more)
}

// agree compares what is told at a door with what Redis itself says.
func (d doors) agree(t *testing.T, at string) {
	t.Helper()
	for _, args := range [][]string{{"list", "--limit", "0", "-o", "name"}, {"list", "--state", "cancelled", "-o", "csv"}, {"dlq", "list", "-o", "name"},
		{"show", "payout/declined-0"}, {"audit", "--limit", "100", "-o", "csv"}, {"batch", "list", "-o", "csv"}} {
		behind, _, code := d.ask(t, "read", at, args...)
		direct, exit := d.enqueue(t, args...)
		if code != 0 || exit != 0 || behind != direct {
			t.Errorf("%v: exit %d and %d: %s", args, code, exit, firstDifference(behind, direct))
		}
	}
	type counts struct {
		States       map[string]int `json:"states"`
		Dependencies map[string]struct {
			Kinds map[string]map[string]int `json:"kinds"`
		} `json:"dependencies"`
	}
	var behind, direct counts
	out, _, _ := d.ask(t, "read", at, "stats", "-o", "json")
	same, _ := d.enqueue(t, "stats", "-o", "json")
	if err := errors.Join(json.Unmarshal([]byte(out), &behind), json.Unmarshal([]byte(same), &direct)); err != nil {
		t.Fatal(err)
	}
	if len(behind.Dependencies["payrail"].Kinds) == 0 || !reflect.DeepEqual(behind, direct) {
		t.Errorf("stats at the door: %+v, with --redis: %+v", behind, direct)
	}
}

// firstDifference is where what is told at a door differs from what Redis says.
func firstDifference(behind, direct string) string {
	a, b := strings.Split(behind, "\n"), strings.Split(direct, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %q at the door and %q with --redis", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines at the door and %d with --redis", len(a), len(b))
}

// must runs one command that has to end with code, and returns what it said.
func (d doors) must(t *testing.T, code int, role, at string, args ...string) string {
	t.Helper()
	_, stderr, got := d.ask(t, role, at, args...)
	if got != code {
		t.Fatalf("%v as %s: exit %d, want %d: %s", args, role, got, code, stderr)
	}
	return stderr
}

func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in %q", w, text)
		}
	}
}

// within waits for a channel to be closed.
func within(t *testing.T, bound time.Duration, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(bound):
		t.Fatalf("waited %s for %s", bound, what)
	}
}
