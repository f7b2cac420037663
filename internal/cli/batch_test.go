package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

// declined are n dead letters charge/o0..., the first with the earliest deadline.
func (b *testBundle) declined(n int) []string {
	b.t.Helper()
	var ids []string
	for i := range n {
		s := submission("charge", fmt.Sprintf("o%d", i), 100)
		s.Deadline = fmt.Sprintf("%dm", 60+i)
		b.submit(s)
		ids = append(ids, s.ID().String())
		b.attempt(ids[i], decline(402, "no"))
	}
	return ids
}

// start runs a command line that waits for something, and returns what it comes to.
func (b *testBundle) start(args ...string) <-chan printed {
	done := make(chan printed, 1)                                            // sent once
	go func() { done <- runProgram(b.t.Context(), b.getenv, "", args...) }() // ends with the command; the caller takes its result
	return done
}

// only returns the one batch that there is.
func (b *testBundle) only() operator.Batch {
	b.t.Helper()
	list := into[struct {
		Items []operator.Batch `json:"items"`
	}](b.t, b.must(exitOK, "batch", "list", "-o", "json"))
	if len(list.Items) != 1 {
		b.t.Fatalf("%d batches, want 1", len(list.Items))
	}
	return list.Items[0]
}

func (b *testBundle) progress(id string) operator.BatchProgress {
	b.t.Helper()
	return into[operator.BatchProgress](b.t, b.must(exitOK, "batch", "show", id, "-o", "json"))
}

func TestTheRestFollowsCanariesThatSucceeded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		ids := b.declined(5)
		done := b.start("dlq", "requeue", "--all-matching", "--canary", "2", "-y", "--note", "it seems to be back", "-o", "json")
		for _, id := range ids[:2] {
			waitFor(t, func() bool { return b.operation(id).State == jobs.Waiting })
		}
		for _, id := range ids[2:] {
			b.wantState(id, jobs.Dead)
		}
		if p := b.only(); p.Phase != ledger.PhaseCanary || p.Planned != 5 {
			t.Errorf("%+v", p)
		}
		b.attempt(ids[0], succeeded())
		b.attempt(ids[1], succeeded())
		got := <-done
		if got.code != exitOK {
			t.Fatalf("%+v", got)
		}
		out := into[operator.Outcome](t, got)
		if out.Done != 5 || out.Canary == nil || out.Canary.Operations != 2 || out.Canary.Succeeded != 2 || out.Canary.Failed != "" {
			t.Errorf("%+v %+v", out, out.Canary)
		}
		for _, id := range ids[2:] {
			b.wantState(id, jobs.Waiting)
		}
		p := b.progress(*out.Batch)
		if p.Phase != ledger.PhaseDone || p.Operations != 5 || p.States[jobs.Succeeded] != 2 || p.States[jobs.Waiting] != 3 || p.Open != 3 {
			t.Errorf("%+v", p)
		}
	})
}

func TestTheRestIsUntouchedWhenACanaryFails(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		ids := b.declined(4)
		done := b.start("dlq", "requeue", "--all-matching", "--canary", "2", "-y", "--note", "x", "-o", "json")
		b.attempt(ids[0], decline(402, "still no"))
		got := <-done
		out := into[operator.Outcome](t, got)
		if got.code != exitConflict || out.Done != 2 || out.Canary.Untouched != 2 {
			t.Errorf("exit %d: %+v %+v", got.code, out, out.Canary)
		}
		says(t, got.stderr, "canary: charge/o0 is dead (permanent); 2 operations left as they were")
		for _, id := range ids[2:] {
			b.wantState(id, jobs.Dead)
			hides(t, b.must(exitOK, "audit", id).stdout, "requeue")
		}
		if p := b.progress(*out.Batch); p.Phase != ledger.PhaseCanaryFailed || p.Operations != 2 {
			t.Errorf("%+v", p)
		}
	})
}

func TestCanariesThatDoNotEndInTimeHoldTheRestBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		ids := b.declined(3)
		got := b.must(exitConflict, "dlq", "requeue", "--all-matching", "--canary", "1", "--canary-wait", "150ms", "-y", "--note", "x")
		says(t, got.stderr, "1 of 1 have not ended within 150ms; they go on", "2 operations left as they were")
		b.wantState(ids[0], jobs.Waiting)
		b.wantState(ids[1], jobs.Dead)
	})
}

// What is refused is no canary: the next takes its place.
func TestCanariesAreThoseThatCouldBeRequeued(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		lost := submission("payout", "lost", 1)
		lost.Deadline = "5m"
		b.submit(lost)
		b.attempt("payout/lost", timedOut(ledger.StepAsk))
		ids := b.declined(2)
		done := b.start("dlq", "requeue", "--all-matching", "--canary", "1", "-y", "--note", "x", "-o", "json")
		b.attempt(ids[0], succeeded())
		got := <-done
		out := into[operator.Outcome](t, got)
		if got.code != exitPartly || out.Done != 2 || out.Refused != 1 || out.Canary.Operations != 1 {
			t.Errorf("exit %d %+v", got.code, out)
		}
		if p := b.progress(*out.Batch); p.Operations != 2 || p.Planned != 3 {
			t.Errorf("what was refused counts in the batch: %+v", p)
		}
	})
}

