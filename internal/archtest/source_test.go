package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "redrive"

// goFile is one parsed Go file of the module.
type goFile struct {
	path    string // from the module's root, with slashes
	pkg     string // folder from the module's root; "." for the root package
	test    bool
	lines   int
	ast     *ast.File
	imports []string
}

// textFile is any file of the module that is text, Go included.
type textFile struct {
	path    string
	content []byte
}

type sources struct {
	root  string
	fset  *token.FileSet
	files []goFile
	texts []textFile
}

// readSources reads the module once for all tests.
var readSources = sync.OnceValues(func() (*sources, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	s := &sources{root: root, fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == ".git" || rel == "bin" || rel == "out" { // not ours or built
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || rel == ".git" { // a file in a linked worktree
			return nil
		}
		return s.add(rel)
	})
	return s, err
})

func (s *sources) add(rel string) error {
	content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(rel)))
	if err != nil {
		return err
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return nil // binary
	}
	s.texts = append(s.texts, textFile{rel, content})
	if path.Ext(rel) != ".go" || strings.Contains(rel, "testdata/") {
		return nil
	}
	parsed, err := parser.ParseFile(s.fset, rel, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := goFile{
		path:  rel,
		pkg:   path.Dir(rel),
		test:  strings.HasSuffix(rel, "_test.go"),
		lines: bytes.Count(content, []byte("\n")),
		ast:   parsed,
	}
	for _, i := range parsed.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		f.imports = append(f.imports, name)
	}
	s.files = append(s.files, f)
	return nil
}

// load returns the module's sources. The guard against finding next to nothing
// keeps a moved folder from turning every rule into a test that cannot fail.
func load(t *testing.T) *sources {
	t.Helper()
	s, err := readSources()
	if err != nil {
		t.Fatalf("read the module's sources: %v", err)
	}
	if len(s.files) < 20 {
		t.Fatalf("only %d Go files found under %s", len(s.files), s.root)
	}
	return s
}
