package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

// resultsOf tells what came of each operation.
func resultsOf(d BulkDone) map[string]operator.ResultCode {
	out := map[string]operator.ResultCode{}
	for _, item := range d.Items {
		out[item.Operation.String()] = item.Result
	}
	return out
}

func TestManyAreCancelledByNameOrByFilter(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for i := range 5 {
		b.submit(fmt.Sprintf(`{"kind":"charge","key":"shop-%d","body":{}}`, i))
	}
	b.submit(`{"kind":"payout","key":"p","body":{}}`)
	b.dead("doubt", false)
	g := b.post("/v1/operations:cancel", `{"note":"shop closed","filter":{"key":"shop-*"},"dry_run":true}`)
	if d := into[BulkDone](t, g); g.status != 200 || d.Chosen != 5 || d.Done != 0 || d.Batch != nil {
		t.Errorf("a dry run: %d %s", g.status, g.body)
	}
	g = b.post("/v1/operations:cancel", `{"note":"one","operations":["charge/shop-0","charge/shop-0","charge/nobody"]}`)
	d := into[BulkDone](t, g)
	if r := resultsOf(d); g.status != 200 || d.Action != "cancel" || d.Chosen != 2 || d.Done != 1 || d.Missing != 1 || r["charge/shop-0"] != operator.ResultDone {
		t.Errorf("by name, one of them twice: %d %s", g.status, g.body)
	}
	g = b.post("/v1/operations:cancel", `{"note":"shop closed","filter":{"kind":["charge"]}}`)
	if d := into[BulkDone](t, g); g.status != 200 || d.Done != 4 || d.Batch == nil {
		t.Errorf("by filter: %d %s", g.status, g.body)
	}
	if v := into[wire.OperationView](t, b.get("/v1/operations/payout/p")); v.State != jobs.Waiting {
		t.Errorf("what the filter leaves out is %s", v.State)
	}
	// Dead letters only where the filter says so; one that may have taken effect stays.
	if d := into[BulkDone](t, b.post("/v1/operations:cancel", `{"note":"x","filter":{"kind":["refund"]}}`)); d.Chosen != 0 {
		t.Errorf("a dead letter was chosen unasked: %+v", d)
	}
	if d := into[BulkDone](t, b.post("/v1/operations:cancel", `{"note":"x","filter":{"state":["dead"]}}`)); d.Chosen != 1 || d.Done != 0 {
		t.Errorf("a dead letter of unknown outcome: %+v", d)
	}
}

