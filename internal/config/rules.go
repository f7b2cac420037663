package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// rules reads and compiles the rules of a dependency. They are compiled together,
// once all of them can be read: a rule's number in an error is its place in the file.
func (d *decoder) rules(v value) *policy.Rules {
	before := len(d.findings)
	items, _ := v.list(`- {when: "status == 402", verdict: permanent_failure}`)
	specs := make([]policy.RuleSpec, len(items))
	for i, item := range items {
		specs[i] = d.rule(item, func(*object) {})
	}
	if len(d.findings) > before || len(specs) == 0 {
		return nil
	}
	rules, err := policy.CompileRules(specs)
	d.findings = append(d.findings, ruleFindings(v.path, err)...)
	return rules
}

// rule reads one rule; more reads the keys that it has beside those of every rule.
func (d *decoder) rule(v value, more func(*object)) (s policy.RuleSpec) {
	before := len(d.findings)
	o := v.object("when: ..., verdict: ...")
	o.expression("when", &s.When)
	word(o, "verdict", "verdict", &s.Verdict, jobs.Verdicts)
	o.span("after", &s.After)
	var processed string
	o.text("processed", &processed)
	s.Processed = policy.Processed(processed)
	word(o, "again", "again", &s.Again, jobs.Agains)
	more(o)
	o.done()
	if len(d.findings) > before {
		return s // a required key may be the one that is mistyped
	}
	required := func(key, what string) {
		d.findings = append(d.findings, finding{path: join(v.path, key), message: "required: " + what})
	}
	if s.When == "" {
		required("when", "an expression over the answer, such as status == 402")
	}
	if s.Verdict == "" {
		required("verdict", "what such an answer means, one of "+strings.Join(words(jobs.Verdicts), ", "))
	}
	return s
}

// results reads and compiles what is kept of a success of a kind.
func (d *decoder) results(v value) *policy.Results {
	before := len(d.findings)
	specs := map[string]string{}
	for _, e := range d.named(v, "result", "id: body.id") {
		if text, ok := e.expression(); ok {
			specs[e.key] = text
		}
	}
	if len(d.findings) > before || len(specs) == 0 {
		return nil
	}
	results, err := policy.CompileResult(specs)
	d.findings = append(d.findings, ruleFindings(v.path, err)...)
	return results
}

// expression reads a CEL expression.
func (o *object) expression(key string, into *string) {
	if v, ok := o.take(key); ok {
		*into, _ = v.expression()
	}
}

// expression returns the text of v, which unlike any other may have several lines.
func (v value) expression() (string, bool) {
	raw, ok := v.raw()
	if !ok {
		return "", false
	}
	lines := strings.Split(raw, "\n")
	for i, l := range lines {
		if lines[i], ok = v.unescape(strings.TrimSuffix(l, "\r")); !ok {
			return "", false
		}
	}
	return strings.Join(lines, "\n"), true
}

// ruleFindings gives each *policy.RuleError in err its place: that of the value at
// fault, or of what should hold it. Where the mistake is within the expression is said
// in words, because an expression of several lines does not stand as written there.
func ruleFindings(path string, err error) (findings []finding) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var re *policy.RuleError
		switch {
		case err == nil:
			continue
		case !errors.As(err, &re):
			findings = append(findings, finding{path: path, message: err.Error()})
			continue
		}
		f := finding{path: path, message: re.Msg}
		if re.Index >= 0 {
			f.path = fmt.Sprintf("%s.%d", f.path, re.Index+1)
		}
		if re.Field != "" {
			f.path += "." + re.Field
		}
		if re.Line > 0 {
			f.message = fmt.Sprintf("line %d, column %d of the expression: %s", re.Line, re.Column, re.Msg)
		}
		findings = append(findings, f)
	}
	return findings
}

// rules checks that no rule of a dependency could repeat the effect of its kinds.
func (v *validator) rules(path string, d *Dependency) {
	var classes []jobs.Idempotency
	for _, name := range slices.Sorted(maps.Keys(v.c.Kinds)) {
		if k := v.c.Kinds[name]; k.Dependency == d.Name {
			classes = append(classes, k.Idempotency)
		}
	}
	v.findings = append(v.findings, ruleFindings(path, policy.CheckRules(d.Rules.Specs(), classes))...)
}
