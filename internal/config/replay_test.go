package config

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

const replayConfig = `redis: {url: "redis://127.0.0.1:6379/0"}
dependencies:
  pay: {base_url: https://api.example%s}
operations:
  charge: {dependency: pay, request: {path: /v1/charges}}
  refund: {dependency: pay, request: {path: /v1/refunds}, idempotency_key: {replayed: X-Again}}
  plain: {dependency: pay, request: {path: /v1/plain}, idempotency_key: {replayed: ""}}
`

func TestTheReplayMarkIsTheKindsElseTheDependencysElseThePresets(t *testing.T) {
	t.Parallel()
	const stored = "Idempotent-Replayed: true"
	for of, want := range map[string]string{
		"":                  "",
		", preset: stripe":  stored,
		", preset: generic": stored,
		", preset: adyen":   "", // a header there says that the key was honoured, not that this is a second answer
		", idempotency_key: {replayed: 'x-Old: \"yes\"'}":      `X-Old: "yes"`,
		", idempotency_key: {replayed: x-old}, preset: stripe": "X-Old",
		", preset: stripe, idempotency_key: {replayed: ''}":    "",
		", preset: stripe, idempotency_key: {window: 1h}":      stored,
	} {
		c := mustParse(t, fmt.Sprintf(replayConfig, of))
		for kind, want := range map[jobs.Kind]string{"charge": want, "refund": "X-Again", "plain": ""} {
			if got := c.Kinds[kind].IdempotencyKey.Replayed.String(); got != want {
				t.Errorf("%q: the mark of %s is %q, want %q", of, kind, got, want)
			}
		}
	}
}

func TestAReplayMarkThatIsNoHeaderIsRefused(t *testing.T) {
	t.Parallel()
	for mark, want := range map[string]string{
		"Idempotent Replayed": "is no header name",
		": true":              "a header needs a name",
		"X-Old:":              "says no value",
		"X-Old: ":             "says no value",
	} {
		_, err := Parse("redrive.yaml", []byte(fmt.Sprintf(replayConfig, fmt.Sprintf(", idempotency_key: {replayed: %q}", mark))))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "idempotency_key.replayed") {
			t.Errorf("%q: %v, want %q", mark, err, want)
		}
	}
	c := mustParse(t, fmt.Sprintf(replayConfig, ""))
	c.Kinds["charge"].IdempotencyKey.Replayed = ReplayMark{Value: "true"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "operations.charge.idempotency_key.replayed") {
		t.Errorf("a mark without a header is taken: %v", err)
	}
}

func TestWhichAnswersBearTheReplayMark(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mark, name, value string
		want              bool
	}{
		{"Idempotent-Replayed: true", "Idempotent-Replayed", "true", true},
		{"Idempotent-Replayed: true", "Idempotent-Replayed", " TRUE ", true},
		{"Idempotent-Replayed: true", "Idempotent-Replayed", "false", false},
		{"Idempotent-Replayed: true", "Idempotent-Replayed", "true, true", false},
		{"Idempotent-Replayed: true", "Replayed", "true", false},
		{"idempotent-replayed", "Idempotent-Replayed", "", true},
		{"idempotent-replayed", "Replayed", "true", false},
		{"", "", "", false},
	} {
		m, err := parseReplayMark(tc.mark)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		h[tc.name] = []string{tc.value}
		if got := m.In(h); got != tc.want {
			t.Errorf("mark %q, answer %q: %v, want %v", tc.mark, h, got, tc.want)
		}
	}
	if (ReplayMark{Header: "X-Old"}).In(nil) {
		t.Error("a call without an answer is a replay")
	}
}

// A configuration says a mark as it was written, but for spelling: reading it again
// changes nothing.
func FuzzReplayMark(f *testing.F) {
	for _, seed := range []string{"", "Idempotent-Replayed: true", "x-old", ":", "a: b: c", "A:", " x : y "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseReplayMark(text)
		if err != nil {
			return
		}
		again, err := parseReplayMark(m.String())
		if err != nil || again != m {
			t.Errorf("%q is %+v, written as %q, which is %+v (%v)", text, m, m.String(), again, err)
		}
		if m.Header != "" && !m.In(http.Header{m.Header: {m.Value}}) {
			t.Errorf("%q does not find itself", text)
		}
	})
}
