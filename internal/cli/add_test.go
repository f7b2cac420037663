package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func TestAddAnswersWithTheExitCodeOfItsAnswer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		add := []string{"add", "charge/o1", "--body", `{"amount":4200,"currency":"GBP"}`, "-o", "json"}
		if r := into[jobs.Receipt](t, b.must(exitOK, add...)); r.Answer != jobs.Accepted || r.State != jobs.Waiting || r.Applied != jobs.AppliedNo {
			t.Errorf("first: %+v", r)
		}
		if r := into[jobs.Receipt](t, b.must(exitOK, add...)); r.Answer != jobs.Duplicate {
			t.Errorf("again: %+v", r)
		}
		other := b.must(exitConflict, "add", "charge/o1", "--body", `{"amount":1,"currency":"GBP"}`, "-o", "json")
		if r := into[jobs.Receipt](t, other); r.Answer != jobs.Conflict || join(r.Differs) != "body" {
			t.Errorf("other body: %+v", r)
		}
		says(t, other.stderr, "known with another body")
		hides(t, other.stderr, "4200", `:1,`)
	})
}

func TestAddRefusesInvalidInputWithOneClearLine(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		long := strings.Repeat("k", 201)
		for _, c := range []struct {
			says string
			args []string
		}{
			{"has no slash", []string{"o1"}},
			{"unknown kind \"nothing\": known are charge, payout, refund, void", []string{"nothing/o1", "--body", "{}"}},
			{"at most 200 are allowed", []string{"charge/" + long, "--body", "{}"}},
			{"printable ASCII", []string{"charge/o 1", "--body", "{}"}},
			{"body: missing", []string{"charge/o1"}},
			{"body: not valid JSON", []string{"charge/o1", "--body", "{"}},
			{"at most 262144 are allowed", []string{"charge/o1", "--body", `"` + strings.Repeat("x", jobs.MaxBodyBytes) + `"`}},
			{"in the past", []string{"charge/o1", "--body", "{}", "--deadline", time.Now().Add(-time.Minute).Format(time.RFC3339)}},
			{"in the past", []string{"charge/o1", "--body", "{}", "--deadline", "-5m"}},
			{"at or before not_before", []string{"charge/o1", "--body", "{}", "--not-before", "2190-01-01T00:00:00Z", "--deadline", "2189-01-01T00:00:00Z"}},
			{"neither a span", []string{"charge/o1", "--body", "{}", "--deadline", "soon"}},
			{"not an RFC 3339 instant", []string{"charge/o1", "--body", "{}", "--not-before", "tomorrow"}},
			{"has no credential \"m2\"", []string{"charge/o1", "--body", "{}", "--credential", "m2"}},
			{"credentials come from the configuration", []string{"charge/o1", "--body", "{}", "--header", "Authorization: Bearer x"}},
			{"want 'Name: value'", []string{"charge/o1", "--body", "{}", "--header", "nothing"}},
			{"given twice", []string{"charge/o1", "--body", "{}", "--header", "A: 1", "--header", "A: 2"}},
			{"want name=value", []string{"charge/o1", "--body", "{}", "--param", "nothing"}},
			{"has no param \"id\"", []string{"void/o1", "--body", "{}"}},
			{"must not be \"..\"", []string{"void/o1", "--body", "{}", "--param", "id=.."}},
			{"unknown outcome \"maybe\"", []string{"charge/o1", "--body", "{}", "--attempted", "maybe"}},
			{"says more about --attempted", []string{"charge/o1", "--body", "{}", "--attempted-class", "timeout"}},
			{"must be at least 1", []string{"charge/o1", "--body", "{}", "--attempted", "refused", "--attempted-times", "0"}},
			{"unknown class", []string{"charge/o1", "--body", "{}", "--attempted", "refused", "--attempted-class", "slow"}},
			{"no such file", []string{"charge/o1", "--body", "@" + filepath.Join(t.TempDir(), "none.json")}},
			{"accepts 1 arg(s), received 2", []string{"charge/o1", "charge/o2"}},
			{"unknown flag", []string{"charge/o1", "--boddy", "{}"}},
		} {
			got := b.must(exitUsage, append([]string{"add"}, c.args...)...)
			says(t, got.stderr, c.says)
			if lines := strings.Count(got.stderr, "\n"); lines != 1 {
				t.Errorf("add %q: %d lines on stderr: %s", c.args, lines, got.stderr)
			}
		}
		if n := b.client.Exists(t.Context(), "rd:{payrail}:op:charge/o1").Val(); n != 0 {
			t.Error("something was written")
		}
	})
}

