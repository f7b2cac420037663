package world

import (
	"fmt"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
)

// reporter is a request path that sends by itself and tells of it in flushes. One that
// got no reply is told again under the same number before the next.
type reporter struct {
	w    *world
	name string
	seq  int64
	open *ledger.Firsts // told, and no reply yet
}

// flush tells what was sent since the last time, or what got no reply.
func (r *reporter) flush() {
	w := r.w
	if r.open == nil {
		r.seq++
		f := &ledger.Firsts{Process: r.name, Seq: r.seq, OK: int64(w.rng.IntN(4)), Jitter: w.jitter.Int64N(1001)}
		if !w.gateway.good {
			f.Failed, f.TimedOut = int64(w.rng.IntN(3)), int64(w.rng.IntN(2))
		}
		r.open = f
	}
	f := *r.open
	_ = w.act("first_attempts", func() error { // told again below
		taken, err := w.ledger.FirstAttempts(w.ctx(), dep, w.workers[0].gate, f)
		if err != nil {
			w.after(w.span(0, 10*time.Second), r.name+" tells again", r.flush)
			return err
		}
		w.logf("   %s %d (%d ok, %d failed): taken %v, %s %s", f.Process, f.Seq, f.OK, f.Failed+f.TimedOut, taken.Taken, taken.State, taken.Hold)
		r.open = nil
		return nil
	})
}

// meddle is what people and request paths do to a gate.
func (w *world) meddle() {
	switch n := w.rng.IntN(100); {
	case n < 38:
		if r := w.reporters[w.rng.IntN(len(w.reporters))]; r.open == nil {
			w.happen(r.name+" tells of its first attempts", r.flush)
		}
	case n < 47:
		w.happen("ann pauses", w.pauseGate)
	case n < 58:
		w.happen("ann resumes", func() { w.resume("") })
	case n < 65:
		w.happen("ann resumes one credential", func() { w.resume(credentials[w.rng.IntN(len(credentials))]) })
	case n < 73:
		w.happen("ann overrides the gate", w.override)
	case n < 78:
		w.happen("ann clears the override", w.clear)
	case n < 93:
		w.refuse()
	default:
		w.happen("", w.garble)
	}
}

// pauseGate holds the dependency, for a while or until somebody resumes. Its reply never
// arrives: the count of the doomed that follows is made outside any script, with
// commands that this store has not.
func (w *world) pauseGate() {
	span := time.Duration(0)
	if w.chance(60) {
		span = w.span(time.Second, 20*time.Second)
	}
	_ = w.act("pause", func() error { // a lost reply is what a person lives with
		if w.store.fate == arrives {
			w.store.fate = replyLost
		}
		_, err := w.ledger.Pause(w.ctx(), dep, span, ann)
		w.logf("   for %s", span)
		return err
	})
	if span == 0 {
		w.after(w.span(5*time.Second, 40*time.Second), "ann resumes", func() { w.resume("") })
	}
}

// resume lets all go on, or one credential.
func (w *world) resume(credential string) {
	_ = w.act("resume "+credential, func() error { // as above
		if credential == "" {
			return w.ledger.Resume(w.ctx(), dep, ann)
		}
		return w.ledger.ResumeCredential(w.ctx(), dep, credential, ann)
	})
}

func (w *world) override() {
	values := map[string]int64{}
	for name, most := range map[string]int64{budget.OverrideRatio: 500, budget.OverrideCap: 20, budget.OverrideFloor: 4000, budget.OverrideRate: 6000,
		budget.OverrideDrain: 4000, budget.OverrideInFlight: 4} {
		values[name] = most
	}
	drawn := map[string]int64{}
	for _, name := range budget.Overridable {
		if w.chance(40) {
			drawn[name] = 1 + w.rng.Int64N(values[name])
		}
	}
	if len(drawn) == 0 {
		drawn[budget.OverrideFloor] = 1000
	}
	w.gates.overridden(drawn)
	_ = w.act("override", func() error { // as above
		until, err := w.ledger.Override(w.ctx(), dep, drawn, w.span(time.Second, 30*time.Second), ann)
		w.logf("   %v until %s", drawn, until.Format(time.TimeOnly))
		return err
	})
}

