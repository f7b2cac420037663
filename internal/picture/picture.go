// Package picture draws what goes on for a person at a terminal.
package picture

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Width is how many columns a picture may take: a line that wraps would spoil the
// redrawing.
const Width = 80

// InPlace returns a function that draws what it is given, each time over the last. It is
// not for use by several goroutines at once.
func InPlace[T any](w io.Writer, draw func(T) string) func(T) {
	height := 0
	return func(v T) {
		text := draw(v)
		if height > 0 {
			fmt.Fprintf(w, "\x1b[%dA\x1b[J", height) // up to its first line, clear what is below
		}
		height = strings.Count(text, "\n")
		_, _ = io.WriteString(w, text) // a picture: if it cannot be drawn, the report still can
	}
}

// Colour is one of a terminal's.
type Colour string

// The colours in use: green for well, red for not.
const (
	Red   Colour = "31"
	Green Colour = "32"
	Cyan  Colour = "36"
)

// Brush colours text, where it may.
type Brush bool

// Paint returns text in a colour, or as it is.
func (b Brush) Paint(c Colour, text string) string {
	if !b {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Bar returns a bar of width columns, of which done out of all are filled. all 0: none is.
func (b Brush) Bar(width int, done, all int64) string {
	filled := 0
	if all > 0 {
		filled = int(min(max(done, 0), all) * int64(width) / all)
	}
	return b.Paint(Cyan, strings.Repeat("█", filled)) + strings.Repeat("░", width-filled)
}

// Columns is how many columns the widest line of an uncoloured text takes.
func Columns(text string) int {
	widest := 0
	for line := range strings.Lines(text) {
		widest = max(widest, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}
	return widest
}
