package policy

import (
	"errors"
	"fmt"
	"slices"

	"redrive/internal/jobs"
)

// InquiryAnswers lists every answer of an inquiry.
var InquiryAnswers = []jobs.InquiryAnswer{jobs.InquirySucceeded, jobs.InquiryPending, jobs.InquiryFailed, jobs.InquiryNotFound, jobs.InquiryNothing}

// InquirySpec is how the answers of an inquiry are read, as the configuration has it.
type InquirySpec struct {
	Answers []int // the statuses that are read; at least one

	// CEL over status, headers and body, each bool, asked in this order. Succeeded
	// is required, the others may be empty: then there is no such answer.
	Succeeded, Pending, Failed, NotFound string
}

// Inquiry is a compiled [InquirySpec]: never changed, safe for concurrent use.
type Inquiry struct {
	answers []int
	rules   []inquiryRule
}

type inquiryRule struct {
	is   *expression
	says jobs.InquiryAnswer
}

// CompileInquiry compiles how an inquiry is read. The error joins one *[RuleError]
// for each key that is wrong.
func CompileInquiry(spec InquirySpec) (*Inquiry, error) {
	l := languages()
	if l.err != nil {
		return nil, l.err
	}
	fail := func(field, format string, args ...any) error {
		return &RuleError{Index: -1, Field: field, Msg: fmt.Sprintf(format, args...)}
	}
	var errs []error
	if len(spec.Answers) == 0 {
		errs = append(errs, fail("answers", "there is no status to read"))
	}
	for _, status := range spec.Answers {
		if why := notAnAnswer(status); why != "" {
			errs = append(errs, fail("answers", "%d cannot be read as an answer: %s", status, why))
		}
	}
	q := &Inquiry{answers: slices.Clone(spec.Answers)}
	for _, r := range []struct {
		says   jobs.InquiryAnswer
		source string
	}{{jobs.InquirySucceeded, spec.Succeeded}, {jobs.InquiryPending, spec.Pending}, {jobs.InquiryFailed, spec.Failed}, {jobs.InquiryNotFound, spec.NotFound}} {
		if r.source == "" && r.says != jobs.InquirySucceeded {
			continue
		}
		is, err := l.answer.compile(-1, string(r.says), r.source, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		q.rules = append(q.rules, inquiryRule{is, r.says})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return q, nil
}

// Tells reports whether there is a rule that says so. Without one for
// [jobs.InquiryNotFound] what never arrived cannot be told from what is under way.
func (q *Inquiry) Tells(says jobs.InquiryAnswer) bool {
	return slices.ContainsFunc(q.rules, func(r inquiryRule) bool { return r.says == says })
}

// notAnAnswer says why a status never tells what became of an operation: it is
// about the inquiry itself. "" if it may.
func notAnAnswer(status int) string {
	switch {
	case status == 401 || status == 403 || status == 407:
		return "it refuses our credentials"
	case status == 408 || status == 425 || status == 429:
		return "it refuses to look now"
	case status >= 500 && status <= 599:
		return "the gateway failed to look"
	case status >= 200 && status <= 299, status >= 400 && status <= 499:
		return ""
	default:
		return "want 2xx or 4xx"
	}
}

// Read says what an answer to an inquiry means, and by which rule ("succeeded",
// "pending", "failed", "not_found"). The rules are asked in that order and the
// first that is true decides.
//
// It is [jobs.InquiryNothing], with an error that says why, when there is no answer, its
// status is none of those that are read, its body is cut or not JSON, none of the
// rules is true, or a rule cannot be evaluated (a *[RuleError]; rule is then its
// name). Such a rule ends the reading: it might have been true, so no later one may
// decide, and least of all "not_found", after which the operation is sent again.
func (q *Inquiry) Read(s Sample) (says jobs.InquiryAnswer, rule string, err error) {
	if s.Phase != PhaseAnswered {
		return jobs.InquiryNothing, "", fmt.Errorf("inquiry: no answer (%s)", s.Phase)
	}
	if !slices.Contains(q.answers, s.Status) {
		return jobs.InquiryNothing, "", fmt.Errorf("inquiry: status %d is none of those that are read %v", s.Status, q.answers)
	}
	a := view{sample: s}
	if _, err := a.decodedBody(); err != nil {
		return jobs.InquiryNothing, "", fmt.Errorf("inquiry: %w", err)
	}
	for _, r := range q.rules {
		is, err := r.is.isTrue(&a)
		if err != nil {
			return jobs.InquiryNothing, string(r.says), fmt.Errorf("inquiry: %w", err)
		}
		if is {
			return r.says, string(r.says), nil
		}
	}
	return jobs.InquiryNothing, "", errors.New("inquiry: none of its rules is true of this answer")
}
