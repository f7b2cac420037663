package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/redistest"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

// expire hands in operations whose deadline is over before a worker looks.
func (b *testBundle) expire(kind jobs.Kind, keys ...string) {
	b.t.Helper()
	var subs []jobs.Submission
	for i, key := range keys {
		s := submission(kind, key, i)
		s.Deadline = "50ms"
		subs = append(subs, s)
	}
	b.submit(subs...)
	b.sweepUntil(kind, int64(len(keys)))
}

// sweepUntil sweeps until n operations more are dead.
func (b *testBundle) sweepUntil(kind jobs.Kind, n int64) {
	b.t.Helper()
	spec := b.specs[kind]
	died := int64(0)
	waitFor(b.t, func() bool {
		done, _, err := b.ledger.Sweep(b.t.Context(), terms.Of(spec), []jobs.Kind{kind})
		if err != nil {
			b.t.Fatal(err)
		}
		died += int64(len(done))
		return died >= n
	})
}

// T34: nothing trims the dead letters: all are listed, counted and can be requeued.
func TestT34TenThousandDeadLettersAreListedCountedAndRequeued(t *testing.T) {
	t.Parallel()
	const n = 10_050
	srv := redistest.Server(t)
	b := setup(t, srv.Client(t))
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"kind":"charge","key":"o%d","body":{"amount":%d,"currency":"GBP"},"deadline":"1ms"}`+"\n", i, i)
	}
	if sum := into[summary](t, b.mustWith(exitOK, lines.String(), "import", "-", "-o", "json")); sum.Accepted != n {
		t.Fatalf("%+v", sum)
	}
	b.sweepUntil("charge", n)

	if got := strings.Count(b.must(exitOK, "dlq", "list", "--limit", "0", "-o", "name").stdout, "\n"); got != n {
		t.Errorf("%d listed, want %d", got, n)
	}
	st := into[wire.Stats](t, b.must(exitOK, "stats", "-o", "json"))
	if st.States[jobs.Dead] != n || st.Dependencies["payrail"].Reasons[jobs.ReasonDeadline] != n {
		t.Errorf("counted: %v", st.States)
	}
	counted := b.must(exitOK, "dlq", "stats")
	says(t, counted.stdout, "10050", fmt.Sprintf("amount=%d GBP", n*(n-1)/2))
	if got := strings.Count(b.must(exitOK, "dlq", "export").stdout, "\n"); got != n {
		t.Errorf("%d exported, want %d", got, n)
	}
	sample := []string{"dlq", "requeue", "--all-matching", "--reason", "deadline", "--deadline", "1h"}
	dry := b.must(exitOK, append(sample, "--dry-run")...)
	says(t, dry.stderr, "10050 would be requeued, 0 refused")
	got := b.must(exitOK, append(sample, "-y", "--note", "outage over", "-o", "json")...)
	out := into[operator.Outcome](t, got)
	if out.Done != n || out.Batch == nil {
		t.Errorf("requeued %d, refused %d, batch %v", out.Done, out.Refused, out.Batch)
	}
	if st := into[wire.Stats](t, b.must(exitOK, "stats", "-o", "json")); st.States[jobs.Waiting] != n || st.States[jobs.Dead] != 0 {
		t.Errorf("after the requeue: %v", st.States)
	}
	audit := b.must(exitOK, "audit", "payrail", "--limit", "20000", "-o", "jsonl").stdout
	if bulk := strings.Count(audit, `"requeue 10050 operations (all matching reason=deadline)"`); bulk != 1 {
		t.Errorf("%d audit entries for the bulk action, want 1", bulk)
	}
	if each := strings.Count(audit, `"action":"requeue"`); each != n {
		t.Errorf("%d audit entries for operations, want %d", each, n)
	}
}

// T38: whatever way an operation died, no field that a person needs is blank.
func TestT38EveryDeadLetterIsComplete(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		careful := func(key string) jobs.Submission { return submission("payout", key, 1) }
		b.submit(careful("declined"))
		b.attempt("payout/declined", decline(402, "card declined"))
		b.submit(careful("used-up"))
		b.attempt("payout/used-up", ended(jobs.ReasonAttempts, jobs.ClassConnect, "connection refused"))
		b.submit(careful("deadline-after-send"))
		b.attempt("payout/deadline-after-send", ended(jobs.ReasonDeadline, jobs.Class503, "status 503"))
		b.submit(careful("unknown"))
		b.attempt("payout/unknown", timedOut(ledger.StepAsk))
		b.submit(careful("undecodable"))
		b.attempt("payout/undecodable", ledger.Result{Outcome: jobs.OutcomeUnknown, Class: jobs.ClassOther, Status: 200, Verdict: jobs.VerdictUnknownInquire, Step: ledger.StepAsk, Counted: true, Error: "answer is not JSON"})
		b.submit(careful("silent"))
		b.attempt("payout/silent", decline(400, "")) // nobody kept an error text
		reported := careful("reported")
		reported.Attempted = &jobs.Attempted{Outcome: jobs.OutcomeUnknown, Attempts: 2, Class: jobs.ClassReset}
		b.submit(reported)
		b.expire("payout", "never-sent")

		found := into[page](t, b.must(exitOK, "dlq", "list", "-o", "json"))
		if len(found.Items) != 8 {
			t.Fatalf("%d dead letters, want 8", len(found.Items))
		}
		for i := range found.Items {
			o := &found.Items[i]
			blank := map[string]bool{
				"reason": o.Reason == nil || *o.Reason == "", "applied": o.Applied == "", "attempts allowed": o.MaxAttempts == 0, "created_at": o.CreatedAt == nil,
				"deadline_at": o.DeadlineAt == nil, "ended_at": o.EndedAt == nil, "idempotency_key": o.IdempotencyKey == "", "columns": len(o.Columns) != 2,
			}
			if o.Key != "never-sent" {
				blank["sends"], blank["first_sent_at"], blank["last"] = o.Sends == 0, o.FirstSentAt == nil, o.Last == nil
				if o.Last != nil {
					blank["last.class"], blank["last.error"], blank["last.at"] = o.Last.Class == "", deref(o.Last.Error) == "", o.Last.At == nil
				}
			}
			for field, is := range blank {
				if is {
					t.Errorf("%s: %s is blank", o.ID(), field)
				}
			}
			shown := b.must(exitOK, "dlq", "show", o.ID().String())
			says(t, shown.stdout, "what to do next:", "dead ("+string(*o.Reason)+")", "attempts")
		}
		says(t, b.must(exitOK, "dlq", "show", "payout/reported").stdout, "reset, reported by the request path", "2 sends")
		says(t, b.must(exitOK, "dlq", "show", "payout/silent").stdout, "last error    status 400")
		says(t, b.must(exitOK, "dlq", "show", "payout/never-sent").stdout, "never sent")
	})
}

// T41: an operator's page may be stale; what is settled stays settled, and the
// attempt is on record.
func TestT41RequeueOfSomethingSettledIsRefusedAndAudited(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("payout", "o1", 1))
		b.attempt("payout/o1", timedOut(ledger.StepAsk))
		b.must(exitOK, "resolve", "payout/o1", "--applied", "--ref", "po_1", "--note", "seen")
		got := b.must(exitConflict, "dlq", "requeue", "payout/o1", "-y", "--note", "stale page", "-o", "json")
		out := into[operator.Outcome](t, got)
		if out.Refused != 1 || !strings.Contains(out.Items[0].Detail, "already settled") {
			t.Errorf("%+v", out)
		}
		b.wantState("payout/o1", jobs.Succeeded)
		audit := b.must(exitOK, "audit", "payout/o1", "-o", "jsonl").stdout
		says(t, audit, `"action":"requeue"`, `"note":"stale page"`, `"to":"refused"`)
		for _, verb := range []string{"cancel", "discard"} {
			args := []string{verb, "payout/o1", "-y", "--note", "x"}
			if verb == "discard" {
				args = append([]string{"dlq"}, args...)
			}
			b.must(exitConflict, args...)
			b.wantState("payout/o1", jobs.Succeeded)
		}
	})
}

// T43: a requeue says what it grants, keeps the history, survives the first failure,
// and asks for a new deadline when the old one is over.
func TestT43ARequeuedOperationDoesNotDieOfItsOldCounters(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		spec := b.specs["charge"]
		transient := ledger.Result{Outcome: jobs.OutcomeRefused, Class: jobs.Class503, Status: 503, Verdict: jobs.VerdictRetrySafe, Step: ledger.StepRetry, Delay: time.Millisecond, Counted: true, Error: "status 503"}
		b.submit(submission("charge", "o1", 1))
		for range spec.MaxAttempts - 1 {
			b.attempt("charge/o1", transient)
		}
		b.attempt("charge/o1", ended(jobs.ReasonAttempts, jobs.Class503, "status 503"))
		got := b.must(exitOK, "dlq", "requeue", "charge/o1", "-y", "--note", "x")
		says(t, got.stdout, "3 attempts left")
		if f := b.attempt("charge/o1", transient); f.State != jobs.Waiting {
			t.Errorf("its first failure after the requeue sent it to %s", f.State)
		}
		if o := b.operation("charge/o1"); o.Sends != spec.MaxAttempts+1 || o.MaxAttempts != spec.MaxAttempts+3 {
			t.Errorf("%d sends of %d allowed, want %d of %d", o.Sends, o.MaxAttempts, spec.MaxAttempts+1, spec.MaxAttempts+3)
		}
		if n := strings.Count(b.must(exitOK, "show", "charge/o1").stdout, "  attempt "); n != spec.MaxAttempts+1 {
			t.Errorf("the timeline tells of %d attempts, want %d", n, spec.MaxAttempts+1)
		}

		b.submit(submission("charge", "o2", 1))
		b.attempt("charge/o2", ended(jobs.ReasonAttempts, jobs.Class503, "status 503"))
		says(t, b.must(exitOK, "dlq", "requeue", "charge/o2", "--more-attempts", "7", "-y", "--note", "x").stdout, "11 attempts left")

		b.expire("charge", "o3")
		says(t, b.must(exitConflict, "dlq", "requeue", "charge/o3", "-y", "--note", "x").stdout, "its deadline is over: give a new one")
		b.must(exitOK, "dlq", "requeue", "charge/o3", "--deadline", "30m", "-y", "--note", "x")
		if left := time.Until(b.operation("charge/o3").DeadlineAt.Time); left < 29*time.Minute || left > 31*time.Minute {
			t.Errorf("its new deadline is %s away, want 30m", left)
		}
	})
}

func TestRateSpreadsARequeueByDeadline(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "alive", 1)) // only dead letters are requeued
		for i := range 21 {
			s := submission("charge", fmt.Sprintf("o%02d", i), i)
			s.Deadline = fmt.Sprintf("%dm", 200-i) // the last handed in has the least time
			b.submit(s)
			b.attempt(s.ID().String(), decline(402, "no"))
		}
		before := time.Now()
		out := into[operator.Outcome](t, b.must(exitOK, "dlq", "requeue", "--all-matching", "--rate", "2/s", "-y", "--note", "x", "-o", "json"))
		if out.Done != 21 {
			t.Fatalf("%+v", out)
		}
		for i := range 21 {
			next := b.operation(fmt.Sprintf("charge/o%02d", 20-i)).NextAt
			want := time.Duration(i) * 500 * time.Millisecond
			if got := next.Sub(before); got < want-2*time.Millisecond || got > want+5*time.Second {
				t.Errorf("number %d by deadline is due after %s, want %s", i, got, want)
			}
		}
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 10), submission("charge", "b", 20), submission("payout", "c", 5))
		b.attempt("charge/a", decline(402, "no"))
		b.attempt("charge/b", decline(402, "no"))
		b.attempt("payout/c", timedOut(ledger.StepAsk))
		before := b.must(exitOK, "list", "-o", "json").stdout
		audit := b.must(exitOK, "audit", "-o", "json").stdout
		got := into[dryRunRead](t, b.must(exitOK, "dlq", "requeue", "charge/a", "charge/b", "payout/c", "charge/none", "--dry-run", "-o", "json"))
		if got.Requeued != 2 || got.Refused != 1 || got.Missing != 1 || len(got.Groups) != 1 || got.Groups[0].Sums["amount"]["GBP"] != "30" || len(got.Good) != 2 {
			t.Errorf("%+v", got)
		}
		if after := b.must(exitOK, "list", "-o", "json").stdout; after != before {
			t.Errorf("operations changed:\n%s\n%s", before, after)
		}
		if after := b.must(exitOK, "audit", "-o", "json").stdout; after != audit {
			t.Errorf("the audit changed:\n%s", after)
		}
	})
}

// dryRunRead is operator.DryRun as its readers see it.
type dryRunRead struct {
	DryRun   bool                  `json:"dry_run"`
	Requeued int                   `json:"requeued"`
	Refused  int                   `json:"refused"`
	Missing  int                   `json:"missing"`
	Groups   []groupRead           `json:"groups"`
	Refusals []operator.RefusedFor `json:"refusals"`
	Good     []jobs.ID             `json:"operations"`
}

type groupRead struct {
	Kind       jobs.Kind                    `json:"kind"`
	Reason     *jobs.Reason                 `json:"reason"`
	Class      *jobs.Class                  `json:"class"`
	Operations int                          `json:"operations"`
	Sums       map[string]map[string]string `json:"sums"`
	OldestAt   *jobs.Instant                `json:"oldest_at"`
	NewestAt   *jobs.Instant                `json:"newest_at"`
}

func TestBulkActionsEndByWhatCameOfThem(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("charge", "b", 1), submission("payout", "c", 1))
		b.attempt("payout/c", timedOut(ledger.StepAsk))
		b.must(exitNotFound, "cancel", "charge/none", "nothing/x", "-y", "--note", "x")
		b.must(exitOK, "cancel", "charge/a", "charge/a", "-y", "--note", "x")
		b.must(exitConflict, "cancel", "charge/a", "-y", "--note", "again")
		b.must(exitConflict, "cancel", "payout/c", "charge/none", "-y", "--note", "x")
		b.must(exitPartly, "cancel", "charge/a", "charge/b", "-y", "--note", "x")
		b.must(exitConflict, "dlq", "discard", "payout/c", "-y", "--note", "x")
		b.must(exitConflict, "dlq", "requeue", "payout/c", "-y", "--note", "x")
		b.longOver("payout/c")
		b.must(exitOK, "resolve", "payout/c", "--not-applied", "--note", "x")
		b.must(exitOK, "dlq", "requeue", "payout/c", "-y", "--note", "x")
		b.wantState("payout/c", jobs.Waiting)
		b.must(exitNotFound, "resolve", "payout/none", "--applied", "--note", "x")
	})
}

func TestOperationsComeFromStdinOneALine(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("charge", "b", 1))
		b.mustWith(exitUsage, "charge/a\n", "cancel", "-", "--note", "x")
		says(t, b.mustWith(exitUsage, "charge/a\nnonsense\n", "cancel", "-", "-y", "--note", "x").stderr, "line 2:", "has no slash")
		says(t, b.mustWith(exitUsage, "\n# none\n", "cancel", "-", "-y", "--note", "x").stderr, "stdin names no operation")
		out := into[operator.Outcome](t, b.mustWith(exitOK, "# two\ncharge/a\r\n\n  charge/b\ncharge/a", "cancel", "-", "-y", "--note", "x", "-o", "json"))
		if out.Done != 2 {
			t.Errorf("%+v", out)
		}
	})
}

// A set is fixed when the command starts: what dies afterwards is not touched.
func TestQuestionsAreAskedOnATerminalOnly(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("charge", "b", 1))
		ask := func(answer string, args ...string) printed {
			var stdout, stderr bytes.Buffer
			p := newProgram(strings.NewReader(answer), &stdout, &stderr, b.getenv)
			p.interactive = true
			code := p.run(t.Context(), args)
			return printed{code, stdout.String(), stderr.String()}
		}
		for _, answer := range []string{"n\n", "\n", "", "perhaps\n"} {
			got := ask(answer, "cancel", "--all-matching", "--kind", "charge", "--note", "x")
			if got.code != exitError {
				t.Errorf("answer %q: exit %d", answer, got.code)
			}
			says(t, got.stderr, "cancel 2 operations? [y/N] ", "nothing was changed")
		}
		b.wantState("charge/a", jobs.Waiting)
		if got := ask("YES\n", "cancel", "charge/a", "--note", "x"); got.code != exitOK {
			t.Errorf("yes: %+v", got)
		}
		b.wantState("charge/a", jobs.Cancelled)
		b.must(exitUsage, "cancel", "charge/b", "--note", "x") // nobody can be asked
		b.wantState("charge/b", jobs.Waiting)
	})
}

func TestCancelOfAnAttemptUnderWayIsPending(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1))
		spec := b.specs["charge"]
		grant := b.begin(t.Context(), jobs.ID{Kind: "charge", Key: "a"}, spec)
		out := into[operator.Outcome](t, b.must(exitOK, "cancel", "charge/a", "-y", "--note", "x", "-o", "json"))
		if out.Pending != 1 {
			t.Errorf("%+v", out)
		}
		res := ended(jobs.ReasonAttempts, jobs.Class503, "status 503")
		res.Step, res.Reason = ledger.StepRetry, ""
		if f, err := b.ledger.Finish(t.Context(), terms.Of(spec), terms.Target(spec), grant, res); err != nil || f.State != jobs.Cancelled {
			t.Errorf("%+v %v", f, err)
		}
	})
}

func TestAnUnreachableRedisEndsABulkActionWithWhatWasDone(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	p := newProgram(strings.NewReader(""), &stdout, &stderr, func(string) string { return "" })
	p.flags.output = asJSON
	results := []operator.Result{{Operation: jobs.ID{Kind: "charge", Key: "a"}, Result: operator.ResultDone}, {Operation: jobs.ID{Kind: "charge", Key: "b"}}}
	err := p.end(operator.Report{Action: "requeue", Batch: "b-1", Results: results, Failed: redisAway(t)}, "requeued", nil)
	if code := codeOf(err); code != exitAgain {
		t.Errorf("exit %d, want %d", code, exitAgain)
	}
	if err := p.stdout.Flush(); err != nil {
		t.Fatal(err)
	}
	var out operator.Outcome
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil || out.Done != 1 || len(out.Items) != 1 {
		t.Errorf("%+v %v", out, err)
	}
	says(t, p.storeText(err), "the same command again goes on with the rest")
}
