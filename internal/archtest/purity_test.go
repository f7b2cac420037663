package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure are the packages whose answer depends on their arguments alone, so that
// a decision can be tested in microseconds and replayed from a log.
var pure = []string{"internal/jobs", "internal/policy", "internal/analysis"}

// clocks are the functions of package time that read or await a clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// seeded are the names of math/rand and math/rand/v2 that do not draw from the
// global source: types, and constructors that take a source.
var seeded = []string{"Rand", "Source", "New", "NewPCG", "PCG", "NewChaCha8", "ChaCha8", "NewSource", "Zipf", "NewZipf"}

func TestPurePackagesTouchNoClockAndNoGlobalRandomness(t *testing.T) {
	t.Parallel()
	s := load(t)
	seen := map[string]bool{}
	for _, f := range s.files {
		if f.test || !slices.Contains(pure, f.pkg) {
			continue
		}
		seen[f.pkg] = true
		for _, v := range impurities(s.fset, f.ast) {
			t.Error(v)
		}
	}
	for _, pkg := range pure {
		if !seen[pkg] {
			t.Errorf("no file of %s was found", pkg)
		}
	}
}

func TestImpuritiesAreCaught(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`import "time"; var x = time.Now()`:                                                 "time.Now",
		`import clock "time"; func f() { clock.Sleep(1) }`:                                  "time.Sleep",
		`import "time"; var now = time.Now`:                                                 "time.Now",
		`import . "time"; var x = Now()`:                                                    "dot import",
		`import "math/rand/v2"; var x = rand.IntN(3)`:                                       "rand.IntN",
		`import "math/rand"; func init() { rand.Shuffle(0, nil) }`:                          "rand.Shuffle",
		`import ("time"; "math/rand/v2"); func f(r *rand.Rand, t time.Time) { r.IntN(3) }`:  "",
		`import "math/rand/v2"; var r = rand.New(rand.NewPCG(1, 2))`:                        "",
		`type Time struct{}; func (Time) Now() {}; func f() { var time Time; time.Now() }`:  "",
		`import "time"; const d = 3 * time.Second; var at = time.UnixMilli(0).Add(d).UTC()`: "",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "sample.go", "package p; "+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := impurities(fset, file)
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) {
			t.Errorf("%s\nfound %q, want %q", body, found, want)
		}
	}
}

// impurities returns one line for each use of a clock or of the global random
// source.
func impurities(fset *token.FileSet, file *ast.File) []string {
	names := map[string]string{} // local name -> package, of those we look at
	var found []string
	for _, i := range file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil || name != "time" && name != "math/rand" && name != "math/rand/v2" {
			continue
		}
		local := "time"
		if name != "time" {
			local = "rand"
		}
		if i.Name != nil {
			local = i.Name.Name
		}
		if local == "." {
			found = append(found, fmt.Sprintf("%s: dot import of %s hides what is used of it", fset.Position(i.Pos()), name))
		}
		names[local] = name
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch pkg := names[x.Name]; pkg {
		case "time":
			if slices.Contains(clocks, sel.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: time.%s: a pure package is handed its instants", fset.Position(sel.Pos()), sel.Sel.Name))
			}
		case "math/rand", "math/rand/v2":
			if !slices.Contains(seeded, sel.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: rand.%s draws from the global source: a pure package is handed its randomness", fset.Position(sel.Pos()), sel.Sel.Name))
			}
		}
		return true
	})
	return found
}
