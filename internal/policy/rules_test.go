package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"redrive/internal/jobs"
)

func mustRules(t testing.TB, specs ...RuleSpec) *Rules {
	t.Helper()
	r, err := CompileRules(specs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// matches reports whether one expression is true of an answer, and what it erred with.
func matches(t *testing.T, when string, s Sample) (bool, []error) {
	t.Helper()
	_, _, ok, errs := mustRules(t, RuleSpec{When: when, Verdict: jobs.VerdictHoldOperator}).Classify(s, jobs.IdempotencyKeyed)
	return ok, errs
}

// declined is an answer with a bit of everything.
var declined = answer(402, map[string][]string{"Retry-After": {"7"}, "x-flag": {"a", "b"}, "X-FLAG": {"c"}, "Request-Id": {"r1"}},
	`{"error":{"code":"processing_error","decline-code":"try_again"},"amount":4200,"rate":0.5,"big":9007199254740993,"huge":18446744073709551615,
	"livemode":true,"none":null,"items":[{"status":"failed"},{"status":"succeeded"},{}],"whole":3.0}`)

func TestExpressionsSeeTheAnswer(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]bool{
		`status == 402`:                                          true,
		`status in [400, 402]`:                                   true,
		`status >= 500`:                                          false,
		`class == "4xx"`:                                         true,
		`class in ["5xx", "503"]`:                                false,
		`body.error.code == "processing_error"`:                  true,
		`body["error"]["decline-code"] == "try_again"`:           true,
		`status == 402 && body.error.code.startsWith("process")`: true,
		`body.error.code.matches("^(?i)PROCESSING_")`:            true,
		`body.error.code.contains("_") && body.error.code.endsWith("error") && size(body.error.code) == 16`: true,
		`headers["request-id"] == "r1"`:                                                    true,
		`"retry-after" in headers && int(headers["retry-after"]) > 5`:                      true,
		`"x-request-id" in headers`:                                                        false,
		`has(body.error) && !has(body.charge)`:                                             true,
		`body.amount == 4200 && body.amount < 4200.5`:                                      true,
		`body.big == 9007199254740993`:                                                     true,
		`body.big == 9007199254740992`:                                                     false, // the same as a double
		`body.huge == 18446744073709551615u`:                                               true,
		`body.whole == 3 && body.rate == 0.5`:                                              true,
		`body.livemode == true && body.none == null`:                                       true,
		`body.items.exists(i, i.status == "succeeded")`:                                    true, // the third item has none; it is enough that one is true
		`body.items.filter(i, has(i.status)).size() == 2`:                                  true,
		`body.items.filter(i, has(i.status)).map(i, i.status) == ["failed", "succeeded"]`:  true,
		`body.items.exists_one(i, has(i.status) && i.status == "failed")`:                  true,
		`type(body.amount) == int && type(body.error) == map && type(body.rate) == double`: true,
		`(has(body.charge) ? body.charge.code : body.error.code) == "processing_error"`:    true,
		"status == 402\n  && // a comment\n  body.amount - 200 == 4000":                    true,
	} {
		got, errs := matches(t, when, declined)
		if got != want || errs != nil {
			t.Errorf("%s: %v %v, want %v", when, got, errs, want)
		}
	}
	// Which of two spellings of one header comes first is the map's affair.
	if ok, _ := matches(t, `headers["x-flag"] in ["a, b, c", "c, a, b"]`, declined); !ok {
		t.Error("the values of one header are not joined")
	}
}

func TestWhatCannotBeEvaluatedDoesNotMatch(t *testing.T) {
	t.Parallel()
	html := answer(502, nil, "<html>Bad gateway</html>")
	for _, c := range []struct {
		when string
		s    Sample
		want string // in the error
	}{
		{`body.charge.id == "x"`, declined, `no key "charge"`},
		{`headers["x-none"] == "1"`, declined, `no key "x-none"`},
		{`body.amount.code == "x"`, declined, `no key "code"`},
		{`body.error.code > 5`, declined, "another type"},
		{`size(body.none) == 0`, declined, "another type"},
		{`int(body.error.code) > 5`, declined, "cannot be evaluated"},
		{`body.items[7] == 1`, declined, "cannot be evaluated"},
		{`body.amount / 0 == 1`, declined, "cannot be evaluated"},
		{`body.big * 9007199254740993 > 0`, declined, "cannot be evaluated"},
		{`body.items.all(i, i.status != "pending")`, declined, `no key "status"`},
		{`headers[body.error.code] == "x"`, declined, "a key is missing"},
		{`body.error.code == "x"`, html, `no key "error"`},
		{`!has(body.error)`, html, `no key "error"`}, // nothing follows from a body that is none
		{`!("error" in body)`, html, "another type"},
		{`body.items.exists(i, body.items.exists(j, i.status == j.status + "x"))`, declined, `no key "status"`},
	} {
		got, errs := matches(t, c.when, c.s)
		var fault *RuleError
		if got || len(errs) != 1 || !errors.As(errs[0], &fault) {
			t.Errorf("%s: %v %v, want one error", c.when, got, errs)
			continue
		}
		if !strings.Contains(fault.Msg, c.want) || fault.Index != 0 || fault.Field != "when" || fault.Line != 1 || fault.Column < 1 {
			t.Errorf("%s: %+v, want %q", c.when, fault, c.want)
		}
		if strings.Contains(fault.Error(), "processing_error") {
			t.Errorf("%s: the error shows the body: %v", c.when, fault)
		}
	}
}

func TestABodyThatIsNoWholeJSONIsNull(t *testing.T) {
	t.Parallel()
	cut := answer(200, nil, `{"id":"x"}`)
	cut.BodyCut = true
	closed := answer(200, nil, "12") // of 123?
	closed.UntilClose = true
	for name, s := range map[string]Sample{
		"empty": answer(200, nil, ""), "HTML": answer(200, nil, "<html>"), "cut": cut, "half": answer(200, nil, `{"id":`), "number to the end": closed,
		"two": answer(200, nil, `{}{}`), "null": answer(200, nil, "null"), "form": answer(200, nil, "a=b"), "binary": answer(200, nil, "\x00\x01\xff"),
		"too long": answer(200, nil, `"`+strings.Repeat("a", MaxBodyBytes)+`"`), "too deep": answer(200, nil, strings.Repeat("[", MaxBodyDepth+1)+strings.Repeat("]", MaxBodyDepth+1)),
		"twice": answer(200, nil, `{"a":1,"a":2}`), "out of range": answer(200, nil, `[1e999]`),
	} {
		if ok, errs := matches(t, `body == null`, s); !ok || errs != nil {
			t.Errorf("%s: body is not null (%v)", name, errs)
		}
	}
	for name, s := range map[string]Sample{
		"with a byte order mark": answer(200, nil, "\xef\xbb\xbf {\"a\":1}\n"), "deep": answer(200, nil, strings.Repeat("[", MaxBodyDepth)+strings.Repeat("]", MaxBodyDepth)),
		"a text": answer(200, nil, `"x"`), "invalid UTF-8 inside": answer(200, nil, "{\"a\":\"\xff\"}"),
	} {
		if ok, errs := matches(t, `body != null`, s); !ok || errs != nil {
			t.Errorf("%s: body is null (%v)", name, errs)
		}
	}
}

func TestTheFirstRuleThatIsTrueDecides(t *testing.T) {
	t.Parallel()
	r := mustRules(t,
		RuleSpec{When: `body.charge.id != ""`, Verdict: jobs.VerdictSucceeded}, // errs: does not match
		RuleSpec{When: `status == 500`, Verdict: jobs.VerdictSucceeded},
		RuleSpec{When: "status ==\n 402", Verdict: jobs.VerdictPendingPoll},
		RuleSpec{When: `true`, Verdict: jobs.VerdictPermanentFailure},
	)
	c, i, ok, errs := r.Classify(declined, jobs.IdempotencyNone)
	if !ok || i != 2 || c.Row != "R3" || c.Verdict != jobs.VerdictPendingPoll || c.Class != jobs.Class4xx || c.Reason != "rule 3 says so: status == 402" {
		t.Errorf("%+v by %d (%v)", c, i, ok)
	}
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "rule 1: when: line 1, column ") {
		t.Errorf("errors %v", errs)
	}
}

