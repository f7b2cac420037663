package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"redrive/internal/jobs"
)

// The forms of data on stdout.
const (
	asTable = "table"
	asJSON  = "json"
	asJSONL = "jsonl"
	asCSV   = "csv"
	asName  = "name"
)

var forms = []string{asTable, asJSON, asJSONL, asCSV, asName}

// encode returns v as JSON on one line, or indented.
func encode(v any, indent bool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return visibleJSON(b.Bytes()), nil
}

func (p *program) writeJSON(v any) error { return p.write(v, true) }

func (p *program) writeLine(v any) error { return p.write(v, false) }

// write leaves an error of stdout to the flush at the end.
func (p *program) write(v any, indent bool) error {
	b, err := encode(v, indent)
	if err != nil {
		return err
	}
	_, _ = p.stdout.Write(b)
	return nil
}

// print writes one line of text to stdout.
func (p *program) print(format string, args ...any) {
	fmt.Fprintln(p.stdout, visible(fmt.Sprintf(format, args...)))
}

// grid is rows of text under a header.
type grid struct {
	header []string
	rows   [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// plain has neither borders nor lines, so that a table can be cut with ordinary tools.
var plain = table.Style{Name: "plain", Box: table.BoxStyle{PaddingRight: "  "}, Format: table.FormatOptionsDefault, Options: table.OptionsNoBordersAndSeparators}

// table writes a grid to stdout.
func (p *program) table(g grid) {
	if len(g.rows) == 0 {
		return
	}
	t := table.NewWriter()
	t.SetStyle(plain)
	t.SuppressTrailingSpaces()
	if len(g.header) > 0 {
		t.AppendHeader(p.row(g.header, false))
	}
	for _, cells := range g.rows {
		t.AppendRow(p.row(cells, true))
	}
	fmt.Fprintln(p.stdout, t.Render())
}

func (p *program) row(cells []string, color bool) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		c = visible(c)
		if color {
			c = p.color(c)
		}
		row[i] = c
	}
	return row
}

// ANSI colours of the words that a person looks for first.
var colors = map[string]string{
	string(jobs.Succeeded): "32", string(jobs.Dead): "31", string(jobs.Unresolved): "33", string(jobs.AppliedUnknown): "33",
	string(jobs.Accepted): "32", string(jobs.Refused): "31", string(jobs.Conflict): "31", "done": "32", "missing": "31",
}

func (p *program) color(cell string) string {
	word, _, _ := strings.Cut(cell, " ")
	if code, ok := colors[word]; ok && p.colored {
		return "\x1b[" + code + "m" + cell + "\x1b[0m"
	}
	return cell
}

// tableCSV writes the cells of a table as CSV: what is not there is empty.
func tableCSV(w io.Writer, g grid) error {
	for _, cells := range g.rows {
		for i, cell := range cells {
			if cell == "-" {
				cells[i] = ""
			}
		}
	}
	return writeCSV(w, g)
}

// writeCSV writes a grid as CSV, for spreadsheets.
func writeCSV(w io.Writer, g grid) error {
	c := csv.NewWriter(w)
	_ = c.Write(g.header) // the writer keeps its first error
	for _, cells := range g.rows {
		safe := make([]string, len(cells))
		for i, cell := range cells {
			safe[i] = spreadsheetCell(visible(cell))
		}
		_ = c.Write(safe)
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

// spreadsheetCell puts an apostrophe before what a spreadsheet would run as a
// formula, and before an apostrophe, so that plainCell can take it off again.
func spreadsheetCell(s string) string {
	if s != "" && strings.IndexByte("=+-@'", s[0]) >= 0 {
		return "'" + s
	}
	return s
}

// plainCell undoes spreadsheetCell.
func plainCell(s string) string { return strings.TrimPrefix(s, "'") }

// instant shows a moment to a person: to the second, "-" for none.
func instant(i *jobs.Instant) string {
	if i == nil {
		return "-"
	}
	return i.UTC().Format("2006-01-02T15:04:05Z")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// count writes n with what is counted, in the plural unless it is one.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
