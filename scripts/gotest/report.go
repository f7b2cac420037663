package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of go test -json, as far as it is used here.
type event struct {
	Action     string
	Package    string
	ImportPath string // of the package whose build speaks
	Test       string // "": the package itself
	Output     string
}

// report turns events into text and counts tests, subtests included.
type report struct {
	w       io.Writer
	passed  int
	failed  []string
	skipped []string
	broken  bool // go test itself ended with an error, or a package did

	output map[string]map[string][]string // package -> test -> lines of a test that has not ended yet
}

func newReport(w io.Writer) *report {
	return &report{w: w, output: map[string]map[string][]string{}}
}

// read takes events until the end. A line that is no event is shown as it is.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(r.w, line)
			} else {
				r.take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

func (r *report) take(e event) {
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.w, e.Output)
	case e.Action == "build-fail":
		r.broken = true
	case e.Test == "":
		r.takePackage(e)
	default:
		r.takeTest(e)
	}
}

// takePackage shows the closing lines of a package: "ok", "FAIL", "no test files".
func (r *report) takePackage(e event) {
	switch e.Action {
	case "output":
		if e.Output != "PASS\n" && e.Output != "FAIL\n" {
			fmt.Fprint(r.w, e.Output)
		}
	case "fail":
		r.broken = true
		// A panic or the timeout ended the tests that have not ended by themselves.
		for _, test := range slices.Sorted(maps.Keys(r.output[e.Package])) {
			r.failed = append(r.failed, e.Package+" "+test)
			r.show(e.Package, test)
		}
	}
}

func (r *report) takeTest(e event) {
	name := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		tests := r.output[e.Package]
		if tests == nil {
			tests = map[string][]string{}
			r.output[e.Package] = tests
		}
		tests[e.Test] = append(tests[e.Test], e.Output)
		return
	case "pass":
		r.passed++
	case "fail":
		r.failed = append(r.failed, name)
		r.show(e.Package, e.Test)
	case "skip":
		r.skipped = append(r.skipped, name)
		r.show(e.Package, e.Test)
	default: // run, pause, cont, bench
		return
	}
	delete(r.output[e.Package], e.Test)
}

// show prints what a test wrote, without the marks of its start and its pauses.
func (r *report) show(pkg, test string) {
	for _, line := range r.output[pkg][test] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(r.w, line)
		}
	}
}

// close prints the counts and returns an error unless every test ran and passed.
func (r *report) close() error {
	list := func(what string, tests []string) {
		for _, t := range tests {
			fmt.Fprintf(r.w, "%s: %s\n", what, t)
		}
	}
	list("failed", r.failed)
	list("skipped", r.skipped)
	fmt.Fprintf(r.w, "%d passed, %d failed", r.passed, len(r.failed))
	if len(r.skipped) > 0 {
		fmt.Fprintf(r.w, ", %d skipped", len(r.skipped))
	}
	fmt.Fprintln(r.w)
	switch {
	case len(r.failed) > 0:
		return fmt.Errorf("%d tests failed", len(r.failed))
	case r.broken:
		return errors.New("go test ended with an error")
	case len(r.skipped) > 0:
		return fmt.Errorf("%d tests were skipped: a skip is a failure here", len(r.skipped))
	case r.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
