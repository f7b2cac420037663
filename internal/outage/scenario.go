package outage

import (
	"fmt"
	"strings"
	"time"

	"redrive/internal/sandbox"
)

// Scenario is an outage that can be rehearsed. Spans are on its own clock.
//
// What a worker does on its own clock does not run faster: it looks for work and
// notices a lost one by the second of the wall, sends again after 100 ms at the
// earliest, the drain lane grows by a twentieth of its most in a second of the wall, the
// breaker counts in bins of a second, and Retry-After knows whole seconds. Seen on the
// scenario's clock these are slower than in life, by the factor Speed; the speeds here
// are those at which no such floor decides a target, and the timeout stays 50 ms at least.
type Scenario struct {
	Name   string
	Text   string  // what is played, in a sentence or two
	Speed  float64 // seconds of the scenario in one of the wall, unless told otherwise
	PerMin int     // first attempts a minute
	Parts  []Part  // customers come until the end of the last one

	faults []sandbox.Fault // of each part; spans and rates on the scenario's clock, but Retry-After
	gate   gate
	deploy []deployment
	judge  []judgeFunc
}

// gate is how redrive's gate is set, on the scenario's clock.
type gate struct {
	breaker bool
	drain   float64 // calls a second that the drain lane grows to
	// raised is what a person sets drain to once the gateway has recovered; 0: nobody does.
	// A lane that is halved once in a second of the wall would let too many leave before it
	// has shrunk, seen on a clock that is faster: so it is narrow until it is needed.
	raised float64
}

// deployment is a worker that is replaced.
type deployment struct {
	at    time.Duration
	crash bool // abandoned in the middle of an attempt; false: stopped in order
}

// outage is when the gateway begins to misbehave and when it has recovered.
func (s *Scenario) outage() (from, to time.Duration) { return s.Parts[1].From, s.Parts[1].To }

// end is when the last customer comes.
func (s *Scenario) end() time.Duration { return s.Parts[len(s.Parts)-1].To }

// The clients' common terms, on the scenario's clock.
const (
	timeout     = time.Second
	slots       = 16
	workers     = 2
	ratio       = 0.05
	tokens      = 10 // the cap
	floor       = 0.1
	backoffBase = time.Second
	backoffCap  = time.Minute
	window      = 10 * time.Second
	openFor     = 5 * time.Second
	maxOpen     = time.Minute
	probes      = 3
	ramp        = time.Minute
	deadline    = 2 * time.Hour
	settle      = 5 * time.Second
	flushEvery  = time.Second
	every       = time.Second // between two samples
	naiveTries  = 4
	stackedIn   = 3 // layers, and tries of each
	invalidOf   = 50
	minimum     = 50 * time.Millisecond // of the wall: a shorter timeout would measure the machine
)

// healthy is the gateway on a normal day.
var healthy = sandbox.Fault{Mode: sandbox.Slow, Latency: 180 * time.Millisecond}

// course is how long a scenario's parts take.
func course(normal, outage, recovered time.Duration) []Part {
	return []Part{{Name: "normal", To: normal}, {Name: "outage", From: normal, To: normal + outage},
		{Name: "recovered", From: normal + outage, To: normal + outage + recovered}}
}

func during(f sandbox.Fault) []sandbox.Fault { return []sandbox.Fault{healthy, f, healthy} }

// Scenarios lists every scenario.
func Scenarios() []Scenario {
	usual := gate{breaker: true, drain: 1, raised: 60}
	none, always := "", 1.0
	return []Scenario{
		{Name: "slow", Speed: 6, PerMin: 1000, Parts: course(45*time.Second, 330*time.Second, 30*time.Second),
			Text: "The gateway answers after 2.4 s instead of 180 ms (medians), and every client waits for 1 s. It charges all the same: " +
				"what times out has happened. The breaker is off, so that what the budget does alone can be seen.",
			faults: during(sandbox.Fault{Mode: sandbox.Slow, Latency: 2400 * time.Millisecond}), gate: gate{drain: 1, raised: 200},
			judge: []judgeFunc{loadStays, naiveLoad, holdStays, holdShorter, budgetBeforeFailures, delaysFlat}},
		{Name: "down", Speed: 10, PerMin: 600, Parts: course(time.Minute, 4*time.Minute, time.Minute),
			Text:   "Every connection is reset before the request is read: nothing happens at the gateway.",
			faults: during(sandbox.Fault{Mode: sandbox.Down}), gate: usual, judge: []judgeFunc{loadStays, holdStays, breakerOpens}},
		{Name: "lost_replies", Speed: 10, PerMin: 600, Parts: course(time.Minute, 4*time.Minute, time.Minute),
			Text:   "Three in ten charges happen and the answer is lost. Whoever gives up then does not know that the customer has paid.",
			faults: during(sandbox.Fault{Mode: sandbox.LostReplies, Latency: 180 * time.Millisecond}), gate: usual,
			judge: []judgeFunc{loadStays, holdStays}},
		{Name: "flaky", Speed: 10, PerMin: 600, Parts: course(time.Minute, 4*time.Minute, time.Minute),
			Text:   "Three in ten calls meet one of: a 500, a 502 for a charge that happened, a 503, a reset, a lost answer, an answer after 2.4 s.",
			faults: during(sandbox.Fault{Mode: sandbox.Flaky, Latency: 2400 * time.Millisecond, RetryAfter: &none}), gate: usual,
			judge: []judgeFunc{loadStays, holdStays}},
		{Name: "rate_limit", Speed: 10, PerMin: 600, Parts: course(time.Minute, 4*time.Minute, time.Minute),
			Text:   "The gateway takes 8 calls a second where 10 customers come, and turns the others away with 429 and Retry-After.",
			faults: during(sandbox.Fault{Mode: sandbox.RateLimit, PerSecond: 8, Share: &always}), gate: usual,
			judge: []judgeFunc{loadStays, holdStays, hintsKept}},
		{Name: "recovery", Speed: 20, PerMin: 300, Parts: course(time.Minute, 10*time.Minute, time.Minute),
			Text:   "Ten minutes without a gateway, and then it is back, with everything that piled up waiting for it.",
			faults: during(sandbox.Fault{Mode: sandbox.Down}), gate: gate{breaker: true, drain: 12},
			judge: []judgeFunc{holdStays, breakerOpens, drainsGently}},
		{Name: "deploy_during_outage", Speed: 10, PerMin: 300, Parts: course(time.Minute, 5*time.Minute, time.Minute),
			Text: "The gateway is slow, and in the middle of it both workers are replaced: one is stopped in order, one is lost in an attempt. " +
				"What is known of the gateway must survive them.",
			faults: during(sandbox.Fault{Mode: sandbox.Slow, Latency: 2400 * time.Millisecond}), gate: usual,
			deploy: []deployment{{at: 160 * time.Second}, {at: 200 * time.Second, crash: true}},
			judge:  []judgeFunc{holdStays, holdShorter, breakerOpens, deployKeepsGate}},
	}
}

// Find returns the scenario of a name; "-" counts as "_". The error lists all there are.
func Find(name string) (Scenario, error) {
	all := Scenarios()
	names := make([]string, len(all))
	for i, s := range all {
		if s.Name == strings.ReplaceAll(name, "-", "_") {
			return s, nil
		}
		names[i] = s.Name
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q: want one of %s", name, strings.Join(names, ", "))
}
