package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"redrive/internal/jobs"
)

// MaxRules is how many rules a dependency may have.
const MaxRules = 64

// RuleSpec is one rule as the configuration has it.
type RuleSpec struct {
	When    string        // CEL over status, headers, body, class; must be bool
	Verdict jobs.Verdict  // what such an answer means, for every idempotency class
	After   time.Duration // with a resend: wait at least so long; 0: backoff and the answer's own hint alone; at most [MaxWait]
	// Processed is whether the gateway acted on the request. "" takes it from the
	// verdict (succeeded, duplicate_success and pending_poll: yes), else from the
	// table's row for the same answer.
	Processed Processed
	// Again is what a decline says of trying the same payment again, under whatever
	// name. [jobs.AgainNever] only with permanent_failure; "": nothing.
	Again jobs.Again

	// Preset is the preset that the rule comes from, and Name its name there: a
	// classification by it has the row "Preset/Name", and Reason as its reason. All
	// three are "" for the configuration's own rules, whose rows are R1, R2, ...
	Preset, Name, Reason string
}

// Rules are the compiled rules of one dependency. They are never changed, and safe
// for concurrent use. A nil *Rules has no rules.
type Rules struct{ rules []rule }

type rule struct {
	spec RuleSpec
	when *expression
	id   string // the row that a classification by it carries
	why  string
}

