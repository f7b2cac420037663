package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func TestARequeueOfAFilterIsRecordedBeforeItIsDoneAndTold(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b", "refund/c", "charge/keep")
		set := b.matching(FilterWords{Reasons: []string{"permanent"}, Key: "[abc]"}, DeadStates)
		plan, err := RequeueWords{Rate: "1/s", Deadline: "3h"}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		var told []Progress
		order := ann("gateway is back")
		order.ProgressFunc = func(p Progress) {
			if len(told) == 0 {
				b.wantStates(map[string]jobs.State{"charge/a": jobs.Dead, "charge/b": jobs.Dead, "refund/c": jobs.Dead})
				if now, err := b.op.Batch(t.Context(), p.Batch); err != nil || now.Planned != 3 || now.Phase != ledger.PhaseRunning {
					t.Errorf("when it began: %+v %v", now, err)
				}
			}
			told = append(told, p)
		}
		r, err := b.op.Requeue(t.Context(), set, plan, order)
		if err != nil || r.Failed != nil || r.Canary != nil {
			t.Fatalf("%+v %v", r, err)
		}
		if got := r.Outcome(nil); got.Done != 3 || got.Refused+got.Missing+got.Pending != 0 || *got.Batch != r.Batch {
			t.Errorf("%+v", got)
		}
		b.wantStates(map[string]jobs.State{"charge/a": jobs.Waiting, "charge/b": jobs.Waiting, "refund/c": jobs.Waiting, "charge/keep": jobs.Dead})
		first, last := told[0], told[len(told)-1]
		if first.Acted != 0 || first.Planned != 3 || first.Batch != r.Batch || last.Acted != 3 {
			t.Errorf("told %+v", told)
		}
		for dep, n := range map[jobs.Dependency]string{"payrail": "2 operations", "bank": "1 operation"} {
			want := "requeue " + n + " (all matching reason=permanent key=[abc]) by ann"
			if got := b.audit(dep); !slices.Equal(got, []string{want}) {
				t.Errorf("audit of %s: %q, want %q", dep, got, want)
			}
		}
		all, err := b.op.Batches(t.Context(), time.Time{}, 10)
		if err != nil || len(all) != 1 || all[0].ID != r.Batch || all[0].Planned != 3 || len(all[0].Dependencies) != 2 || all[0].Phase != ledger.PhaseDone || all[0].Note != "gateway is back" {
			t.Errorf("%+v %v", all, err)
		}
	})
}

func TestADryRunSaysWhatWouldBeRefusedAndWhy(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b")
		b.submit("payout/lost")
		b.attempt(timedOut, "payout/lost")
		would, err := b.op.DryRun(t.Context(), b.named("payout/lost", "charge/b", "charge/none", "charge/a"), Plan{})
		if err != nil {
			t.Fatal(err)
		}
		if would.Requeued != 2 || would.Refused != 1 || would.Missing != 1 || len(would.Groups) != 1 || would.Groups[0].Sums.String() != "amount=20 GBP" {
			t.Errorf("%+v", would)
		}
		if got := fmt.Sprint(would.Good); got != "[charge/a charge/b]" { // the earliest deadline first
			t.Errorf("would be requeued: %s", got)
		}
		if len(would.Refusals) != 2 || !slices.ContainsFunc(would.Refusals, func(r RefusedFor) bool {
			return strings.Contains(r.Why, "its class is none: payrail would take it for a new one") && r.Examples[0].String() == "payout/lost"
		}) {
			t.Errorf("%+v", would.Refusals)
		}
		b.wantStates(map[string]jobs.State{"charge/a": jobs.Dead, "charge/b": jobs.Dead, "payout/lost": jobs.Dead})
		if got := b.audit("payrail"); len(got) != 0 {
			t.Errorf("audit: %q", got)
		}
	})
}

