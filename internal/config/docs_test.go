package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An unknown key in each mapping makes the error list every known one.
const unknownEverywhere = `
qqqqqqqqqqqqqqqq: 1
redis: {qqqqqqqqqqqqqqqq: 1, assume: {qqqqqqqqqqqqqqqq: 1}}
log: {qqqqqqqqqqqqqqqq: 1}
tokens: [{qqqqqqqqqqqqqqqq: 1}]
tls: {qqqqqqqqqqqqqqqq: 1}
api: {qqqqqqqqqqqqqqqq: 1}
dependencies:
  payrail:
    qqqqqqqqqqqqqqqq: 1
    credentials: {m1: {qqqqqqqqqqqqqqqq: 1}}
    budget: {qqqqqqqqqqqqqqqq: 1}
    rate: {qqqqqqqqqqqqqqqq: 1}
    drain: {qqqqqqqqqqqqqqqq: 1}
    breaker: {qqqqqqqqqqqqqqqq: 1}
    idempotency_key: {qqqqqqqqqqqqqqqq: 1}
    rules: [{qqqqqqqqqqqqqqqq: 1}]
operations:
  charge:
    qqqqqqqqqqqqqqqq: 1
    request: {qqqqqqqqqqqqqqqq: 1}
    backoff: {qqqqqqqqqqqqqqqq: 1}
    new_attempts: {qqqqqqqqqqqqqqqq: 1}
    inquiry: {qqqqqqqqqqqqqqqq: 1, request: {qqqqqqqqqqqqqqqq: 1}, backoff: {qqqqqqqqqqqqqqqq: 1}}
    void: {qqqqqqqqqqqqqqqq: 1}
retention: {qqqqqqqqqqqqqqqq: 1}
`

func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, line := range strings.Split(string(page), "\n") {
		for i, code := range strings.Split(line, "`") {
			if inCode := i%2 == 1; !inCode && !strings.HasPrefix(line, "## ") {
				continue
			}
			for _, key := range strings.FieldsFunc(code, func(r rune) bool { return r == '.' || r == ' ' }) {
				described[key] = true
			}
		}
	}
	_, err = Parse("redrive.yaml", []byte(unknownEverywhere))
	var list *Error
	if !errors.As(err, &list) || len(list.Problems) != strings.Count(unknownEverywhere, "qqqqqqqqqqqqqqqq") {
		t.Fatalf("got %v", err)
	}
	keys := 0
	for _, p := range list.Problems {
		_, known, ok := strings.Cut(p.Message, "known here: ")
		if !ok {
			t.Fatalf("no list of keys in %v", p)
		}
		for _, key := range strings.Split(known, ", ") {
			if keys++; !described[key] {
				t.Errorf("docs/config.md does not describe %s in %q", key, p.Path)
			}
		}
	}
	if keys < 40 {
		t.Errorf("only %d keys were looked up", keys)
	}
}
