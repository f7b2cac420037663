package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

func TestStatsWarnsOfOperationsThatNobodyWillSend(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("payout", "b", 1))
		b.submit(submission("refund", "c", 1))
		beat := func(w ledger.Worker) {
			t.Helper()
			if err := b.ledger.Beat(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		beat(ledger.Worker{ID: "w1", Dependencies: []jobs.Dependency{"payrail"}, Kinds: []jobs.Kind{"charge"}})
		got := b.must(exitOK, "stats")
		says(t, got.stderr, "no live worker knows kind payout of dependency payrail, which has 1 operation to send", "no live worker serves dependency bank")
		hides(t, got.stderr, "kind charge")
		beat(ledger.Worker{ID: "w2", Dependencies: []jobs.Dependency{"payrail", "bank"}, Kinds: []jobs.Kind{"charge", "payout", "refund"}})
		st := into[wire.Stats](t, b.must(exitOK, "stats", "-o", "json"))
		if len(st.Warnings) != 0 || st.Dependencies["payrail"].Workers != 2 || st.States[jobs.Waiting] != 3 {
			t.Errorf("%+v", st)
		}
	})
}

func TestPauseAndResumeAreSeenInStats(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		doomed := submission("charge", "a", 1)
		doomed.Deadline = "1h"
		b.submit(doomed)
		if _, _, err := b.ledger.Sweep(t.Context(), terms.Of(b.specs["charge"]), []jobs.Kind{"charge"}); err != nil {
			t.Fatal(err)
		}
		got := b.must(exitOK, "pause", "payrail", "--for", "8h", "--note", "their maintenance")
		says(t, got.stderr, "1 waiting operation will miss the deadline during the pause")
		st := into[wire.Stats](t, b.must(exitOK, "stats", "-o", "json"))
		paused := st.Dependencies["payrail"].Paused
		if paused == nil || paused.By != "ann@desk" || paused.Note != "their maintenance" || paused.Until == nil {
			t.Fatalf("%+v", paused)
		}
		if st.Dependencies["bank"].Paused != nil {
			t.Error("bank is paused too")
		}
		b.must(exitOK, "resume", "payrail", "--note", "back")
		if st := into[wire.Stats](t, b.must(exitOK, "stats", "-o", "json")); st.Dependencies["payrail"].Paused != nil {
			t.Error("it is still paused")
		}
		says(t, b.must(exitOK, "audit", "payrail").stdout, "pause", "resume", "their maintenance", "ann@desk")
		says(t, b.must(exitUsage, "pause", "payrail", "--for", "-1h", "--note", "x").stderr, "must be above 0")
	})
}

func TestWatchShowsChangesAsTheyHappen(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "before", 1))
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		out, in := io.Pipe()
		ended := make(chan int, 1)
		var stderr bytes.Buffer
		go func() { // ends by interrupt; waited for below
			ended <- Run(ctx, []string{"watch", "payrail", "-o", "jsonl"}, strings.NewReader(""), in, &stderr, b.getenv)
			in.Close()
		}()
		// It follows from when it began, which nothing tells: so change things until it sees one.
		changing := make(chan struct{}) // closed when the change was seen
		go func() {                     // ends when changing is closed, or with the test
			for i := 0; ; i++ {
				select {
				case <-changing:
					return
				case <-ctx.Done():
					return
				case <-time.After(20 * time.Millisecond):
					_, _ = b.ledger.Cancel(ctx, "payrail", jobs.ID{Kind: "charge", Key: "before"}, jobs.Retention{}, ledger.Actor{})
					e, err := ledger.Prepare(&jobs.Submission{Kind: "charge", Key: jobs.Key("k" + time.Now().Format("150405.000000")), Body: body(1)}, b.specs["charge"])
					if err == nil {
						_, _ = b.ledger.Submit(ctx, terms.Submit(b.specs["charge"], "shop"), []ledger.Entry{e})
					}
				}
			}
		}()
		var c ledger.Change
		if err := json.NewDecoder(out).Decode(&c); err != nil {
			t.Fatal(err)
		}
		close(changing)
		if c.Dependency != "payrail" || !strings.HasPrefix(c.Operation, "charge/") || c.At == nil || c.State == "" {
			t.Errorf("%+v", c)
		}
		interrupt()
		go func() { _, _ = io.Copy(io.Discard, out) }() // ends when the program has closed its side
		if code := <-ended; code != exitOK {
			t.Errorf("exit %d: %s", code, stderr.String())
		}
		says(t, b.must(exitNotFound, "watch", "nothing").stderr, `no dependency "nothing"`)
	})
}

