package policy

import (
	"redrive/internal/jobs"
)

// Classify says what a sample means for an operation of the given idempotency
// class. It looks at the phase, then at the status, then (200 and 201 only) at
// whether the body is one the gateway can have meant. What no row lists has the
// row [RowUnlisted] and is never resent: unknown if bytes were sent, else not_sent.
func Classify(s Sample, class jobs.Idempotency) Classification {
	c := rowOf(s).classify(class, s.WireBytes > 0, s.Phase == PhaseAnswered)
	c.Class = classOf(s)
	if s.Phase == PhaseAnswered {
		c.Hint = hintOf(s)
		c = heed(c, s, class)
	}
	return c
}

// rowOf finds the row of a sample, nil if none lists it.
func rowOf(s Sample) *Row {
	if s.Phase == PhaseAnswered {
		return answerRow(s)
	}
	row := index.phase[s.Phase]
	if row != nil && unsent(s.Phase) && s.WireBytes > 0 {
		return nil // "nothing was sent" is a proof; with bytes on the wire it is none
	}
	return row
}

func answerRow(s Sample) *Row {
	switch {
	case s.Status < 100 || s.Status > 599:
		return index.id["HXXX"]
	case s.Status == 413 && retryAfter(s).From != "":
		return index.id["H413R"]
	case s.Status == 200 || s.Status == 201 || s.Status == 204 || s.Status == 205:
		return successRow(s)
	}
	if row := index.status[s.Status]; row != nil {
		return row
	}
	switch s.Status / 100 {
	case 4:
		return index.id["H4XX"]
	case 5:
		return index.id["H529"]
	default:
		return nil
	}
}

// successRow is for the statuses that mean "done": a cut body leaves the effect
// certain, a body that nobody can have meant takes even that away.
func successRow(s Sample) *Row {
	hasBody := s.Status == 200 || s.Status == 201
	foreign := hasBody && foreignBody(s)
	switch {
	case s.BodyCut && !foreign:
		return index.id["N19"]
	case foreign:
		return index.id["H200G"]
	case hasBody && brokenJSON(s) && s.UntilClose:
		return index.id["N20"]
	case hasBody && brokenJSON(s):
		return index.id["H200G"]
	default:
		return index.status[s.Status]
	}
}

// classify applies the row to one idempotency class. A nil row is the unlisted one.
func (r *Row) classify(class jobs.Idempotency, sent, answered bool) Classification {
	if r == nil {
		c := Classification{Row: RowUnlisted, Processed: ProcessedNo, Outcome: jobs.OutcomeNotSent,
			Verdict: jobs.VerdictPermanentFailure, Reason: "the table does not list it"}
		if sent || answered {
			c.Processed, c.Outcome = ProcessedMaybe, jobs.OutcomeUnknown
		}
		return c
	}
	c := Classification{Row: r.ID, Processed: r.Processed, Verdict: r.Verdicts.For(class),
		SettlesPrior: r.Settles, Reason: r.Reason}
	c.Outcome = r.outcome(c.Verdict)
	c.Acted = r.Processed == ProcessedYes && c.Outcome == jobs.OutcomeUnknown
	switch r.ID {
	case "N07", "N08", "H401", "H403", "G7":
		c.CredentialRefused = true
	}
	return c
}

// outcome says what the attempt proved. Success needs no "processed": a recognised
// duplicate proves it too, whatever became of this very send.
func (r *Row) outcome(v jobs.Verdict) jobs.Outcome {
	switch {
	case v == jobs.VerdictSucceeded || v == jobs.VerdictDuplicateSuccess:
		return jobs.OutcomeSucceeded
	case r.Processed == ProcessedMaybe:
		return jobs.OutcomeUnknown
	case r.Processed == ProcessedYes && v == jobs.VerdictPermanentFailure:
		return jobs.OutcomeRefused // a decline: looked at, and known not to have acted
	case r.Processed == ProcessedYes:
		return jobs.OutcomeUnknown
	case v == jobs.VerdictUnknownInquire:
		return jobs.OutcomeUnknown // the row does not trust its own "no" for this class
	case len(r.On.Phases) > 0 && unsent(r.On.Phases[0]):
		return jobs.OutcomeNotSent
	default:
		return jobs.OutcomeRefused
	}
}

// unsent reports whether the phase proves that no application byte was written.
func unsent(p Phase) bool {
	switch p {
	case PhaseInvalidRequest, PhaseCancelledUnsent, PhaseDNSNotFound, PhaseDNSFailed, PhaseConnect,
		PhaseTLSHandshake, PhaseCertificate, PhaseNotWritten, PhaseTooLate:
		return true
	default:
		return false
	}
}

// classOf is the response class: what metrics and the breaker see.
func classOf(s Sample) jobs.Class {
	switch s.Phase {
	case PhaseAnswered:
		return statusClass(s)
	case PhaseDNSNotFound, PhaseDNSFailed:
		return jobs.ClassDNS
	case PhaseConnect:
		return jobs.ClassConnect
	case PhaseTLSHandshake, PhaseCertificate, PhaseClientCertificate:
		return jobs.ClassTLS
	case PhaseNotWritten, PhaseWriteCut, PhaseNoAnswer, PhaseStreamReset, PhaseConnectionLost, PhaseStreamRefused:
		return jobs.ClassReset
	case PhaseAnswerTimeout:
		return jobs.ClassTimeout
	case PhaseWorkerLost:
		return jobs.ClassWorkerLost
	default:
		return jobs.ClassOther
	}
}

func statusClass(s Sample) jobs.Class {
	class := jobs.ClassOfStatus(s.Status)
	if class == jobs.Class2xx && s.BodyCut {
		return jobs.ClassOther // a cut answer
	}
	return class
}
