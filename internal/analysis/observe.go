package analysis

import (
	"fmt"

	"redrive/internal/config"
)

// ObservabilitySection says what tells of trouble, and where to look.
type ObservabilitySection struct {
	Alerts   []Threshold `json:"alerts"` // of deploy/prometheus, by their names there
	Commands []Command   `json:"commands"`
}

// Threshold is when one alert fires.
type Threshold struct {
	Alert    string `json:"alert"`
	When     string `json:"when"`
	For      string `json:"for"`      // how long it must hold; "": at once
	Severity string `json:"severity"` // page, alert or ticket
}

// Command is a command and what it shows.
type Command struct {
	Command string `json:"command"`
	Shows   string `json:"shows"`
}

// observabilitySection lists the alerts that a dependency, its operations or its store
// can raise. A test holds names, spans and severities against the rules that fire.
func observabilitySection(d *config.Dependency) ObservabilitySection {
	return ObservabilitySection{Alerts: []Threshold{
		{"RedriveRetriesRefused", "retries refused, whatever the reason: more than 0 a minute", "2m", "ticket"},
		{"RedriveRetriesRefusedForBudget", "retries refused for budget: more than 0 a minute", "2m", "alert"},
		{"RedriveRetriesRefusedForBudgetLong", "the same", "5m", "page"},
		{"RedriveOperationsHeld", "due operations held for budget: more than 0", "2m", "alert"},
		{"RedriveOperationsHeldLong", "the same", "5m", "page"},
		{"RedriveRetryRatioHigh", "retries / first attempts over 5m: above 0.05", "2m", "alert"},
		{"RedriveRetryRatioAboveBudget", fmt.Sprintf("the same: above budget.ratio, %s here", milli(d.Budget.RatioMilli)), "5m", "page"},
		{"RedriveAmplificationHigh", "calls for each first attempt over 5m, inquiries included: above 1.2", "5m", "alert"},
		{"RedriveFailureRateHigh", "first attempts that fail over 5m: above 0.05", "5m", "alert"},
		{"RedriveIdempotentReplays", "answers that repeat an earlier one / attempts over 30m: above 0.001", "5m", "ticket"},
		{"RedriveOperationsHeldByBreaker", "due operations held by the breaker: more than 0", "2m", "alert"},
		{"RedriveBreakerOpen", "the breaker is open or half open", "5m", "page"},
		{"RedriveDependencyPaused", "the dependency is paused", "5m", "alert"},
		{"RedriveDeadLettersRising", "dead letters of one reason over 15m: above 5, and above twice the hour before", "", "alert"},
		{"RedriveUnresolvedOld", "the oldest unknown outcome: above 1h", "5m", "alert"},
		{"RedriveOldestDue", "the oldest due operation waits: above 10m", "5m", "alert"},
		{"RedriveDeadlineMissesForecast", "operations that will miss their deadline: more than 0", "5m", "page"},
		{"RedriveWorkersLost", "operations taken back from lost workers over 15m: above 5", "", "alert"},
		{"RedriveRedisNotDurable", "Redis is less durable than redis.durability asks", "2m", "alert"},
		{"RedriveClockSkew", "a worker's clock against that of Redis: above 2s", "5m", "alert"},
	}, Commands: []Command{
		{"enqueue gate " + string(d.Name), "tokens, breaker, ramp, lane, what holds due operations, forecast"},
		{"enqueue stats", "operations by state and dependency"},
		{"enqueue list --dependency " + string(d.Name) + " --state unresolved", "outcomes that are not known"},
		{"enqueue dlq stats --dependency " + string(d.Name), "dead letters by kind and reason"},
		{"enqueue show KIND/KEY", "every attempt and inquiry of one operation"},
		{"enqueue audit " + string(d.Name), "who changed what, with note"},
	}}
}
