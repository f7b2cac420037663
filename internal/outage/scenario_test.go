package outage

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"redrive/internal/sandbox"
)

func TestAScenarioIsFoundByItsName(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		for _, name := range []string{s.Name, strings.ReplaceAll(s.Name, "_", "-")} {
			if got, err := Find(name); err != nil || got.Name != s.Name {
				t.Errorf("%s: %s, %v", name, got.Name, err)
			}
		}
	}
	_, err := Find("earthquake")
	if err == nil {
		t.Fatal("an unknown scenario was found")
	}
	for _, want := range []string{`"earthquake"`, "slow", "down", "lost_replies", "flaky", "rate_limit", "recovery", "deploy_during_outage"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}

func TestEachScenarioCanBePlayed(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		o, err := Options{Scenario: s}.check()
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		c := clock{speed: o.Speed}
		if c.wall(timeout) < minimum {
			t.Errorf("%s: its timeout lasts %s of the wall", s.Name, c.wall(timeout))
		}
		if s.Text == "" || s.PerMin <= 0 || len(s.judge) == 0 {
			t.Errorf("%s says too little: %+v", s.Name, s)
		}
		at := time.Duration(0)
		for i, part := range s.Parts {
			if part.From != at || part.To <= part.From {
				t.Errorf("%s: part %s lasts from %s to %s, the one before ended at %s", s.Name, part.Name, part.From, part.To, at)
			}
			at = part.To
			if err := sandbox.New(sandbox.Options{}).SetFault(s.faults[i]); err != nil {
				t.Errorf("%s: fault of %s: %v", s.Name, part.Name, err)
			}
		}
		from, to := s.outage()
		for _, d := range s.deploy {
			if d.at <= from || d.at >= to {
				t.Errorf("%s: a worker is replaced at %s, outside the outage", s.Name, d.at)
			}
		}
	}
}

func TestOptionsThatCannotBePlayedAreRefused(t *testing.T) {
	t.Parallel()
	slow, err := Find("slow")
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"none of those that Find returns":       {},
		"speed 21: want 1 to 20":                {Scenario: slow, Speed: 21},
		"speed -1: want 1 to 20":                {Scenario: slow, Speed: -1},
		"neither this machine nor one of those": {Scenario: slow, Against: "http://gateway.example"},
		"other.example, 10.0.0.1:80":            {Scenario: slow, Against: "http://gateway.example", Allow: []string{"other.example", "10.0.0.1:80"}},
		"(none)":                                {Scenario: slow, Against: "http://10.0.0.1:81"},
		"want http:// or https://":              {Scenario: slow, Against: "localhost:8080"},
		"a user, a query or a fragment":         {Scenario: slow, Against: "http://me:secret@localhost:8080"},
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v tells a password", err)
		}
	}
	for _, against := range []string{"http://127.0.0.1:9", "http://[::1]:9", "https://localhost", "http://gateway.example:9", "http://10.0.0.1:81/prefix"} {
		if err := checkAgainst(against, []string{"gateway.example", "10.0.0.1:81"}); err != nil {
			t.Errorf("%s: %v", against, err)
		}
	}
}

func TestOrdersAreTheSameForASeedAndEveryMinuteHasAsMany(t *testing.T) {
	t.Parallel()
	s := Scenario{PerMin: 600, Parts: course(time.Minute, 2*time.Minute, time.Minute)}
	draw := func(seed uint64) []order { return drawOrders(&s, "o-", rand.New(rand.NewPCG(seed, 1))) }
	orders, again, other := draw(3), draw(3), draw(4)
	if len(orders) != 2400 {
		t.Fatalf("%d orders in four minutes", len(orders))
	}
	perMinute, invalid, differ := map[time.Duration]int{}, 0, 0
	for i, o := range orders {
		if string(o.body) != string(again[i].body) || o.at != again[i].at {
			t.Fatalf("order %d: %+v, drawn again %+v", i, o, again[i])
		}
		if o.at != other[i].at {
			differ++
		}
		if i > 0 && o.at < orders[i-1].at {
			t.Fatalf("order %d comes before the one before it", i)
		}
		perMinute[o.at/time.Minute]++
		if strings.Contains(string(o.body), "-1") && strings.Contains(string(o.body), `"amount":-1`) {
			invalid++
		}
	}
	for m := range time.Duration(4) {
		if perMinute[m] != 600 {
			t.Errorf("minute %d has %d orders", m, perMinute[m])
		}
	}
	if differ < 2000 || invalid == 0 || invalid > 200 {
		t.Errorf("%d instants differ under another seed, %d orders are invalid", differ, invalid)
	}
}
