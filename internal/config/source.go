package config

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	File         string // as given to Parse; "" for a configuration built in code
	Line, Column int    // counted from 1, columns in characters; 0 without a file
	Path         string // such as dependencies.payrail.timeout; "" for the file as a whole
	Message      string // what is wrong and what would be right; never a secret
	Excerpt      string // the line, secrets masked, and a mark under the place; "" without a file
}

// String returns file:line:column, path and message, then the excerpt.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	return b.String()
}

// Error is everything that is wrong with a configuration, in the file's order.
type Error struct {
	Problems []Problem // at least one
}

// maxShown bounds how many problems one error text shows: after that many, one
// mistake near the top is the likely cause of the rest.
const maxShown = 20

// Error returns one paragraph for each problem, the first 20.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == maxShown {
			fmt.Fprintf(&b, "\nand %d more", len(e.Problems)-maxShown)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// position is a place in the file, counted from 1; columns in characters.
type position struct{ line, column int }

// span is a piece of a line that is not to be shown: characters [from, to).
type span struct{ from, to int }

const toEndOfLine = 1 << 30

// source is the text a configuration came from: what turns a path into a place.
type source struct {
	name  string
	lines []string
	at    map[string]position // by path, of every key that was read
	masks map[int][]span      // by line: what secrets stand there
}

func newSource(name, text string) *source {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return &source{name: name, lines: lines, at: map[string]position{}, masks: map[int][]span{}}
}

// places returns s without the text: what a Config keeps, so that printing it in
// whatever way cannot show the file's secrets. Errors have no excerpt then.
func (s *source) places() *source { return &source{name: s.name, at: s.at} }

// finding is a problem whose place is not looked up yet: at, or else the first of
// paths (each or its nearest parent) that stands in the file.
type finding struct {
	at       position // zero: look paths up
	path     string
	fallback string // where the value comes from if path does not stand in the file
	message  string
}

// err turns findings into an *Error, nil without any. A nil source has no places.
func (s *source) err(findings []finding) error {
	if len(findings) == 0 {
		return nil
	}
	e := &Error{}
	for _, f := range findings {
		p := Problem{Path: printable(f.path), Message: f.message}
		if s != nil {
			at := f.at
			if at == (position{}) {
				at = s.find(f)
			}
			p.File, p.Line, p.Column = s.name, at.line, at.column
			p.Excerpt = s.excerpt(at)
		}
		e.Problems = append(e.Problems, p)
	}
	sort.SliceStable(e.Problems, func(i, j int) bool {
		a, b := e.Problems[i], e.Problems[j]
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	return e
}

// wrote reports whether path stands in the file; a nil source has none.
func (s *source) wrote(path string) bool {
	if s == nil {
		return false
	}
	_, ok := s.at[path]
	return ok
}

func (s *source) find(f finding) position {
	if at, ok := s.at[f.path]; ok {
		return at
	}
	if at, ok := s.at[f.fallback]; ok {
		return at
	}
	for path := f.path; path != ""; {
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
		if at, ok := s.at[path]; ok {
			return at
		}
	}
	return position{1, 1}
}

// excerptWidth is how much of a line is shown, so that a body pasted on one line
// does not fill the screen.
const excerptWidth = 120

// excerpt returns the line of at with a mark under its column.
func (s *source) excerpt(at position) string {
	if at.line < 1 || at.line > len(s.lines) {
		return ""
	}
	line := []rune(printable(s.lines[at.line-1]))
	column := min(max(at.column, 1), len(line)+1) - 1
	line, column = s.mask(at.line, line, column)
	if from := column - excerptWidth/2; from > 0 && len(line) > excerptWidth {
		line = append([]rune("…"), line[from:]...)
		column -= from - 1
	}
	if len(line) > excerptWidth {
		line = append(line[:excerptWidth:excerptWidth], '…')
	}
	number := fmt.Sprintf("%5d", at.line)
	return fmt.Sprintf("%s | %s\n%s | %s^", number, strings.TrimRight(string(line), " "),
		strings.Repeat(" ", len(number)), strings.Repeat(" ", column))
}

// printable replaces each character that does not print by one space: tabs, so
// that the mark stands right, and what a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// mask replaces each secret of the line by a fixed text, whose length says nothing
// about it, and returns where column went.
func (s *source) mask(number int, line []rune, column int) ([]rune, int) {
	spans := append([]span(nil), s.masks[number]...)
	sort.Slice(spans, func(i, j int) bool { return spans[i].from > spans[j].from })
	end := len(line)
	for _, m := range spans { // from the right, so that what is left of it keeps its place
		from, to := min(m.from, len(line)), min(m.to, end)
		if from >= to {
			continue
		}
		line = append(append(append([]rune(nil), line[:from]...), []rune(masked)...), line[to:]...)
		switch {
		case column >= to:
			column += len(masked) - (to - from)
		case column > from:
			column = from
		}
		end = from
	}
	return line, column
}
