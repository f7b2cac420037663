package httpapi

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redrive/internal/redistest"
)

var update = flag.Bool("update", false, "rewrite the committed OpenAPI document")

func TestTheCommittedDocumentIsTheOneThatIsServed(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Version = "" })
	g := b.ask(ask{method: "GET", path: "/v1/openapi.yaml", token: reader})
	if g.status != 200 || g.header.Get("Content-Type") != yamlType {
		t.Fatalf("%d %v %s", g.status, g.header, g.body)
	}
	path := filepath.Join("..", "..", "docs", "openapi.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(g.body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if g.body != string(want) {
		t.Errorf("docs/openapi.yaml is not what is served: go test ./internal/httpapi -run Document -update rewrites it")
	}
	asJSON := into[map[string]any](t, b.get("/v1/openapi.json"))
	if asJSON["openapi"] != "3.1.0" || !strings.Contains(g.body, "openapi: 3.1.0") {
		t.Errorf("not OpenAPI 3.1: %v", asJSON["openapi"])
	}
}