func TestACanaryThatFailsLeavesTheRest(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b", "charge/c")
		one := 1
		plan, err := RequeueWords{Canary: &one}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		order, waited := ann("it seems to be back"), 0
		order.ProgressFunc = func(p Progress) {
			if p.Waiting {
				waited++
				if p.Canaries != 1 || p.Acted != 1 || p.Planned != 3 {
					t.Errorf("%+v", p)
				}
				b.attempt(declined, "charge/a")
			}
		}
		r, err := b.op.Requeue(t.Context(), b.matching(FilterWords{}, DeadStates), plan, order)
		if err != nil {
			t.Fatal(err)
		}
		var failed *CanaryError
		if !errors.As(r.Failed, &failed) || failed.Untouched != 2 || failed.Why != "charge/a is dead (permanent)" || waited != 1 {
			t.Errorf("%v, waited %d times", r.Failed, waited)
		}
		if r.Canary == nil || r.Canary.Operations != 1 || r.Canary.Succeeded != 0 || r.Canary.Untouched != 2 || len(r.Results) != 1 {
			t.Errorf("%+v of %+v", r.Canary, r)
		}
		if now, err := b.op.Batch(t.Context(), r.Batch); err != nil || now.Phase != ledger.PhaseCanaryFailed || now.Operations != 1 || now.Filter != "all matching, without a filter" {
			t.Errorf("%+v %v", now, err)
		}
		b.wantStates(map[string]jobs.State{"charge/b": jobs.Dead, "charge/c": jobs.Dead})
	})
}

func TestTheRestFollowsACanaryThatSucceeded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b", "charge/c")
		one := 1
		plan, err := RequeueWords{Canary: &one}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		order := ann("it is back")
		order.ProgressFunc = func(p Progress) {
			if p.Waiting {
				b.attempt(succeeded, "charge/a")
			}
		}
		r, err := b.op.Requeue(t.Context(), b.matching(FilterWords{}, DeadStates), plan, order)
		if err != nil || r.Failed != nil || r.Canary.Succeeded != 1 || r.Canary.Untouched != 0 || r.Outcome(nil).Done != 3 {
			t.Errorf("%+v %v", r, err)
		}
		b.wantStates(map[string]jobs.State{"charge/a": jobs.Succeeded, "charge/b": jobs.Waiting, "charge/c": jobs.Waiting})
	})
}

func TestAStoppedBatchGoesNoFurtherAndIsPutBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b", "charge/c")
		two := 2
		plan, err := RequeueWords{Canary: &two}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		order := ann("all of them")
		var stopped Stopped
		order.ProgressFunc = func(p Progress) {
			if p.Waiting {
				b.attempt(succeeded, "charge/a")
				if stopped, err = b.operator(Options{}).StopBatch(t.Context(), p.Batch, Order{By: "bob", Note: "wrong ones"}); err != nil {
					t.Error(err)
				}
			}
		}
		r, failed := b.op.Requeue(t.Context(), b.matching(FilterWords{}, DeadStates), plan, order)
		if failed != nil || !errors.Is(r.Failed, ErrStopped) {
			t.Errorf("%v %v", r.Failed, failed)
		}
		if got := codes(stopped.Report); !maps.Equal(got, map[string]ResultCode{"charge/b": ResultDone}) || stopped.Left != 1 || stopped.Over || stopped.Failed != nil {
			t.Errorf("put back %v, left %d", got, stopped.Left)
		}
		b.wantStates(map[string]jobs.State{"charge/a": jobs.Succeeded, "charge/b": jobs.Dead, "charge/c": jobs.Dead})
		if now, err := b.op.Batch(t.Context(), r.Batch); err != nil || now.Phase != ledger.PhaseStopped || now.StoppedBy != "bob" || !now.Over() {
			t.Errorf("%+v %v", now, err)
		}
	})
}

func TestOnlyARequeueCanBeTakenBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b")
		r, err := b.op.Discard(t.Context(), b.named("charge/a", "charge/b"), ann("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.op.StopBatch(t.Context(), r.Batch, ann("x")); !errors.Is(err, ErrNotRequeue) {
			t.Error(err)
		}
		if _, err := b.op.StopBatch(t.Context(), "b-none", ann("x")); !errors.Is(err, ledger.ErrNoBatch) {
			t.Error(err)
		}
		if _, err := b.op.Batch(t.Context(), "b-none"); !errors.Is(err, ledger.ErrNoBatch) {
			t.Error(err)
		}
	})
}

