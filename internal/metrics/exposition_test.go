package metrics

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden file of this package")

// TestExpositionIsAsPromised holds a whole scrape of a small configuration to a file
// that people have read: names, types, help, labels, and values but for those of the
// runtime and the build.
func TestExpositionIsAsPromised(t *testing.T) {
	t.Parallel()
	m := newTestMetrics(typicalSnapshot)
	callTypical(m, "payrail", "charge")
	got := masked(wholeScrape(t, m))
	golden := filepath.Join("testdata", "exposition.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := changes(onThisSystem(string(want)), onThisSystem(got)); diff != "" {
		t.Errorf("the exposition changed; it is an interface. Run with -update, read the diff and write it into the changelog.\n%s", diff)
	}
}

// masked leaves values out that differ from run to run.
func masked(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if ofTheRuntime(line) {
			line = line[:strings.LastIndexByte(line, ' ')] + "\n"
		}
		b.WriteString(line)
	}
	return strings.ReplaceAll(b.String(), runtime.Version(), "GOVERSION")
}

func ofTheRuntime(series string) bool {
	return strings.HasPrefix(series, "go_") || strings.HasPrefix(series, "process_") || strings.HasPrefix(series, "redrive_build_info")
}

// onThisSystem leaves out what the operating system has a say in, where that is not
// the one on which the file was made.
func onThisSystem(text string) string {
	if runtime.GOOS == "linux" {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "process_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// changes says which lines went and which came; "" where the texts are the same.
func changes(want, got string) string {
	if want == got {
		return ""
	}
	const most = 20
	var out []string
	count := func(text string) map[string]int {
		lines := map[string]int{}
		for line := range strings.Lines(text) {
			lines[line]++
		}
		return lines
	}
	missing := func(sign, from string, in map[string]int) {
		for line := range strings.Lines(from) {
			if in[line]--; in[line] < 0 {
				out = append(out, sign+" "+line)
			}
		}
	}
	missing("-", want, count(got))
	missing("+", got, count(want))
	switch n := len(out); {
	case n == 0:
		return "the same lines in another order\n"
	case n > most:
		out = append(out[:most], fmt.Sprintf("and %d more lines\n", n-most))
	}
	return strings.Join(out, "")
}

func TestAChangedExpositionIsToldLineByLine(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{"a 1\nb 2\n", "a 1\nb 2\n", ""},
		{"a 1\nb 2\n", "a 1\nc 2\n", "- b 2\n+ c 2\n"},
		{"a 1\na 1\n", "a 1\n", "- a 1\n"},
		{"a 1\nb 2\n", "b 2\na 1\n", "the same lines in another order\n"},
		{strings.Repeat("a 1\n", 25), "", strings.Repeat("- a 1\n", 20) + "and 5 more lines\n"},
	} {
		if got := changes(tc[0], tc[1]); got != tc[2] {
			t.Errorf("from %q to %q: %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}
