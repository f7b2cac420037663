package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redrive/internal/analysis"
)

// write puts a configuration of the given text into a folder of the test.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redrive.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fieldsConfig has the timeout and the slots of a worked number of the field; its secret
// is nowhere, and its Redis is none.
const fieldsConfig = `redis: {url: "${NO_SUCH_URL}"}
dependencies:
  payrail: {base_url: "https://api.payrail.example", headers: {Authorization: "Bearer ${NO_SUCH_KEY}"}, timeout: TIMEOUT, slots: SLOTS, max_in_flight: SLOTS}
operations:
  charge: {dependency: payrail, request: {path: /v1/charges}, idempotency: keyed}
`

func TestPolicyGivesTheWorkedNumbersOfTheField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		timeout, slots, resends string
		holdMS                  int64
		exhaustion              float64
		fillsMS                 int64 // 0: never
		text                    string
	}{
		{"30s", "200", "3", 120_000, 200.0 / 1920, 12_500, "30s x 4 = 2m |"},
		{"3s", "200", "1", 6_000, 200.0 / 96, 0, "3s x 2 = 6s |"},
		{"3s", "180", "0", 3_000, 3.75, 0, "180 / (40 x 0.4 x 3) = 3.75 s: never exhausted |"},
	} {
		path := write(t, strings.NewReplacer("TIMEOUT", tt.timeout, "SLOTS", tt.slots).Replace(fieldsConfig))
		flags := []string{"policy", "--config", path, "--load", "40", "--failing", "0.4", "--resends-in-request", tt.resends}
		b := setup(t)
		if code := b.run(t, append(flags, "-o", "json")...); code != exitDone {
			t.Fatalf("exit %d: %s", code, b.stderr)
		}
		var r analysis.Record
		if err := json.Unmarshal([]byte(b.stdout.String()), &r); err != nil {
			t.Fatal(err)
		}
		got := r.Kinds[0].Slots.RequestPath
		if got.HoldMS != tt.holdMS || got.ExhaustionS == nil || *got.ExhaustionS != tt.exhaustion || (got.FillsInMS != nil) != (tt.fillsMS > 0) || got.FillsInMS != nil && *got.FillsInMS != tt.fillsMS {
			t.Errorf("%s x %s: %+v", tt.timeout, tt.resends, got)
		}
		b = setup(t)
		if code := b.run(t, flags...); code != exitDone || !strings.Contains(b.stdout.String(), tt.text) {
			t.Errorf("exit %d, and no %q in\n%s", code, tt.text, b.stdout)
		}
	}
}

func TestPolicyAndCheckFindTheSame(t *testing.T) {
	t.Parallel()
	path := write(t, strings.NewReplacer("TIMEOUT", "30s, idempotency_key: {window: 30m}", "SLOTS", "200").Replace(fieldsConfig))
	flags := []string{"--config", path, "--load", "40", "--resends-in-request", "3"}
	b := setup(t)
	if code := b.run(t, append([]string{"policy", "-o", "json"}, flags...)...); code != exitDone {
		t.Fatalf("exit %d: %s: findings are no failure of policy", code, b.stderr)
	}
	var r analysis.Record
	if err := json.Unmarshal([]byte(b.stdout.String()), &r); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	errors, warnings := 0, 0
	for _, f := range r.Findings {
		want.WriteString(string(f.Severity) + strings.Repeat(" ", 9-len(f.Severity)) + f.String() + "\n         right: " + f.Want + " (" + f.ID + ")\n")
		switch f.Severity {
		case analysis.Error:
			errors++
		case analysis.Warning:
			warnings++
		}
	}
	want.WriteString(countText(errors, "error", "errors") + ", " + countText(warnings, "warning", "warnings") + "\n")
	b = setup(t)
	if code := b.run(t, append([]string{"check", "--offline"}, flags...)...); code != exitError || errors == 0 || warnings == 0 || !strings.HasSuffix(b.stdout.String(), want.String()) {
		t.Errorf("exit %d\n%s\nwant exit 1 and\n%s", code, b.stdout, want.String())
	}
}

func TestPolicyRefusesWhatMeansNothing(t *testing.T) {
	t.Parallel()
	path := write(t, strings.NewReplacer("TIMEOUT", "3s", "SLOTS", "10").Replace(fieldsConfig))
	for _, tt := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"policy", "--config", path, "-o", "yaml"}, `--output "yaml": want one of md, json`, exitUsage},
		{[]string{"policy", "--config", path, "--failing", "40"}, "failing 40: want a share from 0 to 1", exitUsage},
		{[]string{"policy", "--config", path, "--load", "-1"}, "load -1: want first attempts per second", exitUsage},
		{[]string{"check", "--offline", "--config", path, "--processes", "0"}, "processes 0: want 1 to 100000", exitUsage},
		{[]string{"policy", "charge"}, `unknown command "charge"`, exitUsage},
		{[]string{"policy", "--config", path + ".gone"}, "redrive.yaml.gone", exitError},
	} {
		b := setup(t)
		if code := b.run(t, tt.args...); code != tt.code || !strings.Contains(b.stderr.String(), tt.want) || b.stdout.String() != "" {
			t.Errorf("%q: exit %d, %s%s, want %d and %q", tt.args, code, b.stdout, b.stderr, tt.code, tt.want)
		}
	}
}
