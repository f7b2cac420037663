package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"redrive/internal/app"
)

// prom is a Prometheus that the test started.
type prom struct {
	url    string
	client *http.Client
}

// startPrometheus runs the configuration of this folder, with the target instead of
// its own ones and with everything asked each second, until the test ends.
func startPrometheus(t *testing.T, target string) *prom {
	t.Helper()
	dir := t.TempDir()
	var config map[string]any
	readYAML(t, filepath.Join("prometheus", "prometheus.yml"), &config)
	config["global"] = map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"}
	rules, err := filepath.Abs(filepath.Join("prometheus", "rules", "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	config["rule_files"] = []string{rules}
	job := config["scrape_configs"].([]any)[0].(map[string]any)
	job["scrape_timeout"] = "1s"
	job["static_configs"] = []any{map[string]any{"targets": []string{target}}}
	content, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	var said bytes.Buffer // read after the process has ended
	c := exec.Command(tool(t, "prometheus"), "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended by itself: Wait says so
		kill := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
		defer kill.Stop()
		if err := c.Wait(); err != nil || t.Failed() {
			t.Logf("prometheus: %v\n%s", err, said.String())
		}
	})
	p := &prom{url: "http://" + address, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	waitFor(t, "prometheus to be ready", 20*time.Second, func() bool {
		_, err := p.get(t.Context(), "/-/ready", nil)
		return err == nil
	})
	return p
}

// freeAddress is an address of the loopback that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func waitFor(t *testing.T, what string, limit time.Duration, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

func (p *prom) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, bytes.TrimSpace(body))
	}
	return body, err
}

// at asks for the value of an expression at an instant: one number for each series
// that has one. A share of nothing is none (NaN).
func (p *prom) at(ctx context.Context, expr string, at time.Time) ([]float64, error) {
	body, err := p.get(ctx, "/api/v1/query", url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", body, err)
	}
	var values []float64
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("value %v of %s: %w", r.Value[1], expr, err)
		}
		if !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values, nil
}

