package analysis

import (
	"fmt"
	"slices"
	"strings"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// ownRules calls look for each rule that the file itself has; presets are tested where
// they are made.
func ownRules(d *config.Dependency, look func(at int, spec policy.RuleSpec)) {
	for i, spec := range d.Rules.Specs() {
		if spec.Preset == "" {
			look(i, spec)
		}
	}
}

func rulePath(path string, i int) string { return fmt.Sprintf("%s.rules.%d.when", path, i) }

// holds reports for how many of the samples a rule is true.
func holds(spec policy.RuleSpec, samples []policy.Sample) (n int) {
	rules, err := policy.CompileRules([]policy.RuleSpec{spec})
	if err != nil {
		panic(fmt.Sprintf("analysis: a rule of a checked configuration does not compile: %v", err))
	}
	for _, s := range samples {
		if _, index, _, _ := rules.Classify(s, jobs.IdempotencyNatural); index == 0 {
			n++
		}
	}
	return n
}

// everyStatus is an answer of each status, with one body.
func everyStatus(body string) []policy.Sample {
	samples := make([]policy.Sample, 0, 500)
	for status := 100; status <= 599; status++ {
		s := answer(status)
		s.Body = []byte(body)
		samples = append(samples, s)
	}
	return samples
}

// bodies differ in what expressions ask of them.
var bodies = []string{"", `{}`, `[]`, `{"error":{"code":"x","message":"y"},"status":"failed","id":"1"}`, `{"status":"succeeded","data":[]}`}

// ruleAlwaysTrue: a rule that holds for whatever may come.
func ruleAlwaysTrue(r *report, path string, d *config.Dependency) {
	ownRules(d, func(i int, spec policy.RuleSpec) {
		for _, body := range bodies {
			if samples := everyStatus(body); holds(spec, samples) < len(samples) {
				return
			}
		}
		r.add("rule-always-true", Warning, rulePath(path, i), "every answer means "+string(spec.Verdict)+": neither later rules nor the table are ever asked",
			"a condition that tells answers apart, such as status == 402", "it is true of every status with every body tried")
	})
}

// ruleNeverTrue: a rule that looks at nothing but the status, and holds for none.
func ruleNeverTrue(r *report, path string, d *config.Dependency) {
	ownRules(d, func(i int, spec policy.RuleSpec) {
		if strings.Contains(spec.When, "body") || strings.Contains(spec.When, "headers") || holds(spec, everyStatus("{}")) > 0 {
			return
		}
		r.add("rule-never-true", Warning, rulePath(path, i), "what it is there for goes by the table instead", "|| between statuses that exclude each other, or remove it",
			"it asks for the status alone, and is true of none from 100 to 599")
	})
}

// ruleRepeated: an earlier rule has the same condition, and decides.
func ruleRepeated(r *report, path string, d *config.Dependency) {
	var earlier []string
	ownRules(d, func(i int, spec policy.RuleSpec) {
		when := strings.Join(strings.Fields(spec.When), " ")
		if first := slices.Index(earlier, when); first >= 0 {
			r.add("rule-repeated", Warning, rulePath(path, i), "it never decides", "remove one of the two", "its condition is that of rule %d, which is asked first", first+1)
		}
		earlier = append(earlier, when)
	})
}

// againUnknown: with a preset, and no rule says which declines forbid another try.
func againUnknown(r *report, path string, d *config.Dependency) {
	says := slices.ContainsFunc(d.Rules.Specs(), func(s policy.RuleSpec) bool { return s.Again == jobs.AgainNever })
	if d.Preset == "" || says {
		return
	}
	r.add("again-unknown", Note, path+".rules", "after a decline that forbids another try a new attempt is not refused; card schemes charge a fee for such tries",
		"a rule with verdict: permanent_failure and again: never for such declines, if the gateway handles cards", "no rule, of preset %s or its own, forbids another try", d.Preset)
}
