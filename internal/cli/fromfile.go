package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/operator"
)

// readFrom reads what --from names: a file, or stdin for "-".
func (p *program) readFrom(ctx context.Context, path string) ([]byte, error) {
	text, err := p.readInput(ctx, path, 0)
	if err != nil {
		return nil, inputError(ctx, "--from", err)
	}
	return bytes.TrimPrefix(text, byteOrderMark), nil
}

// eachRow reads the CSV of dlq export as a spreadsheet may have saved it: with
// semicolons or tabs, with other columns in any order. It calls row for each line
// below the header; what row refuses, and lines that are no CSV, are faults, and the
// rest goes on. An error means that the file cannot be read at all.
func eachRow(text []byte, required []string, row func(line int, cell func(string) string) error) ([]operator.Fault, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	r.Comment = '#'
	r.Comma = commaOf(firstLine(text))
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read its header: %w", err)
	}
	column := map[string]int{}
	for i, name := range header {
		column[strings.ToLower(strings.TrimSpace(name))] = i
	}
	for _, name := range required {
		if _, ok := column[name]; !ok {
			return nil, fmt.Errorf("its header has no column %q", name)
		}
	}
	var faults []operator.Fault
	for {
		record, err := r.Read()
		var broken *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return faults, nil
		case errors.As(err, &broken):
			faults = append(faults, operator.Fault{Line: broken.StartLine, Error: fmt.Sprintf("column %d: %s", broken.Column, broken.Err)})
			continue
		case err != nil:
			return nil, err
		}
		line, _ := r.FieldPos(0)
		err = row(line, func(name string) string {
			if i, ok := column[name]; ok && i < len(record) {
				return plainCell(strings.TrimSpace(record[i]))
			}
			return ""
		})
		if err != nil {
			faults = append(faults, operator.Fault{Line: line, Error: err.Error()})
		}
	}
}

// firstLine returns the first line that says something, in lower case.
func firstLine(text []byte) string {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return strings.ToLower(string(line))
		}
	}
	return ""
}

func commaOf(header string) rune {
	for _, comma := range ";\t" {
		if !strings.ContainsRune(header, ',') && strings.ContainsRune(header, comma) {
			return comma
		}
	}
	return ','
}

// isTable reports whether the first line of a file is a header with the columns that
// name operations.
func isTable(text []byte) bool {
	header := firstLine(text)
	var names []string
	for _, name := range strings.Split(header, string(commaOf(header))) {
		names = append(names, strings.Trim(strings.TrimSpace(name), `"`))
	}
	return slices.Contains(names, columnKind) && slices.Contains(names, columnKey)
}

// namedAt is an operation that a file names, and where.
type namedAt struct {
	id   jobs.ID
	line int
}

// operationsIn reads a file that names operations: one a line, or the CSV of dlq
// export. One that it names twice counts once.
func operationsIn(text []byte) ([]namedAt, []operator.Fault, error) {
	var out []namedAt
	seen := map[jobs.ID]bool{}
	take := func(line int, name string) error {
		id, err := jobs.ParseID(name)
		if err == nil && !seen[id] {
			seen[id] = true
			out = append(out, namedAt{id, line})
		}
		return err
	}
	if isTable(text) {
		faults, err := eachRow(text, []string{columnKind, columnKey}, func(line int, cell func(string) string) error {
			return take(line, cell(columnKind)+"/"+cell(columnKey))
		})
		return out, faults, err
	}
	var faults []operator.Fault
	n := 0
	for line := range bytes.Lines(text) {
		n++
		name := strings.TrimSpace(string(line))
		if name == "" || name[0] == '#' {
			continue
		}
		if strings.Contains(name, ",") { // a cell of a CSV would pass for a part of a key
			faults = append(faults, operator.Fault{Line: n, Error: fmt.Sprintf("%q has a comma: is this a CSV without its header? (A key that has one is named on the command line.)", name)})
		} else if err := take(n, name); err != nil {
			faults = append(faults, operator.Fault{Line: n, Error: err.Error()})
		}
	}
	return out, faults, nil
}