func TestWithoutARuleTheTableIsToBeAsked(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*Rules{"nil": nil, "none": mustRules(t), "false": mustRules(t, RuleSpec{When: "false", Verdict: jobs.VerdictSucceeded})} {
		if c, i, ok, errs := r.Classify(declined, jobs.IdempotencyKeyed); ok || i != -1 || errs != nil || c != (Classification{}) {
			t.Errorf("%s: %+v %d %v %v", name, c, i, ok, errs)
		}
	}
}

func TestRulesAreNotAskedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	r := mustRules(t, RuleSpec{When: "true", Verdict: jobs.VerdictRetrySafe, Processed: ProcessedNo})
	for _, p := range Phases {
		_, _, ok, _ := r.Classify(Sample{Phase: p, WireBytes: 1}, jobs.IdempotencyNone)
		if ok != (p == PhaseAnswered) {
			t.Errorf("phase %s: a rule decides: %v", p, ok)
		}
	}
}

// A rule is one more row: whatever a row of the table says can be said by a rule,
// and then means the same.
func TestARuleMeansWhatARowMeans(t *testing.T) {
	t.Parallel()
	said := 0
	for _, row := range Table() {
		for _, class := range jobs.Idempotencies {
			want := row.classify(class, true, true)
			spec := RuleSpec{When: "true", Verdict: want.Verdict, Processed: row.Processed}
			r, err := CompileRules([]RuleSpec{spec})
			if err != nil || CheckRules([]RuleSpec{spec}, []jobs.Idempotency{class}) != nil {
				continue
			}
			got, _, _, _ := r.Classify(answer(299, nil, ""), class)
			if want.Outcome == jobs.OutcomeNotSent {
				want.Outcome = jobs.OutcomeRefused // there is an answer: then it was sent
			}
			if got.Outcome != want.Outcome || got.Acted != want.Acted || got.Processed != want.Processed || got.Verdict != want.Verdict {
				t.Errorf("row %s, class %s: the rule gives %+v, the row %+v", row.ID, class, got, want)
			}
			said++
		}
	}
	if said < 300 {
		t.Errorf("only %d rows could be said by a rule", said)
	}
}

