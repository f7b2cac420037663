package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// chargeInquiry is the one of the contract.
var chargeInquiry = InquirySpec{
	Answers:   []int{200},
	Succeeded: `body.data.exists(c, c.status == "succeeded")`,
	Pending:   `body.data.exists(c, c.status == "pending")`,
	Failed:    `size(body.data) > 0 && body.data.all(c, c.status == "failed")`,
	NotFound:  `size(body.data) == 0`,
}

func mustInquiry(t testing.TB, spec InquirySpec) *Inquiry {
	t.Helper()
	q, err := CompileInquiry(spec)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// wantAnswer holds a reading against what it must be, and its three results
// against each other: the error and "nothing" come together.
func wantAnswer(t *testing.T, q *Inquiry, s Sample, want jobs.InquiryAnswer, wantRule string) {
	t.Helper()
	says, rule, err := q.Read(s)
	if says != want || rule != wantRule || (err != nil) != (says == jobs.InquiryNothing) {
		t.Errorf("%d %.80q: %s by %q (%v), want %s by %q", s.Status, s.Body, says, rule, err, want, wantRule)
	}
}

func TestAnInquiryIsReadInItsOrderOverAllItems(t *testing.T) {
	t.Parallel()
	q := mustInquiry(t, chargeInquiry)
	for body, want := range map[string]jobs.InquiryAnswer{
		`{"data":[{"status":"succeeded"}]}`:                                          jobs.InquirySucceeded,
		`{"data":[{"status":"failed"},{"status":"succeeded"}]}`:                      jobs.InquirySucceeded,
		`{"data":[{"status":"pending"},{"status":"failed"},{"status":"succeeded"}]}`: jobs.InquirySucceeded,
		`{"data":[{"status":"failed"},{"status":"pending"}]}`:                        jobs.InquiryPending,
		`{"data":[{"status":"failed"},{"status":"failed"}]}`:                         jobs.InquiryFailed,
		`{"data":[{"status":"failed"}]}`:                                             jobs.InquiryFailed,
		`{"data":[]}`:                                                                jobs.InquiryNotFound,
		" {\"data\" : [ ] , \"has_more\":false}\r\n":                                 jobs.InquiryNotFound,
		`{"data":{}}`:                          jobs.InquiryNotFound,
		`{"data":[{},{"status":"succeeded"}]}`: jobs.InquirySucceeded,
	} {
		wantAnswer(t, q, answer(200, nil, body), want, string(want))
	}
}

func TestAFailedInquiryProvesNothing(t *testing.T) {
	t.Parallel()
	q := mustInquiry(t, chargeInquiry)
	for _, status := range []int{-1, 0, 100, 199, 201, 204, 206, 301, 400, 401, 403, 404, 407, 408, 409, 425, 429, 500, 502, 503, 504, 599, 999} {
		for _, body := range []string{`{"data":[]}`, `{"data":[{"status":"succeeded"}]}`, ""} {
			wantAnswer(t, q, answer(status, nil, body), jobs.InquiryNothing, "")
		}
	}
	for name, body := range map[string]string{
		"nothing": "", "HTML": "<!DOCTYPE html><html>no charges</html>", "half": `{"data":[`, "half a page": `{"data":[{"status":"failed"},`, "two values": `{"data":[]}{"data":[]}`,
		"a form": "data=", "compressed": "\x1f\x8b\x08\x00", "a name twice": `{"data":[{"status":"succeeded"}],"data":[]}`,
		"too deep": `{"data":[],"x":` + strings.Repeat("[", MaxBodyDepth) + strings.Repeat("]", MaxBodyDepth) + "}",
		"too long": `{"data":[],"x":"` + strings.Repeat("x", MaxBodyBytes) + `"}`, "a number out of range": `{"data":[],"x":1e999}`,
	} {
		if says, rule, err := q.Read(answer(200, nil, body)); says != jobs.InquiryNothing || rule != "" || err == nil {
			t.Errorf("%s: %s by %q", name, says, rule)
		}
	}
	for _, p := range Phases {
		if p != PhaseAnswered {
			wantAnswer(t, q, Sample{Phase: p, Status: 200, Body: []byte(`{"data":[]}`)}, jobs.InquiryNothing, "")
		}
	}
	cut := answer(200, nil, `{"data":[]}`)
	cut.BodyCut = true
	wantAnswer(t, q, cut, jobs.InquiryNothing, "")
}

func TestARuleThatErrsLetsNoLaterOneDecide(t *testing.T) {
	t.Parallel()
	q := mustInquiry(t, chargeInquiry)
	for body, by := range map[string]string{
		`{"data":null}`:                     "succeeded",
		`null`:                              "succeeded",
		`[]`:                                "succeeded",
		`{}`:                                "succeeded",
		`{"data":0}`:                        "succeeded",
		`{"error":{"code":"internal"}}`:     "succeeded",
		`{"data":[{"state":"failed"}]}`:     "succeeded", // no status to look at
		`{"data":[{"status":"failed"},{}]}`: "succeeded",
		`{"data":[null]}`:                   "succeeded",
		`{"data":"none"}`:                   "succeeded",
		`{"data":["succeeded"]}`:            "succeeded",
		`{"data":[{"status":"failed"},"pending"]}`: "succeeded",
	} {
		wantAnswer(t, q, answer(200, nil, body), jobs.InquiryNothing, by)
	}
	// The one that errs comes first, in the middle, last.
	for _, c := range []struct {
		spec InquirySpec
		by   string
	}{
		{InquirySpec{Succeeded: "body.x == 1", Pending: "true", Failed: "true", NotFound: "true"}, "succeeded"},
		{InquirySpec{Succeeded: "false", Pending: "body.x == 1", Failed: "true", NotFound: "true"}, "pending"},
		{InquirySpec{Succeeded: "false", Pending: "false", Failed: "body.x == 1", NotFound: "true"}, "failed"},
		{InquirySpec{Succeeded: "false", NotFound: "size(body.x) == 0"}, "not_found"},
		{InquirySpec{Succeeded: "false", NotFound: "!has(body.x.y)"}, "not_found"},
	} {
		c.spec.Answers = []int{200}
		wantAnswer(t, mustInquiry(t, c.spec), answer(200, nil, "{}"), jobs.InquiryNothing, c.by)
	}
	var fault *RuleError
	if _, _, err := q.Read(answer(200, nil, "{}")); !errors.As(err, &fault) || fault.Field != "succeeded" || fault.Index != -1 {
		t.Errorf("%v", err)
	}
}

func TestAWordThatNoRuleKnowsProvesNothing(t *testing.T) {
	t.Parallel()
	q := mustInquiry(t, chargeInquiry)
	for _, body := range []string{`{"data":[{"status":"quantum"}]}`, `{"data":[{"status":"failed"},{"status":"quantum"}]}`, `{"data":[{"status":"Succeeded"}]}`, `{"data":[{"status":null}]}`} {
		wantAnswer(t, q, answer(200, nil, body), jobs.InquiryNothing, "")
	}
}

func TestAnInquiryThatCostsTooMuchProvesNothing(t *testing.T) {
	t.Parallel()
	spec := chargeInquiry
	spec.Succeeded = `body.data.exists(c, body.data.exists(d, d == c + 1))`
	spec.NotFound = "true"
	body := `{"data":[` + strings.Repeat("1,", 5000) + `1]}`
	wantAnswer(t, mustInquiry(t, spec), answer(200, nil, body), jobs.InquiryNothing, "succeeded")
}

func TestOtherStatusesAreReadWhereTheyAreListed(t *testing.T) {
	t.Parallel()
	q := mustInquiry(t, InquirySpec{Answers: []int{200, 404}, Succeeded: `status == 200 && body.state == "PAID"`, NotFound: `status == 404 && body.code == "no_such_payment"`})
	wantAnswer(t, q, answer(200, nil, `{"state":"PAID"}`), jobs.InquirySucceeded, "succeeded")
	wantAnswer(t, q, answer(404, nil, `{"code":"no_such_payment"}`), jobs.InquiryNotFound, "not_found")
	wantAnswer(t, q, answer(404, nil, `{"code":"no_such_route"}`), jobs.InquiryNothing, "")
	wantAnswer(t, q, answer(404, nil, `{"message":"Not Found"}`), jobs.InquiryNothing, "not_found")
	wantAnswer(t, q, answer(404, nil, `404 page not found`), jobs.InquiryNothing, "")
	wantAnswer(t, q, answer(404, nil, ``), jobs.InquiryNothing, "")
	wantAnswer(t, q, answer(200, nil, `{"state":"OPEN"}`), jobs.InquiryNothing, "")

	byHeader := mustInquiry(t, InquirySpec{Answers: []int{200}, Succeeded: `headers["x-found"] == "1"`, NotFound: `headers["x-found"] == "0"`})
	wantAnswer(t, byHeader, answer(200, map[string][]string{"X-Found": {"0"}}, `{}`), jobs.InquiryNotFound, "not_found")
	wantAnswer(t, byHeader, answer(200, nil, `{}`), jobs.InquiryNothing, "succeeded")
}

func TestAnInquiryTellsWhatItHasARuleFor(t *testing.T) {
	t.Parallel()
	whole, short := mustInquiry(t, chargeInquiry), mustInquiry(t, InquirySpec{Answers: []int{200}, Succeeded: "status == 200"})
	for _, says := range InquiryAnswers {
		if got, want := whole.Tells(says), says != jobs.InquiryNothing; got != want {
			t.Errorf("%s: %v of an inquiry with every rule", says, got)
		}
		if got, want := short.Tells(says), says == jobs.InquirySucceeded; got != want {
			t.Errorf("%s: %v of an inquiry with one rule", says, got)
		}
	}
}

func TestInquiriesThatAreWrongAreRefusedByKey(t *testing.T) {
	t.Parallel()
	fields := func(spec InquirySpec) (out []string) {
		_, err := CompileInquiry(spec)
		if err == nil {
			return nil
		}
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			var fault *RuleError
			if !errors.As(e, &fault) || fault.Index != -1 || strings.HasPrefix(fault.Error(), "rule") {
				t.Errorf("%T: %v", e, e)
				continue
			}
			out = append(out, fault.Field)
		}
		return out
	}
	for _, c := range []struct {
		spec InquirySpec
		want []string
	}{
		{InquirySpec{}, []string{"answers", "succeeded"}},
		{InquirySpec{Answers: []int{200}, NotFound: "true"}, []string{"succeeded"}},
		{InquirySpec{Answers: []int{200}, Succeeded: "status", Pending: "x", Failed: "body.ok", NotFound: " "}, []string{"succeeded", "pending", "failed", "not_found"}},
		{InquirySpec{Answers: []int{200}, Succeeded: `class == "2xx"`}, []string{"succeeded"}}, // a class says no more than the status
		{InquirySpec{Answers: []int{200, 401, 404, 429, 500, 302, 0, 600}, Succeeded: "true"}, []string{"answers", "answers", "answers", "answers", "answers", "answers"}},
		{InquirySpec{Answers: []int{200}, Succeeded: "true"}, nil},
	} {
		if got := fields(c.spec); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.spec, got, c.want)
		}
	}
	for status := range 700 {
		refused := len(fields(InquirySpec{Answers: []int{status}, Succeeded: "true"})) > 0
		about := status/100 == 2 || status/100 == 4 && !slices.Contains([]int{401, 403, 407, 408, 425, 429}, status)
		if refused == about {
			t.Errorf("status %d: refused %v", status, refused)
		}
	}
}

func TestEveryInquiryAnswerIsListed(t *testing.T) {
	t.Parallel()
	if got, err := jobs.Parse("answer", "not_found", InquiryAnswers); err != nil || got != jobs.InquiryNotFound || len(InquiryAnswers) != 5 {
		t.Errorf("%v %v", got, err)
	}
}
