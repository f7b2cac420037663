package ledger

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"redrive/internal/jobs"
)

// drawResult is what a worker could bring: any outcome with any step that policy
// might choose for it.
func drawResult(t *rapid.T, lost bool) Result {
	outcome := jobs.OutcomeUnknown
	if !lost {
		outcome = rapid.SampledFrom(append(jobs.Outcomes, jobs.OutcomeUnknown, jobs.OutcomeUnknown, jobs.OutcomeUnknown)).Draw(t, "outcome")
	}
	r := Result{Outcome: outcome, Class: jobs.Class5xx, Verdict: jobs.VerdictRetrySafe, Counted: outcome != jobs.OutcomeNotSent,
		Delay: rapid.SampledFrom([]time.Duration{0, time.Second, hour}).Draw(t, "delay"), Step: StepRetry}
	switch {
	case lost:
		r.Class = jobs.ClassWorkerLost
	case outcome == jobs.OutcomeSucceeded:
		r.Step, r.Class = StepSucceed, jobs.Class2xx
		return r
	case outcome == jobs.OutcomeRefused:
		r.Settles = rapid.Bool().Draw(t, "settles")
	case outcome == jobs.OutcomeUnknown:
		r.Acted = rapid.IntRange(0, 9).Draw(t, "acted") == 0
	}
	r.Step = rapid.SampledFrom([]Step{StepRetry, StepRetry, StepRetry, StepRetry, StepRetry, StepEnd, StepAsk, StepConflict}).Draw(t, "step")
	if r.Step == StepEnd {
		r.Reason = rapid.SampledFrom([]jobs.Reason{jobs.ReasonPermanent, jobs.ReasonAttempts, jobs.ReasonDeadline}).Draw(t, "reason")
	}
	return r
}

// finishSome says the result of a granted attempt, for the first time or again.
func (w *walk) finishSome(t *rapid.T) {
	r := w.someRun(t)
	if r == nil || r.grant == nil {
		return
	}
	if r.result == nil {
		res := drawResult(t, false)
		r.result = &res
	}
	o := w.ops[r.delivery.ID.String()]
	s := o.byRun(r.run)
	f, err := w.Finish(w.Context(), w.terms, w.as(r.with), r.grant, *r.result)
	w.must(err)
	tombstone := w.records()[r.delivery.ID.String()]["tombstone"] != "" // forgets who made which attempt
	if f.How != HowOwn && f.How != HowLate && !r.said && !tombstone {
		t.Fatalf("%s: the first result of attempt %d was taken as %s", r.delivery.ID, s.n, f.How)
	}
	if r.said && f.How != HowKnown && f.How != HowStale {
		t.Fatalf("%s: the result of attempt %d was taken again as %s", r.delivery.ID, s.n, f.How)
	}
	if !r.said {
		o.notFound = time.Time{} // news of it
		s.over = w.ledgerNow()
		if f.How == HowOwn {
			s.over = later(s.over, s.at.Add(w.target.ClaimLease))
			s.acted = r.result.Acted
		}
	}
	r.said = true
	s.closed = true
	switch r.result.Outcome {
	case jobs.OutcomeSucceeded:
		s.succeeded = true
	case jobs.OutcomeRefused, jobs.OutcomeNotSent:
		s.settled = true
		if r.result.Settles && f.How == HowOwn {
			o.settleUpTo(s.n)
		}
	}
}

func (w *walk) listLost(*rapid.T) {
	list, err := w.LostAttempts(w.Context(), dep, 0, time.Time{})
	w.must(err)
	w.lists = append(w.lists, list...)
}

// finishLost closes an attempt of some list, however old the list is.
func (w *walk) finishLost(t *rapid.T) {
	if len(w.lists) > 0 {
		w.closeLost(t, w.lists[len(w.lists)-1-rapid.IntRange(0, min(4, len(w.lists)-1)).Draw(t, "which")])
	}
}

func (w *walk) closeLost(t *rapid.T, l Lost) {
	blind := rapid.IntRange(0, 4).Draw(t, "blind") == 0
	f, err := w.FinishLost(w.Context(), w.terms, w.as(w.conditionsOf(l.ID)), l, drawResult(t, true), blind)
	w.must(err)
	if f.How != HowOwn {
		return
	}
	s := w.ops[l.ID.String()].byRun(l.RunID)
	if s == nil || s.closed {
		t.Fatalf("%s: run %s was closed as lost, which held no claim", l.ID, l.RunID)
	}
	if ago := w.ledgerNow().Sub(s.at); ago < w.target.ClaimLease {
		t.Fatalf("%s: closed as lost after %v, its lease is %v", l.ID, ago, w.target.ClaimLease)
	}
	s.closed, s.over = true, later(w.ledgerNow(), s.at.Add(w.target.ClaimLease))
	w.ops[l.ID.String()].notFound = time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *walk) retireSome() {
	r, err := w.Retire(w.Context(), dep, w.terms.Retention)
	w.must(err)
	for _, e := range r.Expired {
		name := e.ID.String()
		if len(w.ops[name].unknown()) > 0 {
			w.Fatalf("%s: expired with an unknown outcome", name)
		}
		delete(w.ops, name)
		// What belonged to it is no more: a key that is used again is another operation.
		w.runs = slices.DeleteFunc(w.runs, func(r *walkRun) bool { return r.delivery.ID == e.ID })
		w.deliveries = slices.DeleteFunc(w.deliveries, func(d Delivery) bool { return d.ID == e.ID })
		w.lists = slices.DeleteFunc(w.lists, func(l Lost) bool { return l.ID == e.ID })
		w.questions = slices.DeleteFunc(w.questions, func(q *walkQuestion) bool { return q.ID == e.ID })
	}
}