func TestWhatARuleLeavesOutComesFromItsVerdictOrTheTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  int
		verdict jobs.Verdict
		says    Processed
		want    Processed
		outcome jobs.Outcome
		settles bool
		acted   bool
	}{
		{400, jobs.VerdictSucceeded, "", yes, jobs.OutcomeSucceeded, true, false},
		{409, jobs.VerdictDuplicateSuccess, "", yes, jobs.OutcomeSucceeded, true, false},
		{409, jobs.VerdictDuplicateSuccess, no, no, jobs.OutcomeSucceeded, true, false},
		{200, jobs.VerdictPermanentFailure, "", maybe, jobs.OutcomeUnknown, false, false}, // an empty 200 is garbage to the table
		{202, jobs.VerdictPermanentFailure, "", yes, jobs.OutcomeRefused, true, false},
		{402, jobs.VerdictPermanentFailure, "", yes, jobs.OutcomeRefused, true, false},
		{402, jobs.VerdictPermanentFailure, no, no, jobs.OutcomeRefused, false, false},
		{422, jobs.VerdictPermanentFailure, "", no, jobs.OutcomeRefused, false, false},
		{500, jobs.VerdictPermanentFailure, "", maybe, jobs.OutcomeUnknown, false, false},
		{500, jobs.VerdictPermanentFailure, yes, yes, jobs.OutcomeRefused, true, false},
		{400, jobs.VerdictPendingPoll, "", yes, jobs.OutcomeUnknown, false, true},
		{400, jobs.VerdictUnknownInquire, "", maybe, jobs.OutcomeUnknown, false, false},
		{202, jobs.VerdictUnknownInquire, "", yes, jobs.OutcomeUnknown, false, true},
		{429, jobs.VerdictRetryAfter, no, no, jobs.OutcomeRefused, false, false},
		{429, jobs.VerdictRetryAfter, "", maybe, jobs.OutcomeUnknown, false, false},
		{409, jobs.VerdictConflictRead, "", maybe, jobs.OutcomeUnknown, false, false},
		{400, jobs.VerdictConflictRead, yes, yes, jobs.OutcomeUnknown, false, true},
		{426, jobs.VerdictHoldOperator, "", no, jobs.OutcomeRefused, false, false},
	} {
		r := mustRules(t, RuleSpec{When: "true", Verdict: c.verdict, Processed: c.says})
		got, _, _, _ := r.Classify(answer(c.status, nil, ""), jobs.IdempotencyKeyed)
		want := Classification{Row: "R1", Class: got.Class, Outcome: c.outcome, Processed: c.want, Verdict: c.verdict, Acted: c.acted, SettlesPrior: c.settles, Reason: got.Reason}
		if got != want {
			t.Errorf("%d %s processed %q:\n got %+v\nwant %+v", c.status, c.verdict, c.says, got, want)
		}
	}
}

