package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	markdownFile = flag.String("report", "", "write the figures as Markdown to this file")
	jsonFile     = flag.String("report-json", "", "write the figures as JSON to this file")
)

// row is one figure of the report.
type row struct {
	What   string `json:"what"`
	Figure string `json:"figure"`
	Aim    string `json:"aim,omitempty"`
	Met    *bool  `json:"met,omitempty"` // nil: no aim was set
}

// rows collects the figures of one run.
var rows struct {
	mu  sync.Mutex // guards all
	all []row
}

func record(b *testing.B, what, figure, aim string, met *bool) {
	b.Helper()
	b.Logf("%s: %s %s", what, figure, aim)
	rows.mu.Lock()
	defer rows.mu.Unlock()
	// The testing package runs a benchmark once to warm up: the last run counts.
	rows.all = slices.DeleteFunc(rows.all, func(r row) bool { return r.What == what })
	rows.all = append(rows.all, row{What: what, Figure: figure, Aim: aim, Met: met})
}

func met(ok bool) *bool { return &ok }

func TestMain(m *testing.M) {
	code := m.Run()
	if len(rows.all) > 0 {
		if err := write(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func write() error {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s with %s on %s/%s, %d cores, redis-server on a unix socket (AOF everysec).\n\n",
		time.Now().UTC().Format("2006-01-02"), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	b.WriteString("| what | figure | aim | met |\n|---|---|---|---|\n")
	for _, r := range rows.all {
		verdict := ""
		if r.Met != nil {
			verdict = map[bool]string{true: "yes", false: "**no**"}[*r.Met]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.What, r.Figure, r.Aim, verdict)
	}
	fmt.Print("\n" + b.String())
	if *markdownFile != "" {
		if err := os.WriteFile(*markdownFile, []byte("# Benchmarks\n\n`make bench` measures this again; how, stands in internal/bench.\n\n"+b.String()), 0o644); err != nil {
			return err
		}
	}
	if *jsonFile != "" {
		text, err := json.MarshalIndent(rows.all, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(*jsonFile, append(text, '\n'), 0o644)
	}
	return nil
}

// median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantile q of at least one value.
func quantile(values []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
