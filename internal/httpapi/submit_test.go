package httpapi

import (
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

func TestSubmitAnswersAsTheLedgerDoes(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	const one = `{"kind":"charge","key":"o-1","body":{"amount":4200,"currency":"GBP"}}`
	if g := b.post("/v1/operations", one); g.status != 201 || into[jobs.Receipt](t, g).Answer != jobs.Accepted {
		t.Fatalf("first: %d %s", g.status, g.body)
	}
	if g := b.post("/v1/operations", one); g.status != 200 || into[jobs.Receipt](t, g).Answer != jobs.Duplicate {
		t.Errorf("again: %d %s", g.status, g.body)
	}
	p := b.post("/v1/operations", `{"kind":"charge","key":"o-1","body":{"amount":4300,"currency":"GBP"}}`).is(t, "another body", conflict)
	if p.Receipt == nil || len(p.Receipt.Differs) != 1 || p.Receipt.Differs[0] != "body" {
		t.Errorf("the receipt of a conflict is not told: %+v", p.Receipt)
	}
	g := b.get("/v1/operations/charge/o-1")
	if o := into[wire.OperationView](t, g); g.status != 200 || o.State != jobs.Waiting || o.Columns["amount"] != "4200" || o.Request != nil || len(o.Timeline) == 0 {
		t.Errorf("get: %d %s", g.status, g.body)
	}
}

func TestAFullBacklogIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) {
		for i := range a.Kinds {
			a.Kinds[i].MaxBacklog = 1
		}
	})
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	p := b.post("/v1/operations", `{"kind":"charge","key":"o-2","body":{}}`).is(t, "one too many", backlogFull)
	if p.Receipt == nil || p.Receipt.Answer != jobs.Refused {
		t.Errorf("no receipt: %+v", p)
	}
}
