package cli

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

// deadOfEverySort leaves dead letters whose export must be careful, each in its way.
func (b *testBundle) deadOfEverySort() {
	b.t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	b.submit(submission("charge", "refused", 1))
	b.attempt("charge/refused", decline(402, "no"))
	b.submit(submission("charge", "unknown-keyed", 2))
	b.attempt("charge/unknown-keyed", timedOut(ledger.StepAsk)) // under its key, where it would go again
	b.submit(submission("payout", "unknown", 3))
	b.attempt("payout/unknown", timedOut(ledger.StepAsk))
	keyless := submission("charge", "unknown-keyless", 4)
	keyless.Attempted = &jobs.Attempted{ID: "req-1", Outcome: jobs.OutcomeUnknown, Attempts: 2, Class: jobs.ClassReset}
	b.submit(keyless)
	b.submit(submission("payout", "not-applied", 5))
	b.attempt("payout/not-applied", timedOut(ledger.StepAsk))
	b.longOver("payout/not-applied")
	b.must(exitOK, "resolve", "payout/not-applied", "--not-applied", "--note", "looked")
	form := jobs.Submission{Kind: "charge", Key: "form", BodyText: new(string), ContentType: "application/x-www-form-urlencoded", Headers: map[string]string{"X-Account": "a1"},
		Credential: "m1", CorrelationID: "checkout-7", IdempotencyKey: "own-key"}
	*form.BodyText = "amount=6&note=a\x1bb"
	b.submit(form)
	b.attempt("charge/form", ended(jobs.ReasonAttempts, jobs.Class503, "status 503"))
	pretty := submission("charge", "pretty", 7)
	pretty.Body = []byte("{\n  \"amount\": 7,\r\n  \"currency\": \"GBP\"}")
	pretty.Attempted = &jobs.Attempted{ID: "req-2", Outcome: jobs.OutcomeNotSent, FirstSentAt: now, Class: jobs.ClassDNS}
	b.submit(pretty)
	b.attempt("charge/pretty", decline(400, "no"))
	binary := jobs.Submission{Kind: "charge", Key: "binary", BodyBase64: new(string), ContentType: "application/octet-stream"}
	*binary.BodyBase64 = "//79AA=="
	b.submit(binary)
	b.attempt("charge/binary", decline(400, "no"))
	void := submission("void", "v1", 8)
	b.submit(void)
	b.attempt("void/v1", timedOut(ledger.StepEnd))
}

func TestAnExportImportedIntoItsOwnNamespaceIsAllDuplicatesAndChangesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.deadOfEverySort()
		exported := b.must(exitOK, "dlq", "export").stdout
		if n := strings.Count(exported, "\n"); n != 9 {
			t.Fatalf("%d lines, want 9:\n%s", n, exported)
		}
		hides(t, exported, "\x1b", "\r", "\x00")
		before := b.must(exitOK, "list", "-o", "json", "--limit", "0").stdout
		sum := into[summary](t, b.mustWith(exitOK, exported, "import", "-", "-o", "json"))
		if sum.Duplicate != 9 || sum.Merged != 0 {
			t.Errorf("%+v", sum)
		}
		if after := b.must(exitOK, "list", "-o", "json", "--limit", "0").stdout; after != before {
			t.Errorf("importing its own export changed the ledger:\n%s\n%s", before, after)
		}
	})
}

