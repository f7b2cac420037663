package config

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

// built returns a valid Config that no file has written.
func built() *Config {
	c := Default()
	c.Redis.URL = LiteralSecret("redis://127.0.0.1:6379/0")
	d := NewDependency("payrail", "https://api.payrail.example")
	c.Dependencies[d.Name] = d
	k := NewKind("charge", d, "/v1/charges")
	c.Kinds[k.Name] = k
	return c
}

func TestConfigBuiltInCodeIsCheckedToo(t *testing.T) {
	t.Parallel()
	if err := built().Validate(); err != nil {
		t.Fatalf("the defaults are not valid: %v", err)
	}
	for path, spoil := range map[string]func(*Config){
		"redis.url":                                 func(c *Config) { c.Redis.URL = Secret{} },
		"redis.namespace":                           func(c *Config) { c.Redis.Namespace = "" },
		"redis.durability":                          func(c *Config) { c.Redis.Durability = "" },
		"redis.assume.persistence":                  func(c *Config) { c.Redis.Assume.Persistence = "both" },
		"redis.assume.maxmemory_policy":             func(c *Config) { c.Redis.Assume.MaxmemoryPolicy = "some" },
		"redis.wait_replicas":                       func(c *Config) { c.Redis.WaitReplicas = -1 },
		"listen":                                    func(c *Config) { c.Listen = "" },
		"shutdown_grace":                            func(c *Config) { c.ShutdownGrace = -time.Second },
		"log.format":                                func(c *Config) { c.Log.Format = "" },
		"dependencies":                              func(c *Config) { c.Dependencies, c.Kinds = nil, map[jobs.Kind]*Kind{"x": {}} },
		"operations":                                func(c *Config) { c.Kinds = nil },
		"dependencies.payrail":                      func(c *Config) { c.Dependencies["payrail"].Name = "other" },
		"dependencies.payrail.base_url":             func(c *Config) { c.Dependencies["payrail"].BaseURL = "" },
		"dependencies.payrail.headers.X-A":          func(c *Config) { c.Dependencies["payrail"].Headers["X-A"] = Secret{} },
		"dependencies.payrail.timeout":              func(c *Config) { c.Dependencies["payrail"].Timeout = math.MaxInt64 },
		"dependencies.payrail.min_response":         func(c *Config) { c.Dependencies["payrail"].MinResponse = time.Nanosecond },
		"dependencies.payrail.max_backlog":          func(c *Config) { c.Dependencies["payrail"].MaxBacklog = maxBacklog + 1 },
		"operations.charge":                         func(c *Config) { c.Kinds["charge"].Name = "refund" },
		"operations.charge.dependency":              func(c *Config) { c.Kinds["charge"].Dependency = "x" },
		"operations.charge.idempotency":             func(c *Config) { c.Kinds["charge"].Idempotency = "" },
		"operations.charge.backoff.base":            func(c *Config) { c.Kinds["charge"].Backoff.Base = 0 },
		"operations.charge.deadline":                func(c *Config) { c.Kinds["charge"].Deadline = -1 },
		"operations.charge.request.method":          func(c *Config) { c.Kinds["charge"].Request.Method = "CONNECT" },
		"retention.audit":                           func(c *Config) { c.Retention.Audit = -time.Hour },
		"retention.keys":                            func(c *Config) { c.Retention.Keys = time.Hour },
		"operations.charge.max_attempts":            func(c *Config) { c.Kinds["charge"].MaxAttempts = maxAttempts + 1 },
		"dependencies.payrail.budget.cap":           func(c *Config) { c.Dependencies["payrail"].Budget.Cap = maxTokens + 1 },
		"dependencies.payrail.breaker.window":       func(c *Config) { c.Dependencies["payrail"].Timeout = 10*time.Second + time.Millisecond },
		"dependencies.payrail.breaker.probes":       func(c *Config) { c.Dependencies["payrail"].Breaker.Probes = 0 },
		"dependencies.payrail.drain.max_per_second": func(c *Config) { c.Dependencies["payrail"].Drain.MaxMilliPerSecond = maxDrain*1000 + 1 },
		"dependencies.payrail.rate.burst":           func(c *Config) { c.Dependencies["payrail"].Rate.Burst = 1 },
		"operations.charge.columns.amount":          func(c *Config) { c.Kinds["charge"].Columns["amount"] = "amount" },
		"operations.charge.request.path":            func(c *Config) { c.Kinds["charge"].Request.Path = "/{secret.x}" },
		"operations.charge.inquiry.succeeded": func(c *Config) {
			k := c.Kinds["charge"]
			k.Inquiry = NewInquiry(k, "/v1/{key}")
			k.Inquiry.Settle = time.Minute
		},
		"operations.charge.void.kind":          func(c *Config) { c.Kinds["charge"].VoidLate = &jobs.VoidSpec{Kind: "x"} },
		"dependencies.payrail.credentials.m_1": func(c *Config) { c.Dependencies["payrail"].Credentials["m_1"] = Credential{} },
	} {
		c := built()
		spoil(c)
		var list *Error
		if err := c.Validate(); !errors.As(err, &list) {
			t.Errorf("%s: got %v, want an *Error", path, err)
		} else if !slices.ContainsFunc(list.Problems, func(p Problem) bool { return p.Path == path && p.File == "" && p.Excerpt == "" }) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestKeyWindowMustLeaveTimeForASafeResend(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		window, timeout time.Duration
		ok              bool
	}{
		{14 * time.Second, 3 * time.Second, false}, // two leases of 7 s, exactly
		{14*time.Second + time.Millisecond, 3 * time.Second, true},
		{0, 3 * time.Second, false},
		{20*time.Minute + 8*time.Second, 10 * time.Minute, false},
	} {
		c := built()
		d := c.Dependencies["payrail"]
		d.Timeout, d.Breaker = tt.timeout, NewBreaker(tt.timeout)
		k := c.Kinds["charge"]
		k.IdempotencyKey.Window = tt.window
		for _, class := range jobs.Idempotencies {
			k.Idempotency = class
			want := tt.ok || class != jobs.IdempotencyKeyed
			if err := c.Validate(); (err == nil) != want {
				t.Errorf("window %s, timeout %s, %s: got %v", tt.window, tt.timeout, class, err)
			}
		}
	}
}

func TestRetentionZeroIsForEver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		succeeded, keys time.Duration
		ok              bool
	}{{0, 0, true}, {time.Hour, 0, true}, {0, 2160 * time.Hour, false}, {48 * time.Hour, 48 * time.Hour, true}, {48*time.Hour + 1e6, 48 * time.Hour, false}} {
		c := built()
		c.Retention = Retention{Succeeded: tt.succeeded, Cancelled: time.Hour, Keys: tt.keys}
		if err := c.Validate(); (err == nil) != tt.ok {
			t.Errorf("succeeded %s, keys %s: got %v", tt.succeeded, tt.keys, err)
		}
	}
}