func TestCancelAndDiscardSayWhatCameOfEach(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit("charge/open", "payout/lost")
		b.attempt(timedOut, "payout/lost")
		b.dead("charge/dead")
		r, err := b.op.Cancel(t.Context(), b.matching(FilterWords{Kinds: []string{"charge"}}, OpenStates), ann("shop closed"))
		if got := codes(r); err != nil || r.Failed != nil || !maps.Equal(got, map[string]ResultCode{"charge/open": ResultDone}) {
			t.Errorf("cancel: %v %v %v", got, r.Failed, err)
		}
		r, err = b.op.Discard(t.Context(), b.named("charge/dead", "payout/lost", "charge/none"), ann("given up"))
		want := map[string]ResultCode{"charge/dead": ResultDone, "payout/lost": ResultRefused, "charge/none": ResultMissing}
		if got := codes(r); err != nil || r.Failed != nil || !maps.Equal(got, want) {
			t.Errorf("discard: %v %v %v", got, r.Failed, err)
		}
		if now, err := b.op.Batch(t.Context(), r.Batch); err != nil || now.Operations != 1 || now.Planned != 2 || now.Filter != "named one by one" {
			t.Errorf("%+v %v", now, err) // what was refused is no part of it
		}
		b.wantStates(map[string]jobs.State{"charge/open": jobs.Cancelled, "charge/dead": jobs.Cancelled, "payout/lost": jobs.Dead})
	})
}

func TestFindingsSettleUnknownOutcomes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit("payout/yes", "payout/no", "payout/who")
		b.attempt(timedOut, "payout/yes", "payout/no", "payout/who")
		ids := parsed(t, "payout/yes", "payout/no", "payout/who", "payout/none")
		found := []Finding{{ids[0], ledger.ResolvedApplied, "po_1"}, {ids[1], ledger.ResolvedNotApplied, ""}, {ids[2], ledger.WrittenOff, ""}, {ids[3], ledger.ResolvedApplied, ""}}
		r, err := b.op.Resolve(t.Context(), found, ann("seen in the dashboard"))
		got := r.Outcome(nil)
		if err != nil || r.Failed != nil || got.Done+got.Refused != 3 || got.Missing != 1 || r.Batch == "" {
			t.Errorf("%+v %v %v", got, r.Failed, err)
		}
		if code := codes(r)["payout/yes"]; code != ResultDone {
			t.Errorf("payout/yes: %s", code)
		}
		b.wantStates(map[string]jobs.State{"payout/yes": jobs.Succeeded})
	})
}

func TestOneNamedOperationIsNoBatch(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit("payout/yes")
		b.attempt(timedOut, "payout/yes")
		r, err := b.op.Resolve(t.Context(), []Finding{{parsed(t, "payout/yes")[0], ledger.ResolvedApplied, "po_1"}}, ann("seen"))
		if err != nil || r.Failed != nil || r.Batch != "" || codes(r)["payout/yes"] != ResultDone {
			t.Errorf("%+v %v", r, err)
		}
		if all, err := b.op.Batches(t.Context(), time.Time{}, 10); err != nil || len(all) != 0 {
			t.Errorf("%+v %v", all, err)
		}
	})
}

