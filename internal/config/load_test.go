package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestWhatAFileLeavesOutHasItsDefault(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal)
	d, k := c.Dependencies["payrail"], c.Kinds["charge"]
	key := IdempotencyKey{Header: "Idempotency-Key", Window: 24 * time.Hour, MaxLength: 255}
	for _, tt := range []struct {
		key       string
		got, want any
	}{
		{"redis.namespace", c.Redis.Namespace, "redrive"},
		{"redis.durability", c.Redis.Durability, DurabilityStandard},
		{"redis.assume", c.Redis.Assume, Assume{}},
		{"listen", c.Listen, "127.0.0.1:8080"},
		{"shutdown_grace", c.ShutdownGrace, 25 * time.Second},
		{"log", c.Log, Log{Level: slog.LevelInfo, Format: LogAuto}},
		{"name", d.Name, jobs.Dependency("payrail")},
		{"headers", d.Headers, map[string]Secret{}},
		{"credentials", d.Credentials, map[string]Credential{}},
		{"timeout", d.Timeout, 3 * time.Second},
		{"min_response", d.MinResponse, 150 * time.Millisecond},
		{"slots", d.Slots, 10},
		{"max_in_flight", d.MaxInFlight, 40},
		{"budget", d.Budget, Budget{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 1000}},
		{"drain", d.Drain, Drain{MaxMilliPerSecond: 10_000}},
		{"breaker", d.Breaker, Breaker{Window: 10 * time.Second, MinCalls: 20, FailureRateMilli: 500, Consecutive: 5, SlowCall: 2 * time.Second,
			Open: 5 * time.Second, MaxOpen: time.Minute, Probes: 3, Ramp: time.Minute}},
		{"rate", d.Rate, Rate{}},
		{"idempotency_key", d.IdempotencyKey, key},
		{"max_backlog", d.MaxBacklog, int64(1_000_000)},
		{"request", k.Request, Request{Method: "POST", Path: "/v1/charges", ContentType: "application/json"}},
		{"idempotency", k.Idempotency, jobs.IdempotencyNone},
		{"kind's idempotency_key", k.IdempotencyKey, key},
		{"max_attempts", k.MaxAttempts, 25},
		{"backoff", k.Backoff, Backoff{Base: time.Second, Cap: 10 * time.Minute}},
		{"deadline", k.Deadline, 2 * time.Hour},
		{"columns", k.Columns, map[string]string{}},
		{"retention", c.Retention, Retention{Succeeded: 168 * time.Hour, Cancelled: 168 * time.Hour, Keys: 2160 * time.Hour, Audit: 8760 * time.Hour}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.key, tt.got, tt.want)
		}
	}
}

func TestKindTakesFromItsDependencyWhatItDoesNotWrite(t *testing.T) {
	t.Parallel()
	// The kind stands before its dependency: the order of keys means nothing.
	c := mustParse(t, `
operations:
  charge: {dependency: payrail, request: {path: /c}, idempotency_key: {window: 1h}}
  refund: {dependency: payrail, request: {path: /r}}
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies: {payrail: {base_url: https://a.example, idempotency_key: {header: X-Ref, window: 2h, max_length: 40}}}
`)
	if got, want := c.Kinds["charge"].IdempotencyKey, (IdempotencyKey{"X-Ref", time.Hour, 40, ReplayMark{}}); got != want {
		t.Errorf("charge has %v, want %v", got, want)
	}
	if got, want := c.Kinds["refund"].IdempotencyKey, c.Dependencies["payrail"].IdempotencyKey; got != want {
		t.Errorf("refund has %v, want %v", got, want)
	}
}

