// Package examples checks the files that people start from.
package examples

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"redrive/internal/jobs"
)

var update = flag.Bool("update", false, "write charges.jsonl anew")

const chargesFile = "charges.jsonl"

// charges returns 1,000 charges, one a line. Amounts are in minor units and spread
// without chance, so that the file is the same wherever it is made.
func charges() []byte {
	var b bytes.Buffer
	currencies := []string{"GBP", "EUR", "USD"}
	for n := 1; n <= 1000; n++ {
		key := fmt.Sprintf("order-%04d", n)
		amount := 500 + n*7919%19500 // 7919 is prime: neighbours differ widely
		fmt.Fprintf(&b, `{"kind":"charge","key":%q,"body":{"amount":%d,"currency":%q,"reference":%q},"deadline":"2h"}`+"\n",
			key, amount, currencies[n%len(currencies)], key)
	}
	return b.Bytes()
}

// go test ./examples -update writes the file. Not parallel: other tests read it.
func TestChargesAreWhatTheGeneratorMakes(t *testing.T) {
	if *update {
		if err := os.WriteFile(chargesFile, charges(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(chargesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, charges()) {
		t.Errorf("%s was edited: change the generator and run go test ./examples -update", chargesFile)
	}
}

func TestChargesAreAThousandDifferentSubmissions(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(chargesFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[jobs.ID]bool{}
	for line := range bytes.Lines(content) {
		var s jobs.Submission
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, err := jobs.ParseID(s.ID().String()); err != nil {
			t.Error(err)
		}
		var body struct {
			Amount    int    `json:"amount"`
			Currency  string `json:"currency"`
			Reference string `json:"reference"`
		}
		if err := json.Unmarshal(s.Body, &body); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if s.Kind != "charge" || body.Amount <= 0 || len(body.Currency) != 3 || body.Reference != string(s.Key) {
			t.Errorf("not a charge the sandbox would take: %s", line)
		}
		seen[s.ID()] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d different operations, want 1,000", len(seen))
	}
}