func TestARuleKeepsARefusedCredentialOnlyWhereItHoldsForAPerson(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[jobs.Verdict]bool{jobs.VerdictHoldOperator: true, jobs.VerdictPermanentFailure: false, jobs.VerdictRetrySafe: false} {
		r := mustRules(t, RuleSpec{When: "status == 403", Verdict: verdict, Processed: ProcessedNo})
		if c, _, _, _ := r.Classify(answer(403, nil, ""), jobs.IdempotencyNone); c.CredentialRefused != want {
			t.Errorf("403 as %s: credential refused %v, want %v", verdict, c.CredentialRefused, want)
		}
	}
	r := mustRules(t, RuleSpec{When: "true", Verdict: jobs.VerdictHoldOperator})
	if c, _, _, _ := r.Classify(answer(426, nil, ""), jobs.IdempotencyNone); c.CredentialRefused {
		t.Error("a 426 is no refused credential")
	}
}

func TestTheLongerOfARulesWaitAndTheAnswersHolds(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]Hint{
		0:               {Wait: 7 * time.Second, From: "Retry-After", Raw: "7"},
		time.Second:     {Wait: 7 * time.Second, From: "Retry-After", Raw: "7"},
		time.Hour:       {Wait: time.Hour, From: "R1"},
		MaxWait:         {Wait: MaxWait, From: "R1"},
		7 * time.Second: {Wait: 7 * time.Second, From: "Retry-After", Raw: "7"},
	} {
		r := mustRules(t, RuleSpec{When: "true", Verdict: jobs.VerdictRetryAfter, After: after, Processed: ProcessedNo})
		if c, _, _, _ := r.Classify(declined, jobs.IdempotencyNone); c.Hint != want {
			t.Errorf("after %v: %+v, want %+v", after, c.Hint, want)
		}
	}
}

func TestNoRuleResendsAWeakClassAfterItMayHaveActed(t *testing.T) {
	t.Parallel()
	for _, verdict := range []jobs.Verdict{jobs.VerdictRetrySafe, jobs.VerdictRetryAfter, jobs.VerdictRetrySameKey} {
		for _, says := range []Processed{"", no, maybe, yes} {
			spec := RuleSpec{When: "true", Verdict: verdict, Processed: says}
			r := mustRules(t, spec)
			for _, class := range append(jobs.Idempotencies, "", "unheard_of") {
				weak := class != jobs.IdempotencyKeyed && class != jobs.IdempotencyNatural
				refused := CheckRules([]RuleSpec{spec}, []jobs.Idempotency{jobs.IdempotencyNatural, class}) != nil
				if refused != (weak && says != no) {
					t.Errorf("%s processed %q for class %q: refused at load %v", verdict, says, class, refused)
				}
				for status := 0; status < 1000; status++ {
					c, _, _, _ := r.Classify(answer(status, nil, ""), class)
					if weak && c.Verdict.Resends() && (c.Processed != no || c.Outcome == jobs.OutcomeUnknown) {
						t.Fatalf("%s processed %q for class %q: %d is resent: %+v", verdict, says, class, status, c)
					}
					if !weak && c.Verdict != verdict {
						t.Fatalf("%s for class %q: %d became %s", verdict, class, status, c.Verdict)
					}
				}
			}
		}
	}
}

func TestCheckRulesNamesEachRuleThatCouldRepeatAnEffect(t *testing.T) {
	t.Parallel()
	specs := []RuleSpec{{Verdict: jobs.VerdictRetryAfter}, {Verdict: jobs.VerdictRetryAfter, Processed: no}, {Verdict: jobs.VerdictPermanentFailure}, {Verdict: jobs.VerdictRetrySameKey, Processed: maybe}}
	err := CheckRules(specs, []jobs.Idempotency{jobs.IdempotencyKeyed, jobs.IdempotencyConditional})
	if got := indexes(t, err); !slices.Equal(got, []int{0, 3}) {
		t.Errorf("rules %v are refused: %v", got, err)
	}
	if err := CheckRules(specs, []jobs.Idempotency{jobs.IdempotencyKeyed, jobs.IdempotencyNatural}); err != nil {
		t.Errorf("refused for strong classes: %v", err)
	}
	if err := CheckRules(specs, nil); err != nil {
		t.Errorf("refused for no kind: %v", err)
	}
}

