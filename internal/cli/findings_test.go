package cli

import (
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// What a stranger stumbled over in a trial, each held by a test.

func TestARefusedRequeueSaysWhyAResendIsNotSafe(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("payout", "none", 1), submission("charge", "moved", 1))
		b.attempt("payout/none", timedOut(ledger.StepAsk))
		b.attempt("charge/moved", timedOut(ledger.StepAsk))
		b.must(exitOK, "add", "charge/sent", "--body", "{}", "--attempted", "unknown")
		spec := b.specs["charge"]
		spec.BaseURL = "https://elsewhere.example"
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
			t.Fatal(err)
		}
		for id, why := range map[string]string{
			"payout/none":  "its class is none: payrail would take it for a new one",
			"charge/moved": "its target differs: it was sent to another base_url than https://elsewhere.example",
			"charge/sent":  "it was sent without its key",
		} {
			got := b.must(exitConflict, "dlq", "requeue", id, "-y", "--note", "x")
			says(t, got.stdout, "its outcome is unknown and a resend is not safe ("+why, "resolve it first")
			says(t, b.must(exitOK, "dlq", "show", id).stdout, "a resend is not safe: "+why, "enqueue resolve "+id)
		}
		b.asks("payout")
		says(t, b.must(exitOK, "dlq", "show", "payout/none").stdout, "have payrail asked:", "enqueue reconcile payout/none --note WHY")
		says(t, b.must(exitConflict, "dlq", "requeue", "payout/none", "-y", "--note", "x").stdout, "have it asked about (reconcile)")
	})
}

func TestARequeueWithADeadlineInThePastIsAUsageError(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1))
		b.attempt("charge/a", decline(402, "no"))
		for _, args := range [][]string{{"-y"}, {"--dry-run"}} {
			args = append([]string{"dlq", "requeue", "charge/a", "--deadline", time.Now().Add(-time.Minute).Format(time.RFC3339), "--note", "x"}, args...)
			says(t, b.must(exitUsage, args...).stderr, "--deadline", "is over already")
		}
		b.wantState("charge/a", jobs.Dead)
	})
}

// What was refused took no effect that the ledger knows of, unless it was reported so.
func TestARefusedAddSaysWhetherItMayHaveTakenEffect(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for want, args := range map[jobs.Applied][][]string{
			jobs.AppliedNo: {
				{"add", "charge/bad", "--body", `{"a":`},
				{"add", "charge/bad", "--body", "{}", "--credential", "none"},
				{"add", "charge/late", "--body", "{}", "--deadline", "2001-01-01T00:00:00Z"},
			},
			jobs.AppliedUnknown: {{"add", "charge/bad", "--body", "{}", "--credential", "none", "--attempted", "unknown"}},
		} {
			for _, a := range args {
				if r := into[jobs.Receipt](t, b.must(exitUsage, append(a, "-o", "json")...)); r.Applied != want || r.Answer != jobs.Refused {
					t.Errorf("%v: %s, applied %s, want %s", a, r.Answer, r.Applied, want)
				}
			}
		}
	})
}

func TestAFirstSendInTheFutureIsAWarning(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		future := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
		got := b.must(exitOK, "add", "charge/a", "--body", "{}", "--attempted", "refused", "--first-sent-at", future, "-o", "json")
		if r := into[jobs.Receipt](t, got); len(r.Warnings) != 1 {
			t.Errorf("%v", r.Warnings)
		}
		says(t, got.stderr, "warning: first_sent_at "+future, "in the future by Redis' clock: it counts as now")
		imported := b.mustWith(exitOK, `{"kind":"charge","key":"b","body":{},"attempted":{"outcome":"refused","first_sent_at":"`+future+`"}}`, "import", "-")
		says(t, imported.stderr, "line 1: warning: first_sent_at")
		past := b.must(exitOK, "add", "charge/c", "--body", "{}", "--attempted", "refused", "--first-sent-at", time.Now().Add(-time.Minute).Format(time.RFC3339))
		hides(t, past.stderr, "warning")
	})
}

func TestAParamThatNothingUsesIsAWarning(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		got := b.must(exitOK, "add", "void/a", "--body", "{}", "--param", "id=x", "--param", "idd=y")
		says(t, got.stderr, `warning: param "idd" is used nowhere`)
		hides(t, got.stderr, `"id"`)
		spec := b.specs["void"]
		spec.Inquiry = &jobs.InquirySpec{SettleMS: 1, GiveUpAfterMS: 1000, Params: []string{"account"}}
		spec.Void = &jobs.VoidSpec{Kind: "charge", Params: map[string]string{"x": "params.back"}}
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
			t.Fatal(err)
		}
		hides(t, b.must(exitOK, "add", "void/b", "--body", "{}", "--param", "id=x", "--param", "account=y", "--param", "back=z").stderr, "warning")
	})
}

func TestImportNamesTheFieldOfAWrongType(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		got := b.mustWith(exitUsage, `{"kind":"charge","key":7,"body":{}}`+"\n"+`{"kind":"charge","key":"a","body":{},"attempted":{"attempts":"two"}}`+"\n", "import", "-")
		says(t, got.stderr, "line 1, column 24: key: want a string, not a number", "line 2, column 62: attempted.attempts: want a whole number, not a string")
	})
}

func TestPauseOnAFullRedisIsOneLineAndTryAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	client := srv.Client(t)
	b := setup(t, client)
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	if err := client.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{line("pause payrail --note x"), line("resume payrail --note x")} {
		oneLine(t, b.run(args...), exitAgain, srv.Addr(), "full")
	}
}
