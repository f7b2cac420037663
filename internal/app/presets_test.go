package app

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redrive/internal/config"
	"redrive/internal/gateway/presets"
)

var update = flag.Bool("update", false, "rewrite the golden files of this package")

// golden compares got with testdata/name, or rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update to write it)", err)
	}
	if got != string(want) {
		t.Errorf("differs from %s:\n%s", path, got)
	}
}

func TestPresetsAreListedAndShown(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"presets.golden":         {"presets"},
		"preset-stripe.golden":   {"presets", "show", "stripe"},
		"preset-checkout.golden": {"presets", "show", "checkout"},
	} {
		b := setup(t)
		if code := b.run(t, args...); code != exitDone || b.stderr.String() != "" {
			t.Errorf("%v: exit %d: %s", args, code, b.stderr)
		}
		golden(t, name, b.stdout.String())
	}
}

func TestEveryPresetIsShownWholeAndAsItsFile(t *testing.T) {
	t.Parallel()
	for _, name := range config.PresetNames() {
		preset, _, err := config.FindPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		b := setup(t)
		if code := b.run(t, "presets", "show", name); code != exitDone {
			t.Errorf("%s: exit %d: %s", name, code, b.stderr)
		}
		shown := b.stdout.String()
		for _, r := range preset.Rules {
			if !strings.Contains(shown, "  "+name+"/"+r.Value.Name+": "+string(r.Value.Verdict)) || !strings.Contains(shown, r.Text) {
				t.Errorf("%s does not show rule %s", name, r.Value.Name)
			}
		}
		for _, f := range append(preset.Notes, preset.Uncertain...) {
			if !strings.Contains(shown, f.Text) {
				t.Errorf("%s does not show %q", name, f.Text)
			}
		}
		if !strings.Contains(shown, preset.NoInquiry) || preset.NoInquiry == "" && !strings.Contains(shown, preset.Inquiry.Inquiry.Value.Path) {
			t.Errorf("%s says nothing of the inquiry", name)
		}
		b = setup(t)
		file, _ := presets.File(name)
		if code := b.run(t, "presets", "show", "-o", "yaml", name); code != exitDone || b.stdout.String() != string(file) {
			t.Errorf("%s -o yaml: exit %d", name, code)
		}
	}
}

func TestAPresetThatIsNotThereIsAMatterOfUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`unknown preset "strpie"; did you mean "stripe"?`: {"presets", "show", "strpie"},
		`unknown preset "../stripe"; known here: adyen,`:  {"presets", "show", "../stripe"},
		`--output "xml": want one of text, yaml`:          {"presets", "show", "stripe", "-o", "xml"},
		`accepts 1 arg(s)`:                                {"presets", "show"},
	} {
		b := setup(t)
		if code := b.run(t, args...); code != exitUsage || !strings.Contains(b.stderr.String(), want) {
			t.Errorf("%v: exit %d: %s, want %s", args, code, b.stderr, want)
		}
	}
}

func TestClassifyNamesTheRuleOfAPreset(t *testing.T) {
	t.Parallel()
	path := rewrite(t, file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1"), payrail,
		`slots: 2, preset: stripe, rules: [{when: 'body.error.decline_code == "fraudulent"', verdict: hold_operator}]}`)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--status", "402", "--body", `{"error":{"decline_code":"insufficient_funds"}}`}, `row        stripe/soft_decline
class      4xx
processed  yes
verdict    permanent_failure
delay      the kind's backoff, where there is a next attempt
resolves a prior unknown  yes
reason     preset stripe: declined for now. The decline is stored under this key; another attempt later is a new operation with a new key
`},
		{[]string{"--status", "402", "--body", `{"error":{"decline_code":"fraudulent"}}`}, "row        R1\n"},
		{[]string{"--status", "429", "--body", `{"error":{"code":"lock_timeout"}}`}, "verdict    unknown_inquire\n"}, // class none
		{[]string{"--status", "429", "--body", `{"error":{"code":"lock_timeout"}}`, "--idempotency", "keyed"}, "verdict    retry_same_key\n"},
		{[]string{"--status", "418"}, "row        H4XX\n"},
	} {
		b := setup(t)
		code := b.run(t, append([]string{"classify", "payrail", "--config", path}, tc.args...)...)
		if code != exitDone || !strings.Contains(b.stdout.String(), tc.want) || strings.Contains(b.stdout.String(), "rule 2") {
			t.Errorf("%v: exit %d: %s%s\nwant %s", tc.args, code, b.stdout, b.stderr, tc.want)
		}
	}
}

func TestCheckShowsWhatAPresetSetAndWhatTheFileOverrides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := rewrite(t, file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1"), payrail,
		`slots: 2, preset: dwolla, idempotency_key: {window: 48h}, rules: [{when: status == 503, verdict: hold_operator}]}`)
	if code := b.run(t, "check", "--offline", "--config", path); code != exitDone {
		t.Errorf("exit %d", code)
	}
	golden(t, "check-preset.golden", steady(b.stdout.String()))
	b = setup(t)
	code := b.run(t, "check", "--offline", "--config", rewrite(t, path, "preset: dwolla", "preset: dwola"))
	if want := "error    FILE:5:76: dependencies.payrail.preset: unknown preset \"dwola\"; did you mean \"dwolla\"?"; code != exitError || !strings.HasPrefix(steady(b.stdout.String()), want) {
		t.Errorf("exit %d: %s\nwant %s", code, steady(b.stdout.String()), want)
	}
}