func TestManyAreReconciledAlsoThoseThatOnlyTheirDependencyKnows(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"payout","key":"here","body":{}}`)
	g := b.post("/v1/operations:reconcile", `{"note":"their list","operations":["payout/here","payout/old/7","charge/x"],"first_sent_at":"2026-11-29T08:00:00Z"}`)
	d := into[BulkDone](t, g)
	if r := resultsOf(d); g.status != 200 || d.Done != 2 || d.Refused != 1 || r["charge/x"] != operator.ResultRefused {
		t.Errorf("%d %s", g.status, g.body)
	}
	for _, key := range []string{"here", "old%2F7"} {
		v := into[wire.OperationView](t, b.get("/v1/operations/payout/"+key))
		if v.State != jobs.Unresolved || v.Bare != (key != "here") || (v.Outline == nil) != v.Bare {
			t.Errorf("%s: %+v", key, v)
		}
	}
	b.unfit.Store(&[]string{"it evicts"})
	b.post("/v1/operations:reconcile", `{"note":"x","operations":["payout/more"]}`).is(t, "a Redis that is not fit", notFit)
}

func TestWhatAPersonFoundOutIsTakenForOneAndForMany(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for _, key := range []string{"one", "a", "b", "c", "left"} {
		b.dead(key, false)
	}
	g := b.post("/v1/operations/refund/one/resolve", `{"note":"seen in the dashboard","verdict":"applied","ref":"r-9"}`)
	if d := into[Done](t, g); g.status != 200 || d.State != jobs.Succeeded {
		t.Errorf("one: %d %s", g.status, g.body)
	}
	if v := into[wire.OperationView](t, b.get("/v1/operations/refund/one")); v.Ref == nil || *v.Ref != "r-9" || v.By != "ann" {
		t.Errorf("one: %+v", v)
	}
	b.post("/v1/operations/refund/one/resolve", `{"note":"again","verdict":"not_applied"}`).is(t, "what has ended", notInState)
	g = b.post("/v1/operations:resolve", `{"note":"by accounting","findings":[{"operation":"refund/a","verdict":"applied","ref":"r-1"},`+
		`{"operation":"refund/b","verdict":"not_applied"},{"operation":"refund/c","verdict":"written_off"},{"operation":"refund/nobody","verdict":"written_off"}]}`)
	if d := into[BulkDone](t, g); g.status != 200 || d.Action != "resolve" || d.Done != 3 || d.Missing != 1 || d.Batch == nil {
		t.Errorf("many: %d %s", g.status, g.body)
	}
	for key, want := range map[string]jobs.State{"a": jobs.Succeeded, "b": jobs.Dead, "c": jobs.Cancelled, "left": jobs.Dead} {
		v := into[wire.OperationView](t, b.get("/v1/operations/refund/"+key))
		if v.State != want || (v.Applied == jobs.AppliedNo) != (key == "b") {
			t.Errorf("%s is %s, applied %s, want %s", key, v.State, v.Applied, want)
		}
	}
}

func TestEveryWrongWordAboutManyIsNamed(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.dead("doubt", false)
	for _, c := range []struct{ action, body, location string }{
		{"cancel", `{"note":"x"}`, "body"},
		{"cancel", `{"note":"x","filter":{},"operations":["charge/a"]}`, "body"},
		{"cancel", `{"note":"x","filter":{"state":["lost"]}}`, "body.filter.state"},
		{"cancel", `{"note":"x","operations":["charge/a","b"]}`, "body.operations[1]"},
		{"cancel", `{"filter":{}}`, "body"},
		{"cancel", `{"note":"x","filter":{},"rate":"5/s"}`, "body.rate"},
		{"reconcile", `{"note":"x"}`, "body"},
		{"reconcile", `{"note":"x","operations":[]}`, "body.operations"},
		{"reconcile", `{"note":"x","operations":["payout/a","nothing/b"]}`, "body.operations[1]"},
		{"reconcile", `{"note":"x","operations":["payout/a"],"first_sent_at":"yesterday"}`, "body.first_sent_at"},
		{"resolve", `{"note":"x","findings":[]}`, "body.findings"},
		{"resolve", `{"note":"x","findings":[{"operation":"refund/doubt"}]}`, "body.findings[0]"},
		{"resolve", `{"note":"x","findings":[{"operation":"refund/doubt","verdict":"maybe"}]}`, "body.findings[0].verdict"},
		{"resolve", `{"note":"x","findings":[{"operation":"doubt","verdict":"applied"}]}`, "body.findings[0].operation"},
		{"resolve", `{"note":"x","findings":[{"operation":"refund/doubt","verdict":"not_applied","ref":"r-1"}]}`, "body.findings[0].ref"},
		{"resolve", `{"note":"x","findings":[{"operation":"refund/doubt","verdict":"applied","ref":"a\u0007"}]}`, "body.findings[0].ref"},
		{"resolve", `{"note":"x","findings":[{"operation":"refund/doubt","verdict":"applied","reff":"a"}]}`, "body.findings[0].reff"},
		{"resolve", `{"note":"x","findings":[{"operation":"refund/doubt","verdict":"applied"},{"operation":"refund/doubt","verdict":"written_off"}]}`, "body.findings[1].operation"},
	} {
		p := b.post("/v1/operations:"+c.action, c.body).is(t, c.body, invalid)
		if len(p.Errors) == 0 || p.Errors[0].Location != c.location {
			t.Errorf("%s %s: %+v, want it at %s", c.action, c.body, p.Errors, c.location)
		}
	}
	if v := into[wire.OperationView](t, b.get("/v1/operations/refund/doubt")); v.State != jobs.Dead || v.Applied != jobs.AppliedUnknown {
		t.Errorf("something was done: %+v", v.Operation)
	}
}

func TestTheAuditTellsOfAllOfOneDependencyAndOfOneOperation(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"a","body":{}}`)
	b.post("/v1/operations/charge/a/cancel", `{"note":"asked for by jo@example.org"}`)
	b.nextMillisecond() // of two dependencies in one nothing says which came first
	b.post("/v1/dependencies/bank/pause", `{"note":"maintenance"}`)
	b.nextMillisecond()
	b.ask(ask{method: "PUT", path: "/v1/dependencies/payrail/override", token: operating, body: `{"note":"n","for":"1m","limits":{"ratio":0.25,"rate":0}}`})
	tell := func(query string) []string {
		t.Helper()
		g := b.get("/v1/audit" + query)
		if g.status != 200 {
			t.Fatalf("%s: %d %s", query, g.status, g.body)
		}
		var out []string
		for _, e := range into[Audit](t, g).Items {
			out = append(out, strings.Join([]string{string(e.Dependency), e.Operation, e.Action, e.By}, " "))
		}
		return out
	}
	everything := []string{"payrail charge/a cancel ann", "bank - pause ann", "payrail - override pager"}
	if got := tell(""); !slices.Equal(got, everything) {
		t.Errorf("%q, want %q", got, everything)
	}
	if got := tell("?operation=charge/a"); !slices.Equal(got, everything[:1]) {
		t.Errorf("of one operation: %q", got)
	}
	if got := tell("?dependency=bank&since=1h"); !slices.Equal(got, everything[1:2]) {
		t.Errorf("of bank: %q", got)
	}
	if got := tell("?limit=1"); !slices.Equal(got, everything[2:]) {
		t.Errorf("the newest: %q", got)
	}
	text := b.get("/v1/audit").body
	says(t, text, `"to":"ratio 0.25, rate 0 (no limit) until `, "asked for by [e-mail]")
	for query, kind := range map[string]problemKind{"?operation=a": invalid, "?dependency=No": invalid, "?dependency=nobody": notFound, "?since=soon": invalid,
		"?limit=0": invalid, "?limit=10001": invalid, "?dependency=bank&operation=charge/a": invalid, "?who=ann": invalid} {
		b.get("/v1/audit"+query).is(t, query, kind)
	}
}

