package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"redrive/internal/jobs"
)

var expressionSeeds = []string{
	`status == 402 && body.error.code == "processing_error"`, `body.data.exists(c, c.status == "succeeded")`, `size(body.data) == 0`,
	`body.a.map(x, x + 1).filter(y, y > 2) == [3]`, `headers["x"].matches("a(b|c)*")`, `{"a": [1, 2.0, 3u]}["a"][0] == 1 ? true : false`,
	`body.a.b.c[0]["d"] in [1, "x", null]`, `!has(body.x)`, `"\u00e4" in headers || class == "5xx"`, `body == body && -body.n < 3`, `[[[[`, `a.b(`, "\xff", `body.all(x, body.all(y, body.all(z, true)))`,
	`google.protobuf.Timestamp{seconds: 1} == body`, `b"x" == b"y"`, `type(body) == type(headers)`, `9223372036854775807 + status > 0`, `has(headers.x) && dyn(status) == 1`,
}

var bodySeeds = []string{
	``, `null`, `{}`, `[]`, `{"data":[]}`, `{"data":null}`, `{"data":[{"status":"failed"},{"status":"succeeded"}]}`, `{"data":[{"status":"pending"}]}`, `{"data":{}}`, `{"data":""}`,
	`{"error":{"code":"processing_error"}}`, `[1,-2,3.5,1e400,18446744073709551616]`, `{"a":1,"a":2}`, "{\"a\":\"\\ud800\xff\"}", `"x`, `{"data":[` + strings.Repeat("[", 70), "\xef\xbb\xbf{}", `{"data":[0`,
}

// Whatever stands in a configuration and whatever a gateway answers: no panic, and
// errors that say where.
func FuzzExpressions(f *testing.F) {
	for i, x := range expressionSeeds {
		f.Add(x, []byte(bodySeeds[i%len(bodySeeds)]), "X-A", "1", 200+i)
	}
	f.Fuzz(func(t *testing.T, source string, body []byte, name, value string, status int) {
		s := Sample{Phase: PhaseAnswered, Status: status, Header: map[string][]string{name: {value, value}, strings.ToLower(name): {value}}, Body: body}
		r, err := CompileRules([]RuleSpec{{When: source, Verdict: jobs.VerdictRetryAfter, Processed: ProcessedNo}})
		checkRuleError(t, source, err)
		if err == nil {
			c, i, ok, errs := r.Classify(s, jobs.IdempotencyNone)
			for _, err := range errs {
				checkRuleError(t, source, err)
			}
			if ok && i < 0 && c.Row == "H200G" && c.Outcome == jobs.OutcomeUnknown {
				return // the body of a success hides from the rule
			}
			if ok != (i == 0) || ok != (c.Row == "R1") || ok && errs != nil || len(errs) > 1 {
				t.Errorf("%q: %+v %d %v %v", source, c, i, ok, errs)
			}
		}
		results, err := CompileResult(map[string]string{"v": source})
		checkRuleError(t, source, err)
		values, errs := results.Read(s)
		if text, ok := values["v"]; results != nil && ok == (len(errs) == 1) || len(text) > MaxResultBytes || !utf8.ValidString(text) || ok && text == "" {
			t.Errorf("%q: %q %v", source, text, errs)
		}
	})
}

func checkRuleError(t *testing.T, source string, err error) {
	t.Helper()
	var fault *RuleError
	if err != nil && (!errors.As(err, &fault) || fault.Msg == "" || fault.Field == "" || fault.Line < 0 || fault.Column < 0 || fault.Line > strings.Count(source, "\n")+1) {
		t.Errorf("%q: error without its place: %#v", source, err)
	}
}

