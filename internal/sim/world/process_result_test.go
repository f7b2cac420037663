package world

import (
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
	"redrive/internal/policy"
)

// finish has policy decide on an answer and writes the result.
func (p *process) finish(t *task) {
	w, g := p.w, t.grant
	k := w.kinds[g.ID.Kind]
	cl := classify(t.sample, g.Idempotency, w.rules)
	elapsed := w.now.Sub(t.startedAt)
	used, refusals := g.Used, 0
	if !policy.Counts(cl) {
		used--
	}
	if cl.CredentialRefused {
		refusals = g.Refusals + 1
	}
	safeFor := g.SafeFor - elapsed
	if g.SafeFor == ledger.Always {
		safeFor = policy.Forever
	}
	next := policy.Decide(policy.DecideInput{C: cl, Idempotency: g.Idempotency, UnknownBefore: g.UnknownBefore, ResendSafeFor: safeFor,
		HasInquiry: k.asked, Attempt: g.Attempt, Used: used, MaxAttempts: maxAttempts + g.Extra, DeadlineIn: g.DeadlineLeft - elapsed,
		MinResponse: minResponse, Backoff: w.backoff, CredentialRefusals: refusals, Rand: w.random})
	res := resultOf(cl, next, t.sample)
	res.Said = w.said(cl, t.sample)
	w.logf("   %s is %s: %s %s %s", cl.Row, res.Outcome, res.Step, res.Reason, res.Delay)
	p.drop(t)
	p.write("finish", func() error {
		w.store.told = func(r luascript.Reply) {
			if ledger.How(r.At(2)) != ledger.HowOwn {
				return
			}
			w.gates.ended(g.ID.String(), res.Said.Sign)
			if res.Acted {
				w.operation(g.ID).acted = true
			}
		}
		f, err := w.ledger.Finish(w.ctx(), p.terms(), p.target(k), g, res)
		if err == nil {
			w.logf("   %s: %s %s", f.How, f.State, f.Reason)
		}
		return err
	})
}

func resultOf(cl policy.Classification, next policy.Decision, sample policy.Sample) ledger.Result {
	return ledger.Result{Outcome: cl.Outcome, Class: cl.Class, Status: sample.Status, Verdict: next.Verdict, Step: ledger.Step(next.Next),
		Reason: next.Reason, Delay: next.Delay, Original: next.Next == policy.NextAsk && cl.Verdict == jobs.VerdictConflictRead,
		Settles: next.SettlesPrior, Acted: cl.Acted, Counted: next.Counted, CredentialRefused: cl.CredentialRefused}
}

func (p *process) recover() {
	var list []ledger.Lost
	if p.call("recover", func() (err error) {
		list, err = p.w.ledger.LostAttempts(p.w.ctx(), dep, 0, p.clock.now(p.w.now))
		return err
	}) == nil {
		p.lost = list
	}
}

// close closes one lost attempt as unknown.
func (p *process) close(i int) {
	w, l := p.w, p.lost[i]
	p.lost = append(p.lost[:i:i], p.lost[i+1:]...)
	k := w.kinds[l.ID.Kind]
	l.Stepped = !p.clock.steady(w.now, 2*policy.ClaimLease(timeout))
	class := l.Idempotency.Weaker(k.target.Idempotency)
	cl := policy.Classify(policy.Sample{Phase: policy.PhaseWorkerLost}, class)
	safeFor, losses := l.SafeFor, l.Losses
	if class == jobs.IdempotencyNatural {
		safeFor = policy.Forever
	}
	if !l.Stepped {
		losses++
	}
	next := policy.Decide(policy.DecideInput{C: cl, Idempotency: class, UnknownBefore: l.UnknownBefore, ResendSafeFor: safeFor,
		HasInquiry: k.asked, Attempt: l.Attempt, Used: l.Used, MaxAttempts: maxAttempts + l.Extra, DeadlineIn: l.DeadlineLeft,
		MinResponse: minResponse, Backoff: w.backoff, WorkerLosses: losses, Rand: w.random})
	_ = p.call("finish lost", func() error { // what fails now is listed again
		f, err := w.ledger.FinishLost(w.ctx(), p.terms(), p.target(k), l, resultOf(cl, next, policy.Sample{}), false)
		if err == nil {
			w.logf("   attempt %d %s: %s %s", l.Attempt, f.How, f.State, f.Reason)
		}
		return err
	})
}

