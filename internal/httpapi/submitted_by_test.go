package httpapi

import (
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

// The audit named who cancelled an operation; nothing named who had submitted it.
func TestASubmissionCarriesTheNameOfItsToken(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	const alone, line = `{"kind":"charge","key":"alone","body":{}}`, `{"kind":"charge","key":"line","body":{}}`
	if g := b.ask(ask{method: "POST", path: "/v1/operations", token: submitter, body: alone}); g.status != 201 {
		t.Fatalf("submit: %d %s", g.status, g.body)
	}
	if g := b.importText(line + "\n"); g.status != 200 {
		t.Fatalf("import: %d %s", g.status, g.body)
	}
	for _, again := range []string{alone, line} { // by ann, to whom nothing of them belongs
		if g := b.post("/v1/operations", again); g.status != 200 {
			t.Fatalf("again: %d %s", g.status, g.body)
		}
	}
	for _, key := range []string{"alone", "line"} {
		path := "/v1/operations/charge/" + key
		g := b.ask(ask{method: "GET", path: path, token: reader})
		o := into[wire.OperationView](t, g)
		if o.SubmittedBy == nil || *o.SubmittedBy != "shop" || len(o.Timeline) != 1 || o.Timeline[0].Event != "submitted" || o.Timeline[0].By != "shop" {
			t.Errorf("%s: %s", key, g.body)
		}
		says(t, b.get(path+"/timeline").body, `"event":"submitted","by":"shop"`)
	}
	page := into[Page](t, b.get("/v1/operations"))
	if len(page.Items) != 2 {
		t.Fatalf("%d operations in the list", len(page.Items))
	}
	for _, o := range page.Items {
		if o.SubmittedBy == nil || *o.SubmittedBy != "shop" {
			t.Errorf("in the list %s is by %v", o.ID(), o.SubmittedBy)
		}
	}
	if a := into[Audit](t, b.get("/v1/audit?operation=charge/alone")); len(a.Items) != 0 {
		t.Errorf("single submissions are no entries of the audit: %+v", a.Items)
	}
}

func TestWhoSubmitsIsNotToBeSaidInASubmission(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	p := b.post("/v1/operations", `{"kind":"charge","key":"o-1","body":{},"submitted_by":"somebody-else"}`).is(t, "a name in the body", invalid)
	if len(p.Errors) != 1 {
		t.Fatalf("%+v", p.Errors)
	}
	says(t, p.Errors[0].Message, "submitted_by")
	b.get("/v1/operations/charge/o-1").is(t, "it was not taken", notFound)
}

func TestWithoutTokensASubmissionIsByLoopback(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Tokens = nil })
	if g := b.ask(ask{method: "POST", path: "/v1/operations", body: `{"kind":"charge","key":"o-1","body":{}}`}); g.status != 201 {
		t.Fatalf("%d %s", g.status, g.body)
	}
	d, err := b.ledger.Get(t.Context(), "payrail", jobs.ID{Kind: "charge", Key: "o-1"}, nil)
	if err != nil || d.SubmittedBy == nil || *d.SubmittedBy != "loopback" {
		t.Errorf("%+v, %v", d, err)
	}
}
