package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := line(gotLines, i), line(wantLines, i); g != w {
			t.Errorf("differs from %s in line %d\n got %s\nwant %s", path, i+1, g, w)
			return
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// fixtures returns the files of testdata that match pattern, by base name.
func fixtures(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures match %s (%v)", pattern, err)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = data
	}
	return out
}

// minimal is the shortest configuration that works.
const minimal = `redis: {url: "redis://127.0.0.1:6379/0"}
dependencies: {payrail: {base_url: https://api.payrail.example}}
operations: {charge: {dependency: payrail, request: {path: /v1/charges}}}
`

func mustParse(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Parse("redrive.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// env is a getenv over a map.
func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

var noEnv = env(nil)