func TestStopTakesBackWhatWasNotSentYet(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		ids := b.declined(4)
		before := b.operation(ids[3])
		out := into[operator.Outcome](t, b.must(exitOK, "dlq", "requeue", "--all-matching", "--rate", "1/h", "--deadline", "30h", "-y", "--note", "x", "-o", "json"))
		b.attempt(ids[0], succeeded())
		got := b.must(exitOK, "batch", "stop", *out.Batch, "--note", "wrong ones", "-o", "json")
		if stopped := into[operator.Outcome](t, got); stopped.Done != 3 || stopped.Refused != 0 {
			t.Errorf("%+v", stopped)
		}
		says(t, got.stderr, "put back 3", "1 operation left as they are")
		for _, id := range ids[1:] {
			o := b.wantState(id, jobs.Dead)
			if deref(o.Reason) != jobs.ReasonPermanent {
				t.Errorf("%s died of %s", id, deref(o.Reason))
			}
		}
		if o := b.operation(ids[3]); !o.DeadlineAt.Equal(before.DeadlineAt.Time) || o.MaxAttempts != before.MaxAttempts {
			t.Errorf("deadline %s, attempts %d; were %s, %d", o.DeadlineAt, o.MaxAttempts, before.DeadlineAt, before.MaxAttempts)
		}
		p := b.progress(*out.Batch)
		if p.Phase != ledger.PhaseStopped || p.StoppedBy != "ann@desk" || p.StopNote != "wrong ones" || p.Open != 0 {
			t.Errorf("%+v", p)
		}
		says(t, b.must(exitOK, "audit", "payrail", "--limit", "100").stdout, "stop batch "+*out.Batch, "wrong ones")
		says(t, b.must(exitOK, "audit", ids[1]).stdout, "stop", "waiting", "dead permanent")
		says(t, b.must(exitOK, "batch", "show", *out.Batch).stdout, "phase stopped, 4 of 4 acted on: succeeded 1, dead 3", "stopped", "wrong ones", "dead (permanent)")
		b.must(exitOK, "batch", "stop", *out.Batch, "--note", "again")
		b.must(exitOK, "dlq", "requeue", ids[1], "-y", "--note", "it was right") // as before
	})
}

func TestStopEndsACommandThatWaitsForItsCanaries(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		ids := b.declined(3)
		done := b.start("dlq", "requeue", "--all-matching", "--canary", "1", "-y", "--note", "x", "-o", "json")
		waitFor(t, func() bool { return b.operation(ids[0]).State == jobs.Waiting })
		b.must(exitOK, "batch", "stop", b.only().ID, "--note", "wrong ones")
		got := <-done
		if got.code != exitConflict {
			t.Errorf("%+v", got)
		}
		says(t, got.stderr, "a person stopped the batch: the rest was left as it was")
		for _, id := range ids {
			b.wantState(id, jobs.Dead)
		}
	})
}

func TestOnlyARequeueCanBeTakenBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("charge", "b", 1))
		out := into[operator.Outcome](t, b.must(exitOK, "cancel", "charge/a", "charge/b", "-y", "--note", "x", "-o", "json"))
		says(t, b.must(exitConflict, "batch", "stop", *out.Batch, "--note", "x").stderr, "is a cancel: only what a requeue sent on its way can be taken back")
		if p := b.progress(*out.Batch); p.States[jobs.Cancelled] != 2 || p.Phase != ledger.PhaseDone {
			t.Errorf("%+v", p)
		}
		b.must(exitNotFound, "batch", "show", "b-none")
		b.must(exitNotFound, "batch", "stop", "b-none", "--note", "x")
	})
}

func TestWatchingABatchEndsWhenNothingIsOnItsWay(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		ids := b.declined(2)
		out := into[operator.Outcome](t, b.must(exitOK, "dlq", "requeue", "--all-matching", "-y", "--note", "x", "-o", "json"))
		done := b.start("batch", "show", *out.Batch, "--watch")
		for _, id := range ids {
			b.attempt(id, succeeded())
		}
		select {
		case got := <-done:
			if got.code != exitOK || !strings.HasSuffix(got.stdout, "phase done, 2 of 2 acted on: succeeded 2\n") {
				t.Errorf("%+v", got)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it did not end within 20 s")
		}
	})
}

// A batch of several dependencies is shown as one.
func TestABatchSpansDependencies(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1))
		b.submit(submission("refund", "b", 1))
		b.attempt("charge/a", decline(402, "no"))
		b.attempt("refund/b", decline(402, "no"))
		out := into[operator.Outcome](t, b.must(exitOK, "dlq", "requeue", "--all-matching", "-y", "--note", "x", "-o", "json"))
		one := b.only()
		if one.ID != *out.Batch || one.Planned != 2 || len(one.Dependencies) != 2 || one.Filter != "all matching, without a filter" || one.Phase != ledger.PhaseDone {
			t.Errorf("%+v", one)
		}
		if p := b.progress(one.ID); p.States[jobs.Waiting] != 2 {
			t.Errorf("%+v", p)
		}
		if got := into[operator.Outcome](t, b.must(exitOK, "batch", "stop", one.ID, "--note", "x", "-o", "json")); got.Done != 2 {
			t.Errorf("%+v", got)
		}
		says(t, b.must(exitOK, "batch", "list").stdout, one.ID, "requeue", "stopped", "ann@desk")
	})
}
