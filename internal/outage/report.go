package outage

import (
	"time"
)

// Report is what a rehearsed outage came to: the same traffic against the same
// misbehaving gateway, once for each [Client]. Spans and instants are on the
// scenario's own clock, which is [Report.Speed] times faster than the wall's;
// instants count from the start.
type Report struct {
	Scenario string    `json:"scenario"`
	Text     string    `json:"text"` // what is played, in a sentence or two
	Seed     uint64    `json:"seed"`
	Speed    float64   `json:"speed"` // seconds of the scenario in one of the wall
	Date     time.Time `json:"date"`
	Store    string    `json:"store"`   // what stood in for Redis
	Gateway  string    `json:"gateway"` // "sandbox", or the address it was played against
	Setting  []Setting `json:"setting"` // what was configured, for a person to read

	Parts   []Part        `json:"parts"`     // in order; they fill Took but for the rest in which the backlog leaves
	Took    time.Duration `json:"took_ns"`   // from start to end
	Every   time.Duration `json:"every_ns"`  // between two samples
	Outage  time.Duration `json:"outage_ns"` // when the gateway began to misbehave
	PerMin  int           `json:"first_attempts_per_minute"`
	Clients []Account     `json:"clients"` // naive, stacked, redrive
	Gate    []GateSample  `json:"gate"`    // of redrive
	Bands   []Band        `json:"bands"`   // retry delays of redrive
	Alerts  []Alert       `json:"alerts"`
	Targets []Target      `json:"targets"` // what this scenario must reach
}

// Setting is one thing that was configured.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Part is a span in which the gateway behaves in one way.
type Part struct {
	Name string        `json:"name"` // "normal", "outage", "recovered"
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
}

// Client says how the other side of the gateway behaves.
type Client string

// The clients.
const (
	Naive   Client = "naive"   // up to 3 retries in the request, no jitter, no budget
	Stacked Client = "stacked" // three layers of 3 tries each, as when a mesh, a library and a job all retry
	Redrive Client = "redrive" // one attempt, then a durable retry
)

// Clients lists every client in the order of a report.
var Clients = []Client{Naive, Stacked, Redrive}

// Account is what became of one client's traffic, counted at the gateway and at
// the till.
type Account struct {
	Client          Client        `json:"client"`
	FirstAttempts   int           `json:"first_attempts"`
	Calls           int           `json:"calls"`             // requests at the gateway, inquiries included
	Inquiries       int           `json:"inquiries"`         // of them
	Amplification   float64       `json:"amplification"`     // Calls / FirstAttempts
	LoadFirstMinute float64       `json:"load_first_minute"` // calls in the first minute of the outage / first attempts in it
	PeakPerSecond   float64       `json:"peak_per_second"`   // most calls in one second of the scenario
	PeakConnections int           `json:"peak_connections"`  // calls under way at once
	HoldTime        time.Duration `json:"hold_time_ns"`      // mean span for which a customer who came during the outage was kept waiting
	LongestHold     time.Duration `json:"longest_hold_ns"`   // of any customer
	CustomerSeconds float64       `json:"customer_seconds"`  // that all customers waited together
	Succeeded       int           `json:"succeeded"`         // orders that the gateway applied once, and whose client knows it
	Failed          int           `json:"failed"`            // orders that their client gave up on
	Declined        int           `json:"declined"`          // orders that the gateway refused for good, which their client knows
	ChargedTwice    int           `json:"charged_twice"`     // orders that the gateway applied more than once
	Unknowingly     int           `json:"unknowingly"`       // orders that the gateway applied and the client gave up on or does not know of
	RetriesOn4xx    int           `json:"retries_on_4xx"`    // calls made again after a 4xx other than 408, 425, 429, and 409 where it says that the first is still under way
	Samples         []Sample      `json:"samples"`
}

// Sample is one client in one span of [Report.Every].
type Sample struct {
	At          time.Duration `json:"at_ns"` // its end
	Calls       int           `json:"calls"`
	Failed      int           `json:"failed"`      // calls that did not succeed at the gateway, or whose answer came too late
	Connections int           `json:"connections"` // most calls under way at once
}

// GateSample is the gate of redrive at one instant.
type GateSample struct {
	At      time.Duration    `json:"at_ns"`
	Tokens  float64          `json:"tokens"`
	Breaker string           `json:"breaker"` // closed, open, half_open
	Held    map[string]int64 `json:"held"`    // due operations by why they have not left
	Backlog int64            `json:"backlog"` // operations that have not ended
	Refused map[string]int64 `json:"refused"` // retries refused so far, by reason
}

// Band is the delays that were drawn between 0 and Upper.
type Band struct {
	Attempt int           `json:"attempt"` // after which the delay came; the last band of a capped backoff has the attempts beyond it too
	Upper   time.Duration `json:"upper_ns"`
	Counts  []int         `json:"counts"` // in equal parts of the band
	Delays  int           `json:"delays"`
	Chi2    float64       `json:"chi2"`   // against the even distribution
	P       float64       `json:"p"`      // how likely a chi2 as large is by chance
	Judged  bool          `json:"judged"` // there are enough delays to say
	Flat    bool          `json:"flat"`   // P is at least 0.01 divided by the number of judged bands: one report in a hundred looks uneven by chance
}

// Alert is a rule that was evaluated over the scenario as Prometheus would.
type Alert struct {
	Name  string        `json:"name"`
	Rule  string        `json:"rule"` // in words
	For   time.Duration `json:"for_ns"`
	Fired bool          `json:"fired"`
	At    time.Duration `json:"at_ns"` // when it fired
	Began time.Duration `json:"began_ns"`
}

// Target is one thing that the scenario must reach.
type Target struct {
	Name    string `json:"name"`
	Want    string `json:"want"`
	Got     string `json:"got"`
	Reached bool   `json:"reached"`
}