func TestExampleWorksWithoutWarnings(t *testing.T) {
	t.Parallel()
	c, err := Load(filepath.Join("..", "..", "examples", "redrive.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
	if err := c.ResolveSecrets(noEnv); err != nil {
		t.Errorf("it needs secrets: %v", err)
	}
	for kind, want := range map[jobs.Kind]jobs.Idempotency{"charge": jobs.IdempotencyKeyed, "refund": jobs.IdempotencyKeyed,
		"void": jobs.IdempotencyNatural, "payout": jobs.IdempotencyNone} {
		if k := c.Kinds[kind]; k == nil || k.Idempotency != want {
			t.Errorf("kind %s: %+v, want idempotency %s", kind, k, want)
		}
	}
}

func TestEveryExampleIsRead(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "..", "examples", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %q, %v", paths, err)
	}
	for _, path := range paths {
		if _, err := Load(path); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadSaysWhichFileItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "missing.yaml"), dir} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if _, err := Load(filepath.Join(dir, "missing.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestParseRefusesWhatNoPersonWrites(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{ // each would cost the parser or the decoder minutes, or its stack
		"long file":       strings.Repeat("# filler\n", maxFileBytes/9+1) + minimal,
		"long line":       minimal + "x-a: " + strings.Repeat("- ", maxLineBytes),
		"not utf-8":       minimal + "x-a: \xff\n",
		"nested brackets": "x-a: " + strings.Repeat("\n  [", maxNesting+1),
		"nested mappings": "x-a: " + strings.Repeat("\n  {a:", maxNesting+1),
		"alias bomb":      aliasBomb(),
	} {
		var list *Error
		if _, err := Parse("redrive.yaml", []byte(text)); !errors.As(err, &list) {
			t.Errorf("%s: got %v, want an *Error", name, err)
		}
	}
}

// aliasBomb returns a few lines whose merge keys unfold to 10^9 entries.
func aliasBomb() string {
	var b strings.Builder
	b.WriteString("x-0: &a0 {k: 1}\n")
	for i := 1; i < 10; i++ {
		line := strings.ReplaceAll("x-N: &aN {<<: [*aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM]}\n", "N", string(rune('0'+i)))
		b.WriteString(strings.ReplaceAll(line, "M", string(rune('0'+i-1))))
	}
	return b.String() + "redis:\n  <<: *a9\n"
}

func TestErrorShowsTheFirstTwentyProblems(t *testing.T) {
	t.Parallel()
	text := minimal
	for range 30 {
		text += "nonsense" + string(rune('a'+strings.Count(text, "nonsense"))) + ": 1\n"
	}
	_, err := Parse("redrive.yaml", []byte(text))
	var list *Error
	if !errors.As(err, &list) || len(list.Problems) != 30 {
		t.Fatalf("got %v", err)
	}
	if got := strings.Count(err.Error(), "unknown key"); got != maxShown || !strings.HasSuffix(err.Error(), "and 10 more") {
		t.Errorf("it shows %d: %v", got, err)
	}
}

func TestExcerptMasksSecretsWhereverTheyStandInTheLine(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"left of the mistake":   `dependencies: {payrail: {headers: {A: "hunter2", B: hunter2}, tiemout: 3s, base_url: https://a.example}}`,
		"right of the mistake":  `dependencies: {payrail: {tiemout: 3s, headers: {A: 'hunter2'}, base_url: https://a.example}}`,
		"in a credential":       `dependencies: {payrail: {tiemout: 3s, credentials: {m1: {headers: {A: "ü hunter2 ü"}}}}}`,
		"under a mistyped key":  `dependencies: {payrail: {tiemout: 3s, credentails: {m1: {headers: [hunter2]}}}}`,
		"in a later duplicate":  `dependencies: {payrail: {tiemout: 3s, headers: {A: x}, headers: {A: hunter2}}}`,
		"through an alias":      "x-h: {a: &h hunter2, b: 1}\nlisten: {a: b}\ndependencies: {payrail: {base_url: x, headers: {A: *h}, tiemout: 1}}",
		"over several lines":    "dependencies:\n  payrail:\n    tiemout: 3s\n    headers: {A: \"x\n      hunter2\", B: 1}",
		"in a block":            "dependencies:\n  payrail:\n    tiemout: 3s\n    headers:\n      A: |\n        x\n        hunter2\n",
		"in a syntax error":     "dependencies:\n  payrail:\n    headers: {A: hunter2, : ]}\n",
		"in a line without key": "dependencies:\n  payrail:\n    headers:\n      A: 'x\n   hunter2'hunter2\n",
	} {
		_, err := Parse("redrive.yaml", []byte(text+"\n"))
		var list *Error
		if !errors.As(err, &list) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: shown\n%v", name, err)
		}
	}
}
