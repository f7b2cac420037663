package config

import (
	"log/slog"
	"time"

	"redrive/internal/jobs"
)

// Default returns what holds where no file says anything: no Redis URL, no
// dependencies, no kinds. enqueue can work with it, once a flag or the environment
// names Redis.
func Default() *Config {
	return &Config{
		Redis:         Redis{Namespace: "redrive", Durability: DurabilityStandard},
		Listen:        "127.0.0.1:8080",
		ShutdownGrace: 25 * time.Second,
		Log:           Log{Level: slog.LevelInfo, Format: LogAuto},
		Dependencies:  map[jobs.Dependency]*Dependency{},
		Kinds:         map[jobs.Kind]*Kind{},
		Retention: Retention{
			Succeeded: 168 * time.Hour,
			Cancelled: 168 * time.Hour,
			Dead:      0,
			Keys:      2160 * time.Hour,
			Audit:     8760 * time.Hour,
		},
		API: defaultAPI(),
	}
}

// NewDependency returns a dependency of which only name and base URL are set, with
// the defaults for the rest.
func NewDependency(name jobs.Dependency, baseURL string) *Dependency {
	const timeout = 3 * time.Second
	return &Dependency{
		Name:           name,
		BaseURL:        baseURL,
		Headers:        map[string]Secret{},
		Credentials:    map[string]Credential{},
		Timeout:        timeout,
		MinResponse:    150 * time.Millisecond,
		Slots:          10,
		MaxInFlight:    40,
		Budget:         Budget{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 1000},
		Drain:          Drain{MaxMilliPerSecond: 10_000},
		Breaker:        NewBreaker(timeout),
		IdempotencyKey: IdempotencyKey{Header: "Idempotency-Key", Window: 24 * time.Hour, MaxLength: 255},
		MaxBacklog:     1_000_000,
	}
}

// NewKind returns a kind of class none that posts to path at d, with the defaults
// for the rest and the dependency's idempotency key.
func NewKind(name jobs.Kind, d *Dependency, path string) *Kind {
	return &Kind{
		Name:           name,
		Dependency:     d.Name,
		Request:        Request{Method: "POST", Path: path, ContentType: "application/json"},
		Idempotency:    jobs.IdempotencyNone,
		IdempotencyKey: d.IdempotencyKey,
		MaxAttempts:    25,
		Backoff:        Backoff{Base: time.Second, Cap: 10 * time.Minute},
		Deadline:       2 * time.Hour,
		NewAttempts:    defaultNewAttempts(),
		Columns:        map[string]string{},
	}
}
