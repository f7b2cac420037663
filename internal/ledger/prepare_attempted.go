package ledger

import (
	"strings"

	"redrive/internal/jobs"
)

const maxReportedSends = 1000

// reportedMeta is what submit.lua reads of what the request path sent.
type reportedMeta struct {
	ID      string `json:"id,omitempty"`
	Outcome string `json:"outcome"`
	N       int    `json:"n"`
	First   int64  `json:"first,omitempty"`
	Class   string `json:"class"`
	Status  int    `json:"status,omitempty"`
	Codes   string `json:"codes"`
	Counted bool   `json:"counted,omitempty"`
	Keyed   bool   `json:"keyed,omitempty"`
	By      string `json:"by,omitempty"`

	verdict
}

// verdict is what was made of the last answer, in the words of finish.lua.
type verdict struct {
	Step     string `json:"step,omitempty"` // "": retry
	Reason   string `json:"reason,omitempty"`
	Acted    bool   `json:"acted,omitempty"`
	Original bool   `json:"original,omitempty"`
	Refused  bool   `json:"refused_credential,omitempty"`
}

func (e *Entry) attempted(s *jobs.Submission, spec jobs.KindSpec) error {
	a := s.Attempted
	if a == nil {
		return nil
	}
	if a.Outcome == jobs.OutcomeSucceeded {
		return fieldErrorf("attempted.outcome", "what succeeded is not handed in")
	}
	if _, err := jobs.Parse("outcome", string(a.Outcome), []jobs.Outcome{jobs.OutcomeNotSent, jobs.OutcomeRefused, jobs.OutcomeUnknown}); err != nil {
		return &FieldError{"attempted.outcome", err}
	}
	if a.Attempts < 0 || a.Attempts > maxReportedSends {
		return fieldErrorf("attempted.attempts", "%d is not between 1 and %d", a.Attempts, maxReportedSends)
	}
	class := classOf(a)
	if _, err := jobs.Parse("class", string(class), jobs.Classes); err != nil {
		return &FieldError{"attempted.class", err}
	}
	if err := checkText("attempted.id", a.ID); err != nil {
		return err
	}
	next, err := verdictOf(a, spec)
	if err != nil {
		return err
	}
	m := &reportedMeta{ID: a.ID, Outcome: string(a.Outcome), N: max(a.Attempts, 1), Class: string(class), Status: a.Status,
		Codes: reportedCodes(a.Outcome, class, a.Status, a.Step == jobs.StepConflict), Counted: a.Counted, Keyed: s.IdempotencyKey != "" && a.FirstSentAt != "", verdict: next}
	if a.FirstSentAt != "" {
		t, err := parseInstant("attempted.first_sent_at", a.FirstSentAt)
		if err != nil {
			return &FieldError{"attempted.first_sent_at", err}
		}
		m.First = t.UnixMilli()
	}
	if a.Outcome == jobs.OutcomeUnknown && !m.Keyed && e.meta.Idempotency != string(jobs.IdempotencyNatural) {
		var missing []string
		if s.IdempotencyKey == "" {
			missing = append(missing, "idempotency_key")
		}
		if a.FirstSentAt == "" {
			missing = append(missing, "first_sent_at")
		}
		e.Warnings = append(e.Warnings, "outcome unknown without "+strings.Join(missing, " and ")+": counts as sent without a key, it will never be resent")
	}
	e.meta.Attempted = m
	return nil
}

// verdictOf checks what a report says of the last answer. Whether the original can be
// read is the kind's to say: without an inquiry it is a conflict, as after an attempt of a
// worker.
func verdictOf(a *jobs.Attempted, spec jobs.KindSpec) (verdict, error) {
	unknown := a.Outcome == jobs.OutcomeUnknown
	if a.Status < 0 || a.Status > jobs.MaxStatus {
		return verdict{}, fieldErrorf("attempted.status", "%d is not between 0 and %d", a.Status, jobs.MaxStatus)
	}
	step, acted := a.Step, a.Acted
	switch {
	case step == "" && (taken(a.Outcome, classOf(a)) || unknown && (a.Status/100 == 2 || a.Status == 303)):
		step, acted = jobs.StepAsk, true
	case step == "" && unknown && a.Status/100 == 3:
		step = jobs.StepAsk
	case step == "":
		step = jobs.StepRetry
	}
	if _, err := jobs.Parse("step", string(step), jobs.ReportedSteps); err != nil {
		return verdict{}, &FieldError{"attempted.step", err}
	}
	switch {
	case step == jobs.StepAsk && !unknown:
		return verdict{}, fieldErrorf("attempted.step", "ask is for what has an unknown outcome, and this one is %s", a.Outcome)
	case step == jobs.StepEnd && a.Reason == "":
		return verdict{}, fieldErrorf("attempted.reason", "missing: step end says why")
	case step != jobs.StepEnd && a.Reason != "":
		return verdict{}, fieldErrorf("attempted.reason", "only step end has one")
	case a.Acted && !unknown:
		return verdict{}, fieldErrorf("attempted.acted", "is for what has an unknown outcome, and this one is %s", a.Outcome)
	}
	if err := contradiction(a, step); err != nil {
		return verdict{}, err
	}
	if a.Reason != "" {
		if _, err := jobs.Parse("reason", string(a.Reason), jobs.ReportedReasons); err != nil {
			return verdict{}, &FieldError{"attempted.reason", err}
		}
	}
	v := verdict{Step: string(step), Reason: string(a.Reason), Acted: acted, Refused: a.RefusedCredential}
	switch {
	case step == jobs.StepRetry:
		v.Step = "" // as of all reports that say nothing of it
	case step == jobs.StepConflict && spec.Inquiry != nil:
		v.Step, v.Original = string(jobs.StepAsk), true
	}
	return v, nil
}

// classOf is the class of a report's last answer.
func classOf(a *jobs.Attempted) jobs.Class {
	if a.Class == "" {
		return jobs.ClassOfStatus(a.Status)
	}
	return a.Class
}

// taken: the other side answered 2xx, and the outcome is unknown all the same. A class
// cannot tell a 202, which must not be sent again, from half an answer, which under its
// key might be: the cautious row counts.
func taken(outcome jobs.Outcome, class jobs.Class) bool {
	return outcome == jobs.OutcomeUnknown && class == jobs.Class2xx
}
