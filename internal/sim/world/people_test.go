package world

import (
	"errors"
	"fmt"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
	"redrive/internal/policy"
)

var ann = ledger.Actor{By: "ann@desk", Note: "looked"}

// act makes one call of a person or of the request path. A lost reply is theirs to
// live with: they do it again, or not.
func (w *world) act(what string, f func() error) error {
	becomes := arrives
	if w.script == nil && w.fault(6) {
		becomes = []fate{requestLost, replyLost, delayed}[w.rng.IntN(3)]
	}
	w.store.fate = becomes
	err := f()
	w.store.fate = arrives
	w.logf("   %s%s", what, becomes)
	w.history[what]++
	if err != nil && !errors.Is(err, errLost) {
		w.broken("%s: %v", what, err)
	}
	return err
}

// submit hands an operation in, with what the request path sent (nil: nothing), until
// there is a reply.
func (w *world) submit(o *operation, sent *send) {
	s := jobs.Submission{Kind: o.id.Kind, Key: o.id.Key, Body: []byte(o.body), Deadline: o.deadline.String(), IdempotencyKey: o.key, Credential: o.credential}
	if sent != nil {
		s.Attempted = &jobs.Attempted{ID: fmt.Sprintf("send-%d", sent.number), Outcome: jobs.OutcomeUnknown, Class: jobs.ClassTimeout}
		if sent.key != "" {
			s.Attempted.FirstSentAt = sent.at.Add(w.offset).Format(time.RFC3339Nano)
		}
	}
	entry, err := ledger.Prepare(&s, o.kind.spec)
	if err != nil {
		w.broken("prepare %s: %v", o.id, err)
		return
	}
	terms := w.terms
	terms.Gate = w.workers[0].gate
	_ = w.act("submit", func() error { // tried again below
		w.store.told = func(luascript.Reply) {
			o.accepted = true
			if sent != nil && sent.known == 0 {
				sent.known = w.step
			}
		}
		receipts, err := w.ledger.Submit(w.ctx(), ledger.SubmitTerms{Terms: terms, MaxBacklog: 1000, ClaimLease: policy.ClaimLease(timeout)}, []ledger.Entry{entry})
		if err != nil {
			w.after(w.span(0, time.Second), "the request path submits "+o.id.String()+" again", func() { w.submit(o, sent) })
			return err
		}
		r := receipts[0]
		w.logf("   %s, %s, merged %v", r.Answer, r.State, r.Merged)
		if r.Answer != jobs.Accepted && r.Answer != jobs.Duplicate {
			w.broken("submit %s: %s", o.id, r.Answer)
		}
		return nil
	})
}

// sendPast is what the request path does by itself: it sends, gets no answer, and
// hands the operation in.
func (w *world) sendPast(o *operation) {
	p := w.gateway.draw()
	p.replyLost = true
	s := &send{op: o, base: baseURL, key: o.key, body: o.body, leaseEnd: w.now.Add(timeout)}
	if w.chance(25) {
		s.key = ""
	}
	w.logf("the request path sends %s", o.id)
	w.gateway.send(s, p, nil)
	w.after(timeout, "the request path reports its send of "+o.id.String(), func() { w.submit(o, s) })
}

// person does something to an operation.
func (w *world) person(o *operation) {
	f, err := w.store.hash(w.key("op:" + o.id.String()))
	if err != nil {
		w.broken("read %s: %v", o.id, err)
		return
	}
	state := jobs.State(f["state"])
	n := w.rng.IntN(100)
	switch {
	case state == "":
	case state == jobs.Dead && f["unk"] == "" && n < 60, state == jobs.Dead && n < 20:
		w.happen("ann requeues "+o.id.String(), func() { w.requeue(o) })
	case f["unk"] != "" && (state == jobs.Dead && n < 70 || state == jobs.Unresolved && n < 30):
		w.happen("ann resolves "+o.id.String(), func() { w.resolve(o) })
	case n < 80 && o.kind.asked && state != jobs.Succeeded:
		w.happen("ann has the gateway asked about "+o.id.String(), func() {
			_ = w.act("reconcile", func() error { // a person sees that it failed, and leaves it
				d, err := w.ledger.Reconcile(w.ctx(), o.kind.spec, o.id, time.Time{}, ann)
				w.logf("   %s %s", d.Verdict, d.Detail)
				return err
			})
		})
	case state == jobs.Dead:
		w.happen("ann discards "+o.id.String(), func() {
			_ = w.act("discard", func() error { // as above
				_, err := w.ledger.Discard(w.ctx(), dep, o.id, w.terms.Retention, ann)
				return err
			})
		})
	default:
		w.happen("ann cancels "+o.id.String(), func() {
			_ = w.act("cancel", func() error { // as above
				_, err := w.ledger.Cancel(w.ctx(), dep, o.id, w.terms.Retention, ann)
				return err
			})
		})
	}
}

func (w *world) requeue(o *operation) {
	request := fmt.Sprintf("request-%d", w.step)
	_ = w.act("requeue", func() error { // a person sees that it failed, and leaves it
		r, err := w.ledger.Requeue(w.ctx(), w.terms, o.kind.target, o.id, ledger.Requeue{RequestID: request, AtLeast: 2,
			DeadlineSpan: w.span(20*time.Second, 2*time.Minute), MaxAttempts: maxAttempts}, ann)
		w.logf("   %s %s", r.Verdict, r.Detail)
		return err
	})
}

// resolve is what a person found out by looking at the gateway now. Where there is an
// inquiry they look no better than it: they do not see what is not decided.
func (w *world) resolve(o *operation) {
	verdict := ledger.ResolvedNotApplied
	for _, s := range o.sends {
		if s.state == acted {
			verdict = ledger.ResolvedApplied
		}
		// Of a kind with an inquiry the ledger knows how long a send may take, and refuses.
		if s.state == pending || !o.kind.asked && s.state.mayAct() && s.state != acted {
			w.logf("   it is still being processed: ann waits")
			return
		}
	}
	if w.chance(10) {
		verdict = ledger.WrittenOff
	}
	sends := o.sends
	_ = w.act("resolve as "+string(verdict), func() error { // as above
		w.store.told = func(r luascript.Reply) {
			if ledger.DoneVerdict(r.At(0)) != ledger.DoneOK {
				return
			}
			o.resolved = o.resolved || verdict == ledger.ResolvedApplied
			for _, s := range sends {
				if s.settled == "" && verdict == ledger.ResolvedNotApplied {
					s.settled = "a person"
				}
			}
		}
		d, err := w.ledger.Resolve(w.ctx(), dep, o.id, verdict, "", w.terms.Retention, ann)
		w.logf("   %s %s", d.Verdict, d.Detail)
		return err
	})
}