// people: a person acts on some operation, and knows the truth when resolving it.
func (w *walk) people(t *rapid.T) {
	if rapid.IntRange(0, 7).Draw(t, "on the dependency") == 0 {
		if rapid.Bool().Draw(t, "pause") {
			_, err := w.Pause(w.Context(), dep, rapid.SampledFrom([]time.Duration{0, minute}).Draw(t, "span"), ann)
			w.must(err)
			return
		}
		w.must(w.Resume(w.Context(), dep, ann))
		return
	}
	name, id := w.someOp(t)
	if name == "" {
		return
	}
	o, keep := w.ops[name], w.terms.Retention
	var err error
	switch rapid.SampledFrom([]string{"cancel", "discard", "resolve", "resolve", "reconcile"}).Draw(t, "action") {
	case "cancel":
		_, err = w.Cancel(w.Context(), dep, id, keep, ann)
	case "reconcile":
		var d Done
		d, err = w.Reconcile(w.Context(), w.spec, id, time.Time{}, ann)
		if d.Verdict == DoneOK && d.State != jobs.Unresolved {
			o.notFound = time.Time{}
		}
	case "discard":
		_, err = w.Discard(w.Context(), dep, id, keep, ann)
	case "resolve":
		verdict := rapid.SampledFrom([]Resolution{ResolvedApplied, ResolvedNotApplied, WrittenOff}).Draw(t, "verdict")
		var d Done
		d, err = w.Resolve(w.Context(), dep, id, verdict, "", keep, ann)
		w.writtenOff[name] = w.writtenOff[name] || d.Verdict == DoneOK && verdict == WrittenOff
		if d.Verdict == DoneOK && verdict == ResolvedNotApplied {
			o.settleUpTo(o.count)
		}
		if d.Verdict == DoneOK && verdict == ResolvedApplied {
			w.resolved[name] = true
			o.settleUpTo(o.count)
		}
	}
	w.must(err)
}

func (w *walk) someOp(t *rapid.T) (string, jobs.ID) {
	if len(w.ops) == 0 {
		return "", jobs.ID{}
	}
	name := rapid.SampledFrom(sortedKeys(w.ops)).Draw(t, "operation")
	id, err := jobs.ParseID(name)
	w.must(err)
	return name, id
}

// requeueSome requeues an operation, after a person has resolved it truly where that
// is needed.
func (w *walk) requeueSome(t *rapid.T) {
	name, id := w.someOp(t)
	if name == "" {
		return
	}
	o := w.ops[name]
	if rapid.Bool().Draw(t, "resolve first") {
		d, err := w.Resolve(w.Context(), dep, id, ResolvedNotApplied, "", w.terms.Retention, ann)
		w.must(err)
		if d.Verdict == DoneOK {
			o.settleUpTo(o.count)
		}
	}
	q := Requeue{RequestID: rapid.StringMatching("r[0-9]{2}").Draw(t, "request id"), AtLeast: 2, DeadlineSpan: hour, MaxAttempts: w.maxAttempts}
	at := w.ledgerNow()
	r, err := w.Requeue(w.Context(), w.terms, w.as(w.conditionsOf(id)), id, q, ann)
	w.must(err)
	if r.Verdict == DoneOK {
		o.deadline = at.Add(hour)
	}
}

// everyStateCanEnd: with the ordinary calls alone, no operation stays on its way.
func (w *walk) everyStateCanEnd() {
	w.Helper()
	w.must(w.Resume(w.Context(), dep, ann))
	for range 6 {
		w.to(w.clock.Add(60 * hour))
		_, _, err := w.Sweep(w.Context(), w.terms, w.kinds)
		w.must(err)
		list, err := w.LostAttempts(w.Context(), dep, 0, time.Time{})
		w.must(err)
		for _, l := range list {
			res := lost(0)
			res.Step, res.Reason = StepEnd, jobs.ReasonDeadline
			_, err := w.FinishLost(w.Context(), w.terms, w.as(w.conditionsOf(l.ID)), l, res, false)
			w.must(err)
			if s := w.ops[l.ID.String()].byRun(l.RunID); s != nil {
				s.closed = true
			}
		}
	}
	w.verify()
	for name, f := range w.records() {
		if s := jobs.State(f["state"]); !s.Ended() {
			w.Fatalf("%s: still %s", name, s)
		}
	}
}
