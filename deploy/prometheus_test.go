package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"redrive/internal/app"
	"redrive/internal/cli"
)

// ruleFile is a file of rules as far as it is checked here.
type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

const installPrometheus = "install it with scripts/test-tools (Debian: apt-get install prometheus)"

// tool finds a program of Prometheus. Without it nothing here is proven: the test fails.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not on PATH: %s", name, installPrometheus)
	}
	return path
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// readRules returns the rules of one file in prometheus/rules.
func readRules(t *testing.T, name string) []rule {
	t.Helper()
	var f ruleFile
	readYAML(t, filepath.Join("prometheus", "rules", name), &f)
	var rules []rule
	for _, g := range f.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", name)
	}
	return rules
}

func recordedNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, r := range readRules(t, "recording.yml") {
		names = append(names, r.Record)
	}
	return names
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
	c.Dir = "prometheus"
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		return
	}
	t.Logf("promtool %s\n%s", strings.Join(args, " "), bytes.TrimSpace(out))
}

func TestPrometheusAcceptsItsConfiguration(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "--lint=all", "--lint-fatal", "prometheus.yml")
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "rules/recording.yml", "rules/alerts.yml")
}

func testFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("prometheus", "tests", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests of rules: %v", err)
	}
	return files
}

func TestAlertsFireWhereTheyMustAndNowhereElse(t *testing.T) {
	t.Parallel()
	for _, file := range testFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			promtool(t, "test", "rules", filepath.Join("tests", filepath.Base(file)))
		})
	}
}

