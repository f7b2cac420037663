package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/terms"
)

// asks gives kinds an inquiry, as workers whose configuration has one do.
func (b *testBundle) asks(kinds ...jobs.Kind) {
	b.t.Helper()
	for _, kind := range kinds {
		spec := b.specs[kind]
		spec.Inquiry = &jobs.InquirySpec{SettleMS: 1, GiveUpAfterMS: 3600_000}
		b.specs[kind] = spec
		if err := b.ledger.PublishKinds(b.t.Context(), []jobs.KindSpec{spec}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// longOver makes the unknown sends of an operation so old that none can take effect
// any more: a finding that it was not applied is believed.
func (b *testBundle) longOver(ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		if err := b.client.HSet(b.t.Context(), "rd:{payrail}:op:"+id, "uend", "1000").Err(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// answered lets a worker ask about an operation that is due, with an answer.
func (b *testBundle) answered(id string, answer jobs.InquiryAnswer) {
	b.t.Helper()
	b.inquired(id, ledger.Inquired{Answer: answer, Status: 200, Duration: time.Millisecond, Delay: time.Millisecond})
}

func (b *testBundle) inquired(id string, in ledger.Inquired) {
	b.t.Helper()
	parsed, err := jobs.ParseID(id)
	if err != nil {
		b.t.Fatal(err)
	}
	spec := b.specs[parsed.Kind]
	waitFor(b.t, func() bool {
		b.runs++
		asked, err := b.ledger.Inquire(b.t.Context(), terms.Of(spec), []jobs.Kind{parsed.Kind}, 100, "ask-"+string(rune('a'+b.runs)), time.Millisecond)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, q := range asked.Questions {
			if q.ID != parsed {
				continue
			}
			if _, err := b.ledger.Inquired(b.t.Context(), terms.Of(spec), q, in); err != nil {
				b.t.Fatal(err)
			}
			return true
		}
		return false
	})
}

func TestReconcileHasTheDependencyAskedAboutWhatIsInTheLedger(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("payout", "dead", 1), submission("payout", "declined", 1))
		b.attempt("payout/dead", timedOut(ledger.StepAsk))
		b.attempt("payout/declined", decline(402, "no"))
		b.submit(submission("payout", "waiting", 1))
		b.asks("payout")
		got := b.must(exitOK, "reconcile", "payout/dead", "payout/declined", "payout/waiting", "--note", "their read API is back", "-o", "json")
		out := into[operator.Outcome](t, got)
		if out.Done != 3 || out.Batch == nil {
			t.Fatalf("%+v", out)
		}
		for _, id := range []string{"payout/dead", "payout/declined", "payout/waiting"} {
			b.wantState(id, jobs.Unresolved)
		}
		says(t, b.must(exitOK, "audit", "payout/dead").stdout, "reconcile", "their read API is back", *out.Batch)
		says(t, b.must(exitOK, "audit", "payrail").stdout, "reconcile 3 operations (named one by one)")
		says(t, b.must(exitOK, "reconcile", "payout/dead", "--note", "again").stdout, "asked about again now")

		b.answered("payout/dead", jobs.InquirySucceeded)
		b.wantState("payout/dead", jobs.Succeeded)
		says(t, b.must(exitConflict, "reconcile", "payout/dead", "--note", "x").stdout, "it has succeeded already")
		shown := b.must(exitOK, "show", "payout/dead").stdout
		says(t, shown, "inquiry", "succeeded", "inquiries")
		b.must(exitPartly, "reconcile", "payout/dead", "payout/waiting", "--note", "x")
	})
}

func TestReconcileOfWhatOnlyTheDependencyKnows(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		spec := b.specs["payout"]
		spec.BaseURL = "" // where the helper asks, too
		b.specs["payout"] = spec
		b.asks("payout")
		got := b.must(exitOK, "reconcile", "payout/old", "--first-sent-at", "2026-01-02T03:04:05Z", "--note", "sent by the old system")
		says(t, got.stdout, "not in the ledger: it is asked about, and nothing is sent for it")
		if o := b.wantState("payout/old", jobs.Unresolved); o.FirstSentAt == nil || o.FirstSentAt.String() != "2026-01-02T03:04:05.000Z" {
			t.Errorf("first sent %v", o.FirstSentAt)
		}
		says(t, b.must(exitOK, "dlq", "show", "payout/old").stdout, "never sent from here", "request: none (only payrail knows it", "its key is free again")
		b.client.HSet(t.Context(), "rd:{payrail}:op:payout/old", "nf", "1000") // not found was seen once, long ago
		b.answered("payout/old", jobs.InquiryNotFound)
		b.wantState("payout/old", jobs.Cancelled)
		b.must(exitOK, "add", "payout/old", "--body", `{"amount":1}`) // its key is free again
		b.wantState("payout/old", jobs.Waiting)
	})
}

func TestReconcileNeedsAKindThatCanBeAskedAbout(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		says(t, b.must(exitConflict, "reconcile", "payout/x", "--note", "x").stdout, "no running worker has an inquiry for kind payout")
		says(t, b.must(exitUsage, "reconcile", "nothing/x", "--note", "x").stderr, `unknown kind "nothing"`, "payout")
		b.asks("payout")
		got := b.must(exitOK, "reconcile", "payout/x", "--note", "x", "--first-sent-at", time.Now().Add(time.Hour).Format(time.RFC3339))
		says(t, got.stderr, "warning: first-sent-at", "in the future by Redis' clock: it counts as now")
	})
}