func (w *world) clear() {
	_ = w.act("clear", func() error { // as above
		_, err := w.ledger.ClearOverride(w.ctx(), dep, ann)
		return err
	})
}

// refuse has the gateway refuse a credential for a while.
func (w *world) refuse() {
	names := append([]string{jobs.DefaultCredential, credentials[0], credentials[0]}, credentials...)
	name, span := names[w.rng.IntN(len(names))], w.span(5*time.Second, 60*time.Second)
	w.logf("the gateway refuses the credential %s for %s", name, span)
	w.gateway.refused[name] = w.now.Add(span)
}

// garble is a hand in the gate's hash: it is deleted, or something in it is no longer
// what a script wrote. Numbers that look right are not put there: they are believed.
func (w *world) garble() {
	if w.chance(40) {
		w.logf("the gate's hash is deleted")
		w.store.m.Del(w.key("gate"))
		w.gates.epoch++
		return
	}
	for _, field := range []string{"tokens", "filled_at", "rest", "breaker", "probes", "window", "bins", "park", "lane", "rate", "fresh", "peak", "params",
		"override", "refused", "last_now", "turn", "aside"} {
		if w.chance(30) {
			text := []string{"", "?", "many more", "1 2", "half_open x 1 2", "99999999999999999999"}[w.rng.IntN(6)]
			w.logf("the gate's %s is %q", field, text)
			w.store.m.HSet(w.key("gate"), field, text)
			w.gates.epoch++
		}
	}
}

// healed is the end of all that speaks against the dependency, with two operations more
// that meet what is left of it. With time enough, and nothing in their way any more,
// they must succeed.
func (w *world) healed(workers []*process) {
	w.gateway.refused = map[string]time.Time{}
	for _, credential := range []string{"", credentials[0]} {
		o := w.add(jobs.IdempotencyNatural, false, time.Hour)
		o.credential = credential
		w.canaries = append(w.canaries, o)
		w.happen("the request path submits "+o.id.String(), func() { w.submit(o, nil) })
	}
	for round := range 6 {
		w.round(workers, round)
	}
	if w.chance(30) {
		w.happen("", w.garble)
	}
	w.happen("ann clears the override", w.clear)
	w.happen("ann resumes", func() { w.resume("") })
	w.healedAt = w.now
}

// goOnWithin is how long a healthy gate may take for one more operation: the longest
// open time, ramp and wish to wait, and some tokens.
const goOnWithin = 5 * time.Minute

func (w *world) judgeCanaries() {
	for _, o := range w.canaries {
		switch state := jobs.State(w.state(o)); {
		case state == jobs.Succeeded:
		case state.Ended():
			w.broken("P2: nothing is in the way of %s, and it is %s", o.id, state)
		case w.now.Sub(w.healedAt) > goOnWithin:
			w.broken("P2: nothing is in the way of %s, and after %s it is %s", o.id, w.now.Sub(w.healedAt), state)
		}
	}
}

// countsOnce holds a flush that was taken against those taken before.
func (j *gateJudge) countsOnce(args map[string]string, reply luascript.Reply) int64 {
	if reply.At(0) != "1" {
		return 0
	}
	what := args["process"] + " " + args["seq"]
	// A request path that was silent for ten minutes is forgotten.
	if at, before := j.flushes[what]; before && j.at-at < 600_000 {
		j.w.broken("P4: the flush %s counts twice", what)
	}
	j.flushes[what] = j.at
	return integer(args["ok"]) + integer(args["failed"]) + integer(args["timed_out"])
}

func integer(text string) (n int64) {
	_, _ = fmt.Sscan(text, &n) // what is absent counts as 0, as in the scripts
	return n
}
