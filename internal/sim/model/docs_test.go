package model

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

var update = flag.Bool("update", false, "write the table of rules into docs/model.md")

const (
	page      = "../../../docs/model.md"
	tableHead = "| rule | says | without it |\n|---|---|---|\n"
	tableEnd  = "\n## "
)

func TestTheManualListsTheRulesAsTheyAreTested(t *testing.T) {
	t.Parallel()
	read, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(read), tableHead)
	old, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no table of rules", page)
	}
	if table := rulesTable(); table != old {
		if !*update {
			t.Fatalf("%s is not what the tests say: run this test with -update", page)
		}
		text := before + tableHead + table + tableEnd + after
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func rulesTable() string {
	var b strings.Builder
	for _, rule := range AllRules() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", rule.Name, rule.Text, without(rule.Name))
	}
	return b.String()
}

func without(rule string) string {
	if why, ok := elsewhere[rule]; ok {
		return "not by the model: " + why
	}
	for _, c := range caught {
		if c.rule != rule {
			continue
		}
		class := c.class
		if class == "" {
			class = jobs.IdempotencyNone
		}
		where := []string{"`" + string(class) + "`"}
		if c.inquiry {
			where = append(where, "inquiry")
		}
		for _, d := range c.under {
			where = append(where, d.String())
		}
		return c.violation + " (" + strings.Join(where, ", ") + ")"
	}
	return ""
}