func TestAnExportImportedElsewhereGoesOnWithoutAnUnsafeResend(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.deadOfEverySort()
		exported := b.must(exitOK, "dlq", "export").stdout
		other := *b
		other.ledger = ledger.New(b.client, "other")
		other.env = map[string]string{"REDRIVE_REDIS_URL": b.env["REDRIVE_REDIS_URL"], "REDRIVE_NAMESPACE": "other", "REDRIVE_BY": "ann@desk"}
		if err := other.ledger.PublishKinds(t.Context(), testSpecs()); err != nil {
			t.Fatal(err)
		}
		sum := into[summary](t, other.mustWith(exitOK, exported, "import", "-", "-o", "json"))
		if sum.Accepted != 9 {
			t.Fatalf("%+v", sum)
		}
		for id, want := range map[string]struct {
			state   jobs.State
			applied jobs.Applied
			sends   int
		}{
			"charge/refused":         {jobs.Waiting, jobs.AppliedNo, 1},
			"charge/unknown-keyed":   {jobs.Waiting, jobs.AppliedUnknown, 1}, // a resend under the same key is safe there as here
			"payout/unknown":         {jobs.Dead, jobs.AppliedUnknown, 1},
			"charge/unknown-keyless": {jobs.Dead, jobs.AppliedUnknown, 2},
			"payout/not-applied":     {jobs.Waiting, jobs.AppliedNo, 1},
			"charge/form":            {jobs.Waiting, jobs.AppliedNo, 1},
			"charge/pretty":          {jobs.Waiting, jobs.AppliedNo, 1}, // the send that counts
			"charge/binary":          {jobs.Waiting, jobs.AppliedNo, 1},
			"void/v1":                {jobs.Waiting, jobs.AppliedUnknown, 1}, // natural: a resend has the same effect
		} {
			o := other.operation(id)
			if o.State != want.state || o.Applied != want.applied || o.Sends != want.sends {
				t.Errorf("%s: %s, applied %s, %d sends; want %s, %s, %d", id, operator.StateText(&o), o.Applied, o.Sends, want.state, want.applied, want.sends)
			}
			there, here := other.detail(id), b.detail(id)
			if string(there.Request.Body) != string(here.Request.Body) {
				t.Errorf("%s: body %q, here %q", id, there.Request.Body, here.Request.Body)
			}
			if there.IdempotencyKey != here.IdempotencyKey || there.Credential != here.Credential || there.Request.ContentType != here.Request.ContentType ||
				fmt.Sprint(there.Request.Headers, there.Request.Path) != fmt.Sprint(here.Request.Headers, here.Request.Path) || !there.DeadlineAt.Equal(here.DeadlineAt.Time) {
				t.Errorf("%s: sent otherwise there:\n%+v\n%+v", id, there.Request, here.Request)
			}
		}
		// Sent there and exported again, its history is known here only if it happened here.
		other.attempt("charge/refused", decline(402, "no"))
		back := other.must(exitOK, "dlq", "export", "--key", "refused").stdout
		sum = into[summary](t, b.mustWith(exitOK, back, "import", "-", "-o", "json"))
		if sum.Duplicate != 1 || sum.Merged != 1 {
			t.Errorf("a send that happened elsewhere was not added: %+v", sum)
		}
	})
}

func (b *testBundle) detail(id string) *ledger.Detail {
	b.t.Helper()
	parsed, err := jobs.ParseID(id)
	if err != nil {
		b.t.Fatal(err)
	}
	spec := b.specs[parsed.Kind]
	d, err := b.ledger.Get(b.t.Context(), spec.Dependency, parsed, &spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func TestExportWritesAFileForItsOwnerAndNeverOverTheLast(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("payout", "a", 1))
		b.attempt("payout/a", timedOut(ledger.StepAsk))
		dir := t.TempDir()
		out := filepath.Join(dir, "out.jsonl")
		b.must(exitOK, "dlq", "export", "--out", out)
		info, err := os.Stat(out)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		first, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		says(t, b.must(exitUsage, "dlq", "export", "--out", out, "--kind", "charge").stderr, "exists")
		if kept, _ := os.ReadFile(out); string(kept) != string(first) {
			t.Error("it was overwritten")
		}
		b.must(exitOK, "dlq", "export", "--out", out, "--kind", "charge", "--force")
		if kept, _ := os.ReadFile(out); len(kept) != 0 {
			t.Errorf("--force left %q", kept)
		}
		says(t, b.must(exitUsage, "dlq", "export", "--out", filepath.Join(dir, "none", "out")).stderr, "no such file or directory")
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("%d files are left, want 1", len(left))
		}
		says(t, b.must(exitOK, "audit", "payrail").stdout, "export 1 operation with payload")
	})
}

func TestWhatCannotBeHandedInAgainIsSaid(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("charge", "b", 1))
		b.attempt("charge/a", decline(402, "no"))
		b.attempt("charge/b", decline(402, "no"))
		b.client.Del(t.Context(), "rd:{payrail}:request:charge/a")
		got := b.must(exitPartly, "dlq", "export")
		says(t, got.stderr, "not exported: charge/a: its request is gone", "exported 1 dead letter")
		b.must(exitConflict, "dlq", "export", "--key", "a")
	})
}