func TestFindingsThatSayNothingSensibleAreRefused(t *testing.T) {
	t.Parallel()
	id := jobs.ID{Kind: "charge", Key: "a"}
	for _, f := range []Finding{{id, ledger.WrittenOff, "ch_1"}, {id, ledger.ResolvedApplied, "a\x1bb"}, {id, ledger.ResolvedApplied, strings.Repeat("x", maxRefBytes+1)}} {
		if err := f.Check(); err == nil || !strings.HasPrefix(err.Error(), "charge/a: ") {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := (Finding{id, ledger.ResolvedApplied, "ch_1"}).Check(); err != nil {
		t.Error(err)
	}
	for s, want := range map[string]ledger.Resolution{"Applied": ledger.ResolvedApplied, "not-applied": ledger.ResolvedNotApplied, "WRITTEN_OFF": ledger.WrittenOff} {
		if got, err := ParseVerdict(s); err != nil || got != want {
			t.Errorf("%s: %s %v", s, got, err)
		}
	}
	if _, err := ParseVerdict("maybe"); err == nil {
		t.Error("maybe passed")
	}
}

func TestReconcileRefusesAKindThatNobodyKnowsBeforeItDoesAnything(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a")
		var unknown *UnknownKindError
		if _, err := b.op.Reconcile(t.Context(), parsed(t, "charge/a", "nothing/x"), time.Time{}, ann("x")); !errors.As(err, &unknown) || unknown.Kind != "nothing" {
			t.Error(err)
		}
		spec := b.specs["charge"]
		spec.Inquiry = &jobs.InquirySpec{SettleMS: 1, GiveUpAfterMS: 1000}
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
			t.Fatal(err)
		}
		r, err := b.operator(Options{}).Reconcile(t.Context(), parsed(t, "charge/a", "charge/theirs"), time.Time{}, ann("customer says so"))
		if err != nil || r.Failed != nil || len(r.Results) != 2 {
			t.Fatalf("%+v %v", r, err)
		}
		if r.Results[0].Detail != "it was dead" || !strings.HasPrefix(r.Results[1].Detail, "not in the ledger") || r.Results[1].State != jobs.Unresolved {
			t.Errorf("%+v", r.Results)
		}
		b.wantStates(map[string]jobs.State{"charge/a": jobs.Unresolved, "charge/theirs": jobs.Unresolved})
	})
}

func TestANewDeadlineThatIsOverIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for s, over := range map[string]bool{time.Now().Add(-time.Minute).Format(time.RFC3339): true, time.Now().Add(time.Hour).Format(time.RFC3339): false, "1h": false, "": false} {
			plan, err := RequeueWords{Deadline: s}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if err := b.op.CheckPlan(t.Context(), plan); over && invalid(t, err).Field != FieldDeadline || !over && err != nil {
				t.Errorf("%s: %v", s, err)
			}
		}
	})
}

// Without a worker's word the configuration's kinds count, and bind once they are used.
func TestKindsOfAConfigurationAreJoinedWithPublishedOnes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit("refund/held") // a kind with records stays where it is
		charge, fee, moved := b.specs["charge"], b.specs["charge"], b.specs["refund"]
		charge.BaseURL = "" // a secret, which the workers resolved
		fee.Kind, fee.Dependency = "fee", "bank"
		moved.Dependency = "payrail"
		op := b.operator(Options{Kinds: []jobs.KindSpec{charge, fee, moved}, Dependencies: []jobs.Dependency{"payrail", "later"}})
		if got := op.Ours()["charge"].BaseURL; got != "https://payrail.example" {
			t.Errorf("charge is sent to %q", got)
		}
		if got := op.Known()["refund"].Dependency; got != "bank" { // its operations lie where it is bound
			t.Errorf("refund is looked for at %s", got)
		}
		if !op.Knows("fee") || !op.Knows("payout") || op.Knows("none") || op.SpecOf("none") != nil || op.SpecOf("fee") == nil {
			t.Errorf("known: %v", op.Known())
		}
		var binding *ledger.BindingError
		if _, err := op.Kind(t.Context(), "refund"); !errors.As(err, &binding) {
			t.Error(err)
		}
		var unknown *UnknownKindError
		if _, err := op.Kind(t.Context(), "payout"); !errors.As(err, &unknown) {
			t.Error(err)
		}
		if _, err := op.Kind(t.Context(), "fee"); err != nil {
			t.Error(err)
		}
		if deps, err := op.Dependencies(t.Context()); err != nil || fmt.Sprint(deps) != "[bank later payrail]" {
			t.Errorf("%v %v", deps, err)
		}
	})
}

