package cli

import (
	"fmt"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// advice is what the advice to a person rests on.
type advice struct {
	op     *jobs.Operation
	sent   string // how often and under which key it went out
	unsafe string // why a resend is not safe; "" if it is
	asks   bool   // its kind has an inquiry
	bare   bool   // it has no request
	moved  string // what changed of where its kind is asked since it was sent; "" if nothing did
	now    time.Time
}

// adviceOn says what a person can do about an operation.
func adviceOn(o shown) []string {
	a := advice{op: &o.Operation, sent: sentText(o), unsafe: o.Unsafe, asks: o.kind != nil && o.kind.Inquiry, bare: o.Bare, moved: o.Moved, now: o.ReadAt.Time}
	o.Next = a.next()
	if o.State == jobs.Dead {
		return adviseChain(o)
	}
	return o.Next
}

// next says what a person can do about a dead letter or an unresolved operation,
// most likely first.
func (a advice) next() []string {
	o, id := a.op, a.op.ID()
	if o.State == jobs.Unresolved {
		return a.unresolved()
	}
	if o.State != jobs.Dead {
		return []string{"nothing: it is " + string(o.State) + ", not a dead letter"}
	}
	requeue := func(flags string) string {
		return fmt.Sprintf("enqueue dlq requeue %s%s --note WHY", id, flags)
	}
	discard := fmt.Sprintf("enqueue dlq discard %s --note WHY", id)
	if !o.DeadlineAt.After(a.now) {
		requeue = func(flags string) string {
			return fmt.Sprintf("enqueue dlq requeue %s%s --deadline 2h --note WHY   (its deadline is over: it needs a new one)", id, flags)
		}
	}
	if o.Applied == jobs.AppliedUnknown {
		lines := []string{fmt.Sprintf("it may have taken effect (%s)", a.sent)}
		switch {
		case a.unsafe != "":
			lines = append(lines, "a resend is not safe: "+a.unsafe)
		case !a.bare:
			lines = append(lines, "a resend is still safe:", requeue(""), "or:")
		}
		lines = append(lines, a.putBack()...)
		if a.asks {
			lines = append(lines, fmt.Sprintf("have %s asked:", o.Dependency), fmt.Sprintf("enqueue reconcile %s --note WHY", id), "or look for it there yourself, then say what you found:")
		} else {
			lines = append(lines, fmt.Sprintf("kind %s has no inquiry, so nobody asks: look for it at %s, then say what you found:", o.Kind, o.Dependency))
		}
		return append(lines, a.resolve("after that it can be requeued")...)
	}
	switch deref(o.Reason) {
	case jobs.ReasonPermanent:
		return []string{fmt.Sprintf("%s refused it for good: enqueue show %s --reveal tells its answer", o.Dependency, id),
			"if the cause is gone:", requeue(""), fmt.Sprintf("if not, submit it corrected under another key, with --new-attempt-of %s, which counts how often that is done", id), "or give it up:", discard}
	case jobs.ReasonAttempts:
		return []string{"every attempt was used up; grant more once the cause is gone:", requeue(" --more-attempts 3"), "or give it up:", discard}
	case jobs.ReasonDeadline:
		return []string{"its deadline left no time for another attempt; if it still makes sense:", requeue(""), "or give it up:", discard}
	case jobs.ReasonMisconfigured:
		return []string{fmt.Sprintf("a setting of kind %s or dependency %s cannot work: mend it (worker check), restart the workers, then:", o.Kind, o.Dependency), requeue("")}
	case jobs.ReasonPoison:
		return []string{"its worker was lost three times in a row: find out why (logs of the worker) before it takes another, then:", requeue(""), "or give it up:", discard}
	case jobs.ReasonConflict:
		return []string{fmt.Sprintf("%s knows another request under its key: compare both (enqueue show %s --reveal), then:", o.Dependency, id), discard, "and submit it again under a key of its own"}
	case jobs.ReasonUnresolved:
		if a.asks && a.notFound() {
			return []string{fmt.Sprintf("it was not found at %s, twice. If their reads may show a charge later than that, have them asked once more before it is sent again:", o.Dependency),
				fmt.Sprintf("enqueue reconcile %s --note WHY", id), "if it is still not found, send it again:", requeue(""), "or give it up:", discard}
		}
	case jobs.ReasonUndeliverable:
		return []string{fmt.Sprintf("no worker knew kind %s: start one that does, then:", o.Kind), requeue("")}
	}
	return []string{"it is known not to have taken effect; send it again:", requeue(""), "or give it up:", discard}
}

// unresolved says what can be done while the dependency is asked.
func (a advice) unresolved() []string {
	o, id := a.op, a.op.ID()
	lines := []string{
		fmt.Sprintf("nothing for now: it may have taken effect (%s), and %s is asked about it until that is known", a.sent, o.Dependency),
	}
	if back := a.putBack(); back != nil {
		lines = append([]string{fmt.Sprintf("it may have taken effect (%s)", a.sent)}, back...)
	}
	lines = append(lines, "ask at once:", fmt.Sprintf("enqueue reconcile %s --note WHY", id), "or look for it there yourself, then say what you found:")
	then := "its key is free again"
	if !a.bare {
		then = "then it is " + deref(o.Intent)
	}
	return append(lines, a.resolve(then)...)
}

// notFound reports whether it counts as not applied because inquiries did not find
// it, and no person said so.
func (a advice) notFound() bool {
	said := false
	for _, e := range a.op.Timeline {
		switch e.Event {
		case "inquiry":
			said = strings.HasPrefix(deref(e.Note), string(jobs.InquiryNotFound))
		case "resolve " + string(ledger.ResolvedNotApplied):
			return false
		}
	}
	return said
}

// putBack says that it is asked about where it was not sent: what is not found there
// proves nothing, so the asking would only end with giving up.
func (a advice) putBack() []string {
	if a.moved == "" || !a.asks {
		return nil
	}
	return []string{fmt.Sprintf("the %s of its kind changed since it was sent: that %s does not know it there would prove nothing. Put the old one back and restart the workers, or look yourself and resolve",
		a.moved, a.op.Dependency)}
}

// resolve says how a finding is told. then is what follows where it was not applied.
func (a advice) resolve(then string) []string {
	id := a.op.ID()
	return []string{
		fmt.Sprintf("enqueue resolve %s --applied --ref ID --note WHY   (it is there)", id),
		fmt.Sprintf("enqueue resolve %s --not-applied --note WHY   (it is not there; %s)", id, then),
		fmt.Sprintf("enqueue resolve %s --written-off --note WHY   (nobody can tell, and nobody will ask any more)", id),
	}
}
