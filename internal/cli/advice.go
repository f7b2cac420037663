package cli

import (
	"fmt"
	"time"

	"redrive/internal/jobs"
)

// next says what a person can do about a dead letter, most likely first. sent says
// how often and under which key it went out.
func next(o *jobs.Operation, sent string, now time.Time) []string {
	if o.State != jobs.Dead {
		return []string{"nothing: it is " + string(o.State) + ", not a dead letter"}
	}
	id := o.ID()
	requeue := func(flags string) string {
		return fmt.Sprintf("enqueue dlq requeue %s%s --note WHY", id, flags)
	}
	discard := fmt.Sprintf("enqueue dlq discard %s --note WHY", id)
	if !o.DeadlineAt.After(now) {
		requeue = func(flags string) string {
			return fmt.Sprintf("enqueue dlq requeue %s%s --deadline 2h --note WHY   (its deadline is over: it needs a new one)", id, flags)
		}
	}
	if o.Applied == jobs.AppliedUnknown {
		lines := []string{
			fmt.Sprintf("it may have taken effect (%s): look for it at %s", sent, o.Dependency),
			"then say what you found:",
			fmt.Sprintf("enqueue resolve %s --applied --ref ID --note WHY   (it is there)", id),
			fmt.Sprintf("enqueue resolve %s --not-applied --note WHY   (it is not there; after that it can be requeued)", id),
			fmt.Sprintf("enqueue resolve %s --written-off --note WHY   (nobody can tell, and nobody will ask any more)", id),
		}
		if o.Idempotency == jobs.IdempotencyNatural || o.KeySafeUntil != nil && o.KeySafeUntil.After(now) {
			lines = append(lines, "or, as long as a resend is safe:", requeue(""))
		}
		return lines
	}
	switch deref(o.Reason) {
	case jobs.ReasonPermanent:
		return []string{fmt.Sprintf("%s refused it for good: enqueue show %s --reveal tells its answer", o.Dependency, id),
			"if the cause is gone:", requeue(""), "if not, submit it corrected under another key, and:", discard}
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
	case jobs.ReasonUndeliverable:
		return []string{fmt.Sprintf("no worker knew kind %s: start one that does, then:", o.Kind), requeue("")}
	}
	return []string{"it is known not to have taken effect; send it again:", requeue(""), "or give it up:", discard}
}
