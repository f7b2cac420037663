package cli

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func TestEveryFilterChoosesItsOwn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "done", 1), submission("charge", "declined", 2))
		b.attempt("charge/done", succeeded())
		b.attempt("charge/declined", decline(402, "card Declined"))
		account := submission("charge", "account", 3)
		account.Credential = "m1"
		b.submit(account)
		b.submit(submission("payout", "lost", 4))
		b.attempt("payout/lost", timedOut(ledger.StepAsk))
		b.submit(submission("refund", "r1", 5))
		b.must(exitOK, "dlq", "requeue", "charge/declined", "-y", "--note", "x")
		batch := deref(b.operation("charge/declined").Batch)
		for _, c := range []struct {
			want string
			args []string
		}{
			{"charge/account charge/declined charge/done payout/lost refund/r1", nil},
			{"refund/r1", []string{"--dependency", "bank"}},
			{"payout/lost refund/r1", []string{"--kind", "payout,refund"}},
			{"payout/lost refund/r1", []string{"--kind", "payout", "--kind", "refund"}},
			{"charge/done payout/lost", []string{"--state", "succeeded,dead"}},
			{"payout/lost", []string{"--reason", "unsafe"}},
			{"charge/done payout/lost", []string{"--class", "2xx,timeout"}},
			{"charge/account", []string{"--credential", "m1"}},
			{"charge/declined", []string{"--batch", batch}},
			{"charge/declined charge/done", []string{"--key", "d*"}},
			{"charge/declined", []string{"--error", "DECLINED"}},
			{"payout/lost", []string{"--unknown"}},
			{"", []string{"--flag", "conflict"}},
			{"", []string{"--until", "1h"}},
			{"charge/account charge/declined charge/done payout/lost refund/r1", []string{"--since", "1h"}},
			{"", []string{"--kind", "charge", "--reason", "unsafe"}},
		} {
			got := strings.Fields(b.must(exitOK, append([]string{"list", "-o", "name"}, c.args...)...).stdout)
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("list %s: %s, want %s", strings.Join(c.args, " "), got, c.want)
			}
		}
	})
}

func TestPagesTogetherAreTheWholeListNewestFirst(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		var subs []jobs.Submission
		for i := range 53 { // all dead in a few milliseconds: pages must part within one
			s := submission("payout", fmt.Sprintf("o%02d", i), i)
			s.Attempted = &jobs.Attempted{Outcome: jobs.OutcomeUnknown, Class: jobs.ClassTimeout}
			subs = append(subs, s)
		}
		b.submit(subs...)
		whole := into[page](t, b.must(exitOK, "dlq", "list", "--limit", "0", "-o", "json"))
		if len(whole.Items) != 53 || whole.NextCursor != "" {
			t.Fatalf("%d items, cursor %q", len(whole.Items), whole.NextCursor)
		}
		var paged []jobs.ID
		cursor := ""
		for range 20 {
			p := into[page](t, b.must(exitOK, "dlq", "list", "--limit", "10", "-o", "json", "--cursor", cursor))
			for i := range p.Items {
				paged = append(paged, p.Items[i].ID())
			}
			if cursor = p.NextCursor; cursor == "" {
				break
			}
		}
		var want []jobs.ID
		for i := range whole.Items {
			want = append(want, whole.Items[i].ID())
		}
		if !slices.Equal(paged, want) {
			t.Errorf("pages:\n%v\nwhole:\n%v", paged, want)
		}
	})
}

func TestSpreadsheetsRunNoCellAsAFormula(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, key := range []string{"=1+2", "+1", "-1", "@x", "'=1", "plain"} {
			s := jobs.Submission{Kind: "charge", Key: jobs.Key(key), Body: []byte(`{"amount":"=cmd()","currency":"a\nb"}`), CorrelationID: "@sum(a)"}
			b.submit(s)
		}
		rows, err := csv.NewReader(strings.NewReader(b.must(exitOK, "list", "-o", "csv").stdout)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, row := range rows[1:] {
			for _, cell := range row {
				if cell != "" && strings.ContainsRune("=+-@", rune(cell[0])) {
					t.Errorf("a cell begins with %q: %q", cell[0], cell)
				}
			}
			keys = append(keys, plainCell(row[1]))
		}
		slices.Sort(keys)
		if want := []string{"'=1", "+1", "-1", "=1+2", "@x", "plain"}; !slices.Equal(keys, want) {
			t.Errorf("keys come back as %q, want %q", keys, want)
		}
		says(t, strings.Join(rows[1], "|"), `a\nb`)
	})
}

func TestListsWarnOfNamesThatNobodyBears(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		got := b.must(exitOK, "list", "--kind", "chrage", "--dependency", "payrial")
		says(t, got.stderr, `no kind "chrage" is known`, `no dependency "payrial" is known`, "no operation matches")
	})
}

func TestAFilterOfTwoFormsOfTimeIsReadByTheClock(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.must(exitOK, "list", "--since", "00:00", "--until", "0s")
		b.must(exitOK, "list", "--since", "2020-01-01T00:00:00Z", "--until", "1h")
		b.must(exitUsage, "list", "--since", "1h", "--until", "2020-01-01T00:00:00Z")
	})
}

// A kind that nobody publishes any more still has its operations.
func TestOperationsOfAnUnknownKindAreFoundAndEnded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("charge", "b", 1))
		b.attempt("charge/b", decline(402, "no"))
		b.client.HDel(t.Context(), "rd:kinds", "charge")
		says(t, b.must(exitOK, "show", "charge/a").stdout, "charge/a: ", "POST (path masked)")
		says(t, b.must(exitOK, "list", "-o", "name").stdout, "charge/a", "charge/b")
		says(t, b.must(exitOK, "audit", "charge/a").stderr, "no entry")
		says(t, b.must(exitConflict, "dlq", "requeue", "charge/b", "-y", "--note", "x").stdout, "nobody knows its kind")
		b.must(exitOK, "cancel", "charge/a", "-y", "--note", "x")
		b.must(exitOK, "dlq", "discard", "charge/b", "-y", "--note", "x")
		b.wantState("charge/b", jobs.Cancelled)
	})
}
