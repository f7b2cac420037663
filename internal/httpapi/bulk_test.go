package httpapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

// dead makes a dead letter of an unknown outcome and, where settled, of which a person
// found out that it was not applied: it may be requeued.
func (b *apiBundle) dead(key string, settled bool) {
	b.t.Helper()
	b.submit(fmt.Sprintf(`{"kind":"refund","key":%q,"body":{"amount":5,"currency":"GBP"},"attempted":{"outcome":"unknown","class":"timeout"}}`, key))
	if !settled {
		return
	}
	done, err := b.ledger.Resolve(b.t.Context(), "bank", jobs.ID{Kind: "refund", Key: jobs.Key(key)}, ledger.ResolvedNotApplied, "", jobs.Retention{}, ledger.Actor{By: "ann", Note: "looked"})
	if err != nil || done.Verdict != ledger.DoneOK {
		b.t.Fatalf("resolve: %+v, %v", done, err)
	}
}

func TestARequeueTriesFirstAndThenActs(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for i := range 3 {
		b.dead(fmt.Sprintf("good-%d", i), true)
	}
	b.dead("doubt", false)
	g := b.post("/v1/dead-letters/requeue", `{"note":"bank is back","filter":{"kind":["refund"]},"more_attempts":2,"rate":"100/s","dry_run":true}`)
	says(t, g.body, `"batch":null`, `"chosen":4`, `"requeued":3`, `"refused":1`, `"sums":{"amount":{"GBP":"15"}}`)
	if n := len(into[Page](t, b.get("/v1/dead-letters")).Items); n != 4 {
		t.Errorf("%d dead letters after a dry run", n)
	}
	g = b.post("/v1/dead-letters/requeue", `{"note":"bank is back","filter":{"kind":["refund"]},"more_attempts":2}`)
	d := into[BulkDone](t, g)
	if g.status != 200 || !d.Over || d.Done != 3 || d.Refused != 1 || d.Batch == nil || len(d.Items) != 4 || d.Problem != nil {
		t.Fatalf("requeue: %d %s", g.status, g.body)
	}
	p := into[operator.BatchProgress](t, b.get("/v1/batches/"+*d.Batch))
	if p.By != "ann" || p.Note != "bank is back" || p.Operations != 3 || p.States[jobs.Waiting] != 3 || p.Phase != ledger.PhaseDone {
		t.Errorf("batch %+v", p)
	}
	if all := into[Batches](t, b.get("/v1/batches?since=1h&limit=5")); len(all.Items) != 1 || all.Items[0].ID != *d.Batch {
		t.Errorf("batches %+v", all)
	}
	stopped := into[BatchStopped](t, b.post("/v1/batches/"+*d.Batch+"/stop", `{"note":"too early"}`))
	if stopped.Done != 3 || stopped.Left != 0 {
		t.Errorf("stopped %+v", stopped)
	}
	if n := len(into[Page](t, b.get("/v1/dead-letters")).Items); n != 4 {
		t.Errorf("%d dead letters after it was stopped", n)
	}
}

func TestADiscardGivesUpWhatIsSettledAlone(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.dead("good", true)
	b.dead("doubt", false)
	g := b.post("/v1/dead-letters/discard", `{"note":"too old","operations":["refund/good","refund/doubt","refund/nobody"]}`)
	if d := into[BulkDone](t, g); g.status != 200 || d.Done != 1 || d.Refused != 1 || d.Missing != 1 {
		t.Errorf("%d %s", g.status, g.body)
	}
	if v := into[wire.OperationView](t, b.get("/v1/operations/refund/good")); v.State != jobs.Cancelled {
		t.Errorf("it is %s", v.State)
	}
	if d := into[BulkDone](t, b.post("/v1/dead-letters/discard", `{"note":"x","filter":{"key":"good*"}}`)); d.Chosen != 0 || !d.Over {
		t.Errorf("nothing matches: %+v", d)
	}
}

// Canaries that never end keep an action going: the request is answered, the action
// is followed by its batch, and both end with the server.
func TestAnActionThatTakesLongGoesOnWithoutItsRequest(t *testing.T) {
	t.Parallel()
	b := startAPI(t, redistest.Server(t).Client(t), func(a *API) { a.patience = 200 * time.Millisecond })
	for i := range 4 {
		b.dead(fmt.Sprintf("o-%d", i), true)
	}
	g := b.post("/v1/dead-letters/requeue", `{"note":"carefully","filter":{},"canary":1,"canary_wait":"10m"}`)
	d := into[BulkDone](t, g)
	if g.status != http.StatusAccepted || d.Over || d.Batch == nil || d.Chosen != 4 {
		t.Fatalf("%d %s", g.status, g.body)
	}
	p := into[operator.BatchProgress](t, b.get("/v1/batches/"+*d.Batch))
	if p.Phase != ledger.PhaseCanary || p.Operations != 1 {
		t.Errorf("batch %+v", p)
	}
	b.post("/v1/dead-letters/requeue", `{"note":"again","filter":{"limit":1},"canary":1}`)
	b.post("/v1/dead-letters/discard", `{"note":"a third at once","filter":{}}`).is(t, "a third action at once", busy)
	began := time.Now()
	b.server.door.close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("closing took %s", took)
	}
	if n := len(b.deadLetters()); n != 2 {
		t.Errorf("%d dead letters are left, want 2: the canaries go on, the rest was not touched", n)
	}
}