// T28: what Redis Cluster would read as a hash tag is refused at the door.
func TestT28NamesWithBracesAreRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, name := range []string{"charge/{a}", "charge/a{b}c", "charge/}{", "charge/{", "{charge}/a", "charge/" + strings.Repeat("a", 300), "charge/ä", "charge/a b"} {
			for _, args := range [][]string{
				{"add", name, "--body", "{}"}, {"show", name}, {"cancel", name, "-y", "--note", "x"}, {"dlq", "show", name},
				{"dlq", "requeue", name, "-y", "--note", "x"}, {"dlq", "discard", name, "-y", "--note", "x"},
				{"resolve", name, "--applied", "--note", "x"}, {"audit", name},
			} {
				got := b.must(exitUsage, args...)
				if !strings.Contains(got.stderr, "not allowed") && !strings.Contains(got.stderr, "are allowed") && !strings.Contains(got.stderr, "printable") {
					t.Errorf("%q: %s", args, got.stderr)
				}
			}
		}
		says(t, b.must(exitUsage, "show", "{a}").stderr, "hash tag")
		says(t, b.must(exitUsage, "pause", "pay{rail}", "--note", "x").stderr, "not allowed")
		says(t, b.must(exitUsage, "list", "--namespace", "r{d}").stderr, "namespace")
		says(t, b.must(exitUsage, "list", "--kind", "ch{arge}").stderr, "not allowed")
		got := b.mustWith(exitUsage, `{"kind":"charge","key":"a{b}","body":{}}`, "import", "-")
		says(t, got.stderr, "line 1, column 24", "hash tag")
	})
}

func TestAddReadsTheBodyFromFlagFileAndStdin(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		file := filepath.Join(t.TempDir(), "body.json")
		if err := os.WriteFile(file, []byte("{\"amount\": 1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.must(exitOK, "add", "charge/file", "--body", "@"+file)
		b.mustWith(exitOK, "{\"amount\": 1}\n", "add", "charge/stdin", "--body", "-")
		b.must(exitOK, "add", "charge/form", "--body", "a=1&b=2", "--content-type", "application/x-www-form-urlencoded")
		b.mustWith(exitOK, "\xff\xfe", "add", "charge/bytes", "--body", "-", "--content-type", "application/octet-stream")
		for id, want := range map[string]string{"charge/file": `{"amount": 1}`, "charge/stdin": `{"amount": 1}`, "charge/form": "a=1&b=2", "charge/bytes": "\xff\xfe"} {
			parsed, _ := jobs.ParseID(id)
			d, err := b.ledger.Get(t.Context(), "payrail", parsed, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Request.Body); got != want {
				t.Errorf("%s: body %q, want %q", id, got, want)
			}
		}
	})
}

