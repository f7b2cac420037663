package analysis

import (
	"fmt"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// keyWindowShort: the gateway forgets the key while the operation is still retried.
func keyWindowShort(r *report, path string, k *config.Kind, d *config.Dependency) {
	if k.Idempotency != jobs.IdempotencyKeyed {
		return
	}
	safe, last := safeWindow(k, d), min(longestSpan(k, d), k.Deadline)
	at := path + ".idempotency_key.window"
	if k.IdempotencyKey.Window == d.IdempotencyKey.Window {
		at = "dependencies." + string(d.Name) + ".idempotency_key.window"
	}
	later := becomes(k, d, 0)
	switch {
	case safe < last:
		severity := Warning
		if k.Inquiry == nil && safe < min(meanSpan(k), k.Deadline) {
			severity = Error // not the unlucky ones but most
		}
		r.add("key-window-short", severity, at, "what times out after that is not sent again: "+later,
			fmt.Sprintf("a window of at least %s if the gateway keeps keys so long; else a deadline of at most %s", upward(windowFor(last, d.Timeout)), span(safe)),
			"a resend of %s is safe for %s (window %s less the margin), and its retries go on for up to %s (mean %s)", k.Name, span(safe), span(k.IdempotencyKey.Window), span(last), span(meanSpan(k)))
	case safe < k.Deadline:
		r.add("deadline-beyond-key-window", Note, path+".deadline", "what waits longer than its backoff (open breaker, no budget, Retry-After) and then times out is not sent again: "+later,
			fmt.Sprintf("nothing, if that is meant; else a deadline of at most %s", span(safe)),
			"%s is longer than a resend is safe, %s", span(k.Deadline), span(safe))
	}
}

// retrySpanShort: the attempts are used up long before the deadline.
func retrySpanShort(r *report, path string, k *config.Kind, _ *config.Dependency) {
	mean, want := meanSpan(k), k.Deadline/2
	if k.MaxAttempts == 1 || mean >= want {
		return
	}
	right := fmt.Sprintf("a higher backoff.cap, or a deadline of at most %s", span(2*mean))
	if n, ok := attemptsFor(k, want); ok {
		right = fmt.Sprintf("max_attempts of at least %d, %s", n, right)
	}
	r.add("retry-span-short", Warning, path+".max_attempts", "an outage longer than that ends operations as dead (attempts) that had time left", right,
		"%d attempts span %s on average, less than half the deadline of %s", k.MaxAttempts, span(mean), span(k.Deadline))
}

// oneAttemptFits: after a first attempt that times out there is no time for a second.
func oneAttemptFits(r *report, path string, k *config.Kind, d *config.Dependency) {
	second := d.Timeout + drawn(policyBackoff(k), 1, 0.5) + d.MinResponse
	if k.MaxAttempts == 1 || k.Deadline < d.Timeout || k.Deadline >= second { // shorter than the timeout: config says so
		return
	}
	r.add("deadline-one-attempt", Warning, path+".deadline", "an attempt that times out is never followed by another", "at least "+upward(second+d.Timeout)+", or a shorter timeout",
		"%s is less than timeout, mean first wait and min_response together (%s)", span(k.Deadline), span(second))
}

// neverRetried: one attempt is all there is.
func neverRetried(r *report, path string, k *config.Kind, _ *config.Dependency) {
	if k.MaxAttempts > 1 {
		return
	}
	r.add("never-retried", Note, path+".max_attempts", "what fails once is dead (attempts), or a matter of the inquiry", "2 or more, unless it is meant", "1: no attempt is ever repeated")
}

// drainTooSlow: the backlog of the outage has not left when the last of it falls due.
// Those of it that were accepted first leave first, and the last one's deadline begins
// when the outage ends.
func drainTooSlow(r *report, path string, k *config.Kind, d *config.Dependency) {
	perSecond, _ := r.load.at(d)
	if r.load.Outage == 0 || d.Rate.MilliPerSecond > 0 && float64(d.Rate.MilliPerSecond)/1000 < perSecond { // then the backlog grows without any outage
		return
	}
	in, ok := drainsIn(d, perSecond, r.load.Outage)
	if ok && in <= k.Deadline {
		return
	}
	backlog, takes := perSecond*r.load.Outage.Seconds(), "never leaves"
	if ok {
		takes = "takes " + span(in) + " to leave"
	}
	want := "a deadline longer than the ramp of " + span(d.Breaker.Ramp)
	if left := k.Deadline - d.Breaker.Ramp; left > 0 {
		want = fmt.Sprintf("a drain.max_per_second that makes it %s calls/s, or more deadline", number(backlog/left.Seconds()))
	}
	if d.Rate.MilliPerSecond > 0 {
		want += ", and a rate.per_second that leaves room for it"
	}
	r.add("drain-too-slow", Warning, path+".deadline", "operations that an outage left behind end as dead (deadline) after it is over", want,
		"after an outage of %s at %s calls/s a backlog of %s %s at %s calls/s, and the deadline is %s",
		span(r.load.Outage), number(perSecond), number(backlog), takes, number(drainPerSecond(d, perSecond)), span(k.Deadline))
}

// notFoundUnknown: the inquiry cannot learn that nothing arrived.
func notFoundUnknown(r *report, path string, k *config.Kind, _ *config.Dependency) {
	if k.Inquiry == nil || k.Inquiry.Read.Tells(jobs.InquiryNotFound) {
		return
	}
	r.add("inquiry-without-not-found", Warning, path+".inquiry.not_found",
		fmt.Sprintf("what never arrived is asked about for %s and ends as dead (%s): a person looks", span(k.Inquiry.GiveUpAfter), jobs.ReasonUnresolved),
		"an expression that is true where the gateway knows nothing, such as size(body.data) == 0", "no rule says that the gateway does not know the operation")
}

// givesUpEarly: "not found" counts only when it is said twice, and the second time lies
// beyond give_up_after.
func givesUpEarly(r *report, path string, k *config.Kind, d *config.Dependency) {
	q := k.Inquiry
	if q == nil || !q.Read.Tells(jobs.InquiryNotFound) {
		return
	}
	// settle counts from the end of the claim's lease at the latest, and unresolved may
	// begin at the attempt's end.
	twice := policy.ClaimLease(d.Timeout) + q.Settle + max(q.Settle, leastBetween)
	if q.GiveUpAfter >= twice {
		return
	}
	r.add("inquiry-gives-up-early", Warning, path+".inquiry.give_up_after", "what never arrived may end as dead ("+string(jobs.ReasonUnresolved)+"), though the gateway knows nothing of it",
		"at least "+upward(twice), "%s is less than \"not found\" takes to be said twice, %s", span(q.GiveUpAfter), span(twice))
}

// leastBetween is the least time between two inquiries that both say "not found".
const leastBetween = 5 * time.Second
