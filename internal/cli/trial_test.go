package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

// What a stranger stumbled over in a second trial, each held by a test.

func TestATimelineTellsWhatPeopleDid(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.asks("payout")
		b.submit(submission("payout", "a", 1), submission("payout", "other", 1))
		b.attempt("payout/a", timedOut(ledger.StepAsk))
		b.must(exitOK, "cancel", "payout/a", "payout/other", "-y", "--note", "withdrew")
		b.must(exitOK, "reconcile", "payout/a", "--note", "look again")
		b.must(exitConflict, "resolve", "payout/a", "--not-applied", "--note", "seen nothing") // too early
		b.longOver("payout/a")
		b.must(exitOK, "resolve", "payout/a", "--not-applied", "--note", "card 4242424242424242 is not there", "--by", "bob@desk")
		b.must(exitOK, "show", "payout/a", "--reveal")

		shown := into[shown](t, b.must(exitOK, "show", "payout/a", "-o", "json"))
		var events []string
		for i, e := range shown.Timeline {
			events = append(events, e.Event)
			if i > 0 && millis(e.At) < millis(shown.Timeline[i-1].At) {
				t.Errorf("%s stands before what came earlier", e.Event)
			}
		}
		want := []string{"submitted", "attempt", "cancel", "reconcile", "resolve not_applied", "resolve not_applied", "cancelled"}
		if !slices.Equal(events, want) || shown.Cut {
			t.Fatalf("%v, want %v", events, want)
		}
		if e := shown.Timeline[2]; e.By != "ann@desk" || deref(e.Note) != "withdrew" {
			t.Errorf("%+v %s", e, deref(e.Note))
		}
		if note := deref(shown.Timeline[4].Note); note != "refused; seen nothing" {
			t.Errorf("note %q", note)
		}
		text := b.must(exitOK, "dlq", "show", "payout/a").stdout
		says(t, text, "bob@desk", "look again", "is not there")
		hides(t, text, "4242424242424242", "newest 50000")
	})
}

func TestAWishToCancelIsNotCountedAsCancelled(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.asks("payout")
		b.submit(submission("payout", "asked", 1), submission("charge", "plain", 1))
		b.attempt("payout/asked", timedOut(ledger.StepAsk))
		got := b.must(exitOK, "cancel", "payout/asked", "charge/plain", "-y", "--note", "x")
		says(t, got.stderr, "cancelled 1, 1 to be cancelled once the outcome is known")
		b.wantState("payout/asked", jobs.Unresolved)
		again := b.must(exitOK, "cancel", "payout/asked", "-y", "--note", "x")
		says(t, again.stderr, "cancelled 0, 1 to be cancelled once the outcome is known")
		says(t, again.stdout, "pending", "it was to be cancelled already")

		b.submit(submission("refund", "nobody", 1)) // has no inquiry
		b.attempt("refund/nobody", timedOut(ledger.StepRetry))
		if o := b.operation("refund/nobody"); o.State == jobs.Dead {
			says(t, b.must(exitConflict, "cancel", "refund/nobody", "-y", "--note", "x").stderr, "cancelled 0, 1 refused")
		}
		b.submit(submission("charge", "keyed", 1)) // waits for a resend under its key
		b.attempt("charge/keyed", timedOut(ledger.StepRetry))
		b.wantState("charge/keyed", jobs.Waiting)
		unsafe := b.must(exitOK, "cancel", "charge/keyed", "-y", "--note", "x", "-o", "json")
		says(t, unsafe.stderr, "cancelled 0, 1 dead (unsafe) instead, for a person to resolve")
		if out := into[operator.Outcome](t, unsafe); out.Done != 0 || out.Unsafe != 1 || out.Items[0].Result != "unsafe" {
			t.Errorf("%+v", out)
		}
		b.wantState("charge/keyed", jobs.Dead)
	})
}

func TestStatsSaysWhyADependencyIsPaused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1))
		if err := b.client.HSet(t.Context(), "rd:{payrail}:gate", "rolled", time.Now().UnixMilli()).Err(); err != nil {
			t.Fatal(err)
		}
		says(t, b.must(exitOK, "stats").stdout, "until resumed, by redrive: Redis lost attempts that it had acknowledged", "…")
		b.must(exitOK, "pause", "payrail", "--note", "ours")
		says(t, b.must(exitOK, "stats").stdout, "until resumed, by ann@desk: ours")
	})
}

