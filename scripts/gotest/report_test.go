package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// stream writes events as go test does: action, test and output of package p.
func stream(t *testing.T, events ...event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		if e.Package == "" {
			e.Package = "p"
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// reportOf returns what is printed for the input, and the verdict.
func reportOf(t *testing.T, input string) (string, error) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(input)); err != nil {
		t.Fatal(err)
	}
	err := r.close()
	return out.String(), err
}

func TestPassingTestsAreCountedAndQuiet(t *testing.T) {
	t.Parallel()
	got, err := reportOf(t, stream(t,
		event{Action: "run", Test: "TestA"},
		event{Action: "output", Test: "TestA", Output: "=== RUN   TestA\n"},
		event{Action: "output", Test: "TestA", Output: "a noisy log line\n"},
		event{Action: "pass", Test: "TestA/sub"},
		event{Action: "pass", Test: "TestA"},
		event{Action: "output", Output: "PASS\n"},
		event{Action: "output", Output: "ok  \tp\t0.01s\n"},
		event{Action: "pass"},
	))
	if err != nil {
		t.Errorf("all passed, yet: %v", err)
	}
	if want := "ok  \tp\t0.01s\n2 passed, 0 failed\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestWhatIsNotAPassFails(t *testing.T) {
	t.Parallel()
	pass := event{Action: "pass", Test: "TestOther"}
	for name, c := range map[string]struct {
		events []event
		says   string
	}{
		"failed test": {[]event{pass,
			{Action: "output", Test: "TestA", Output: "=== RUN   TestA\n"},
			{Action: "output", Test: "TestA", Output: "    a_test.go:1: got 2\n"},
			{Action: "fail", Test: "TestA"}, {Action: "fail"}},
			"    a_test.go:1: got 2\nfailed: p TestA\n1 passed, 1 failed\n"},
		"skipped test": {[]event{pass,
			{Action: "output", Test: "TestA", Output: "    a_test.go:1: no redis\n"},
			{Action: "skip", Test: "TestA"}, {Action: "pass"}},
			"    a_test.go:1: no redis\nskipped: p TestA\n1 passed, 0 failed, 1 skipped\n"},
		"panic in a test": {[]event{pass,
			{Action: "output", Test: "TestA", Output: "panic: boom\n"},
			{Action: "output", Output: "FAIL\tp\t0.1s\n"}, {Action: "fail"}},
			"FAIL\tp\t0.1s\npanic: boom\nfailed: p TestA\n1 passed, 1 failed\n"},
		"package that fails without a test": {[]event{pass,
			{Action: "output", Output: "FAIL\tp\t0.1s\n"}, {Action: "fail"}},
			"FAIL\tp\t0.1s\n1 passed, 0 failed\n"},
		"build failure": {[]event{pass,
			{Action: "build-output", ImportPath: "p", Output: "p/a.go:1: undefined: x\n"},
			{Action: "build-fail", ImportPath: "p"}},
			"p/a.go:1: undefined: x\n1 passed, 0 failed\n"},
		"nothing ran": {nil, "0 passed, 0 failed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := reportOf(t, stream(t, c.events...))
			if err == nil {
				t.Error("reported as a success")
			}
			if got != c.says {
				t.Errorf("printed %q, want %q", got, c.says)
			}
		})
	}
}

func TestPackageWithoutTestsIsNoSkip(t *testing.T) {
	t.Parallel()
	got, err := reportOf(t, "a line that is no event\n"+stream(t,
		event{Action: "output", Output: "?   \tp\t[no test files]\n"},
		event{Action: "skip"},
		event{Action: "pass", Package: "q", Test: "TestA"},
	))
	if err != nil {
		t.Errorf("counted as a failure: %v", err)
	}
	if want := "a line that is no event\n?   \tp\t[no test files]\n1 passed, 0 failed\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
