package policy

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestTheExamplesOfTheDocsCompile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules []RuleSpec
	for _, m := range regexp.MustCompile(`(?m)^ +- \{when: '([^']+)', verdict: (\w+)(?:, after: (\w+))?(?:, processed: (\w+))?\}$`).FindAllStringSubmatch(string(content), -1) {
		after, _ := time.ParseDuration("0" + m[3])
		rules = append(rules, RuleSpec{When: m[1], Verdict: jobs.Verdict(m[2]), After: after, Processed: Processed(m[4])})
	}
	if _, err := CompileRules(rules); err != nil || len(rules) != strings.Count(string(content), "- {when:") {
		t.Errorf("%d rules: %v", len(rules), err)
	}
	if err := CheckRules(rules, jobs.Idempotencies); err != nil {
		t.Error(err)
	}
	var inquiries []InquirySpec
	for _, m := range regexp.MustCompile(`(?m)^ +(answers|succeeded|pending|failed|not_found): +(?:\[([\d, ]+)\]|'([^']+)')$`).FindAllStringSubmatch(string(content), -1) {
		if m[1] == "answers" {
			inquiries = append(inquiries, InquirySpec{})
		}
		spec := &inquiries[len(inquiries)-1]
		for n := range strings.SplitSeq(m[2], ", ") {
			if status, err := strconv.Atoi(n); err == nil {
				spec.Answers = append(spec.Answers, status)
			}
		}
		if field := map[string]*string{"succeeded": &spec.Succeeded, "pending": &spec.Pending, "failed": &spec.Failed, "not_found": &spec.NotFound}[m[1]]; field != nil {
			*field = m[3]
		}
	}
	if len(inquiries) != 2 || inquiries[0].Failed != chargeInquiry.Failed || len(inquiries[1].Answers) != 2 {
		t.Errorf("inquiries %+v", inquiries)
	}
	for _, spec := range inquiries {
		if _, err := CompileInquiry(spec); err != nil {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	for _, limit := range []int{MaxRules, MaxExpressionBytes, maxExpressionDepth, maxExpressionNodes, maxRegexProgram, MaxResults, MaxResultBytes, MaxBodyDepth} {
		if !strings.Contains(string(content), fmt.Sprint(limit)) {
			t.Errorf("the limit %d is not in the docs", limit)
		}
	}
}
