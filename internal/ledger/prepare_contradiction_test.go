package ledger

import (
	"errors"
	"fmt"
	"testing"

	"redrive/internal/jobs"
)

// verdictOfReport is what a report of a keyed charge is taken for; field is the one that is wrong.
func verdictOfReport(t *testing.T, a jobs.Attempted) (m *reportedMeta, field string) {
	t.Helper()
	s := charge()
	s.Attempted = &a
	e, err := Prepare(s, chargeSpec())
	var wrong *FieldError
	if err != nil && !errors.As(err, &wrong) {
		t.Fatalf("%+v: %v names no field", a, err)
	}
	if err != nil {
		return nil, wrong.Field
	}
	return e.meta.Attempted, ""
}

// What was sent and answered passed for not sent, and a success for refused: it was sent again.
func TestAHandOverThatContradictsItselfWasBelieved(t *testing.T) {
	t.Parallel()
	const notSent, refused, unknown = jobs.OutcomeNotSent, jobs.OutcomeRefused, jobs.OutcomeUnknown
	for _, tc := range []struct {
		name string
		a    jobs.Attempted
		want string
	}{
		{"not sent, with a success", jobs.Attempted{Outcome: notSent, Status: 200, Class: jobs.Class2xx}, "attempted.status"},
		{"not sent, with a status", jobs.Attempted{Outcome: notSent, Status: 504}, "attempted.status"},
		{"not sent, with a proxy's timeout", jobs.Attempted{Outcome: notSent, Status: 504, Class: jobs.ClassTimeout}, "attempted.class"},
		{"not sent, and timed out", jobs.Attempted{Outcome: notSent, Class: jobs.ClassTimeout}, "attempted.class"},
		{"not sent, and a conflict", jobs.Attempted{Outcome: notSent, Step: jobs.StepConflict}, "attempted.step"},
		{"refused, with a success", jobs.Attempted{Outcome: refused, Status: 200, Class: jobs.Class2xx}, "attempted.step"},
		{"refused, with the status of a success", jobs.Attempted{Outcome: refused, Status: 201}, "attempted.step"},
		{"refused, with a success that was cut", jobs.Attempted{Outcome: refused, Status: 200, Class: jobs.ClassOther}, "attempted.step"},
		{"refused, with the class of a success", jobs.Attempted{Outcome: refused, Class: jobs.Class2xx}, "attempted.step"},
		{"another class than the status has", jobs.Attempted{Outcome: unknown, Status: 202, Class: jobs.Class5xx}, "attempted.class"},
		{"503 is a class of its own", jobs.Attempted{Outcome: refused, Status: 503, Class: jobs.Class5xx}, "attempted.class"},
		{"an answer of class other", jobs.Attempted{Outcome: refused, Status: 404, Class: jobs.ClassOther}, "attempted.class"},
		{"a conflict that nobody told of", jobs.Attempted{Outcome: refused, Class: jobs.ClassConnect, Step: jobs.StepConflict}, "attempted.step"},
		{"a credential that nobody refused", jobs.Attempted{Outcome: refused, Class: jobs.ClassTimeout, RefusedCredential: true}, "attempted.refused_credential"},

		{"a no that is told as 200, by who has read it", jobs.Attempted{Outcome: refused, Status: 200, Step: jobs.StepRetry}, ""},
		{"a decline that is told as 200", jobs.Attempted{Outcome: refused, Class: jobs.Class2xx, Step: jobs.StepEnd, Reason: jobs.ReasonPermanent}, ""},
		{"a success that was cut", jobs.Attempted{Outcome: unknown, Status: 200, Class: jobs.ClassOther}, ""},
		{"the last of two was not sent", jobs.Attempted{Outcome: unknown, Attempts: 2, Class: jobs.ClassConnect}, ""},
		{"timed out, and found not to have acted", jobs.Attempted{Outcome: refused, Class: jobs.ClassTimeout}, ""},
		{"the connection was gone before the first byte", jobs.Attempted{Outcome: notSent, Class: jobs.ClassReset}, ""},
		{"a certificate", jobs.Attempted{Outcome: notSent, Class: jobs.ClassTLS, RefusedCredential: true}, ""},
		{"an invalid request never left", jobs.Attempted{Outcome: notSent, Step: jobs.StepEnd, Reason: jobs.ReasonPermanent}, ""},
	} {
		if _, field := verdictOfReport(t, tc.a); field != tc.want {
			t.Errorf("%s: the field %q is named, want %q", tc.name, field, tc.want)
		}
	}
}