func TestWatchOfAnEmptyNamespaceSaysSo(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		says(t, b.must(exitNotFound, "watch", "--namespace", "empty").stderr, "no dependency is known yet")
	})
}

func TestAuditTellsOfOneOperationHoweverMuchElseHappened(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1))
		b.must(exitOK, "cancel", "charge/a", "-y", "--note", "first")
		for range 1200 { // more than one chunk of the stream lies above it
			if err := b.ledger.Note(t.Context(), "payrail", "charge/other", "reveal", ledger.Actor{By: "bob"}); err != nil {
				t.Fatal(err)
			}
		}
		got := b.must(exitOK, "audit", "charge/a", "-o", "jsonl").stdout
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, `"note":"first"`) {
			t.Errorf("%s", got)
		}
		if got := b.must(exitOK, "audit", "charge/a", "--since", "0s", "-o", "jsonl").stdout; got != "" {
			t.Errorf("since now: %s", got)
		}
		if n := strings.Count(b.must(exitOK, "audit", "-o", "jsonl").stdout, "\n"); n != 100 {
			t.Errorf("%d entries, want the newest 100", n)
		}
	})
}

func TestWhoActsIsTheFlagTheEnvironmentOrTheUser(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.must(exitOK, "pause", "payrail", "--note", "x", "--by", "carol@ops")
		b.must(exitOK, "pause", "payrail", "--note", "x")
		delete(b.env, "REDRIVE_BY")
		b.must(exitOK, "pause", "payrail", "--note", "x")
		var by []string
		for _, line := range strings.Split(strings.TrimSpace(b.must(exitOK, "audit", "-o", "jsonl").stdout), "\n") {
			var e ledger.AuditEntry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			by = append(by, e.By)
		}
		if len(by) != 3 || by[0] != "carol@ops" || by[1] != "ann@desk" || !strings.Contains(by[2], "@") || by[2] == by[1] {
			t.Errorf("%q", by)
		}
	})
}

func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.expire("charge", "a")
		colored := func(env string, args ...string) string {
			var stdout, stderr bytes.Buffer
			p := newProgram(strings.NewReader(""), &stdout, &stderr, func(name string) string {
				if name == "NO_COLOR" {
					return env
				}
				return b.getenv(name)
			})
			p.colored = true
			p.run(t.Context(), args)
			return stdout.String()
		}
		says(t, colored("", "list"), "\x1b[31mdead (deadline)\x1b[0m")
		hides(t, colored("1", "list"), "\x1b")
		hides(t, colored("", "list", "--no-color"), "\x1b")
		hides(t, colored("", "list", "-o", "json"), "\x1b")
		hides(t, b.must(exitOK, "list").stdout, "\x1b")
	})
}

func TestCompletionAndVersionNeedNoRedis(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := runProgram(t.Context(), none, "", "completion", shell); got.code != exitOK || !strings.Contains(got.stdout, "enqueue") {
			t.Errorf("%s: exit %d, %d bytes", shell, got.code, len(got.stdout))
		}
	}
	if got := runProgram(t.Context(), none, "", "__complete", "list", "--state", ""); !strings.Contains(got.stdout, "unresolved\n") {
		t.Errorf("states: %s", got.stdout)
	}
	if got := runProgram(t.Context(), none, "", "--version"); got.code != exitOK || !strings.HasPrefix(got.stdout, "enqueue ") {
		t.Errorf("%+v", got)
	}
}

// brokenPipe fails every write.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		var stderr bytes.Buffer
		if code := Run(t.Context(), []string{"stats"}, strings.NewReader(""), brokenPipe{}, &stderr, b.getenv); code != exitError {
			t.Errorf("exit %d", code)
		}
		says(t, stderr.String(), "write output")
	})
}
