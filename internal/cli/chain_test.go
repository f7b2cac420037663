package cli

import (
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestGoldenNewAttempts(t *testing.T) {
	t.Parallel()
	w := newGoldenWorld(t)
	add := func(key, of string, more ...string) []string {
		return append([]string{"add", "charge/" + key, "--body", `{"amount":4200}`, "--new-attempt-of", "charge/" + of}, more...)
	}
	text := w.transcript(add("second", "declined"), add("second", "declined", "-o", "json"), add("second", "spent"), line("show charge/second"), line("show charge/declined"),
		add("third", "declined"), add("third", "declined", "-o", "json"), add("third", "done"), add("third", "nothing"),
		line("dlq show charge/declined"), line("dlq requeue charge/declined -y --note x"), line("dlq requeue charge/declined --dry-run"))
	w.tick(time.Minute)
	never := decline(402, "card declined: stolen card")
	never.Again = jobs.AgainNever
	w.attempt("charge/second", never)
	text += w.transcript(line("dlq show charge/second"), line("dlq show charge/second -o json"), add("third", "declined"), add("third", "second"), line("dlq requeue charge/second -y --note x"),
		line("dlq list --key second -o csv"))
	golden(t, "new-attempts", text)
}

func TestAnImportOfNewAttemptsSaysWhichWereRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "declined", 1), submission("charge", "paid", 1))
		b.attempt("charge/declined", decline(402, "declined"))
		b.attempt("charge/paid", succeeded())
		link := func(key, of string) string {
			return strings.TrimSuffix(lineOf(key, 1), "}") + `,"new_attempt_of":"charge/` + of + `"}` + "\n"
		}
		got := b.mustWith(exitPartly, link("n1", "declined")+link("n2", "paid")+link("n3", "a b"), "import", "-")
		says(t, got.stderr, "line 2, refused: new_attempt_of: charge/paid succeeded", "line 3, column 83: new_attempt_of:")
		b.wantState("charge/n1", jobs.Waiting)
		if of := b.operation("charge/n1").NewAttemptOf; of == nil || of.String() != "charge/declined" {
			t.Errorf("new attempt of %v", of)
		}
		// All of them barred: there is nothing to mend in the file.
		b.mustWith(exitConflict, link("n2", "paid")+link("n3", "declined"), "import", "-")
	})
}