// indexes returns the rules that a joined error is about.
func indexes(t *testing.T, err error) []int {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is not a joined error: %v", err, err)
	}
	var out []int
	for _, e := range joined.Unwrap() {
		var fault *RuleError
		if !errors.As(e, &fault) {
			t.Fatalf("%T: %v", e, e)
		}
		out = append(out, fault.Index)
	}
	return out
}

func TestRulesThatAreWrongAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	perm := jobs.VerdictPermanentFailure
	for _, c := range []struct {
		spec         RuleSpec
		field        string
		line, column int
		msg          string
	}{
		{RuleSpec{When: "", Verdict: perm}, "when", 0, 0, "empty"},
		{RuleSpec{When: " \n", Verdict: perm}, "when", 0, 0, "empty"},
		{RuleSpec{When: "status ==", Verdict: perm}, "when", 1, 10, "syntax error"},
		{RuleSpec{When: "true &&\n  bodi.x == 1", Verdict: perm}, "when", 2, 3, "undeclared reference to 'bodi'"},
		{RuleSpec{When: "foo()", Verdict: perm}, "when", 1, 4, "available: status (int), headers (text by lower-case name), body (the decoded JSON), class (text)"},
		{RuleSpec{When: "status", Verdict: perm}, "when", 0, 0, "of type int"},
		{RuleSpec{When: "body.ok", Verdict: perm}, "when", 0, 0, "(body.ok) == true"},
		{RuleSpec{When: `status == "402"`, Verdict: perm}, "when", 1, 8, "no matching overload"},
		{RuleSpec{When: `class == "timeout"`, Verdict: perm}, "when", 1, 10, `no answer is of class "timeout": there are 2xx, 429, 503, 5xx, 4xx, other`},
		{RuleSpec{When: `class in ["5xx", "5XX"]`, Verdict: perm}, "when", 1, 18, `"5XX"`},
		{RuleSpec{When: `"reset" != class`, Verdict: perm}, "when", 1, 1, `"reset"`},
		{RuleSpec{When: `headers["Retry-After"] == "1"`, Verdict: perm}, "when", 1, 9, `write "retry-after"`},
		{RuleSpec{When: `status == 1 || "X-Y" in headers`, Verdict: perm}, "when", 1, 16, `write "x-y"`},
		{RuleSpec{When: `has(headers.Via)`, Verdict: perm}, "when", 1, 4, `write "via"`},
		{RuleSpec{When: `body.a.exists(body, body == 1)`, Verdict: perm}, "when", 1, 14, `"body" hides`},
		{RuleSpec{When: `body.a.matches("[")`, Verdict: perm}, "when", 1, 16, "the pattern is not valid"},
		{RuleSpec{When: `body.a.matches(body.p)`, Verdict: perm}, "when", 1, 20, "written out"},
		{RuleSpec{When: `matches(body.a, "a{999}b{999}c{999}")`, Verdict: perm}, "when", 0, 0, "regex program size"},
		{RuleSpec{When: `timestamp(body.at) > timestamp("2026-01-01T00:00:00Z")`, Verdict: perm}, "when", 1, 10, "undeclared reference to 'timestamp'"},
		{RuleSpec{When: strings.Repeat(" ", MaxExpressionBytes) + "true", Verdict: perm}, "when", 0, 0, "the limit is 4096"},
		{RuleSpec{When: strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60), Verdict: perm}, "when", 0, 0, "recursion limit"},
		{RuleSpec{When: "[" + strings.Repeat("1,", 2040) + "1] == body", Verdict: perm}, "when", 0, 0, "limit"},
		{RuleSpec{When: "true", Verdict: "retry"}, "verdict", 0, 0, "want one of succeeded, pending_poll"},
		{RuleSpec{When: "true"}, "verdict", 0, 0, "unknown verdict"},
		{RuleSpec{When: "true", Verdict: perm, Processed: "No"}, "processed", 0, 0, `unknown word "No": want one of no, maybe, yes`},
		{RuleSpec{When: "true", Verdict: jobs.VerdictSucceeded, Processed: no}, "processed", 0, 0, "was processed"},
		{RuleSpec{When: "true", Verdict: jobs.VerdictPendingPoll, Processed: maybe}, "processed", 0, 0, "was processed"},
		{RuleSpec{When: "true", Verdict: jobs.VerdictDuplicateSuccess, Processed: maybe}, "processed", 0, 0, "did nothing because"},
		{RuleSpec{When: "true", Verdict: jobs.VerdictUnknownInquire, Processed: no}, "processed", 0, 0, "needs no inquiry"},
		{RuleSpec{When: "true", Verdict: perm, After: time.Second}, "after", 0, 0, "nothing is sent again after permanent_failure"},
		{RuleSpec{When: "true", Verdict: jobs.VerdictRetryAfter, After: -1}, "after", 0, 0, "out of range"},
		{RuleSpec{When: "true", Verdict: jobs.VerdictRetryAfter, After: MaxWait + 1}, "after", 0, 0, "out of range"},
	} {
		good := RuleSpec{When: "true", Verdict: perm}
		r, err := CompileRules([]RuleSpec{good, c.spec, good})
		var fault *RuleError
		if r != nil || !errors.As(err, &fault) {
			t.Errorf("%.60q: %v, want it refused", c.spec.When, err)
			continue
		}
		if fault.Index != 1 || fault.Field != c.field || fault.Line != c.line || fault.Column != c.column || !strings.Contains(fault.Msg, c.msg) {
			t.Errorf("%.60q: %+v\nwant %s at %d:%d with %q", c.spec.When, fault, c.field, c.line, c.column, c.msg)
		}
		if text := fault.Error(); !strings.HasPrefix(text, "rule 2: "+c.field+": ") || strings.Contains(text, "\n") || len(text) > 600 {
			t.Errorf("error text %q", text)
		}
	}
}