// alertCase is one test of an alert: at these instants it is looked at.
type alertCase struct {
	AlertName string `yaml:"alertname"`
	EvalTime  string `yaml:"eval_time"`
	ExpAlerts []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

// An alert is shown to fire, not to fire one evaluation earlier, and not to fire in
// a case in which it must not.
func TestEachAlertHasACaseThatFiresAndOneThatDoesNot(t *testing.T) {
	t.Parallel()
	fires, early, quiet := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, path := range testFiles(t) {
		var f struct {
			EvaluationInterval string `yaml:"evaluation_interval"`
			Tests              []struct {
				Name  string      `yaml:"name"`
				Cases []alertCase `yaml:"alert_rule_test"`
			} `yaml:"tests"`
		}
		readYAML(t, path, &f)
		interval := duration(t, f.EvaluationInterval)
		for _, test := range f.Tests {
			firedAt, silentAt := map[string]time.Duration{}, map[string][]time.Duration{}
			for _, c := range test.Cases {
				if at := duration(t, c.EvalTime); len(c.ExpAlerts) > 0 {
					firedAt[c.AlertName] = at
				} else {
					silentAt[c.AlertName] = append(silentAt[c.AlertName], at)
				}
			}
			for alert, at := range firedAt {
				fires[alert] = true
				early[alert] = early[alert] || slices.Contains(silentAt[alert], at-interval)
			}
			for alert := range silentAt {
				if _, fired := firedAt[alert]; !fired {
					quiet[alert] = true
				}
			}
		}
	}
	for _, r := range readRules(t, "alerts.yml") {
		if !fires[r.Alert] || !early[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: a case where it fires %t, with the evaluation before %t, and one where it must not %t", r.Alert, fires[r.Alert], early[r.Alert], quiet[r.Alert])
		}
		delete(fires, r.Alert)
		delete(quiet, r.Alert)
	}
	for alert := range fires {
		t.Errorf("%s is tested and does not exist", alert)
	}
	for alert := range quiet {
		t.Errorf("%s is tested not to fire, and does not exist", alert)
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var severities = []string{"page", "alert", "ticket"}

func TestAlertsSayWhatAPersonNeeds(t *testing.T) {
	t.Parallel()
	for _, r := range readRules(t, "alerts.yml") {
		if !slices.Contains(severities, r.Labels["severity"]) {
			t.Errorf("%s: severity %q, want one of %v", r.Alert, r.Labels["severity"], severities)
		}
		if r.Annotations["summary"] == "" || !strings.ContainsAny(r.Annotations["description"], "0123456789$") {
			t.Errorf("%s: no summary, or no number in its description", r.Alert)
		}
		if want := "docs/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
	}
}

func TestRulesNameOnlyWhatIsShown(t *testing.T) {
	t.Parallel()
	shown, recorded := readExposition(t), recordedNames(t)
	for _, r := range slices.Concat(readRules(t, "recording.yml"), readRules(t, "alerts.yml")) {
		for _, wrong := range unknownIn(r.Expr, shown, recorded) {
			t.Errorf("%s%s: %s", r.Record, r.Alert, wrong)
		}
		if r.Record != "" && !regexp.MustCompile(`^job[a-z_]*:redrive_[a-z_]+:[a-z0-9_]+$`).MatchString(r.Record) {
			t.Errorf("%s is not level:metric:operation", r.Record)
		}
	}
}

// section is what the runbook says of one alert.
type section struct{ title, text string }

func readRunbook(t *testing.T) []section {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sections []section
	for i, part := range strings.Split(string(content), "\n## ") {
		title, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n# ") // a heading above sections ends one
		if i > 0 {
			sections = append(sections, section{title, text})
		}
	}
	return sections
}

func TestEachAlertHasItsSectionInTheRunbook(t *testing.T) {
	t.Parallel()
	sections := readRunbook(t)
	var titles []string
	for _, s := range sections {
		titles = append(titles, s.title)
		for _, part := range []string{"**Means.** ", "**Costs.** ", "**First look.**\n\n```\n", "**Do.** ", "**Do not.** "} {
			if !strings.Contains(s.text, part) {
				t.Errorf("%s does not say %q", s.title, strings.TrimSpace(part))
			}
		}
	}
	var alerts []string
	for _, r := range readRules(t, "alerts.yml") {
		alerts = append(alerts, r.Alert)
	}
	if !slices.Equal(titles, alerts) {
		t.Errorf("sections and alerts differ, or stand in another order:\n%s\n%s", titles, alerts)
	}
}

// The commands of the runbook are given to the programs: enqueue with a Redis that is
// not there, which it says after it has understood them; worker with --help.
func TestCommandsOfTheRunbookAreUnderstood(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, fence := range strings.Split(string(content), "```") {
		for line := range strings.Lines(fence) {
			if line = strings.TrimSpace(line); i%2 == 1 && line != "" {
				seen[line] = true
			}
		}
	}
	if len(seen) < 20 {
		t.Fatalf("only %d commands were found", len(seen))
	}
	for line := range seen {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			if said := misunderstood(t, line); said != "" {
				t.Error(said)
			}
		})
	}
	t.Run("and what does not exist is not", func(t *testing.T) {
		t.Parallel()
		for _, line := range []string{"enqueue gates payrail", "enqueue list --reasons x", "enqueue resume payrail", "worker chek", "worker check --life", "redis-cli ping"} {
			if misunderstood(t, line) == "" {
				t.Errorf("%q was understood: this test cannot tell right from wrong", line)
			}
		}
	})
}

// misunderstood returns what a program has to say against a command line; "" if nothing.
func misunderstood(t *testing.T, line string) string {
	t.Helper()
	args, out := words(line), new(bytes.Buffer)
	none := func(string) string { return "" }
	switch args[0] {
	case "enqueue":
		away := append(args[1:], "--redis", "redis://127.0.0.1:1/0", "--yes", "--command-timeout", "5s")
		if code := cli.Run(t.Context(), away, strings.NewReader(""), out, out, none); code != 6 {
			return out.String()
		}
	case "worker":
		if code := app.Run(t.Context(), append(args[1:], "--help"), strings.NewReader(""), out, out, none); code != 0 {
			return out.String()
		}
		if !strings.Contains(out.String(), "\n  worker "+args[1]) {
			return "the help is not that of worker " + args[1]
		}
	default:
		return args[0] + " is no program of ours"
	}
	return ""
}

var word = regexp.MustCompile(`"([^"]*)"|(\S+)`)

// words splits a command line as a shell would, as far as the runbook needs it.
func words(line string) []string {
	var out []string
	for _, w := range word.FindAllStringSubmatch(line, -1) {
		out = append(out, w[1]+w[2])
	}
	return out
}
