package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// T42: a dead letter swallows whatever is submitted under its key, without a word, and
// with the payload of old.
func TestT42AKeyOfADeadLetterIsAnsweredAndNotSwallowed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "o1", 1))
		b.attempt("charge/o1", decline(402, "card declined"))
		b.wantState("charge/o1", jobs.Dead)

		same := into[jobs.Receipt](t, b.must(exitOK, "add", "charge/o1", "--body", string(body(1)), "-o", "json"))
		if same.Answer != jobs.Duplicate || same.State != jobs.Dead || same.Applied != jobs.AppliedNo {
			t.Errorf("the same again: %+v, want a duplicate that is dead", same)
		}
		says(t, b.must(exitOK, "add", "charge/o1", "--body", string(body(1))).stdout, "duplicate", "dead")
		changed := into[jobs.Receipt](t, b.must(exitConflict, "add", "charge/o1", "--body", string(body(2)), "-o", "json"))
		if changed.Answer != jobs.Conflict || changed.State != jobs.Dead || strings.Join(changed.Differs, " ") != "body" {
			t.Errorf("another body: %+v, want a conflict that names the body", changed)
		}
		if o := b.wantState("charge/o1", jobs.Dead); o.Columns["amount"] != "1" {
			t.Errorf("its amount is now %s", o.Columns["amount"])
		}

		// It is not blocked for ever.
		b.must(exitOK, "dlq", "requeue", "charge/o1", "-y", "--note", "new card")
		b.attempt("charge/o1", succeeded())
		again := into[jobs.Receipt](t, b.must(exitOK, "add", "charge/o1", "--body", string(body(1)), "-o", "json"))
		if again.Answer != jobs.Duplicate || again.State != jobs.Succeeded {
			t.Errorf("after its success: %+v", again)
		}
	})
}

// T85: a payload so large that it breaks whatever lists it.
func TestT85PayloadsAreTakenUpToTheLimitAndRefusedBeyondIt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		file := func(size int) string {
			path := filepath.Join(t.TempDir(), "body.json")
			rest := `{"amount":7,"currency":"GBP","note":""}`
			text := strings.Replace(rest, `""`, `"`+strings.Repeat("x", size-len(rest))+`"`, 1)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return "@" + path
		}
		b.must(exitOK, "add", "charge/o1", "--body", file(jobs.MaxBodyBytes))
		out := b.must(exitOK, "list", "-o", "json")
		if items := into[page](t, out).Items; len(items) != 1 || items[0].Columns["amount"] != "7" || len(out.stdout) > 4096 {
			t.Errorf("listed as %d items in %d bytes", len(items), len(out.stdout))
		}
		if shown := b.must(exitOK, "show", "charge/o1", "--reveal").stdout; strings.Count(shown, "x") < jobs.MaxBodyBytes-100 {
			t.Errorf("revealed in %d bytes", len(shown))
		}
		got := b.must(exitUsage, "add", "charge/o2", "--body", file(jobs.MaxBodyBytes+1))
		says(t, got.stderr, fmt.Sprintf("%d bytes, at most %d are allowed", jobs.MaxBodyBytes+1, jobs.MaxBodyBytes))
		b.must(exitUsage, "add", "charge/o2", "--body", file(50<<20)) // read no further than it takes to refuse it
		b.must(exitNotFound, "show", "charge/o2")
	})
}