func (p *process) sweep() {
	_ = p.call("sweep", func() error { // what fails now is done the next time
		ended, _, err := p.w.ledger.Sweep(p.w.ctx(), p.terms(), p.w.names)
		for _, e := range ended {
			p.w.logf("   %s: %s %s", e.ID, e.State, e.Reason)
		}
		return err
	})
}

func (p *process) inquire() {
	w := p.w
	var r ledger.Inquire
	run := w.runID()
	if p.call("inquire", func() (err error) {
		r, err = w.ledger.Inquire(w.ctx(), p.terms(), w.asking, inquirySlot-len(p.questions), run, policy.ClaimLease(timeout))
		return err
	}) != nil {
		return
	}
	for _, q := range r.Questions {
		p.questions = append(p.questions, &question{Question: q, op: w.operation(q.ID), asked: w.now})
	}
}

// ask makes an inquiry; what the gateway shows is a moment between the instant at
// which the inquiry was handed out, its lag before that, and now.
func (p *process) ask(q *question) {
	w := p.w
	if w.script != nil {
		w.script.before(p, "ask")
		if !p.alive {
			return
		}
	}
	w.gates.made(q.ID, q.RunID)
	q.said, q.sample = true, w.gateway.ask(q.op, p.base, q.asked)
	answer, _, err := w.inquiry.Read(q.sample)
	class := policy.Classify(q.sample, jobs.IdempotencyNatural)
	q.written = ledger.Inquired{Answer: answer, BaseURL: p.base, Status: q.sample.Status,
		Delay:    policy.Wait(class.Hint.Wait, policy.Backoff{Base: 2 * time.Second, Cap: 20 * time.Second}.Delay(q.Tries, w.random), w.random),
		Wait:     w.backoff.Delay(max(q.Attempt, 1), w.random),
		StayDead: q.op.staysDead, NotApplied: q.op.goesOn, Said: w.said(class, q.sample)}
	if err != nil {
		q.written.Error = err.Error()
	}
	w.logf("   the gateway says %q: %s", q.sample.Body, answer)
	if w.script != nil {
		w.script.after(p)
	}
}

// inquired writes what an inquiry said.
func (p *process) inquired(q *question) {
	w := p.w
	for i := range p.questions {
		if p.questions[i] == q {
			p.questions = append(p.questions[:i:i], p.questions[i+1:]...)
			break
		}
	}
	p.write("inquired", func() error {
		w.store.told = func(r luascript.Reply) {
			if ledger.How(r.At(2)) == ledger.HowOwn {
				w.gates.ended(q.ID.String(), q.written.Said.Sign)
				q.op.heard(q)
			}
		}
		f, err := w.ledger.Inquired(w.ctx(), p.terms(), q.Question, q.written)
		if err == nil {
			w.logf("   %s: %s %s", f.How, f.State, f.Reason)
		}
		return err
	})
}

// heard keeps what an inquiry settled, as the world sees it: failed at once, not
// found the second time.
func (o *operation) heard(q *question) {
	for _, s := range o.sends {
		if s.at.After(q.asked) {
			continue
		}
		switch q.written.Answer {
		case jobs.InquiryFailed:
			s.settled = "an inquiry"
		case jobs.InquiryNotFound:
			if s.notFounds++; s.notFounds >= 2 {
				s.settled = "inquiries"
			}
		}
	}
}

// redisClock is what a process knows of Redis' clock, as package worker has it.
type redisClock struct{ local, redis, steppedAt time.Time }

func (c *redisClock) saw(local, redis time.Time) {
	if !c.local.IsZero() && (redis.Sub(c.redis)-local.Sub(c.local)).Abs() > 2*time.Second {
		c.steppedAt = local
	}
	c.local, c.redis = local, redis
}

func (c *redisClock) now(local time.Time) time.Time {
	if c.local.IsZero() {
		return time.Time{}
	}
	return c.redis.Add(local.Sub(c.local))
}

func (c *redisClock) steady(local time.Time, span time.Duration) bool {
	return c.steppedAt.IsZero() || local.Sub(c.steppedAt) >= span
}