func TestWarningsNameWhatIsProbablyNotMeant(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://127.0.0.1:6379/0"}
shutdown_grace: 1s
dependencies:
  idle: {base_url: https://idle.example, timeout: 1s}
  slow: {base_url: http://localhost:9900, timeout: 1m, breaker: {slow_call: 1m}}
  payrail:
    base_url: http://payrail.example
    timeout: 2s
    min_response: 3s
    slots: 5
    max_in_flight: 4
    headers: {Authorization: Bearer hunter2, X-Tenant: shop}
    credentials: {m1: {headers: {X-Api-Key: hunter2}}, m2: {headers: {X-Api-Key: "${KEY}"}}}
operations:
  charge: {dependency: payrail, request: {path: /c}}
  hasty: {dependency: slow, request: {path: /c}, deadline: 30s, backoff: {base: 40s}}
  keyed: {dependency: payrail, request: {path: /k}, idempotency: keyed}
  refused: {dependency: payrail, request: {path: /r}, idempotency: conditional}
  asked:
    dependency: payrail
    request: {path: /a}
    idempotency_key: {header: ""}
    result: {id: body.id}
    inquiry: {request: {path: "/a/{result.id}?key={idempotency_key}"}, succeeded: status == 200, settle: 30s}
`)
	golden(t, "warnings.golden.txt", strings.Join(c.Warnings(), "\n")+"\n")
	if got := mustParse(t, strings.Replace(minimal, "dependency:", "idempotency: keyed, dependency:", 1)).Warnings(); len(got) != 0 {
		t.Errorf("a short configuration warns of %q", got)
	}
}

func TestMilliTextWritesThousandthsAsPeopleDo(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 1: "0.001", 100: "0.1", 1000: "1", 1500: "1.5", -500: "-0.5", 20000: "20"} {
		if got := milliText(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestSpanTextWritesSpansAsPeopleDo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0s", 2 * time.Hour: "2h", time.Minute: "1m", 90 * time.Second: "1m30s",
		10*time.Minute + time.Hour: "1h10m", time.Hour + 10*time.Second: "1h0m10s", 20 * time.Second: "20s", -time.Hour: "-1h"} {
		if got := spanText(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if back, err := parseSpan(want); d >= 0 && (err != nil || back != d) {
			t.Errorf("%s is read as %s, %v", want, back, err)
		}
	}
}

func TestNearestFindsSlipsAndNothingElse(t *testing.T) {
	t.Parallel()
	known := []string{"timeout", "slots", "base_url", "max_in_flight", "url"}
	for word, want := range map[string]string{"tiemout": "timeout", "timeouts": "timeout", "Timeout": "timeout", "slot": "slots", "baseurl": "base_url",
		"base-url": "base_url", "maxinflight": "max_in_flight", "uri": "url", "nonsense": "", "x": "", "": "", strings.Repeat("timeout", 100): ""} {
		if got, _ := nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
