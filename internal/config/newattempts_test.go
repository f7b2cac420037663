package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

const withNewAttempts = `
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies: {payrail: {base_url: https://api.payrail.example}}
operations: {charge: {dependency: payrail, request: {path: /v1/charges}%s}}
`

func TestNewAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]NewAttempts{
		"":                   {10, 720 * time.Hour, jobs.AfterNeverRefuse},
		", new_attempts: {}": {10, 720 * time.Hour, jobs.AfterNeverRefuse},
		", new_attempts: {limit: 16, within: 24h, after_never: allow}": {16, 24 * time.Hour, jobs.AfterNeverAllow},
	} {
		c := mustParse(t, strings.Replace(withNewAttempts, "%s", written, 1))
		if got := c.Kinds["charge"].NewAttempts; got != want {
			t.Errorf("%s: %+v, want %+v", written, got, want)
		}
		spec := jobs.NewAttempts{Limit: want.Limit, WithinMS: want.Within.Milliseconds(), AfterNever: want.AfterNever}
		if got := c.KindSpecs()[0].NewAttemptTerms(); got != spec {
			t.Errorf("%s: published %+v, want %+v", written, got, spec)
		}
	}
}

func TestNewAttemptsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for written, at := range map[string]string{
		"limit: 0": "limit", "limit: 101": "limit", "limit: ten": "limit", "within: 0": "within", "within: 9000h": "within", "within: 30d": "within",
		"after_never: warn": "after_never",
	} {
		_, err := Parse("redrive.yaml", []byte(strings.Replace(withNewAttempts, "%s", ", new_attempts: {"+written+"}", 1)))
		var list *Error
		if !errors.As(err, &list) || len(list.Problems) != 1 || list.Problems[0].Path != "operations.charge.new_attempts."+at || list.Problems[0].Line != 4 {
			t.Errorf("%s: %v", written, err)
		}
	}
}

func TestARuleSaysNeverAgain(t *testing.T) {
	t.Parallel()
	rule := func(more string) string {
		return strings.Replace(strings.Replace(withNewAttempts, "%s", "", 1), "payrail.example}",
			"payrail.example, rules: [{when: status == 402, "+more+"}]}", 1)
	}
	c := mustParse(t, rule("verdict: permanent_failure, processed: yes, again: never"))
	if specs := c.Dependencies["payrail"].Rules.Specs(); len(specs) != 1 || specs[0].Again != jobs.AgainNever {
		t.Errorf("rules %+v", specs)
	}
	for _, wrong := range []string{"verdict: permanent_failure, again: later", "verdict: retry_after, processed: no, again: never"} {
		_, err := Parse("redrive.yaml", []byte(rule(wrong)))
		var list *Error
		if !errors.As(err, &list) || len(list.Problems) != 1 || list.Problems[0].Path != "dependencies.payrail.rules.1.again" {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
