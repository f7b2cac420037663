package config

import (
	"reflect"
	"testing"

	"redrive/internal/jobs"
)

func TestKindSpecSaysEverythingThatASubmissionNeeds(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://127.0.0.1:6379/0", wait_replicas: 1}
dependencies:
  payrail: {base_url: https://api.payrail.example, credentials: {m1: {headers: {A: x}}}}
operations:
  void: {dependency: payrail, request: {path: /v1/voids}, idempotency_key: {header: ""}}
  charge:
    dependency: payrail
    request: {path: /v1/charges}
    idempotency: keyed
    columns: {amount: /amount}
    inquiry: {request: {path: "/v1/charges?reference={key}&account={params.account}"}, succeeded: size(body.data) > 0, settle: 40s}
    on_late_success: void
    void: {kind: void, params: {reference: key}}
retention: {dead: 1h}
`)
	specs := c.KindSpecs()
	if len(specs) != 2 || specs[0].Kind != "charge" || specs[1].Kind != "void" {
		t.Fatalf("got %+v, want charge and void, sorted", specs)
	}
	// Each field has a value in this file: one that is zero was forgotten.
	v := reflect.ValueOf(specs[0])
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not filled", v.Type().Field(i).Name)
		}
	}
	s := specs[0]
	if s.Dependency != "payrail" || s.Method != "POST" || s.Path != "/v1/charges" || s.ContentType != "application/json" ||
		s.BaseURL != "https://api.payrail.example" || s.Idempotency != jobs.IdempotencyKeyed || s.KeyHeader != "Idempotency-Key" ||
		s.KeyWindowMS != 86_400_000 || s.KeyMaxLength != 255 || s.DeadlineMS != 7_200_000 || s.MaxAttempts != 25 || s.TimeoutMS != 3000 ||
		s.MinResponseMS != 150 || s.MaxBacklog != 1_000_000 || s.Columns["amount"] != "/amount" {
		t.Errorf("got %+v", s)
	}
	if !reflect.DeepEqual(*s.Inquiry, jobs.InquirySpec{SettleMS: 40_000, GiveUpAfterMS: 259_200_000, Params: []string{"account"}}) || s.Void.Kind != "void" || s.Void.Params["reference"] != "key" {
		t.Errorf("inquiry %+v, void %+v", s.Inquiry, s.Void)
	}
	if want := (jobs.Retention{SucceededMS: 604_800_000, CancelledMS: 604_800_000, DeadMS: 3_600_000, KeysMS: 7_776_000_000, AuditMS: 31_536_000_000}); s.Retention != want {
		t.Errorf("retention is %+v, want %+v", s.Retention, want)
	}
	if void := specs[1]; void.Inquiry != nil || void.Void != nil || void.KeyHeader != "" || void.KeyWindowMS != 0 || void.KeyMaxLength != 0 {
		t.Errorf("a kind without key header, inquiry and void has %+v", void)
	}
}
