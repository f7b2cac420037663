package cli

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// batchIDs are drawn anew each time.
var batchIDs = regexp.MustCompile(`b-\d{8}-\d{6}-[0-9a-f]{8}`)

// golden compares got with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = batchIDs.ReplaceAllString(got, "b-BATCH")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (-update rewrites it):\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}