func TestStatsCountAndWarn(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"a","body":{}}`)
	b.dead("doubt", false)
	b.post("/v1/dependencies/payrail/pause", `{"note":"maintenance","for":"1h"}`)
	g := b.get("/v1/stats")
	says(t, g.body, `"waiting":1`, `"dead":1`, `"reasons":{"unsafe":1}`, `"note":"maintenance"`, "no live worker serves dependency payrail, which has 1 operation to send")
	if g.status != 200 {
		t.Errorf("%d", g.status)
	}
}

func TestKindsAreToldWithoutWhereTheyAreSentTo(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) {
		a.Kinds[0].Path, a.Kinds[0].BaseURL = "/v1/{params.account}/charges/{key}/{params.part}/{params.account}", "https://user.secret-host.example"
	})
	g := b.ask(ask{method: "GET", path: "/v1/kinds", token: submitter})
	kinds := into[KindList](t, g).Items
	if len(kinds) != 3 || kinds[0].Kind != "charge" || kinds[0].ContentType != jsonType || !slices.Equal(kinds[0].Params, []string{"account", "part"}) ||
		kinds[0].Inquiry || !kinds[1].Inquiry || kinds[2].Dependency != "bank" || !slices.Equal(kinds[0].Columns, []string{"amount", "currency"}) {
		t.Errorf("%+v", kinds)
	}
	if strings.Contains(g.body, "secret") {
		t.Errorf("%s", g.body)
	}
}

func TestAnExportIsWrittenDownAndImportsElsewhere(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for i := range 5 {
		b.dead(fmt.Sprintf("d-%d", i), true)
	}
	b.dead("other", true)
	lines, cursor := "", ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		g := b.get("/v1/dead-letters/export?limit=2&key=d-*&cursor=" + cursor)
		page := into[ExportPage](t, g)
		if g.status != 200 || len(page.Items) > 2 || len(page.Left) != 0 || pages > 5 {
			t.Fatalf("%d %s", g.status, g.body)
		}
		for _, item := range page.Items {
			lines += fmt.Sprintf(`{"kind":"refund","key":%q,"body":%s}`+"\n", item.Key, item.Body)
		}
		cursor = page.NextCursor
	}
	if n := strings.Count(lines, `"body":{"amount":5,"currency":"GBP"}`); n != 5 {
		t.Errorf("%d exported:\n%s", n, lines)
	}
	entries, err := b.ledger.Audit(t.Context(), "bank", zeroTime, 100)
	if err != nil {
		t.Fatal(err)
	}
	exports := slices.DeleteFunc(entries, func(e ledger.AuditEntry) bool { return !strings.HasPrefix(e.Action, "export ") })
	if len(exports) != 3 || exports[0].By != "ann" || exports[0].Action != "export 2 operations with payload (all matching key=d-*)" {
		t.Errorf("audit %+v", exports)
	}
	b.get("/v1/dead-letters/export?limit=101").is(t, "too many at once", invalid)
	for range maxExports {
		b.server.door.exports <- struct{}{}
	}
	b.get("/v1/dead-letters/export").is(t, "a third export at once", busy)
	for range maxExports {
		<-b.server.door.exports
	}
	if a := answersOf(t, b.importText(lines).body); len(a.lines) != 5 || a.last.Answers[jobs.Duplicate] != 5 {
		t.Errorf("imported again: %+v", a.last)
	}
}