func TestAdviceSaysThatItIsAskedAboutElsewhere(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.asks("payout", "charge")
		b.submit(submission("payout", "a", 1), submission("charge", "b", 1))
		b.attempt("payout/a", timedOut(ledger.StepAsk))
		b.attempt("charge/b", timedOut(ledger.StepAsk))
		hides(t, b.must(exitOK, "dlq", "show", "payout/a").stdout, "changed since it was sent")
		for _, kind := range []jobs.Kind{"payout", "charge"} {
			spec := b.specs[kind]
			spec.BaseURL = "https://elsewhere.example"
			if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"payout/a", "charge/b"} {
			b.wantState(id, jobs.Unresolved)
			got := b.must(exitOK, "dlq", "show", id).stdout
			says(t, got, "the base_url of its kind changed since it was sent", "Put the old one back", "look yourself and resolve", "enqueue resolve "+id)
			hides(t, got, "nothing for now")
		}
	})
}

func TestARequeueRefusedForItsTargetSaysWhereTheConfigurationIsFrom(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "moved", 1))
		b.attempt("charge/moved", timedOut(ledger.StepAsk))
		b.wantState("charge/moved", jobs.Dead)
		spec := b.specs["charge"]
		spec.BaseURL = "https://elsewhere.example"
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
			t.Fatal(err)
		}
		requeue := line("dlq requeue charge/moved -y --note x")
		says(t, b.must(exitConflict, requeue...).stdout, "published by a worker that has ended: start one with the right file")
		w := ledger.Worker{ID: "w-7", StartedAt: time.Now(), Dependencies: []jobs.Dependency{"payrail"}, Kinds: []jobs.Kind{"charge"}}
		if err := b.ledger.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		says(t, b.must(exitConflict, requeue...).stdout, "what the workers published: w-7 runs since")
	})
}

func TestWhatWasTwiceNotFoundIsAskedAboutOnceMoreBeforeItIsSent(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.asks("payout")
		b.submit(submission("payout", "a", 1))
		b.attempt("payout/a", timedOut(ledger.StepAsk))
		b.longOver("payout/a")
		b.client.HSet(t.Context(), "rd:{payrail}:op:payout/a", "nf", "1000") // not found was seen once, long ago
		b.inquired("payout/a", ledger.Inquired{Answer: jobs.InquiryNotFound, BaseURL: b.specs["payout"].BaseURL, Status: 404, Duration: time.Millisecond, Delay: time.Millisecond, StayDead: true})
		b.wantState("payout/a", jobs.Dead)
		got := b.must(exitOK, "dlq", "show", "payout/a").stdout
		asks, sends := strings.Index(got, "enqueue reconcile payout/a"), strings.Index(got, "enqueue dlq requeue payout/a")
		if asks < 0 || sends < asks {
			t.Errorf("reconcile is not told before requeue:\n%s", got)
		}
		says(t, got, "it was not found at payrail, twice")
	})
}

func TestACSVWithoutItsHeaderIsNotReadAsNames(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.asks("payout")
		b.submit(submission("payout", "a", 1))
		file := filepath.Join(t.TempDir(), "names.txt")
		if err := os.WriteFile(file, []byte("payout/a\npayout/b,unknown,12\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		says(t, b.must(exitPartly, "reconcile", "--from", file, "--note", "x").stderr, "line 2: ", "is this a CSV without its header?")
		b.wantState("payout/a", jobs.Unresolved)
		b.must(exitNotFound, "show", "payout/b,unknown,12")
	})
}

func TestABatchThatIsDoneIsStoppedOnlyIfSomethingIsTakenBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit(submission("charge", "a", 1), submission("charge", "b", 1))
		b.attempt("charge/a", decline(402, "no"))
		b.attempt("charge/b", decline(402, "no"))
		requeue := func() string {
			t.Helper()
			return *into[operator.Outcome](t, b.must(exitOK, "dlq", "requeue", "charge/a", "charge/b", "-y", "--note", "x", "-o", "json")).Batch
		}
		waiting := requeue()
		says(t, b.must(exitOK, "batch", "stop", waiting, "--note", "wrong ones").stderr, "put back 2")
		says(t, b.must(exitOK, "batch", "show", waiting).stdout, "phase stopped", "wrong ones")
		says(t, b.must(exitOK, "audit", "payrail").stdout, "stop batch "+waiting)

		sent := requeue()
		b.attempt("charge/a", succeeded())
		b.attempt("charge/b", succeeded())
		says(t, b.must(exitOK, "batch", "stop", sent, "--note", "too late").stderr, "nothing to take back: "+sent+" is done")
		says(t, b.must(exitOK, "batch", "show", sent).stdout, "phase done")
		hides(t, b.must(exitOK, "audit", "payrail").stdout, "too late")
		for _, command := range []string{"stop", "show"} {
			args := []string{"batch", command, ""}
			if command == "stop" {
				args = append(args, "--note", "x")
			}
			says(t, b.must(exitUsage, args...).stderr, "ID is empty")
		}
	})
}