func TestReconcileReadsAFileOfNamesAndGoesOnAfterWrongLines(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.asks("payout")
		file := filepath.Join(t.TempDir(), "names")
		if err := os.WriteFile(file, []byte("# from the bank\n\npayout/a\r\nnonsense\npayout/b\nnothing/c\npayout/a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := b.must(exitPartly, "reconcile", "--from", file, "--note", "x", "-o", "json")
		out := into[operator.Outcome](t, got)
		if out.Done != 2 || out.Invalid != 2 || len(out.Errors) != 2 || out.Errors[0].Line != 4 || out.Errors[1].Line != 6 {
			t.Errorf("%+v", out)
		}
		says(t, got.stderr, "line 4: ", "has no slash", `line 6: unknown kind "nothing"`, "to be asked about: 2, 2 invalid")
		b.wantState("payout/a", jobs.Unresolved)
		b.wantState("payout/b", jobs.Unresolved)
		b.mustWith(exitUsage, "nonsense\n", "reconcile", "--from", "-", "--note", "x")
		b.mustWith(exitUsage, "# none\n", "reconcile", "--from", "-", "--note", "x")
		b.mustWith(exitOK, "payout/a\npayout/b\n", "reconcile", "--from", "-", "--note", "x")
		b.mustWith(exitOK, "payout/a\n", "reconcile", "-", "--note", "x")
	})
}

// The whole way: dlq export -o csv, reconcile --from, and what stays open resolved
// from the same file.
func TestAnExportedCSVIsReconciledAndThenResolved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, key := range []string{"a", "b", "=c"} {
			b.submit(submission("payout", key, 1))
			b.attempt("payout/"+key, timedOut(ledger.StepAsk))
		}
		file := filepath.Join(t.TempDir(), "unknown.csv")
		b.must(exitOK, "dlq", "export", "--unknown", "-o", "csv", "--out", file)
		b.asks("payout")
		if out := into[operator.Outcome](t, b.must(exitOK, "reconcile", "--from", file, "--note", "x", "-o", "json")); out.Done != 3 {
			t.Fatalf("%+v", out)
		}
		b.answered("payout/a", jobs.InquirySucceeded)
		b.wantState("payout/a", jobs.Succeeded)

		list := b.must(exitOK, "list", "--state", "unresolved", "-o", "csv").stdout
		var filled strings.Builder
		for i, row := range strings.Split(strings.TrimSpace(list), "\n") {
			verdict := ",written_off,"
			switch {
			case i == 0:
				filled.WriteString(row + "\n")
				continue
			case strings.HasPrefix(row, "payout,b,"):
				verdict = ",applied,po_9"
			}
			filled.WriteString(strings.TrimSuffix(row, ",,") + verdict + "\n")
		}
		out := into[operator.Outcome](t, b.mustWith(exitOK, filled.String(), "resolve", "--from", "-", "--note", "by the bank's letter", "-o", "json"))
		if out.Done != 2 {
			t.Errorf("%+v\n%s", out, filled.String())
		}
		b.wantState("payout/b", jobs.Succeeded)
		b.wantState("payout/=c", jobs.Cancelled)
	})
}

func TestAFullBacklogIsTryAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		spec := b.specs["payout"]
		spec.MaxBacklog = 1
		b.specs["payout"] = spec
		b.asks("payout")
		got := b.must(exitAgain, "reconcile", "payout/a", "payout/b", "--note", "x")
		says(t, got.stderr, "backlog full", "the same command again goes on with the rest")
	})
}

// A cancel of what may have taken effect keeps the wish until the answer is known.
func TestCancelOfAnUnknownOutcomeKeepsTheWish(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.asks("payout")
		b.submit(submission("payout", "a", 1))
		b.attempt("payout/a", timedOut(ledger.StepAsk))
		b.wantState("payout/a", jobs.Unresolved)
		got := b.must(exitOK, "cancel", "payout/a", "-y", "--note", "withdrawn")
		says(t, got.stdout, "unresolved", "it is cancelled once the gateway says that it was not applied")
		if o := b.operation("payout/a"); deref(o.Intent) != "cancelled" {
			t.Errorf("intent %v", deref(o.Intent))
		}
		advice := b.must(exitOK, "dlq", "show", "payout/a").stdout
		says(t, advice, "payrail is asked about it until that is known", "enqueue reconcile payout/a --note WHY", "enqueue resolve payout/a --not-applied", "then it is cancelled")
		b.longOver("payout/a")
		b.must(exitOK, "resolve", "payout/a", "--not-applied", "--note", "not there")
		b.wantState("payout/a", jobs.Cancelled)
	})
}

func TestResolveSaysWhatToUseInsteadOfFilters(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, args := range [][]string{line("resolve --all-matching --applied --note x"), line("resolve --reason unsafe --written-off --note x"), line("resolve --all-matching --kind payout --note x")} {
			says(t, b.must(exitUsage, args...).stderr, "resolve takes no filters", "dlq export --unknown -o csv", "resolve --from")
		}
	})
}