func TestCancelKeepsTheWishOfWhatMayHaveTakenEffect(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		again := timedOut
		again.Step, again.Delay = ledger.StepRetry, time.Minute
		b.submit("charge/lost", "charge/sending")
		b.attempt(again, "charge/lost")
		b.begin(t.Context(), parsed(t, "charge/sending")[0], b.specs["charge"])
		r, err := b.op.Cancel(t.Context(), b.named("charge/lost", "charge/sending"), ann("x"))
		want := map[string]ResultCode{"charge/lost": ResultUnsafe, "charge/sending": ResultPending}
		if got := codes(r); err != nil || r.Failed != nil || !maps.Equal(got, want) {
			t.Errorf("%v %v %v", got, r.Failed, err)
		}
		b.wantStates(map[string]jobs.State{"charge/lost": jobs.Dead, "charge/sending": jobs.Attempting})

		spec := b.specs["charge"]
		spec.Inquiry = &jobs.InquirySpec{SettleMS: 1, GiveUpAfterMS: 3600_000}
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
			t.Fatal(err)
		}
		b.op = b.operator(Options{})
		b.submit("charge/asked")
		b.attempt(again, "charge/asked")
		for _, detail := range []string{"", "it was to be cancelled already, and its outcome is still unknown"} {
			r, err := b.op.Cancel(t.Context(), b.named("charge/asked"), ann("x"))
			if err != nil || r.Failed != nil || r.Results[0].Result != ResultPending || detail != "" && r.Results[0].Detail != detail {
				t.Errorf("%+v %v", r, err)
			}
		}
		b.wantStates(map[string]jobs.State{"charge/asked": jobs.Unresolved})
	})
}

func TestARefusalSaysWhereTheOtherTargetIsKnownFrom(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.submit("charge/lost")
		lost := timedOut
		lost.Step, lost.Reason = ledger.StepEnd, jobs.ReasonAttempts
		b.attempt(lost, "charge/lost")
		moved := b.specs["charge"]
		moved.BaseURL = "https://elsewhere.example"
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{moved}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			o    Options
			from string
		}{
			{Options{Kinds: []jobs.KindSpec{moved}, Source: "redrive.yaml"}, "that is what redrive.yaml says"},
			{Options{}, "that was published by a worker that has ended"},
		} {
			op := b.operator(c.o)
			r, err := op.Requeue(t.Context(), b.named("charge/lost"), Plan{}, ann("x"))
			if err != nil || r.Failed != nil || r.Results[0].Result != ResultRefused || !strings.Contains(r.Results[0].Detail, "its target differs") || !strings.Contains(r.Results[0].Detail, c.from) {
				t.Errorf("%+v %v, want %q", r, err, c.from)
			}
			if now, err := op.Batch(t.Context(), r.Batch); err != nil || now.Operations != 0 {
				t.Errorf("%+v %v", now, err)
			}
		}
	})
}

func TestOperationsOfAForgottenKindAreLookedForEverywhere(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("refund/a")
		delete(b.op.known, "refund")
		set := b.named("refund/a", "refund/none")
		if c := set.Operations[0]; c.Op == nil || c.Place.Dependency != "bank" || set.Operations[1].Op != nil {
			t.Errorf("%+v", set.Operations)
		}
		r, err := b.op.Requeue(t.Context(), set, Plan{}, ann("x"))
		if got := codes(r); err != nil || got["refund/a"] != ResultRefused || got["refund/none"] != ResultMissing {
			t.Errorf("%v %v", got, err)
		}
	})
}

func TestAnActionThatIsCutOffTellsWhatWasDone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b")
		one := 1
		plan, err := RequeueWords{Canary: &one}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		order := ann("x")
		order.ProgressFunc = func(p Progress) {
			if p.Waiting {
				cancel()
			}
		}
		r, err := b.op.Requeue(ctx, b.matching(FilterWords{}, DeadStates), plan, order)
		if err != nil || !errors.Is(r.Failed, context.Canceled) || r.Outcome(nil).Done != 1 || r.Canary.Untouched != 1 {
			t.Errorf("%+v %v", r, err)
		}
		if now, err := b.op.Batch(t.Context(), r.Batch); err != nil || now.Phase != ledger.PhaseCanary || now.Over() {
			t.Errorf("%+v %v", now, err)
		}
		order.ProgressFunc = nil
		if r, err := b.op.Requeue(t.Context(), b.matching(FilterWords{}, DeadStates), Plan{}, order); err != nil || r.Failed != nil || r.Outcome(nil).Done != 1 { // the rest
			t.Errorf("%+v %v", r, err)
		}
		b.wantStates(map[string]jobs.State{"charge/a": jobs.Waiting, "charge/b": jobs.Waiting})
	})
}