func TestEveryRuleThatIsWrongIsNamed(t *testing.T) {
	t.Parallel()
	perm := jobs.VerdictPermanentFailure
	_, err := CompileRules([]RuleSpec{{When: "x", Verdict: perm}, {When: "true", Verdict: perm}, {When: "true"}, {When: "1", Verdict: perm}})
	if got := indexes(t, err); !slices.Equal(got, []int{0, 2, 3}) {
		t.Errorf("rules %v: %v", got, err)
	}
	_, err = CompileRules(slices.Repeat([]RuleSpec{{When: "true", Verdict: perm}}, MaxRules+1))
	var fault *RuleError
	if !errors.As(err, &fault) || fault.Index != MaxRules {
		t.Errorf("%d rules: %v", MaxRules+1, err)
	}
	if _, err = CompileRules(slices.Repeat([]RuleSpec{{When: "true", Verdict: perm}}, MaxRules)); err != nil {
		t.Errorf("%d rules: %v", MaxRules, err)
	}
}

func TestAnEvaluationEndsAtItsCost(t *testing.T) {
	t.Parallel()
	list := `{"a":[` + strings.Repeat("1,", 3000) + `1],"o":[` + strings.Repeat(`{"x":1},`, 2000) + `{}],"s":"` + strings.Repeat("a", 50_000) + `"}`
	for _, when := range []string{
		`body.a.exists(i, body.a.exists(j, j == 2))`,
		`body.a.all(i, size(body.s) > 1)`,
		`body.a.all(i, !body.s.matches("b+c"))`,
		`body.a.all(i, body.o == body.o)`,
	} {
		ok, errs := matches(t, when, answer(200, nil, list))
		if ok || len(errs) != 1 || !strings.Contains(errs[0].Error(), "costs more than 1000000") {
			t.Errorf("%s: %v %v", when, ok, errs)
		}
	}
	full := `{"data":[` + strings.Repeat(`{"status":"x"},`, 69_000) + `{}]}` // as many objects with a status as a body holds
	if ok, errs := matches(t, `!body.data.exists(c, has(c.status) && c.status == "succeeded")`, answer(200, nil, full)); !ok || len(full) > MaxBodyBytes {
		t.Error(len(full), errs)
	}
	for _, when := range []string{
		`body.a.all(i, i == 1)`,
		`body.a.exists(i, i == 2) || body.s.endsWith("a")`,
		`body.o == body.o && body.s.matches("^a*$") && 1 in body.a && body.a != body.o`,
		`{"k": body.s} == {"k": body.s}`,
	} {
		if ok, errs := matches(t, when, answer(200, nil, list)); !ok {
			t.Errorf("%s: %v", when, errs)
		}
	}
}