// The way of unknown outcomes through somebody's spreadsheet and back.
func TestACSVWithVerdictsFilledInResolves(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, key := range []string{"a", "b", "c", "d", "=e"} {
			b.submit(submission("payout", key, 1))
			b.attempt("payout/"+key, timedOut(ledger.StepAsk))
		}
		file := filepath.Join(t.TempDir(), "unknown.csv")
		b.must(exitOK, "dlq", "export", "--unknown", "-o", "csv", "--out", file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		verdicts := map[string][2]string{"a": {"applied", "po_1"}, "b": {"not_applied", ""}, "c": {"Written-Off", ""}, "'=e": {"applied", ""}}
		for _, row := range rows[1:] {
			row[len(row)-2], row[len(row)-1] = verdicts[row[1]][0], verdicts[row[1]][1]
		}
		for _, comma := range []rune{',', ';'} {
			var saved strings.Builder
			saved.WriteString("\xef\xbb\xbf") // as a spreadsheet saves it
			w := csv.NewWriter(&saved)
			w.Comma, w.UseCRLF = comma, true
			if err := w.WriteAll(rows); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(saved.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			if comma == ';' { // all was resolved before
				b.must(exitConflict, "resolve", "--from", file, "--note", "again")
				continue
			}
			b.longOver("payout/b")
			out := into[operator.Outcome](t, b.must(exitOK, "resolve", "--from", file, "--note", "checked by accounting", "-o", "json"))
			if out.Done != 4 {
				t.Errorf("%+v", out)
			}
		}
		for id, want := range map[string]jobs.State{"payout/a": jobs.Succeeded, "payout/b": jobs.Dead, "payout/c": jobs.Cancelled, "payout/d": jobs.Dead, "payout/=e": jobs.Succeeded} {
			b.wantState(id, want)
		}
		if d := b.detail("payout/a"); d.Ref != "po_1" || d.By != "ann@desk" {
			t.Errorf("ref %q by %q", d.Ref, d.By)
		}
		if o := b.operation("payout/b"); o.Applied != jobs.AppliedNo {
			t.Errorf("b: applied %s", o.Applied)
		}
		if o := b.operation("payout/c"); o.Applied != jobs.AppliedUnknown {
			t.Errorf("c: applied %s, but nobody knows", o.Applied)
		}
		if o := b.operation("payout/d"); o.Applied != jobs.AppliedUnknown {
			t.Errorf("d has no verdict, but is %s", o.Applied)
		}
		says(t, b.must(exitOK, "show", "payout/a").stdout, "resolved by", "po_1")
		says(t, b.must(exitOK, "audit", "payout/a", "-o", "jsonl").stdout, `"action":"resolve applied"`, `"note":"checked by accounting"`)
	})
}

func TestFindingsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                    "read its header",
		"kind,key\n":                          `no column "verdict"`,
		"kind,verdict\n":                      `no column "key"`,
		"kind,key,verdict\na\n":               "",
		"kind,key,verdict\npayout,a,maybe\n":  `line 2: unknown verdict "maybe": want one of applied, not_applied, written_off`,
		"kind,key,verdict\npayout,,applied\n": "line 2: operation \"payout/\": key must not be empty",
		"kind,key,verdict\npayout,a,applied\npayout,a,applied\n": "line 3: payout/a stands in line 2 already",
		"kind,key,verdict,ref\npayout,a,not_applied,x\n":         "line 2: payout/a: a ref is proof that it was applied",
		"kind,key,verdict,ref\npayout,a,applied,\"x\x01\"\n":     "line 2: payout/a: ref: control characters",
		"kind,key,verdict\npayout,\"a,applied\n":                 "line 2: column 19: ",
	} {
		_, faults, err := parseFindings([]byte(text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		for _, f := range faults {
			got += fmt.Sprintf("line %d: %s", f.Line, f.Error)
		}
		if says == "" && got != "" || !strings.Contains(got, says) {
			t.Errorf("%q: %q, want %q", text, got, says)
		}
	}
	found, faults, err := parseFindings([]byte("REF\tKey\tKIND\tVerdict\n'=x\ta\tpayout\tapplied\n"))
	if err != nil || len(faults) != 0 || len(found) != 1 || found[0].Ref != "=x" {
		t.Errorf("%+v %v %v", found, faults, err)
	}
}

// A line that is wrong is told with its number, and keeps no other from being
// resolved.
func TestALineWithAWrongVerdictDoesNotKeepTheOthersFromBeingResolved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, key := range []string{"a", "b", "c"} {
			b.submit(submission("payout", key, 1))
			b.attempt("payout/"+key, timedOut(ledger.StepAsk))
		}
		file := "kind,key,verdict,ref\npayout,a,applied,po_1\npayout,b,maybe,\npayout,\"c\"x,applied,\npayout,c,written_off,\n"
		got := b.mustWith(exitPartly, file, "resolve", "--from", "-", "--note", "x", "-o", "json")
		out := into[operator.Outcome](t, got)
		if out.Done != 2 || out.Invalid != 2 || len(out.Errors) != 2 || out.Errors[0].Line != 3 || out.Errors[1].Line != 4 {
			t.Errorf("%+v", out)
		}
		says(t, got.stderr, `line 3: unknown verdict "maybe": want one of applied, not_applied, written_off`, "line 4: column", "resolved 2, 2 invalid")
		b.wantState("payout/a", jobs.Succeeded)
		b.wantState("payout/b", jobs.Dead)
		b.wantState("payout/c", jobs.Cancelled)
		b.mustWith(exitUsage, "kind,key,verdict\npayout,b,perhaps\n", "resolve", "--from", "-", "--note", "x")
		b.mustWith(exitOK, "kind,key,verdict\npayout,b,\n", "resolve", "--from", "-", "--note", "x")
	})
}
