package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The files that [Find] looks for when nobody names one.
const (
	LocalPath  = "redrive.yaml"
	SystemPath = "/etc/redrive/redrive.yaml"
)

// What the YAML parser is given is bounded, because its time grows with the square
// of how deep things nest, and its stack, whose overflow no recover can catch, with
// the depth: "- - - -" nests once for every two bytes of a line.
const (
	maxFileBytes = 256 << 10
	maxLineBytes = 4 << 10
	maxNesting   = 100 // of brackets, which may spread over lines
)

// Find says which file applies: flag, else REDRIVE_CONFIG, else ./redrive.yaml,
// else /etc/redrive/redrive.yaml. One that is named must exist; found is false
// without an error when none is named and neither of the two places has one.
// getenv is such as os.Getenv.
func Find(flag string, getenv func(string) string) (path string, found bool, err error) {
	for _, named := range []struct{ by, path string }{{"--config", flag}, {EnvConfig, getenv(EnvConfig)}} {
		if named.path == "" {
			continue
		}
		if _, err := os.Stat(named.path); err != nil {
			return "", false, fmt.Errorf("config file of %s: %w", named.by, err)
		}
		return named.path, true, nil
	}
	for _, path := range []string{LocalPath, SystemPath} {
		_, err := os.Stat(path)
		if err == nil {
			return path, true, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", false, fmt.Errorf("config file: %w", err) // it may be there: going on without it would surprise
		}
	}
	return "", false, nil
}

// Load reads the file at path. What is wrong with its content is an [*Error].
// No ${...} is looked up, so it works without the secrets.
func Load(path string) (*Config, error) { return load(path, true) }

// Parse reads a file's content; name stands for it in errors. It never panics.
func Parse(name string, data []byte) (*Config, error) { return parse(name, data, true) }

// Open does what a program needs at its start: [Find], [Load], [Config.Override].
// Without any file it returns [Default] with the overrides, and found false. A
// file need not name Redis if a flag or the environment does.
func Open(flag string, flags Overrides, getenv func(string) string) (c *Config, found bool, err error) {
	path, found, err := Find(flag, getenv)
	if err != nil {
		return nil, false, err
	}
	c = Default()
	if found {
		if c, err = load(path, false); err != nil {
			return nil, true, err
		}
	}
	if err := c.Override(flags, getenv); err != nil {
		return nil, found, err
	}
	if c.Redis.URL.IsZero() {
		const message = "required: write redis.url into the file, or set --redis or " + EnvRedisURL
		return nil, found, c.source.err([]finding{{path: "redis.url", message: message}})
	}
	return c, found, nil
}

func load(path string, needURL bool) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	defer f.Close() // only read from: nothing to lose
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	return parse(path, data, needURL)
}

func parse(name string, data []byte, needURL bool) (*Config, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	source := newSource(name, text)
	root, err := source.tree(text)
	if err != nil {
		return nil, err
	}
	d := &decoder{source: source, anchors: map[string]ast.Node{}}
	d.anchor(root)
	c := Default()
	c.Path, c.source = name, source
	d.config(root, c)
	// What could not be read still has its default, which would now be judged.
	if err := source.err(d.findings); err != nil {
		return nil, err
	}
	if err := c.validate(needURL); err != nil {
		return nil, err
	}
	c.source = source.places()
	return c, nil
}

// tree parses text into the body of its only document.
func (s *source) tree(text string) (ast.Node, error) {
	if len(text) > maxFileBytes {
		return nil, s.err([]finding{{at: position{1, 1}, message: fmt.Sprintf("the file is longer than %d KiB", maxFileBytes>>10)}})
	}
	for i, line := range s.lines {
		at := position{i + 1, 1}
		if !utf8.ValidString(line) {
			return nil, s.err([]finding{{at: at, message: "this line is not valid UTF-8"}})
		}
		if len(line) > maxLineBytes {
			return nil, s.err([]finding{{at: at, message: fmt.Sprintf("this line is longer than %d KiB", maxLineBytes>>10)}})
		}
	}
	if at, deep := tooDeep(text); deep {
		return nil, s.err([]finding{{at: at, message: fmt.Sprintf("brackets nest more than %d deep", maxNesting)}})
	}
	file, err := parseYAML(text)
	if err != nil {
		return nil, s.syntaxError(err)
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); doc.Body != nil && !directive {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return nil, s.err([]finding{{at: position{1, 1}, message: "the file is empty: see examples/redrive.yaml for one that works"}})
	case 1:
		return bodies[0], nil
	}
	return nil, s.err([]finding{{at: place(bodies[1]), message: "a second document begins here: one file holds one configuration, remove the --- above"}})
}

// parseYAML parses text. The parser is a stranger's code, and a configuration is
// what people mistype: its panic must come out as an error.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("the YAML parser gave up: %v", p)
		}
	}()
	return parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey()) // duplicates are ours to report
}

// syntaxError gives the parser's error a place. Which part of a line is a secret is
// not known when it cannot be parsed, so what stands behind its key is masked.
func (s *source) syntaxError(err error) error {
	f := finding{at: position{1, 1}, message: "not valid YAML: " + err.Error()}
	var ye yaml.Error
	if errors.As(err, &ye) && ye.GetToken() != nil && ye.GetToken().Position != nil {
		p := ye.GetToken().Position
		f.at = position{max(p.Line, 1), max(p.Column, 1)}
		f.message = "not valid YAML: " + ye.GetMessage()
	}
	if f.at.line <= len(s.lines) {
		line := s.lines[f.at.line-1]
		switch {
		case strings.Contains(line, "${"):
			f.message += `; text with ${...} inside { } needs quotes: {Authorization: "Bearer ${NAME}"}`
		case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
			f.message += "; a tab cannot indent, use spaces"
		}
		shown := utf8.RuneCountInString(lineStart.FindString(line))
		s.masks[f.at.line] = []span{{shown, toEndOfLine}}
	}
	return s.err([]finding{f})
}

// lineStart is what no secret can be part of: the indent, a key and its colon.
var lineStart = regexp.MustCompile(`^\s*(-\s+)*("[\w-]*"|'[\w-]*'|[\w-]*)(\s*:\s*|$)|^\s*`)

// tooDeep reports where brackets nest deeper than maxNesting. Brackets inside text
// count too: a hundred of them, never closed, are not text that a configuration needs.
func tooDeep(text string) (position, bool) {
	depth, at := 0, position{1, 0}
	for _, r := range text {
		at.column++
		switch r {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			at = position{at.line + 1, 0}
		}
		if depth > maxNesting {
			return at, true
		}
	}
	return position{}, false
}
