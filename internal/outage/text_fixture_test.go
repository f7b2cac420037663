package outage

import (
	"math"
	"math/rand/v2"
	"time"
)

// nasty is what must never be read as markup, wherever words of a report stand.
const nasty = `<script>alert("1")</script>&|`

// fixture is a report as an outage of seven minutes brings one, drawn from seed. The
// words in it try to break out of every form that it is written in.
func fixture(seed uint64) *Report {
	r := rand.New(rand.NewPCG(seed, 1))
	report := &Report{
		Scenario: "slow", Text: "The gateway answers in 2.4 s instead of 180 ms, and everybody gives up after 1 s. " + nasty,
		Seed: seed, Speed: 7, Date: time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC), Store: "redis-server 7.0.15, a child " + nasty, Gateway: "sandbox",
		Setting: []Setting{{"timeout", "1 s"}, {"budget", "0.1 tokens for a first attempt, at most 100, floor 0.1/s"}, {"breaker " + nasty, "half of 20 calls in 10 s"}},
		Parts:   []Part{{"normal", 0, time.Minute}, {"outage", time.Minute, 8 * time.Minute}, {"recovered", 8 * time.Minute, 10 * time.Minute}},
		Took:    10*time.Minute + 12*time.Second, Every: time.Second, Outage: time.Minute, PerMin: 1000,
		Alerts: []Alert{
			{Name: "RedriveRetriesRefusedForBudget", Rule: `increase(redrive_retries_refused_total{reason="budget"}[2m]) > 0 for 2m`, For: 2 * time.Minute, Fired: true, Began: 75 * time.Second, At: 195 * time.Second},
			{Name: "OrdersFailing", Rule: "share of orders that fail > 5 % over 5m, for 5m " + nasty, For: 5 * time.Minute, Fired: true, Began: 2 * time.Minute, At: 7 * time.Minute},
			{Name: "RedriveBreakerOpen", Rule: "breaker not closed for 5m", For: 5 * time.Minute},
		},
		Targets: []Target{
			{"load in the first minute, redrive", "at most 1.10", "1.06", true},
			{"load in the first minute, naive", "at least 3.5", "3.98", true},
			{"charged twice " + nasty, "0", "1", false},
		},
	}
	seconds := int(report.Took / time.Second)
	for _, c := range Clients {
		report.Clients = append(report.Clients, fixtureAccount(c, r, seconds))
	}
	refused := map[string]int64{}
	backlog, tokens := 0.0, 100.0
	for s := 1; s <= seconds; s++ {
		g := GateSample{At: time.Duration(s) * time.Second, Breaker: "closed", Held: map[string]int64{}, Refused: map[string]int64{}}
		switch {
		case s >= 60 && s < 480:
			backlog += 16 * r.Float64() * 2
			tokens = max(tokens-8, r.Float64()*3)
			g.Breaker = []string{"open", "open", "half_open", "open", "open"}[s/7%5]
			refused["budget"] += int64(r.IntN(12))
			refused["breaker"] += int64(r.IntN(5))
		case s >= 480:
			backlog, tokens = max(0, backlog-60-20*r.Float64()), min(100, tokens+1.7)
			refused["lane"] += int64(backlog / 900)
		}
		g.Tokens, g.Backlog = tokens, int64(backlog)
		g.Held["budget"], g.Held["breaker"] = int64(backlog*0.6), int64(backlog*0.2)
		for reason, n := range refused {
			g.Refused[reason] = n
		}
		report.Gate = append(report.Gate, g)
	}
	for attempt, upper := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second} {
		b := Band{Attempt: attempt + 1, Upper: upper, Counts: make([]int, 10), P: r.Float64()}
		for range 4000 >> (2 * attempt) {
			b.Counts[r.IntN(10)]++
			b.Delays++
		}
		b.Judged, b.Flat = b.Delays >= 100, b.P >= 0.01
		report.Bands = append(report.Bands, b)
	}
	return report
}

// fixtureAccount draws what becomes of one client's traffic.
func fixtureAccount(c Client, r *rand.Rand, seconds int) Account {
	perFirst := map[Client]float64{Naive: 4, Stacked: 27, Redrive: 1.06}[c]
	a := Account{Client: c, LoadFirstMinute: perFirst - 0.02*r.Float64(), HoldTime: time.Duration(float64(time.Second) * map[Client]float64{Naive: 3.98, Stacked: 26.4, Redrive: 0.9913}[c])}
	for s := 1; s <= seconds; s++ {
		first := 17 - s%3/2 // 1,000 a minute
		sample := Sample{At: time.Duration(s) * time.Second, Calls: first, Connections: 3 + r.IntN(3)}
		if s >= 60 && s < 480 {
			sample.Calls = int(float64(first) * perFirst * (0.95 + 0.1*r.Float64()))
			sample.Failed = sample.Calls - r.IntN(2)
			sample.Connections = sample.Calls
		}
		a.FirstAttempts += first
		a.Calls += sample.Calls
		a.PeakPerSecond, a.PeakConnections = math.Max(a.PeakPerSecond, float64(sample.Calls)), max(a.PeakConnections, sample.Connections)
		a.Samples = append(a.Samples, sample)
	}
	a.Amplification = float64(a.Calls) / float64(a.FirstAttempts)
	a.CustomerSeconds = 7000 * a.HoldTime.Seconds()
	a.LongestHold = a.HoldTime + 40*time.Millisecond
	a.Succeeded = a.FirstAttempts
	if c != Redrive {
		a.Failed, a.Unknowingly, a.ChargedTwice = 7003, 6901, 2
		a.Succeeded -= a.Failed
	} else {
		a.Inquiries = 120
	}
	return a
}