// Every report there can be: what is taken claims nothing that another of its fields denies.
func TestNoReportThatIsTakenDeniesItself(t *testing.T) {
	t.Parallel()
	taken, refused := 0, 0
	answers := map[jobs.Class]bool{jobs.Class2xx: true, jobs.Class429: true, jobs.Class503: true, jobs.Class5xx: true, jobs.Class4xx: true}
	for _, outcome := range jobs.Outcomes {
		for _, class := range append([]jobs.Class{""}, jobs.Classes...) {
			for _, status := range []int{0, 7, 101, 200, 202, 204, 301, 303, 307, 400, 401, 409, 429, 500, 503, 504, 599, 600, jobs.MaxStatus} {
				for _, step := range append([]jobs.Step{""}, jobs.ReportedSteps...) {
					for _, reason := range append([]jobs.Reason{""}, jobs.ReportedReasons...) {
						a := jobs.Attempted{Outcome: outcome, Class: class, Status: status, Step: step, Reason: reason}
						m, field := verdictOfReport(t, a)
						if field != "" {
							refused++
							continue
						}
						taken++
						success := status/100 == 2 || class == jobs.Class2xx
						switch {
						case outcome == jobs.OutcomeNotSent && (status > 0 || answers[class] || class == jobs.ClassTimeout || class == jobs.ClassWorkerLost || step == jobs.StepConflict),
							outcome == jobs.OutcomeRefused && success && step == "",
							status > 0 && answers[class] && jobs.ClassOfStatus(status) != class,
							(step == jobs.StepEnd) != (reason != ""):
							t.Errorf("%+v is believed", a)
						}
						if unknown := outcome == jobs.OutcomeUnknown; unknown && step == "" && (success || status/100 == 3) && m.Step != string(jobs.StepAsk) {
							t.Errorf("%+v is sent again without a word of it", a)
						}
						if want := jobs.ClassOfStatus(status); class == "" && m.Class != string(want) {
							t.Errorf("%+v is of class %s, want %s", a, m.Class, want)
						}
					}
				}
			}
		}
	}
	if taken == 0 || refused == 0 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
}

// A 202 or a redirect whose class was not said was sent again under its key.
func TestAStatusWithoutAClassWasIgnored(t *testing.T) {
	each(t, func(s *suite) {
		for status, found := range map[int]string{202: "unresolved", 200: "unresolved", 303: "unresolved", 301: "waiting"} {
			s.test(fmt.Sprint(status, " of an unknown outcome is asked about"), func(b *bundle) {
				b.asks()
				b.add("o1", b.saw("req-1", jobs.OutcomeUnknown, "", func(a *jobs.Attempted) { a.Status = status }))
				b.want("o1", "unresolved")
				for range 2 { // that it is not listed does not settle what was taken
					b.settledTime()
					b.ask("o1", jobs.InquiryNotFound)
				}
				b.want("o1", found)
			})
		}
		s.test("and goes to a person where nobody can be asked", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeUnknown, "", func(a *jobs.Attempted) { a.Status = 202 }))
			b.want("o1", "dead/unsafe")
			b.add("o2", b.saw("req-1", jobs.OutcomeUnknown, "", func(a *jobs.Attempted) { a.Status = 504 }))
			b.want("o2", "waiting")
		})
	})
}

// One too many, or under a credential that was refused: what had been sent and counts
// against nothing left an export as not sent.
func TestAnExportSaidNotSentOfWhatWasAnswered(t *testing.T) {
	each(t, func(s *suite) {
		for class, saw := range map[jobs.Class]jobs.Outcome{jobs.Class429: jobs.OutcomeRefused, jobs.Class4xx: jobs.OutcomeRefused, jobs.ClassConnect: jobs.OutcomeNotSent} {
			s.test(string(class), func(b *bundle) {
				b.add("o1", b.saw("req-1", saw, class, func(a *jobs.Attempted) { a.RefusedCredential = class == jobs.Class4xx }))
				out, err := b.get("o1").Submission(&b.spec)
				b.must(err)
				if out.Attempted.Outcome != saw {
					b.Fatalf("exported as %+v", out.Attempted)
				}
				if _, err := Prepare(out, b.spec); err != nil {
					b.Fatalf("%+v is not taken again: %v", out.Attempted, err)
				}
			})
		}
		s.test("a no that was told as 200", func(b *bundle) {
			b.add("o1", b.saw("req-1", jobs.OutcomeRefused, jobs.Class2xx, onto(jobs.StepRetry)))
			out, err := b.get("o1").Submission(&b.spec)
			b.must(err)
			if _, err := Prepare(out, b.spec); err != nil {
				b.Fatalf("%+v is not taken again: %v", out.Attempted, err)
			}
		})
	})
}