// No rule, whatever it says, gets a weak class resent after it may have acted.
func FuzzRulesAndDecide(f *testing.F) {
	for i, b := range bodySeeds {
		f.Add(uint8(i), uint8(i%4), uint16(i*37), 200+i*20, []byte(b), "7", uint64(i))
	}
	f.Fuzz(func(t *testing.T, verdict, processed uint8, after uint16, status int, body []byte, hint string, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		spec := RuleSpec{When: "true", Verdict: jobs.Verdicts[int(verdict)%len(jobs.Verdicts)], Processed: []Processed{"", no, maybe, yes}[processed%4]}
		if spec.Verdict.Resends() {
			spec.After = time.Duration(after) * time.Second
		}
		class := append(jobs.Idempotencies, "other")[rnd.IntN(len(jobs.Idempotencies)+1)]
		r, err := CompileRules([]RuleSpec{spec})
		if err != nil {
			return
		}
		s := answer(status, map[string][]string{"Retry-After": {hint}}, string(body))
		s.BodyCut, s.UntilClose = rnd.IntN(2) == 0, rnd.IntN(2) == 0
		c, _, ok, errs := r.Classify(s, class)
		if !ok || errs != nil || c.Class != classOf(s) || c.Hint.Wait < spec.After || c.Hint.Wait > MaxWait {
			t.Fatalf("%+v: %+v %v", spec, c, errs)
		}
		checkOutcome(t, c)
		if !keepsEffect(class) && c.Verdict.Resends() && (c.Processed != no || c.Outcome == jobs.OutcomeUnknown) {
			t.Errorf("%+v: class %q is resent: %+v", spec, class, c)
		}
		if !keepsEffect(class) && c.Verdict.Resends() && spec.Processed != no && CheckRules([]RuleSpec{spec}, []jobs.Idempotency{class}) == nil {
			t.Errorf("%+v: not refused for class %q", spec, class)
		}
		in := DecideInput{C: c, Idempotency: class, UnknownBefore: rnd.IntN(2) == 0, ResendSafeFor: time.Duration(rnd.Int64()), HasInquiry: rnd.IntN(2) == 0,
			Attempt: rnd.IntN(9), Used: rnd.IntN(9), MaxAttempts: rnd.IntN(9), DeadlineIn: time.Duration(rnd.Int64()), MinResponse: time.Second,
			Backoff: Backoff{Base: time.Second, Cap: time.Minute}, CredentialRefusals: rnd.IntN(5), DependencyPaused: rnd.IntN(2) == 0, Rand: rnd.Float64}
		checkDecision(t, in, Decide(in))
	})
}

// An inquiry says "not found" of what surely has an empty list of charges, and of
// nothing else; "succeeded" where one is. Held against another decoder.
func FuzzInquiry(f *testing.F) {
	for i, b := range bodySeeds {
		f.Add([]byte(b), 200+(i%3)*150, i%5 == 4, i%2 == 0)
	}
	q := mustInquiry(f, chargeInquiry)
	f.Fuzz(func(t *testing.T, body []byte, status int, cut, untilClose bool) {
		s := Sample{Phase: PhaseAnswered, Status: status, Body: body, BodyCut: cut, UntilClose: untilClose}
		says, rule, err := q.Read(s)
		if (err == nil) != (says != jobs.InquiryNothing) || err == nil && rule != string(says) {
			t.Fatalf("%s by %q: %v", says, rule, err)
		}
		if says == jobs.InquiryNothing {
			return
		}
		if cut || status != 200 {
			t.Fatalf("%d, cut %v: %s", status, cut, says)
		}
		var page struct{ Data any }
		var exact map[string]json.RawMessage
		if json.Unmarshal(trimBody(body), &exact) != nil || json.Unmarshal(exact["data"], &page.Data) != nil {
			t.Fatalf("%q is no page, and is read as %s", body, says)
		}
		seen := map[any]int{}
		items, _ := page.Data.([]any)
		for _, item := range items {
			if charge, ok := item.(map[string]any); ok {
				if word, ok := charge["status"].(string); ok {
					seen[word]++
				}
			}
		}
		holds := map[jobs.InquiryAnswer]bool{
			jobs.InquirySucceeded: seen["succeeded"] > 0 || !isList(page.Data),
			jobs.InquiryPending:   seen["succeeded"] == 0 && seen["pending"] > 0 || !isList(page.Data),
			jobs.InquiryFailed:    len(items) > 0 && seen["failed"] == len(items) || !isList(page.Data),
			jobs.InquiryNotFound:  reflect.ValueOf(page.Data).IsValid() && reflect.ValueOf(page.Data).Len() == 0,
		}
		if !holds[says] {
			t.Errorf("%q is read as %s", body, says)
		}
	})
}

// isList is false for an object, over whose keys CEL goes as over a list.
func isList(v any) bool { _, ok := v.([]any); return ok }

// decodeJSON agrees with encoding/json on all that it does not refuse on purpose.
func FuzzDecodeJSON(f *testing.F) {
	for _, b := range bodySeeds {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeJSON(body)
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		var want any
		if !json.Valid(body) {
			if err == nil {
				t.Fatalf("%q is decoded as %v", body, got)
			}
			return
		}
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			if !errors.Is(err, errJSONDepth) && !errors.Is(err, errJSONTwice) && !errors.Is(err, errJSONRange) {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		if want = exactly(want); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, want %#v", body, got, want)
		}
	})
}

// exactly turns the numbers of encoding/json into what decodeJSON makes of them.
func exactly(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = exactly(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exactly(v[i])
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}
