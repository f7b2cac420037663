package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// outage is short, so that the tests are; 60s is the long form, 1,000 first attempts a
// minute.
var outage = flag.Duration("outage", 12500*time.Millisecond, "how long a dependency fails in the tests of the gate; it gets 1,000 first attempts meanwhile")

// newGateSetting writes a configuration of these dependencies, each with one kind of
// its name, which has the settings kinds.
func newGateSetting(t *testing.T, server *redistest.Redis, dependencies map[string]string, kinds string) setting {
	t.Helper()
	s := setting{config: filepath.Join(t.TempDir(), "redrive.yaml"), redis: server.URL(), namespace: "money"}
	text := fmt.Sprintf("redis: {url: '%s', namespace: %s}\nlisten: 127.0.0.1:0\nlog: {level: info, format: json}\n", s.redis, s.namespace)
	operations := "operations:\n"
	text += "dependencies:\n"
	for name, values := range dependencies {
		text += fmt.Sprintf("  %s: {%s}\n", name, values)
		operations += fmt.Sprintf("  %s: {dependency: %s, idempotency: keyed, request: {method: POST, path: /v1/charges}, %s}\n", name, name, kinds)
	}
	if err := os.WriteFile(s.config, []byte(text+operations), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// gateWorkers starts n workers and waits until each of them works.
func (s setting) gateWorkers(t *testing.T, server *redistest.Redis, n int) []*process {
	t.Helper()
	var workers []*process
	for range n {
		workers = append(workers, s.worker(t))
	}
	rdb := server.Client(t)
	await(t, 30*time.Second, fmt.Sprintf("%d workers", n), func() bool {
		alive, err := rdb.HLen(t.Context(), s.namespace+":workers").Result()
		return err == nil && int(alive) == n
	})
	await(t, 30*time.Second, "the gates' parameters", func() bool {
		for _, g := range s.gates(t) {
			if !g.Known {
				return false
			}
		}
		return true
	})
	return workers
}

// due is what waits in a lane of a gate, and why.
type due struct {
	Due    int    `json:"due"`
	HeldBy string `json:"held_by"`
}

// gate is what the tests read of "enqueue gate".
type gate struct {
	Dependency string  `json:"dependency"`
	Known      bool    `json:"parameters_known"`
	Tokens     float64 `json:"tokens"`
	Floor      float64 `json:"floor_per_second"`
	Window     struct {
		Spent  int `json:"spent"`
		Failed int `json:"failed"`
	} `json:"window"`
	Breaker struct {
		State      string     `json:"state"`
		Since      *time.Time `json:"since"`
		Until      *time.Time `json:"until"`
		Why        string     `json:"why"`
		Generation int        `json:"generation"`
	} `json:"breaker"`
	Paused *struct {
		By    string     `json:"by"`
		Note  string     `json:"note"`
		Until *time.Time `json:"until"`
	} `json:"paused"`
	Backlog  due `json:"backlog"`
	Override *struct {
		Note string `json:"note"`
	} `json:"override"`
}

// gates reads all gates of a setting at about one instant, by their dependencies.
func (s setting) gates(t *testing.T) map[string]gate {
	t.Helper()
	out, code := s.enqueue(t, "gate", "-o", "json")
	var all struct {
		Items []gate `json:"items"`
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 {
		t.Fatalf("gate: exit %d, %v\n%s", code, err, out)
	}
	byName := map[string]gate{}
	for _, g := range all.Items {
		byName[g.Dependency] = g
	}
	return byName
}

func (s setting) gate(t *testing.T, dependency string) gate {
	t.Helper()
	out, code := s.enqueue(t, "gate", dependency, "-o", "json")
	var g gate
	if err := json.Unmarshal([]byte(out), &g); err != nil || code != 0 {
		t.Fatalf("gate %s: exit %d, %v\n%s", dependency, code, err, out)
	}
	return g
}

// traffic is a thousand operations per outage, evenly spaced, from start on.
type traffic struct {
	start time.Time
	every time.Duration
}

func newTraffic(start time.Time) traffic { return traffic{start: start, every: *outage / 1000} }

func (f traffic) perSecond() float64 { return float64(time.Second) / float64(f.every) }

// within counts what comes due in a span after start.
func (f traffic) within(span time.Duration) int { return int(span / f.every) }

func (f traffic) due(i int) time.Time { return f.start.Add(time.Duration(i) * f.every) }

// submit hands n operations of a kind in, none of which is due before its time.
func (f traffic) submit(t *testing.T, s setting, kind string, n int) {
	t.Helper()
	file := charges(t, n, func(i int, line map[string]any) {
		line["kind"], line["not_before"] = kind, f.due(i).UTC().Format(time.RFC3339Nano)
	})
	if a, code := s.importFile(t, file); a.Accepted != n || code != 0 {
		t.Fatalf("import %s: %+v, exit %d", kind, a, code)
	}
}

// untilTime waits for an instant, and looks every second meanwhile.
func untilTime(t *testing.T, at time.Time, look func()) {
	t.Helper()
	for next := time.Now(); next.Before(at); next = next.Add(time.Second) {
		time.Sleep(time.Until(next))
		look()
	}
	time.Sleep(time.Until(at))
}

// down lets a gateway reset every call for the length of the outage, and returns when
// that began and will have ended.
func (g gateway) down(t *testing.T) (from, to time.Time) {
	t.Helper()
	from = time.Now()
	g.fault(t, fmt.Sprintf(`{"mode":"down","for":%q}`, *outage))
	return from, time.Now().Add(*outage)
}

// calls is what a gateway counted; what it reset is unread.
type calls struct {
	Requests  int `json:"requests"`
	Unread    int `json:"unread"`
	Inquiries int `json:"inquiries"`
	Seconds   []struct {
		At       time.Time `json:"at"`
		Requests int       `json:"requests"`
		Unread   int       `json:"unread"`
	} `json:"seconds"`
}

func (g gateway) calls(t *testing.T) calls {
	t.Helper()
	var c calls
	if err := get(g.url+"/_sandbox/stats", &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// around is the most calls of the second at and of its neighbours: what one machine
// delays falls into the next second.
func (c calls) around(at time.Time) int {
	most := 0
	for _, s := range c.Seconds {
		if d := s.At.Sub(at).Abs(); d <= time.Second {
			most = max(most, s.Requests+s.Unread)
		}
	}
	return most
}