func TestAddPassesOnWhatTheRequestPathSaw(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		now := time.Now().UTC()
		keyed := b.must(exitOK, "add", "charge/keyed", "--body", "{}", "--attempted", "unknown", "--attempted-times", "2", "--attempted-class", "timeout",
			"--attempted-id", "req-1", "--idempotency-key", "k-1", "--first-sent-at", now.Format(time.RFC3339), "--correlation-id", "checkout-7",
			"--credential", "m1", "--header", "X-Account: a1", "-o", "json")
		r := into[jobs.Receipt](t, keyed)
		if r.State != jobs.Waiting || len(r.Warnings) != 0 || r.NextAt == nil {
			t.Fatalf("keyed: %+v", r)
		}
		if wait := r.NextAt.Sub(now); wait < 50*time.Millisecond || wait > 5*time.Second {
			t.Errorf("its first attempt here is due after %s, want a backoff", wait)
		}
		o := b.operation("charge/keyed")
		if o.Sends != 2 || o.Applied != jobs.AppliedUnknown || o.IdempotencyKey != "k-1" || o.Credential != "m1" || deref(o.CorrelationID) != "checkout-7" {
			t.Errorf("stored: %+v", o)
		}
		careful := b.must(exitOK, "add", "payout/careful", "--body", "{}", "--attempted", "unknown", "-o", "json")
		if r := into[jobs.Receipt](t, careful); r.State != jobs.Dead || r.Applied != jobs.AppliedUnknown {
			t.Errorf("careful: %+v", r)
		}
		says(t, careful.stderr, "warning: outcome unknown without idempotency_key")
		fresh := into[jobs.Receipt](t, b.must(exitOK, "add", "charge/fresh", "--body", "{}", "-o", "json"))
		if fresh.NextAt == nil || fresh.NextAt.After(time.Now().Add(time.Second)) {
			t.Errorf("what was never sent is due at %s, want at once", fresh.NextAt)
		}
		merged := into[jobs.Receipt](t, b.must(exitOK, "add", "charge/fresh", "--body", "{}", "--attempted", "refused", "--attempted-id", "r9", "-o", "json"))
		if merged.Answer != jobs.Duplicate || !merged.Merged {
			t.Errorf("a duplicate that tells of a send: %+v", merged)
		}
	})
}

func TestAFullBacklogSaysTryAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		spec := b.specs["charge"]
		spec.MaxBacklog = 1
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
			t.Fatal(err)
		}
		b.must(exitOK, "add", "charge/o1", "--body", "{}")
		says(t, b.must(exitAgain, "add", "charge/o2", "--body", "{}").stderr, "backlog full")
		b.must(exitOK, "add", "charge/o1", "--body", "{}")
		got := b.mustWith(exitAgain, `{"kind":"charge","key":"o3","body":{}}`, "import", "-")
		says(t, got.stderr, "backlog full")
	})
}

func TestAReportedSendDoesNotDrainTheBudget(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.client.HSet(t.Context(), "rd:{payrail}:gate", "tokens", 50_000, "filled_at", time.Now().UnixMilli())
		b.must(exitOK, "add", "charge/o1", "--body", "{}", "--attempted", "refused", "--attempted-class", "503")
		snapshot, err := b.ledger.Snapshot(t.Context(), "payrail")
		if err != nil {
			t.Fatal(err)
		}
		if snapshot.TokensMilli < 50_000 {
			t.Errorf("%d milli-tokens are left of 50000: it was submitted under another budget than the workers'", snapshot.TokensMilli)
		}
	})
}

func TestLostReplyOfAddSaysThatRepeatingIsSafe(t *testing.T) {
	t.Parallel()
	err := error(&noted{redisAway(t), "it may have been accepted: repeating the same add is safe"})
	p := newProgram(strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, func(string) string { return "" })
	p.store = "redis at 127.0.0.1:1"
	if code := codeOf(err); code != exitAgain {
		t.Errorf("exit %d, want %d", code, exitAgain)
	}
	says(t, p.storeText(err), "redis at 127.0.0.1:1: connection refused", "repeating the same add is safe")
}

// redisAway is what a client says of a Redis that is not there.
func redisAway(t testing.TB) error {
	t.Helper()
	client, err := ledger.Connect("redis://127.0.0.1:1/0", ledger.ConnectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return client.Ping(t.Context()).Err()
}
