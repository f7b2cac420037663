package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exposition is what a worker shows: for each metric its series, as label values.
// It is read from the golden file of the metrics, which a test there holds to the code.
type exposition map[string][]map[string]string

var labelPair = regexp.MustCompile(`(\w+)="([^"]*)"`)

func readExposition(t *testing.T) exposition {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "internal", "metrics", "testdata", "exposition.txt"))
	if err != nil {
		t.Fatal(err)
	}
	shown := exposition{}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, labelled := strings.Cut(strings.TrimSpace(line), "{")
		if !labelled {
			name, _, _ = strings.Cut(name, " ")
		}
		series := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(rest, -1) {
			series[pair[1]] = pair[2]
		}
		shown[name] = append(shown[name], series)
	}
	return shown
}

// targetLabels are added by Prometheus when it scrapes.
var targetLabels = []string{"job", "instance"}

// fromPrometheus is what expressions may name beside our own metrics.
var fromPrometheus = map[string][]string{
	"up":                            targetLabels,
	"scrape_duration_seconds":       targetLabels,
	"process_resident_memory_bytes": targetLabels,
	"ALERTS":                        {"alertname", "alertstate", "severity"},
}

var (
	// A selector: a name, and its matchers if it has any.
	selector = regexp.MustCompile(`\b([a-zA-Z_][a-zA-Z0-9_:]*)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
)

// unknownIn returns what an expression names that nobody shows: metrics, labels, and
// values of labels that no series has. recorded are the rules there are; a rule's
// labels are the first part of its name.
func unknownIn(expr string, shown exposition, recorded []string) []string {
	var wrong []string
	known := map[string]bool{} // labels of all that is selected
	for _, s := range selector.FindAllStringSubmatch(withoutGroupings(expr), -1) {
		name, matchers := s[1], matcher.FindAllStringSubmatch(s[2], -1)
		var labels []string
		var series []map[string]string
		switch {
		case strings.Contains(name, ":"):
			if !slices.Contains(recorded, name) {
				wrong = append(wrong, "no rule records "+name)
				continue
			}
			level, _, _ := strings.Cut(name, ":")
			labels = strings.Split(level, "_")
		case fromPrometheus[name] != nil:
			labels = fromPrometheus[name]
		case strings.HasPrefix(name, "redrive_"):
			if series = shown[name]; series == nil {
				wrong = append(wrong, "no worker shows "+name)
				continue
			}
			labels = slices.Clone(targetLabels)
			for label := range series[0] {
				labels = append(labels, label)
			}
		default:
			continue // a function or a keyword
		}
		for _, label := range labels {
			known[label] = true
		}
		for _, m := range matchers {
			if !slices.Contains(labels, m[1]) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", name, m[1]))
			} else if !someMatch(series, m) {
				wrong = append(wrong, fmt.Sprintf("no series of %s has a value for %s", name, m[0]))
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(g[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !known[label] {
				wrong = append(wrong, "nothing in it has a label "+label)
			}
		}
	}
	return wrong
}

// withoutGroupings leaves out the labels that are grouped by, which look like metrics.
func withoutGroupings(expr string) string { return grouping.ReplaceAllString(expr, "") }

// someMatch reports whether each alternative of a matcher is the value of a series.
// What a variable of the dashboard stands for, and what Prometheus adds, is not known
// here; of rules no series are.
func someMatch(series []map[string]string, m []string) bool {
	label, wanted := m[1], m[3]
	if len(series) == 0 || strings.Contains(wanted, "$") || slices.Contains(targetLabels, label) {
		return true
	}
	for _, one := range strings.Split(wanted, "|") {
		if !slices.ContainsFunc(series, func(s map[string]string) bool { return s[label] == one }) {
			return false
		}
	}
	return true
}

func TestWhatExpressionsNameIsTold(t *testing.T) {
	t.Parallel()
	shown, recorded := readExposition(t), []string{"job_dependency:redrive_x:max"}
	for expr, want := range map[string]string{
		`sum by (job, dependency) (rate(redrive_calls_total{call="retry"}[5m]))`:                   "",
		`histogram_quantile(0.5, sum by (le) (rate(redrive_retry_delay_seconds_bucket[1m])))`:      "",
		`job_dependency:redrive_x:max{dependency="a"} > 0`:                                         "",
		`rate(redrive_cals_total[5m])`:                                                             "no worker shows redrive_cals_total",
		`rate(redrive_calls_total{sort="retry"}[5m])`:                                              "redrive_calls_total has no label sort",
		`rate(redrive_calls_total{call="retried"}[5m])`:                                            `no series of redrive_calls_total has a value for call="retried"`,
		`rate(redrive_calls_total{call=~"retry|again"}[5m])`:                                       `no series of redrive_calls_total has a value for call=~"retry|again"`,
		`sum by (job, reason) (rate(redrive_calls_total[5m]))`:                                     "nothing in it has a label reason",
		`job_dependency:redrive_y:max`:                                                             "no rule records job_dependency:redrive_y:max",
		`job_dependency:redrive_x:max{reason="budget"}`:                                            "job_dependency:redrive_x:max has no label reason",
		`up{dependency="a"}`:                                                                       "up has no label dependency",
		`redrive_redis_up == 0 and on (job, instance) (redrive_redis_durable{job="redrive"} == 1)`: "",
	} {
		if got := strings.Join(unknownIn(expr, shown, recorded), "; "); got != want {
			t.Errorf("%s:\n got %q\nwant %q", expr, got, want)
		}
	}
}