// The prices of CEL's own would let most of these pass for 1.
func TestCallsArePricedByTheWorkTheyAre(t *testing.T) {
	t.Parallel()
	adapter := types.DefaultTypeAdapter
	text := types.String(strings.Repeat("ä", 500)) // 1000 bytes
	numbers := adapter.NativeToValue([]any{int64(1), 2.0, nil, "x"})
	objects := adapter.NativeToValue([]any{map[string]any{"a": map[string]any{"b": string(text)}}, map[string]any{}})
	for _, c := range []struct {
		function string
		args     []ref.Val
		want     uint64
	}{
		{operators.Equals, []ref.Val{types.Int(1), types.Int(2)}, 1},
		{operators.Equals, []ref.Val{text, text}, 101},
		{operators.NotEquals, []ref.Val{text, types.String("x")}, 1},
		{operators.NotEquals, []ref.Val{text, types.NullValue}, 1},
		{operators.Equals, []ref.Val{objects, objects}, 1 + nestedCost*(1+1+1+101+1)},
		{operators.Equals, []ref.Val{objects, numbers}, 1}, // not of one length
		{operators.Equals, []ref.Val{objects, text}, 1},
		{operators.In, []ref.Val{types.Int(1), numbers}, 1 + 1 + 4},
		{operators.In, []ref.Val{types.String("a"), adapter.NativeToValue(map[string]any{"a": 1, "b": 2})}, 1}, // looked up, not walked
		{overloads.Size, []ref.Val{text}, 101},
		{overloads.Size, []ref.Val{objects}, 1},
		{overloads.Contains, []ref.Val{text, text}, 201},
		{operators.Less, []ref.Val{text, text}, 201},
		{operators.Add, []ref.Val{text, text}, 201},
		{overloads.Matches, []ref.Val{text, types.String(strings.Repeat("a?", 10))}, 1 + 100*3},
		{overloads.TypeConvertInt, []ref.Val{types.String("1")}, 1},
		{operators.LogicalNot, []ref.Val{types.True}, 1},
	} {
		if got := *(callPrices{}).CallCost(c.function, "", c.args, nil); got != c.want {
			t.Errorf("%s of %d arguments costs %d, want %d", c.function, len(c.args), got, c.want)
		}
	}
	if got := weight(numbers, 2); got > 3 {
		t.Errorf("counted to %d, beyond the limit", got)
	}
}

func TestManyHeadersAndBinaryOnesAreRead(t *testing.T) {
	t.Parallel()
	header := map[string][]string{"X-Last": {"\xff\x00z"}}
	for i := range 10_000 {
		header[fmt.Sprintf("X-H-%d", i)] = []string{"v"}
	}
	if ok, errs := matches(t, `headers.size() == 10001 && headers["x-h-9999"] == "v" && headers["x-last"].endsWith("z")`, answer(200, header, "")); !ok {
		t.Error(errs)
	}
	if len(header) != 10_001 {
		t.Error("the sample was changed")
	}
}

func TestRulesAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r := mustRules(t, RuleSpec{When: `body.error.code == "no" && body.items.exists(i, i.status == "x")`, Verdict: jobs.VerdictSucceeded},
		RuleSpec{When: `body.items.exists(i, i.status == headers["request-id"])`, Verdict: jobs.VerdictSucceeded},
		RuleSpec{When: `body.error.code.matches("^proc") && status in [402] && "x-flag" in headers`, Verdict: jobs.VerdictPermanentFailure})
	want, _, _, _ := r.Classify(declined, jobs.IdempotencyKeyed)
	header := maps.Clone(declined.Header)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				s := declined
				s.Header = header
				if got, i, ok, _ := r.Classify(s, jobs.IdempotencyKeyed); !ok || i != 2 || got != want {
					t.Errorf("rule %d: %+v", i, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Found by the race detector in another test: a failed check wrote what a check beside it read.
func TestRulesMayBeCompiledAtTheSameTime(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 8 {
		for _, when := range []string{`body.items.exists(i, i.status == "failed")`, `nobody.knows(body)`} {
			all.Go(func() {
				_, err := CompileRules([]RuleSpec{{When: when, Verdict: jobs.VerdictHoldOperator}})
				if (err != nil) != strings.HasPrefix(when, "nobody") {
					t.Errorf("%s: %v", when, err)
				}
			})
		}
	}
	all.Wait()
}