func TestWhatAnActionCameToIsToldToWhoDidNotWait(t *testing.T) {
	t.Parallel()
	b := startAPI(t, redistest.Server(t).Client(t), func(a *API) { a.patience = time.Millisecond })
	for i := range 3 {
		b.dead(fmt.Sprintf("o-%d", i), true)
	}
	begun := into[BulkDone](t, b.post("/v1/dead-letters/requeue", `{"note":"carefully","filter":{},"canary":1,"canary_wait":"500ms"}`))
	if begun.Over || begun.Batch == nil {
		t.Fatalf("it is over at once: %+v", begun)
	}
	path := "/v1/batches/" + *begun.Batch + "/outcome"
	b.get(path).is(t, "while it goes on", notFound)
	g := b.get(path)
	for deadline := time.Now().Add(20 * time.Second); g.status == http.StatusNotFound && time.Now().Before(deadline); g = b.get(path) {
		time.Sleep(20 * time.Millisecond)
	}
	d := into[BulkDone](t, g)
	if !d.Over || d.Done != 1 || len(d.Items) != 1 || d.Canary == nil || d.Canary.Untouched != 2 || d.Problem == nil || d.Problem.Type != problemURN+notInState.name {
		t.Errorf("%d %s", g.status, g.body)
	}
	for i := range keptOutcomes {
		b.post("/v1/dead-letters/discard", fmt.Sprintf(`{"note":"x","operations":["refund/o-%d","refund/none-%d"]}`, i%3, i))
	}
	for deadline := time.Now().Add(20 * time.Second); b.get(path).status != http.StatusNotFound; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is kept beyond %d others", keptOutcomes)
		}
	}
}

// deadLetters lists what is dead by the ledger itself: the door is closed.
func (b *apiBundle) deadLetters() []jobs.Operation {
	b.t.Helper()
	page, err := b.ledger.List(b.t.Context(), ledger.Filter{States: []jobs.State{jobs.Dead}}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return page.Items
}

func TestEveryWrongWordOfABulkActionIsNamed(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.dead("good", true)
	for body, location := range map[string]string{
		`{"note":"x"}`: "body",
		`{"note":"x","filter":{},"operations":["refund/good"]}`:      "body",
		`{"note":"x","operations":["good"]}`:                         "body.operations[0]",
		`{"note":"x","filter":{"state":["waiting"]}}`:                "body.filter.state",
		`{"note":"x","filter":{"cursor":"x"}}`:                       "body.filter.cursor",
		`{"note":"x","filter":{"reason":["bad"]}}`:                   "body.filter.reason",
		`{"note":"x","filter":{"limit":-1}}`:                         "body.filter.limit",
		`{"note":"x","filter":{"since":"soon"}}`:                     "body.filter.since",
		`{"note":"x","filter":{"sinse":"1h"}}`:                       "body.filter.sinse",
		`{"note":"x","filter":{},"rate":"fast"}`:                     "body.rate",
		`{"note":"x","filter":{},"deadline":"soon"}`:                 "body.deadline",
		`{"note":"x","filter":{},"deadline":"2020-01-01T00:00:00Z"}`: "body.deadline",
		`{"note":"x","filter":{},"canary":0}`:                        "body.canary",
		`{"note":"x","filter":{},"more_attempts":0}`:                 "body.more_attempts",
		`{"note":"x","filter":{},"canary":1,"canary_wait":"x"}`:      "body.canary_wait",
		`{"note":" ","filter":{}}`:                                   "body.note",
		`{"filter":{}}`:                                              "body",
	} {
		p := b.post("/v1/dead-letters/requeue", body).is(t, body, invalid)
		if len(p.Errors) == 0 || p.Errors[0].Location != location {
			t.Errorf("%s: %+v, want it at %s", body, p.Errors, location)
		}
	}
	b.get("/v1/batches/b-nobody").is(t, "a batch that is not there", notFound)
	b.get("/v1/batches/B%7B").is(t, "no batch", invalid)
	b.get("/v1/batches?since=soon").is(t, "since", invalid)
	b.post("/v1/batches/b-nobody/stop", `{"note":"x"}`).is(t, "stop what is not there", notFound)
	if n := len(into[Page](t, b.get("/v1/dead-letters")).Items); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}
