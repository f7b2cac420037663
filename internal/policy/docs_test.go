package policy

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in docs/classification.md")

const (
	docsPath   = "../../docs/classification.md"
	tableBegin = "<!-- The tables below are written by: go test ./internal/policy -run Docs -update -->\n"
	tableEnd   = "<!-- end of the tables -->\n"
)

func TestTheTableInTheDocsIsTheTableInTheCode(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), tableBegin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatalf("%s has no marks around its tables", docsPath)
	}
	want := before + tableBegin + markdown() + tableEnd + after
	if *update {
		if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(content) {
		t.Errorf("%s is not what the code says: run go test ./internal/policy -run Docs -update and read the difference", docsPath)
	}
}

func markdown() string {
	var b strings.Builder
	for _, group := range []struct {
		title string
		rows  []Row
	}{{"Without a whole answer", networkRows}, {"With an HTTP status", httpRows}, {"With a gRPC code", grpcRows}} {
		fmt.Fprintf(&b, "\n### %s\n\n| row | on | processed | natural | keyed | conditional | none | speaks for earlier attempts | because |\n|---|---|---|---|---|---|---|---|---|\n", group.title)
		for _, r := range group.rows {
			earlier := ""
			if r.Settles {
				earlier = "yes"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.ID, r.On, r.Processed,
				r.Verdicts.Natural, r.Verdicts.Keyed, r.Verdicts.Conditional, r.Verdicts.None, earlier, r.Reason)
		}
	}
	b.WriteString("\n")
	return b.String()
}
