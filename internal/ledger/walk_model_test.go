package ledger

import (
	"fmt"
	"strings"
	"time"

	"redrive/internal/jobs"
)

// The model knows nothing of scripts: only which sends there were, and what has
// been told to the ledger about them. From that alone it says what the ledger must
// never do.

// modelSend is one send of an operation, by a worker or reported by the request path.
type modelSend struct {
	n         int
	run       string // "" for the request path's
	at        time.Time
	target    string    // where it went, under what
	base      string    // the first part of that
	settled   bool      // evidence that it did not act was handed to the ledger
	succeeded bool      // evidence of its success was handed to the ledger
	closed    bool      // its claim is over
	acted     bool      // the other side said that it took it
	over      time.Time // no byte of it arrives later
}

type modelOp struct {
	kind     jobs.Kind
	idem     jobs.Idempotency
	deadline time.Time
	sends    []*modelSend
	count    int // sends, those of a report of several included

	inquired bool      // an inquiry said that it took effect
	notFound time.Time // when an inquiry said that for the first time, nothing having come between; zero: none has
}

func (o *modelOp) unknown() []*modelSend {
	var out []*modelSend
	for _, s := range o.sends {
		if !s.settled && !s.succeeded {
			out = append(out, s)
		}
	}
	return out
}

// mayBeSettled says why "not found", asked at that instant, must not settle what is
// unknown, "" when it may: DESIGN section 4.
func (o *modelOp) mayBeSettled(asked time.Time, base string) string {
	if o.notFound.IsZero() {
		return "it is the first such answer"
	}
	if asked.Before(o.notFound.Add(settleFor)) {
		return fmt.Sprintf("it was asked %v after the first such answer", asked.Sub(o.notFound))
	}
	for _, s := range o.unknown() {
		if s.acted {
			return fmt.Sprintf("the other side took attempt %d", s.n)
		}
	}
	return o.mayBeBelieved(asked, base)
}

// mayBeBelieved says why an answer, asked at that instant and place, proves nothing of
// what is unknown.
func (o *modelOp) mayBeBelieved(asked time.Time, base string) string {
	for _, s := range o.unknown() {
		if asked.Before(s.over.Add(settleFor)) {
			return fmt.Sprintf("it was asked %v after attempt %d was over", asked.Sub(s.over), s.n)
		}
		if s.base != base {
			return fmt.Sprintf("attempt %d went to %s, and %s was asked", s.n, s.base, base)
		}
	}
	return ""
}

func (o *modelOp) succeeded() bool {
	if o.inquired {
		return true
	}
	for _, s := range o.sends {
		if s.succeeded {
			return true
		}
	}
	return false
}

func (o *modelOp) byRun(run string) *modelSend {
	for _, s := range o.sends {
		if run != "" && s.run == run {
			return s
		}
	}
	return nil
}

// settleUpTo: an answer spoke for all sends up to number n.
func (o *modelOp) settleUpTo(n int) {
	for _, s := range o.sends {
		s.settled = s.settled || s.n <= n && !s.succeeded
	}
}

// conditions are what a process is configured with when it begins.
type conditions struct {
	class  jobs.Idempotency
	base   string
	header string
}

func (c conditions) target(o *modelOp) string {
	class := o.idem.Weaker(c.class)
	if class == jobs.IdempotencyNatural {
		return "natural " + c.base
	}
	return string(class) + " " + c.base + " " + c.header
}

