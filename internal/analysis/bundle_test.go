package analysis

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redrive/internal/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sound is a configuration without any finding.
const sound = `redis: {url: "redis://127.0.0.1:6379/0"}
dependencies:
  payrail: {base_url: "https://api.payrail.example"}
operations:
  charge: {dependency: payrail, request: {path: /v1/charges}, idempotency: keyed}
`

// file is sound with more keys of the top level, the dependency and the kind, and with
// more of both; the keys of the kind replace its class.
type file struct{ top, dependency, kind, dependencies, kinds string }

func (f file) text() string {
	kind := f.kind
	if kind == "" {
		kind = "idempotency: keyed"
	}
	dependency := f.dependency
	if !strings.Contains(dependency, "base_url") {
		dependency = strings.TrimSuffix(`base_url: "https://api.payrail.example", `+dependency, ", ")
	}
	return fmt.Sprintf("redis: {url: \"redis://127.0.0.1:6379/0\"}\n%s\ndependencies:\n  payrail: {%s}\n%s\noperations:\n  charge: {dependency: payrail, request: {path: /v1/charges}, %s}\n%s\n",
		f.top, dependency, f.dependencies, kind, f.kinds)
}

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("redrive.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func example(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load(filepath.Join("..", "..", "examples", "redrive.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

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
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs: run go test ./internal/analysis -update and read the difference\n%s", path, got)
	}
}

// ids are the sorts of findings, in their order.
func ids(list []Finding) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.ID)
	}
	return out
}
