package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

func mustResults(t testing.TB, specs map[string]string) *Results {
	t.Helper()
	r, err := CompileResult(specs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResultsAreWrittenAsTheyWereMeant(t *testing.T) {
	t.Parallel()
	s := answer(201, map[string][]string{"Location": {"/v1/charges/ch_1"}},
		`{"id":"ch_1","n":9223372036854775807,"u":18446744073709551615,"neg":-42,"whole":4.0,"rate":0.1,"ok":true,"small":1e-7,"e":1e3,"uml":"\u00e4\ud83d\ude00","long":"`+strings.Repeat("x", MaxResultBytes)+`"}`)
	for source, want := range map[string]string{
		`body.id`: "ch_1", `body.n`: "9223372036854775807", `body.u`: "18446744073709551615", `body.neg`: "-42", `body.whole`: "4", `body.rate`: "0.1",
		`body.ok`: "true", `body.small`: "0.0000001", `body.e`: "1000", `body.uml`: "ä😀", `body.long`: strings.Repeat("x", MaxResultBytes),
		`headers.location`: "/v1/charges/ch_1", `status`: "201", `body.id + "/" + string(body.n)`: "ch_1/9223372036854775807", `has(body.x) ? body.x : body.id`: "ch_1", `size(body.id)`: "4", `status == 201`: "true",
	} {
		values, errs := mustResults(t, map[string]string{"v": source}).Read(s)
		if errs != nil || !maps.Equal(values, map[string]string{"v": want}) {
			t.Errorf("%s: %v %v, want %q", source, values, errs, want)
		}
	}
}

func TestAResultIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	s := answer(200, nil, `{"id":"ch_1","nil":null,"list":[1],"map":{},"empty":"","long":"`+strings.Repeat("x", MaxResultBytes+1)+
		`","wide":"`+strings.Repeat("ä", MaxResultBytes/2+1)+`","big":18446744073709551616,"bigf":9007199254740992.0}`)
	for source, want := range map[string]string{
		`body.missing`: `no key "missing"`, `body.nil`: "null", `body.list`: "neither text", `body.map`: "neither text", `body.empty`: "empty",
		`body.long`: "the limit is 200", `body.wide`: "the limit is 200", `body.big`: "too large to be exact", `-1.0 * body.big`: "too large", `body.bigf`: "too large",
		`1.0 / 0.0`: "too large", `0.0 / 0.0`: "too large", `type(body.id)`: "neither text", `headers["x"]`: `no key "x"`, `body.id.y`: `no key "y"`, `int(body.id)`: "cannot be evaluated",
	} {
		r, err := CompileResult(map[string]string{"id": "body.id", "v": source})
		if source == `type(body.id)` {
			if err == nil {
				t.Errorf("%s is accepted", source)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		values, errs := r.Read(s)
		var fault *RuleError
		if !maps.Equal(values, map[string]string{"id": "ch_1"}) || len(errs) != 1 || !errors.As(errs[0], &fault) {
			t.Errorf("%s: %v %v", source, values, errs)
			continue
		}
		if fault.Field != "v" || fault.Index != -1 || !strings.Contains(fault.Msg, want) {
			t.Errorf("%s: %+v, want %q", source, fault, want)
		}
	}
	cut := s
	cut.BodyCut = true
	if values, errs := mustResults(t, map[string]string{"id": "body.id", "status": "status"}).Read(cut); len(errs) != 1 || !maps.Equal(values, map[string]string{"status": "200"}) {
		t.Errorf("cut body: %v %v", values, errs)
	}
}

func TestResultsThatAreWrongAreRefusedByName(t *testing.T) {
	t.Parallel()
	for source, msg := range map[string]string{"": "empty", "body.": "syntax error", "bodi.id": "available: status (int), headers (text by lower-case name), body (the decoded JSON)",
		"[body.id]": "of type list(dyn)", "headers": "of type map(string, string)", "null": "null", "class": "undeclared"} {
		_, err := CompileResult(map[string]string{"a": "body.id", "b": source})
		var fault *RuleError
		if !errors.As(err, &fault) || fault.Field != "b" || fault.Index != -1 || !strings.Contains(fault.Msg, msg) {
			t.Errorf("%q: %v, want %q", source, err, msg)
		}
	}
	if _, err := CompileResult(map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}); err == nil {
		t.Error("five results are accepted")
	}
}

func TestWithoutResultsNothingIsKept(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*Results{"nil": nil, "none": mustResults(t, nil)} {
		if values, errs := r.Read(answer(200, nil, `{"id":"x"}`)); values == nil || len(values) != 0 || errs != nil {
			t.Errorf("%s: %v %v", name, values, errs)
		}
	}
}

func TestResultsNameTheirValues(t *testing.T) {
	t.Parallel()
	r, err := CompileResult(map[string]string{"location": `headers["location"]`, "id": "body.id"})
	if err != nil || !slices.Equal(r.Names(), []string{"id", "location"}) {
		t.Errorf("got %q (%v)", r.Names(), err)
	}
	var none *Results
	if names := none.Names(); len(names) != 0 {
		t.Errorf("no results are named %q", names)
	}
}