// mayBegin says why a new attempt of o must not be granted, "" when it may.
func (w *walk) mayBegin(o *modelOp, c conditions, g *Grant) string {
	class := o.idem.Weaker(c.class)
	if o.succeeded() {
		return "a success of it is known"
	}
	for _, s := range o.sends {
		if s.run != "" && !s.closed {
			return fmt.Sprintf("attempt %d still holds the claim", s.n)
		}
	}
	for _, s := range o.unknown() {
		switch {
		case class != jobs.IdempotencyKeyed && class != jobs.IdempotencyNatural:
			return fmt.Sprintf("attempt %d is unknown and the class in force is %s", s.n, class)
		case s.target != c.target(o):
			return fmt.Sprintf("attempt %d is unknown and went to %q, this one goes to %q", s.n, s.target, c.target(o))
		case class == jobs.IdempotencyKeyed && !w.ledgerNow().Before(s.at.Add(w.resendSafe())):
			return fmt.Sprintf("attempt %d is unknown and its key's window is over", s.n)
		}
	}
	if left := o.deadline.Sub(w.ledgerNow()); left < w.terms.MinResponse || g.DeadlineLeft != left {
		return fmt.Sprintf("%v are left until the deadline, the grant says %v", left, g.DeadlineLeft)
	}
	if g.Attempt != o.count+1 {
		return fmt.Sprintf("it is numbered %d after %d sends", g.Attempt, o.count)
	}
	return ""
}

// resendSafe repeats the rule of DESIGN section 6: min(0.8 x window, window - 2 x lease).
func (w *walk) resendSafe() time.Duration {
	window, lease := w.target.KeyWindow, w.target.ClaimLease
	return min(window*4/5, window-2*lease)
}

// violations compares the store with the model after a step.
func (w *walk) violations() []string {
	out := w.broken()
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	records := w.records()
	for name, o := range w.ops {
		f := records[name]
		if f == nil {
			say("%s: the record is gone", name)
			continue
		}
		if f["tombstone"] == "" && f["sends"] != "" && f["sends"] != fmt.Sprint(o.count) {
			say("%s: %s sends recorded, %d made", name, f["sends"], o.count)
		}
		state := jobs.State(f["state"])
		if o.succeeded() && state != jobs.Succeeded && f["known_ok"] == "" {
			say("%s: its success is known, and it is %s", name, state)
		}
		if !o.succeeded() && state == jobs.Succeeded && !w.resolved[name] {
			say("%s: succeeded without any success", name)
		}
		// What is unknown leaves for an end only as unsafe; conflict is literal, and a
		// person may write it off.
		reason := jobs.Reason(f["reason"])
		if f["unk"] != "" && state == jobs.Dead && reason != jobs.ReasonUnsafe && reason != jobs.ReasonUnresolved && reason != jobs.ReasonConflict ||
			f["unk"] != "" && state == jobs.Cancelled && !w.writtenOff[name] {
			say("%s: %s %s with the marks %s", name, state, reason, f["unk"])
		}
		unknown := o.unknown()
		if len(unknown) > 0 && !o.succeeded() && applied(f) == jobs.AppliedNo {
			say("%s: the mark of attempt %d was dropped", name, unknown[0].n)
		}
		if n := len(f); n > 120 {
			say("%s: %d fields", name, n)
		}
	}
	snapshot, err := w.Snapshot(w.Context(), dep)
	w.must(err)
	if int(snapshot.Begins) != w.begins {
		say("%d begins counted, %d granted", snapshot.Begins, w.begins)
	}
	limit := w.terms.Gate.Cap * 1000
	if t := snapshot.TokensMilli; t < -1 || t > limit {
		say("%d milli-tokens, cap is %d", t, limit)
	}
	earned := limit + w.terms.Gate.RatioMilli*int64(w.firsts) + w.passed.Milliseconds()*w.terms.Gate.FloorMilliPerSecond/1000
	if spent := int64(w.extra) * 1000; spent > earned {
		say("%d milli-tokens spent on extra calls, at most %d were earned", spent, earned)
	}
	return out
}

func (w *walk) verify() {
	w.Helper()
	if v := w.violations(); len(v) > 0 {
		w.Fatalf("%s", strings.Join(v, "\n"))
	}
}

// ledgerNow repeats the rule of DESIGN section 3.3: max(TIME, last seen) while the
// two differ by less than 60 s.
func (w *walk) ledgerNow() time.Time {
	last, err := w.rdb.HGet(w.Context(), w.key(dep, "gate"), "last_now").Int64()
	if err != nil {
		return w.clock
	}
	if seen := time.UnixMilli(last); seen.After(w.clock) && seen.Sub(w.clock) < minute {
		return seen.UTC()
	}
	return w.clock
}
