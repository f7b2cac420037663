package archtest

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	maxLines     = 400
	maxMainLines = 40
)

// longFiles may have more than maxLines, each for a reason.
var longFiles = map[string]string{}

func TestEveryPackageHasExactlyOneComment(t *testing.T) {
	t.Parallel()
	type pkg struct{ files, commented []string }
	pkgs := map[string]*pkg{}
	for _, f := range load(t).files {
		if strings.HasSuffix(f.ast.Name.Name, "_test") {
			continue // an external test package belongs to the one it tests
		}
		p := pkgs[f.pkg]
		if p == nil {
			p = &pkg{}
			pkgs[f.pkg] = p
		}
		p.files = append(p.files, f.path)
		if f.ast.Doc == nil {
			continue
		}
		p.commented = append(p.commented, f.path)
		want := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			want = "Command " + path.Base(f.pkg) + " "
		}
		if !strings.HasPrefix(f.ast.Doc.Text(), want) {
			t.Errorf("%s: the package comment does not begin with %q", f.path, want)
		}
	}
	for dir, p := range pkgs {
		if len(p.commented) != 1 {
			t.Errorf("package %s (%d files) has %d package comments, want 1: %v", dir, len(p.files), len(p.commented), p.commented)
		}
	}
}

func TestFilesStayShort(t *testing.T) {
	t.Parallel()
	lines := map[string]int{}
	for _, f := range load(t).files {
		lines[f.path] = f.lines
		limit := maxLines
		if path.Base(f.path) == "main.go" {
			limit = maxMainLines
		}
		if _, allowed := longFiles[f.path]; f.lines > limit && !f.test && !allowed {
			t.Errorf("%s has %d lines, more than %d: find the seam, or say in longFiles why it has none", f.path, f.lines, limit)
		}
	}
	for file, why := range longFiles {
		if lines[file] <= maxLines {
			t.Errorf("longFiles allows %s (%s), which has %d lines: take it off the list", file, why, lines[file])
		}
	}
}

func TestOnlyMainGoStandsInCmd(t *testing.T) {
	t.Parallel()
	for _, f := range load(t).files {
		if strings.HasPrefix(f.path, "cmd/") && path.Base(f.path) != "main.go" {
			t.Errorf("%s: a command is its main.go; code that can be tested lives below internal/", f.path)
		}
	}
}

// machinePath finds paths that exist on one person's or one builder's machine.
var machinePath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=:@,])/(?:work|root|home/[a-z]\w*|Users/[A-Za-z]\w*|tmp/\w[\w.-]*)(?:[/\s"'` + "`" + `),:]|$)`)

func TestNoFileNamesAPathOfABuildMachine(t *testing.T) {
	t.Parallel()
	s := load(t)
	checkout := []byte(filepath.ToSlash(s.root))
	for _, f := range s.texts {
		for n, line := range bytes.Split(f.content, []byte("\n")) {
			// A checkout right below the root would be too common a word to look for.
			named := bytes.Count(checkout, []byte("/")) > 1 && bytes.Contains(line, checkout)
			if named || machinePath.Match(line) {
				t.Errorf("%s:%d names a path of a build machine: %s", f.path, n+1, bytes.TrimSpace(line))
			}
		}
	}
}

func TestMachinePathsAreCaught(t *testing.T) {
	t.Parallel()
	const s = "/" // keeps the samples from being findings
	for line, want := range map[string]bool{
		"see " + s + "work/main/x.go": true, `dir := "` + s + `root/go"`: true, s + "home/ann/redrive": true,
		s + "Users/Ann/src": true, "in " + s + "tmp/redrive-1/x": true, "cd " + s + "tmp/x": true,
		`os.MkdirTemp("` + s + `tmp", "rd")`: false, "internal/work/x": false, "https://x.example/work": false,
		s + "etc/redrive/redrive.yaml": false, s + "run/secrets/m1": false, "homework/root": false,
	} {
		if got := machinePath.MatchString(line); got != want {
			t.Errorf("%q: found %v, want %v", line, got, want)
		}
	}
}

func TestOpenEndsHaveAnIssue(t *testing.T) {
	t.Parallel()
	for _, f := range load(t).texts {
		for _, v := range openEnds(f.path, f.content) {
			t.Error(v)
		}
	}
}

func TestOpenEndsAreCaught(t *testing.T) {
	t.Parallel()
	const mark = "TO" + "DO"
	for line, want := range map[string]int{
		"// " + mark + ": later": 1, "# " + mark + "(ann): later": 1, "FIX" + "ME": 1, "// " + mark + "(#12): later": 0,
		"context." + mark + "()": 0, "TO" + "DOS": 0,
	} {
		if got := len(openEnds("sample", []byte(line))); got != want {
			t.Errorf("%q: %d findings, want %d", line, got, want)
		}
	}
}

// openEnd is written in two halves so that this file does not find itself.
var openEnd = regexp.MustCompile(`(^|[^\w.])(TO` + `DO|FIX` + `ME|XX` + `X)\b(\(#\d+\))?`)

func openEnds(file string, content []byte) []string {
	var found []string
	for n, line := range strings.Split(string(content), "\n") {
		if m := openEnd.FindStringSubmatch(line); m != nil && m[3] == "" {
			found = append(found, fmt.Sprintf("%s:%d: an open end without an issue number: %s", file, n+1, strings.TrimSpace(line)))
		}
	}
	return found
}