// CompileRules compiles rules, in the order in which they are asked. The error
// joins one *[RuleError] for each rule that is wrong. Whether the rules may stand
// for the kinds of a dependency is [CheckRules].
func CompileRules(specs []RuleSpec) (*Rules, error) {
	l := languages()
	if l.err != nil {
		return nil, l.err
	}
	if len(specs) > MaxRules {
		return nil, &RuleError{Index: MaxRules, Msg: fmt.Sprintf("there are %d rules, the limit is %d", len(specs), MaxRules)}
	}
	out := &Rules{rules: make([]rule, len(specs))}
	var errs []error
	for i, spec := range specs {
		if err := spec.check(i); err != nil {
			errs = append(errs, err)
			continue
		}
		when, err := l.rule.compile(i, "when", spec.When, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.rules[i] = rule{spec: spec, when: when}
		out.rules[i].id, out.rules[i].why = spec.row(i)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// row names the rule, the i-th of its list, and says why it decides.
func (s RuleSpec) row(i int) (id, why string) {
	if s.Preset != "" {
		return s.Preset + "/" + s.Name, fmt.Sprintf("preset %s: %s", s.Preset, s.Reason)
	}
	return fmt.Sprintf("R%d", i+1), fmt.Sprintf("rule %d says so: %s", i+1, cutRaw(strings.Join(strings.Fields(s.When), " ")))
}

// Then returns the rules of r and behind them those of more: where both know an
// answer, r decides. Neither is changed; each keeps its rows.
func (r *Rules) Then(more *Rules) *Rules {
	switch {
	case r == nil:
		return more
	case more == nil:
		return r
	}
	return &Rules{rules: slices.Concat(r.rules, more.rules)}
}

// Specs returns the rules as they were written, in their order, to be held against
// the kinds of the dependency by [CheckRules].
func (r *Rules) Specs() []RuleSpec {
	if r == nil {
		return nil
	}
	specs := make([]RuleSpec, len(r.rules))
	for i := range r.rules {
		specs[i] = r.rules[i].spec
	}
	return specs
}

// check holds a rule against itself.
func (s RuleSpec) check(index int) error {
	fail := func(field, format string, args ...any) error {
		return &RuleError{Index: index, Field: field, Msg: fmt.Sprintf(format, args...)}
	}
	if _, err := jobs.Parse("verdict", string(s.Verdict), jobs.Verdicts); err != nil {
		return fail("verdict", "%v", err)
	}
	if s.Processed != "" && !slices.Contains(processedWords, s.Processed) {
		return fail("processed", "unknown word %q: want one of %s", s.Processed, join(processedWords))
	}
	if s.Again != "" {
		if _, err := jobs.Parse("again", string(s.Again), jobs.Agains); err != nil {
			return fail("again", "%v", err)
		}
		if s.Verdict != jobs.VerdictPermanentFailure {
			return fail("again", "only a decline forbids another attempt: its verdict is %s, not %s", jobs.VerdictPermanentFailure, s.Verdict)
		}
	}
	switch {
	case s.After < 0 || s.After > MaxWait:
		return fail("after", "%v is out of range: 0 to %v", s.After, MaxWait)
	case s.After > 0 && !s.Verdict.Resends():
		return fail("after", "nothing is sent again after %s", s.Verdict)
	}
	switch s.Verdict {
	case jobs.VerdictSucceeded, jobs.VerdictPendingPoll:
		if s.Processed != "" && s.Processed != ProcessedYes {
			return fail("processed", "%s means that the request was processed: say yes, or leave it out", s.Verdict)
		}
	case jobs.VerdictDuplicateSuccess:
		if s.Processed == ProcessedMaybe {
			return fail("processed", "%s knows: say no if this request did nothing because an earlier one had, yes, or leave it out", s.Verdict)
		}
	case jobs.VerdictUnknownInquire:
		if s.Processed == ProcessedNo {
			return fail("processed", "what was surely not processed needs no inquiry: leave it out, or choose another verdict")
		}
	}
	return nil
}

var processedWords = []Processed{ProcessedNo, ProcessedMaybe, ProcessedYes}

// CheckRules refuses rules that could repeat an effect for kinds of these
// idempotency classes: where one is none or conditional, a rule with a resend must
// say processed: no. The error joins one *[RuleError] per rule.
//
// Rules of a preset pass: they say one thing to kinds of every class, and for the weak
// ones [Rules.Classify] makes an unknown_inquire of such a resend. From a person's own
// rule that would be another verdict than the one written, so that one is refused.
func CheckRules(specs []RuleSpec, classes []jobs.Idempotency) error {
	weak := slices.IndexFunc(classes, func(c jobs.Idempotency) bool { return !keepsEffect(c) })
	if weak < 0 {
		return nil
	}
	var errs []error
	for i, s := range specs {
		if s.Preset == "" && s.Verdict.Resends() && s.Processed != ProcessedNo {
			errs = append(errs, &RuleError{Index: i, Field: "processed", Msg: fmt.Sprintf(
				"%s could repeat the effect for kinds of class %s: say processed: no if the gateway documents that such a request was not looked at, else use %s",
				s.Verdict, classes[weak], jobs.VerdictUnknownInquire)})
		}
	}
	return errors.Join(errs...)
}

// Classify asks the rules in turn, before the built-in table: the first that is
// true decides. It returns ok false, and index -1, where none does; then
// [Classify] is to be asked. Where one asked for the body of a 2xx that cannot be read,
// what the body says may be a decline: ok is true, with index -1, and the outcome unknown. Rules are asked about answers only: of an attempt
// without one there is nothing to read, and no rule can know what became of it.
//
// A rule that cannot be evaluated on this answer (a key that is not there, a value
// of another type, a limit) does not match; evalErrs holds a *[RuleError] for each,
// to be logged once per rule. It is nil most of the time, and never the reason for
// ok being false. Of a preset's rules it holds none: they are written to be asked
// about every answer, and nobody here could mend them.
func (r *Rules) Classify(s Sample, class jobs.Idempotency) (c Classification, index int, ok bool, evalErrs []error) {
	if r == nil || s.Phase != PhaseAnswered {
		return Classification{}, -1, false, nil
	}
	a := view{sample: s}
	for i := range r.rules {
		matches, err := r.rules[i].when.isTrue(&a)
		if err != nil && r.rules[i].spec.Preset == "" {
			evalErrs = append(evalErrs, err)
		}
		if matches {
			return r.rules[i].classify(s, class), i, true, evalErrs
		}
	}
	if a.hidesItsWord() {
		c = unreadable.classify(class, true, true)
		c.Class, c.Reason = classOf(s), "a rule asks for the body of this success, and nobody can read it: it may say that it failed"
		return c, -1, true, evalErrs
	}
	return Classification{}, -1, false, evalErrs
}

// unreadable is the row of a success that nobody can have meant.
var unreadable = index.id["H200G"]

// hidesItsWord: a rule asked for the body of an answer that the table takes for a success,
// and there is one that cannot be read.
func (a *view) hidesItsWord() bool {
	return a.sample.Status/100 == 2 && a.decoded && a.bodyErr != nil && len(trimBody(a.sample.Body)) > 0
}

// classify treats the rule as one more row of the table, so that outcome and acted
// mark follow from processed and verdict as they do there.
func (r *rule) classify(s Sample, class jobs.Idempotency) Classification {
	table := Classify(s, class)
	row := Row{ID: r.id, Processed: r.processed(table.Processed), Verdicts: all(r.spec.Verdict), Reason: r.why}
	if row.Processed != ProcessedNo && r.spec.Verdict.Resends() && !keepsEffect(class) {
		row.Verdicts = all(jobs.VerdictUnknownInquire) // whatever the rule says: it may have acted
	}
	switch r.spec.Verdict {
	case jobs.VerdictSucceeded, jobs.VerdictDuplicateSuccess:
		row.Settles = true
	case jobs.VerdictPermanentFailure:
		row.Settles = row.Processed == ProcessedYes // a decline
	}
	c := row.classify(class, true, true)
	c.Class, c.Hint, c.Again = table.Class, table.Hint, r.spec.Again
	if r.spec.After > c.Hint.Wait {
		c.Hint = Hint{Wait: r.spec.After, From: r.id}
	}
	// A rule that says of a 401 what the table says of it has not changed what it is.
	c.CredentialRefused = table.CredentialRefused && r.spec.Verdict == jobs.VerdictHoldOperator
	return c
}

// processed completes what the rule leaves out.
func (r *rule) processed(table Processed) Processed {
	switch v := r.spec.Verdict; {
	case r.spec.Processed != "":
		return r.spec.Processed
	case v == jobs.VerdictSucceeded || v == jobs.VerdictDuplicateSuccess || v == jobs.VerdictPendingPoll:
		return ProcessedYes
	case v == jobs.VerdictUnknownInquire && table == ProcessedNo:
		return ProcessedMaybe
	default:
		return table
	}
}
