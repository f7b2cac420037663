package ledger

import (
	"slices"

	"redrive/internal/jobs"
)

var (
	// unsentClasses are those of calls of which no byte left. reset: the connection was gone
	// before the first one.
	unsentClasses = []jobs.Class{jobs.ClassConnect, jobs.ClassDNS, jobs.ClassTLS, jobs.ClassReset, jobs.ClassOther}
	// unansweredClasses are those of calls that nobody answered.
	unansweredClasses = []jobs.Class{jobs.ClassTimeout, jobs.ClassReset, jobs.ClassConnect, jobs.ClassDNS, jobs.ClassTLS, jobs.ClassWorkerLost}
)

// contradiction names the field of a report that cannot be true beside the others: what is
// believed of it decides whether money is sent again. The outcome is the worst of all sends,
// the rest tells of the last. So an unknown one goes with any last answer, a refused one
// with a last send that never left, and what is not sent had no answer at all.
func contradiction(a *jobs.Attempted, step jobs.Step) error {
	class := classOf(a)
	// A 2xx that was cut short is of class other.
	if told := jobs.ClassOfStatus(a.Status); a.Status > 0 && class != told && (told != jobs.Class2xx || class != jobs.ClassOther) {
		return fieldErrorf("attempted.class", "%s is not that of status %d, which is %s", class, a.Status, told)
	}
	switch a.Outcome {
	case jobs.OutcomeNotSent:
		if a.Status > 0 {
			return fieldErrorf("attempted.status", "%d is an answer, so that it was sent, and the outcome is not_sent", a.Status)
		}
		if !slices.Contains(unsentClasses, class) {
			return fieldErrorf("attempted.class", "%s is of what was sent, and the outcome is not_sent", class)
		}
		if step == jobs.StepConflict {
			return fieldErrorf("attempted.step", "conflict is what an answer says, and the outcome is not_sent")
		}
	case jobs.OutcomeRefused:
		// Gateways exist that say 200 and mean no: who has read that says what comes next.
		if a.Step == "" && (class == jobs.Class2xx || a.Status/100 == 2) {
			return fieldErrorf("attempted.step", "missing: a 2xx says that it was done, and the outcome is refused")
		}
	}
	if slices.Contains(unansweredClasses, class) {
		switch {
		case step == jobs.StepConflict:
			return fieldErrorf("attempted.step", "conflict is what an answer says, and with class %s there was none", class)
		case a.RefusedCredential && class != jobs.ClassTLS:
			return fieldErrorf("attempted.refused_credential", "is what an answer or a certificate says, and with class %s there was none", class)
		}
	}
	return nil
}