// grafanaFile is the dashboard as far as it is checked here.
type grafanaFile struct {
	Panels []struct {
		Type    string `json:"type"`
		Title   string `json:"title"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query string `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) grafanaFile {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("grafana", "redrive.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d grafanaFile
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// chosen are the variables of the dashboard, as a person would have chosen them.
var chosen = strings.NewReplacer("$job", "redrive", "$dependency", "payrail", "$__rate_interval", "1m")

func TestDashboardNamesOnlyWhatIsShown(t *testing.T) {
	t.Parallel()
	shown, recorded := readExposition(t), recordedNames(t)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			for _, wrong := range unknownIn(target.Expr, shown, recorded) {
				t.Errorf("%s: %s", p.Title, wrong)
			}
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startDemo plays the demo in this process, with its metrics at the address. The channel
// is closed when it is over.
func startDemo(t *testing.T, address string) (over <-chan struct{}) {
	t.Helper()
	var out, said lockedBuffer
	done := make(chan struct{}) // closed by the goroutine below, which ends with the demo
	go func() {
		defer close(done)
		code := app.Run(context.WithoutCancel(t.Context()), []string{"demo", "--operations", "150", "--fault", "flaky", "--seed", "6", "--listen", address, "-o", "json"},
			strings.NewReader(""), &out, &said, func(string) string { return "" })
		if code != 0 {
			t.Errorf("the demo ended with %d:\n%s%s", code, said.String(), out.String())
		}
	}()
	t.Cleanup(func() { <-done }) // it ends by itself within a minute
	return done
}

// Alerts and dashboard are worth what they show of a real run: a real Prometheus
// scrapes a real demo, and then each panel's query, each rule and each variable must
// bring something.
func TestPrometheusAndDashboardShowARealRun(t *testing.T) {
	t.Parallel()
	// Prometheus looks first: it must see the counters at 0.
	target := freeAddress(t)
	p := startPrometheus(t, target)
	waitFor(t, "prometheus to look for the demo", 30*time.Second, func() bool {
		tried, err := p.at(t.Context(), `up{job="redrive"}`, time.Now())
		return err == nil && len(tried) == 1
	})
	over := startDemo(t, target)

	// The last instant at which the demo was scraped: afterwards everything is stale.
	var last time.Time
	waitFor(t, "the demo to end", 90*time.Second, func() bool {
		now := time.Now()
		if seen, err := p.at(t.Context(), `up{job="redrive"} == 1`, now); err == nil && len(seen) == 1 {
			last = now
		}
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	if last.IsZero() {
		t.Fatal("the demo was never scraped")
	}

	for _, r := range readRules(t, "recording.yml") {
		if values, err := p.at(t.Context(), r.Record, last); err != nil || len(values) == 0 {
			t.Errorf("rule %s brings nothing (%v)", r.Record, err)
		}
	}
	p.rulesAreHealthy(t)

	d := readDashboard(t)
	var list strings.Builder
	panels, row := 0, ""
	for _, panel := range d.Panels {
		if panel.Type == "row" {
			row = panel.Title
			continue
		}
		panels++
		series := 0
		for _, q := range panel.Targets {
			values, err := p.at(t.Context(), chosen.Replace(q.Expr), last)
			if err != nil || len(values) == 0 {
				t.Errorf("%s / %s brings nothing: %s (%v)", row, panel.Title, q.Expr, err)
			}
			series += len(values)
		}
		fmt.Fprintf(&list, "%-28s %-45s %3d series\n", row, panel.Title, series)
	}
	t.Logf("%d panels, each query brought data from a demo that a real Prometheus scraped:\n%s", panels, list.String())

	// What the fault must have caused is seen, and not only there.
	for _, expr := range []string{
		`redrive_calls_total{call="retry"}`,
		`redrive_calls_total{call="inquiry"}`,
		`job_dependency_reason:redrive_retries_refused:per_minute_rate1m`,
		`job_dependency_reason:redrive_held_operations:max`,
		`job_dependency:redrive_retries:ratio_rate5m`,
		`job_dependency:redrive_first_attempts_failed:ratio_rate5m`,
		`job_kind_reason:redrive_dead_letters:max{reason="unsafe"}`,
	} {
		values, err := p.at(t.Context(), "max(max_over_time("+expr+"[5m])) > 0", last)
		if err != nil || len(values) == 0 {
			t.Errorf("%s was 0 all the time (%v)", expr, err)
		}
	}
	p.variablesHaveValues(t, d, last)
}

// rulesAreHealthy holds that Prometheus evaluated each rule without an error.
func (p *prom) rulesAreHealthy(t *testing.T) {
	t.Helper()
	body, err := p.get(t.Context(), "/api/v1/rules", nil)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string } `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	evaluated := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			evaluated++
			if r.Health != "ok" {
				t.Errorf("rule %s: %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(readRules(t, "recording.yml")) + len(readRules(t, "alerts.yml")); evaluated != want {
		t.Errorf("%d rules were evaluated, want %d", evaluated, want)
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// variablesHaveValues asks for what can be chosen, as Grafana does.
func (p *prom) variablesHaveValues(t *testing.T, d grafanaFile, at time.Time) {
	t.Helper()
	want := map[string]string{"job": "redrive", "dependency": "payrail"}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Query)
		if parts == nil {
			t.Errorf("variable %s: %q is no label_values", v.Name, v.Query)
			continue
		}
		body, err := p.get(t.Context(), "/api/v1/label/"+parts[2]+"/values", url.Values{"match[]": {chosen.Replace(parts[1])},
			"start": {strconv.FormatInt(at.Add(-time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(at.Unix(), 10)}})
		if err != nil || !bytes.Contains(body, []byte(`"`+want[v.Name]+`"`)) {
			t.Errorf("variable %s: %s (%v)", v.Name, body, err)
		}
		delete(want, v.Name)
	}
	if len(want) > 0 {
		t.Errorf("no variables %v", want)
	}
}
