package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

func TestInquiryDefaultsAreCarefulForClassNone(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies: {payrail: {base_url: https://api.payrail.example}}
operations:
  keyed: {dependency: payrail, request: {path: /v1}, idempotency: keyed, inquiry: {request: {path: "/v1/{key}"}, succeeded: body.ok == true}}
  none: {dependency: payrail, request: {path: /v1}, inquiry: {request: {path: "/v1/{key}"}, succeeded: body.ok == true, settle: 3s}}
  resent:
    dependency: payrail
    request: {path: /v1}
    on_late_success: keep
    inquiry: {request: {path: "/v1/{key}"}, succeeded: body.ok == true, settle: 3s, after_not_found: resend, failed_means: final}
`)
	backoff := policy.Backoff{Base: 5 * time.Second, Cap: 10 * time.Minute}
	for kind, want := range map[jobs.Kind]Inquiry{
		"keyed":  {Method: "GET", Path: "/v1/{key}", Settle: 30 * time.Second, Backoff: backoff, GiveUpAfter: 72 * time.Hour},
		"none":   {Method: "GET", Path: "/v1/{key}", Settle: 3 * time.Second, Backoff: backoff, GiveUpAfter: 72 * time.Hour, AfterNotFoundDead: true},
		"resent": {Method: "GET", Path: "/v1/{key}", Settle: 3 * time.Second, Backoff: backoff, GiveUpAfter: 72 * time.Hour},
	} {
		got := *c.Kinds[kind].Inquiry
		read := got.Read
		if got.Read = nil; got != want || c.Kinds[kind].VoidLate != nil {
			t.Errorf("%s: got %+v, want %+v", kind, got, want)
		}
		for body, want := range map[string]jobs.InquiryAnswer{`{"ok":true}`: jobs.InquirySucceeded, `{"ok":false}`: jobs.InquiryNothing} {
			if says, _, err := read.Read(policy.Sample{Phase: policy.PhaseAnswered, Status: 200, Body: []byte(body)}); says != want {
				t.Errorf("%s: %s reads as %s (%v)", kind, body, says, err)
			}
		}
	}
}

func TestAVoidIsInForceOnlyUnderItsWord(t *testing.T) {
	t.Parallel()
	const text = `
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies: {payrail: {base_url: https://api.payrail.example}, bank: {base_url: https://bank.example}}
operations:
  charge: {dependency: payrail, request: {path: /v1}, on_late_success: WORD, void: {kind: void, params: {id: params.charge, ref: key}}}
  void: {dependency: bank, request: {path: "/v1/{params.id}"}, idempotency: natural}
`
	for word, want := range map[string]bool{"keep": false, "void": true} {
		c := mustParse(t, strings.Replace(text, "WORD", word, 1))
		got := c.Kinds["charge"].VoidLate
		if (got != nil) != want || want && (got.Kind != "void" || got.Params["id"] != "params.charge" || got.Params["ref"] != "key" || len(got.Params) != 2) {
			t.Errorf("%s: got %+v", word, got)
		}
		if spec := c.KindSpecs()[0]; (spec.Void != nil) != want {
			t.Errorf("%s: published as %+v", word, spec.Void)
		}
	}
	for _, word := range []string{"keep", "void"} { // checked whether in force or not
		if _, err := Parse("redrive.yaml", []byte(strings.Replace(strings.Replace(text, "WORD", word, 1), "{kind: void,", "{kind: charge,", 1))); err == nil {
			t.Errorf("%s: a kind that undoes itself is allowed", word)
		}
	}
}

func TestInquiryNeedsWhatItsPathNames(t *testing.T) {
	t.Parallel()
	q := Inquiry{Path: "/v1/{params.a}/{result.b}/{key}?c={params.c}&k={idempotency_key}"}
	params, results := q.Needs()
	if !slices.Equal(params, []string{"a", "c"}) || !slices.Equal(results, []string{"b"}) {
		t.Errorf("params %q, results %q", params, results)
	}
}

func TestResultsOfAnInquiryAreReadAsThoseOfASuccess(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies: {payrail: {base_url: https://api.payrail.example}}
operations:
  charge:
    dependency: payrail
    request: {path: /v1}
    result: {id: body.id, fee: body.fee}
    inquiry:
      request: {path: "/v1?reference={key}"}
      settle: 1m
      succeeded: body.data.exists(c, c.ok)
      result: {id: 'body.data.filter(c, c.ok)[0].id', seen: size(body.data)}
    on_late_success: void
    void: {kind: void, params: {id: result.id, seen: result.seen, fee: result.fee}}
  void: {dependency: payrail, request: {path: "/v1/{params.id}"}, idempotency: natural}
  plain: {dependency: payrail, request: {path: /v1}, idempotency: natural, inquiry: {request: {path: "/v1/{key}"}, succeeded: body.ok == true}}
`)
	charge, answer := c.Kinds["charge"], policy.Sample{Phase: policy.PhaseAnswered, Status: 200, Body: []byte(`{"data":[{"id":"ch_1","ok":false},{"id":"ch_2","ok":true}]}`)}
	if got := charge.ResultNames(); !slices.Equal(got, []string{"fee", "id", "seen"}) {
		t.Errorf("names %q", got)
	}
	if values, errs := charge.Inquiry.Results.Read(answer); len(errs) != 0 || len(values) != 2 || values["id"] != "ch_2" || values["seen"] != "2" {
		t.Errorf("%v (%v)", values, errs)
	}
	plain := c.Kinds["plain"]
	if values, errs := plain.Inquiry.Results.Read(answer); len(values) != 0 || len(errs) != 0 || len(plain.ResultNames()) != 0 {
		t.Errorf("%v (%v) where nothing is kept", values, errs)
	}

	var warned []string
	for _, w := range c.Warnings() {
		if strings.Contains(w, "inquiry.result") {
			warned = append(warned, w)
		}
	}
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "operations.charge.void.params.fee: result.fee is not among inquiry.result") {
		t.Errorf("warnings %q: only an attempt's answer tells the fee", warned)
	}
}
