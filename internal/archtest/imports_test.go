package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// graph is what each package imports in files that are not tests.
type graph map[string][]string

func TestImportsFollowTheOrderOfTheHouse(t *testing.T) {
	t.Parallel()
	g := graph{}
	for _, f := range load(t).files {
		if !f.test {
			g[f.pkg] = append(g[f.pkg], f.imports...)
		}
	}
	for _, v := range violations(g) {
		t.Error(v)
	}
}

// The rules themselves are tested: a rule that catches nothing is worse than none.
func TestForbiddenImportsAreCaught(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pkg, imports, says string }{
		{"internal/jobs", "redrive/internal/policy", "ground floor"},
		{"internal/policy", "redrive/internal/ledger", "may not import"},
		{"internal/policy", "net/http", "decisions are pure"},
		{"internal/policy", "log/slog", "the caller logs"},
		{"internal/policy", "github.com/redis/go-redis/v9", "where state is kept"},
		{"internal/budget", "redrive/internal/dedupe", "never import each other"},
		{"internal/dedupe", "redrive/internal/budget", "never import each other"},
		{"internal/ledger", "redrive/internal/worker", "may not import"},
		{"internal/ledger", "github.com/hibiken/asynq", "one package knows the queue"},
		{"internal/gateway", "redrive/internal/ledger", "may not import"},
		{"internal/sandbox", "redrive/internal/jobs", "the judge"},
		{"internal/cli", "redrive/internal/worker", "never sends"},
		{"internal/remote", "redrive/internal/ledger", "may not import"},
		{"internal/cli", "redrive/internal/httpapi", "may not import"},
		{"internal/worker", "github.com/alicebob/miniredis/v2/server", "in-memory Redis"},
		{"internal/worker", "redrive/internal/redistest", "only test files"},
		{"internal/config", "github.com/spf13/cobra", "composition roots"},
		{"internal/worker", "redrive/internal/app", "may not import"},
		{".", "redrive/internal/worker", "other people's programs"},
		{"cmd/worker", "redrive/internal/worker", "main hands over"},
		{"cmd/enqueue", "redrive/internal/app", "main hands over"},
		{"internal/worker", "example.com/new/module", "not listed"},
		{"internal/cellar", "fmt", "stands nowhere"},
	} {
		found := violations(graph{c.pkg: {c.imports}})
		if len(found) != 1 || !strings.Contains(found[0], c.says) {
			t.Errorf("%s imports %s: found %q, want one violation that says %q", c.pkg, c.imports, found, c.says)
		}
	}
}

func TestAllowedImportsPass(t *testing.T) {
	t.Parallel()
	found := violations(graph{
		".":                  {"context", "redrive/internal/ledger", "redrive/internal/dedupe"},
		"cmd/worker":         {"os", "redrive/internal/app"},
		"internal/jobs":      {"encoding/json", "time"},
		"internal/policy":    {"redrive/internal/jobs", "cel.dev/cel-go/cel", "net/url"},
		"internal/ledger":    {"redrive/internal/budget", "redrive/internal/dedupe", "redrive/internal/jobs", "github.com/redis/go-redis/v9"},
		"internal/worker":    {"redrive/internal/budget", "github.com/hibiken/asynq", "net/http"},
		"internal/rehearsal": {"redrive/internal/ledger", "github.com/alicebob/miniredis/v2"},
	})
	for _, v := range found {
		t.Error(v)
	}
}

func TestTheOrderHasNoCircle(t *testing.T) {
	t.Parallel()
	for pkg, below := range reachable() {
		if below[pkg] {
			t.Errorf("by the rules %s may import itself through others", pkg)
		}
	}
}

// violations returns one line for each import that a rule forbids.
func violations(g graph) []string {
	below := reachable()
	var found []string
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		imports := slices.Compact(slices.Sorted(slices.Values(g[pkg])))
		if !known(pkg, below) {
			found = append(found, fmt.Sprintf("package %s stands nowhere in the order of packages: give it a place in rules_test.go", pkg))
			continue
		}
		for _, name := range imports {
			if why := forbidden(pkg, name, below); why != "" {
				found = append(found, fmt.Sprintf("%s may not import %s: %s", pkg, name, why))
			}
		}
	}
	return found
}

// forbidden returns why pkg may not import name, "" if it may.
func forbidden(pkg, name string, below map[string]map[string]bool) string {
	if name == module || strings.HasPrefix(name, module+"/") {
		ours := "."
		if name != module {
			ours = strings.TrimPrefix(name, module+"/")
		}
		return forbiddenOurs(pkg, ours, below)
	}
	first, _, _ := strings.Cut(name, "/")
	if strings.Contains(first, ".") {
		return forbiddenOutside(pkg, name)
	}
	for _, r := range std {
		if slices.Contains(r.banned, pkg) && slices.ContainsFunc(r.names, func(pattern string) bool { return matches(name, pattern) }) {
			return r.why
		}
	}
	return ""
}

// matches reports whether name is pattern or, for a pattern that ends in /..., is
// below it.
func matches(name, pattern string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return within(name, dir)
	}
	return name == pattern
}

func forbiddenOurs(pkg, name string, below map[string]map[string]bool) string {
	if root, ok := mains[pkg]; ok {
		if name == root {
			return ""
		}
		return mainWhy
	}
	if why, ok := testsOnly[name]; ok {
		return "only test files may: " + why
	}
	if why, ok := standalone[pkg]; ok {
		return why
	}
	if below[pkg][name] {
		return ""
	}
	for _, r := range order {
		if slices.Contains(r.over, pkg) {
			return r.why
		}
	}
	return "it has no place above it in the order of packages"
}

func forbiddenOutside(pkg, name string) string {
	for _, r := range outside {
		if within(name, r.module) {
			if slices.Contains(r.allowed, pkg) {
				return ""
			}
			return r.why
		}
	}
	return "the module is not listed: add it to rules_test.go with who may use it and why"
}

// within reports whether the import path name is dir or lies below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// known reports whether pkg has a place in the rules. Folders of tests alone do
// not come here: they have no file that is not a test.
func known(pkg string, below map[string]map[string]bool) bool {
	_, alone := standalone[pkg]
	_, main := mains[pkg]
	_, tests := testsOnly[pkg]
	_, ordered := below[pkg]
	return alone || main || tests || ordered
}

// reachable returns for each package the set that it may import, directly or
// through what it may import.
func reachable() map[string]map[string]bool {
	direct := map[string][]string{}
	for _, r := range order {
		for _, over := range r.over {
			direct[over] = append(direct[over], r.under...)
		}
	}
	below := map[string]map[string]bool{}
	for pkg := range direct {
		below[pkg] = map[string]bool{}
		queue := slices.Clone(direct[pkg])
		for len(queue) > 0 {
			next := queue[0]
			queue = queue[1:]
			if !below[pkg][next] {
				below[pkg][next] = true
				queue = append(queue, direct[next]...)
			}
		}
	}
	return below
}
