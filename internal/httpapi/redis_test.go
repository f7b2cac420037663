package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

// connect is a client as the program makes it: it gives up when its context ends.
func connect(t testing.TB, srv *redistest.Redis) redis.UniversalClient {
	t.Helper()
	client, err := ledger.Connect(srv.URL(), ledger.ConnectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// changes are requests that write to Redis.
var changes = []routeCase{
	{pattern: "POST submit", path: "/v1/operations", body: `{"kind":"charge","key":"new","body":{}}`},
	{pattern: "POST import", path: "/v1/operations:import", body: `{"kind":"charge","key":"new","body":{}}`, takes: ndjsonType},
	{pattern: "POST cancel", path: "/v1/operations/charge/o-1/cancel", body: `{"note":"x"}`},
	{pattern: "POST reconcile", path: "/v1/operations/payout/o-2/reconcile", body: `{"note":"x"}`},
	{pattern: "POST pause", path: "/v1/dependencies/payrail/pause", body: `{"note":"x"}`},
	{pattern: "PUT override", path: "/v1/dependencies/payrail/override", body: `{"note":"x","for":"1m","limits":{"cap":5}}`},
	{pattern: "POST first attempts", path: "/v1/dependencies/payrail/first-attempts", body: `{"ok":1}`},
	{pattern: "GET reveal", path: "/v1/operations/charge/o-1?reveal=true"},
	{pattern: "GET export", path: "/v1/dead-letters/export"},
	{pattern: "POST resolve", path: "/v1/operations/refund/d-1/resolve", body: `{"note":"x","verdict":"applied"}`},
	{pattern: "POST resolve many", path: "/v1/operations:resolve", body: `{"note":"x","findings":[{"operation":"refund/d-1","verdict":"applied"}]}`},
	{pattern: "POST cancel many", path: "/v1/operations:cancel", body: `{"note":"x","filter":{}}`},
	{pattern: "POST reconcile many", path: "/v1/operations:reconcile", body: `{"note":"x","operations":["payout/o-2"]}`},
	{pattern: "POST requeue", path: "/v1/dead-letters/requeue", body: `{"note":"x","operations":["refund/d-1"]}`},
	{pattern: "POST discard", path: "/v1/dead-letters/discard", body: `{"note":"x","filter":{}}`},
}

func TestWhatRedisRefusesIsTriedAgainLaterAndChangesNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	client := srv.Client(t)
	b := startAPI(t, client, nil)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	b.submit(`{"kind":"payout","key":"o-2","body":{}}`)
	b.dead("d-1", false)
	set := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(why string) {
		t.Helper()
		for _, c := range changes {
			p := b.ask(c.ask(all)).is(t, why+": "+c.pattern, redisRefuses)
			says(t, p.Detail, "nothing was written", why)
		}
		for _, name := range []string{"charge/o-1", "payout/o-2"} {
			if v := into[wire.OperationView](t, b.get("/v1/operations/"+name)); v.State != jobs.Waiting {
				t.Errorf("%s: %s is %s", why, name, v.State)
			}
		}
		if v := into[wire.OperationView](t, b.get("/v1/operations/refund/d-1")); v.State != jobs.Dead || v.Applied != jobs.AppliedUnknown {
			t.Errorf("%s: the dead letter is %s, applied %s", why, v.State, v.Applied)
		}
	}
	set("min-replicas-to-write", "1")
	refused("fewer replicas than min-replicas-to-write")
	set("min-replicas-to-write", "0")
	set("maxmemory", "1mb")
	refused("full")
	set("maxmemory", "0")
	if err := client.SlaveOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	refused("read-only replica")
	if err := client.SlaveOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	if g := b.post("/v1/operations", `{"kind":"charge","key":"new","body":{}}`); g.status != http.StatusCreated {
		t.Errorf("afterwards: %d %s", g.status, g.body)
	}
}

func TestARedisThatIsAwayIsSaidAndComesBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := startAPI(t, connect(t, srv), nil)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	b.submit(`{"kind":"payout","key":"o-2","body":{}}`)
	follow := b.listen(t, "", "")
	b.joined(1)
	srv.Kill9()
	for _, c := range append([]routeCase{{pattern: "GET list", path: "/v1/operations"}, {pattern: "GET one", path: "/v1/operations/charge/o-1"}}, changes[:3]...) {
		b.ask(c.ask(all)).is(t, c.pattern, redisAway)
	}
	if g := b.ask(ask{method: "GET", path: "/livez"}); g.status != http.StatusOK {
		t.Errorf("/livez without Redis: %d", g.status)
	}
	srv.Restart()
	var g got
	for range 200 { // the client finds out within a second or so
		if g = b.post("/v1/operations", `{"kind":"charge","key":"o-1","body":{}}`); g.status == http.StatusOK {
			break
		}
		g.is(t, "soon after the restart", redisAway)
		time.Sleep(25 * time.Millisecond)
	}
	if r := into[jobs.Receipt](t, g); r.Answer != jobs.Duplicate {
		t.Errorf("after the restart: %+v", r)
	}
	for range 200 { // the stream goes on by itself, within its pause
		b.submit(`{"kind":"charge","key":"after-` + time.Now().Format("150405.000000000") + `","body":{}}`)
		select {
		case e := <-follow.events:
			if !strings.HasPrefix(e.change.Operation, "charge/after-") {
				t.Errorf("after the restart comes %+v", e)
			}
			return
		case <-time.After(25 * time.Millisecond):
		}
	}
	t.Error("the stream never went on")
}

// A stream was refused after api.timeout alone; and one that was to go on after an event was
// told of a change that may have been made.
func TestAStreamIsRefusedAtOnceWhileRedisIsAwayAndIsNoChange(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := startAPI(t, connect(t, srv), func(a *API) { a.Limits.Timeout = 10 * time.Minute }) // the client of the tests has less patience
	srv.Kill9()
	for range 2 {
		for _, header := range []http.Header{{}, {"Last-Event-Id": {"payrail=1-1"}}} {
			p := b.ask(ask{method: "GET", path: "/v1/events", token: reader, header: header}).is(t, "a stream", redisAway)
			if strings.Contains(p.Detail, "change") {
				t.Errorf("%v: %s", header, p.Detail)
			}
		}
	}
	srv.Restart()
	b.until("there is a stream again", func() bool {
		status, _ := b.status(ask{method: "GET", path: "/v1/events", token: reader})
		return status == http.StatusOK
	})
}

// Who followed before anything had happened missed what happened while the hub could not
// read: it began anew when it could.
func TestAStreamGoesOnWhereItWasWhenRedisCouldNotBeRead(t *testing.T) {
	t.Parallel()
	between, b := startBehind(t)
	direct, err := ledger.Connect("redis://"+between.redis, ledger.ConnectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	other := startAPI(t, direct, nil)
	follow := b.listen(t, "", "")
	b.joined(1)
	between.loading.Store(true)
	refused := between.refused.Load()
	b.until("the hub has met it, and looks anew", func() bool { return between.refused.Load() >= refused+2 })
	other.submit(`{"kind":"charge","key":"meanwhile","body":{}}`)
	between.loading.Store(false)
	if e := follow.next(); e.change.Operation != "charge/meanwhile" {
		t.Errorf("%+v", e)
	}
}

func TestARedisThatHangsIsNotWaitedForLongerThanTheLimit(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := startAPI(t, connect(t, srv), func(a *API) { a.Limits.Timeout = 400 * time.Millisecond })
	srv.Freeze()
	began := time.Now()
	b.post("/v1/operations", `{"kind":"charge","key":"o-1","body":{}}`).is(t, "a frozen Redis", redisAway)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	srv.Thaw()
}

func TestNothingIsTakenInByARedisThatIsNotFit(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.unfit.Store(&[]string{"maxmemory-policy is allkeys-lru: operations would be evicted"})
	for _, c := range []routeCase{changes[0], changes[1], changes[3]} {
		says(t, b.ask(c.ask(all)).is(t, c.pattern, notFit).Detail, "evicted")
	}
	b.unfit.Store(&[]string{})
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
}

func TestWhatIsOnTooFewReplicasIsUnsure(t *testing.T) {
	t.Parallel()
	b := startAPI(t, redistest.Server(t).Client(t), func(a *API) {
		for i := range a.Kinds {
			a.Kinds[i].WaitReplicas = 1
		}
	})
	p := b.post("/v1/operations", `{"kind":"charge","key":"o-1","body":{}}`).is(t, "no replica", unsure)
	if p.Receipt == nil || p.Receipt.Answer != jobs.Unsure {
		t.Errorf("%+v", p)
	}
	a := answersOf(t, b.importText(`{"kind":"charge","key":"o-2","body":{}}`).body)
	if len(a.lines) != 1 || a.lines[0].Answer != jobs.Unsure {
		t.Errorf("import: %+v", a)
	}
}

func TestAKindOfAnotherWorkerIsFoundOncePublished(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	const one = `{"kind":"gift","key":"g-1","body":{}}`
	p := b.post("/v1/operations", one).is(t, "a kind that nobody knows", invalid)
	says(t, p.Detail, "charge, payout, refund")
	spec := testKinds()[0]
	spec.Kind = "gift"
	if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if g := b.post("/v1/operations", one); g.status == http.StatusCreated {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the kind is never known")
}

func TestListsGoOnByTheirCursorAndTellDeadLetters(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		b.submit(`{"kind":"refund","key":"` + key + `","body":{"amount":5,"currency":"GBP"},"attempted":{"outcome":"unknown","class":"timeout"}}`)
	}
	seen, cursor := map[jobs.Key]bool{}, ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		g := b.get("/v1/dead-letters?limit=2&reason=unsafe&cursor=" + cursor)
		page := into[Page](t, g)
		if g.status != 200 || len(page.Items) > 2 || pages > 5 {
			t.Fatalf("%d %s", g.status, g.body)
		}
		for _, o := range page.Items {
			if seen[o.Key] || o.State != jobs.Dead {
				t.Errorf("%s again, or not dead", o.ID())
			}
			seen[o.Key] = true
		}
		cursor = page.NextCursor
	}
	if len(seen) != 5 {
		t.Errorf("%d of 5 listed", len(seen))
	}
	g := b.get("/v1/dead-letters/stats?unknown=true")
	says(t, g.body, `"operations":5,"complete":true`, `"reason":"unsafe"`, `"class":"timeout"`)
	if one := into[Page](t, b.get("/v1/operations?dependency=bank&kind=refund&state=dead,waiting&class=timeout&key=a*&limit=1&since=1h")); len(one.Items) != 1 || one.Items[0].Columns != nil && one.Items[0].Columns["amount"] != "5" {
		t.Errorf("narrowed: %+v", one)
	}
}

func TestAnOperationThatOnlyTheGatewayKnowsIsAskedAbout(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	g := b.post("/v1/operations/payout/old%2F7/reconcile", `{"note":"sent by the old system","first_sent_at":"2026-11-29T08:00:00Z"}`)
	if d := into[Done](t, g); g.status != 200 || d.State != jobs.Unresolved || d.Operation.Key != "old/7" {
		t.Errorf("%d %s", g.status, g.body)
	}
	if v := into[wire.OperationView](t, b.get("/v1/operations/payout/old%2F7")); v.State != jobs.Unresolved || v.Applied != jobs.AppliedUnknown {
		t.Errorf("%+v", v.Operation)
	}
	g = b.post("/v1/operations/payout/old%2F7/cancel", `{"note":"x"}`)
	if d := into[Done](t, g); g.status != http.StatusAccepted || d.Result != "pending" {
		t.Errorf("cancel of what may have taken effect: %d %s", g.status, g.body)
	}
}

func TestAFirstAttemptsReportCountsOnce(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	tell := func(token, body string) FirstsTaken {
		t.Helper()
		return into[FirstsTaken](t, b.ask(ask{method: "POST", path: "/v1/dependencies/payrail/first-attempts", token: token, body: body}))
	}
	if f := tell(submitter, `{"ok":5,"failed":1,"process":"p","seq":1}`); f.Counted != 6 || f.Breaker != "closed" || f.HeldBy != nil {
		t.Errorf("first: %+v", f)
	}
	if f := tell(submitter, `{"ok":5,"failed":1,"process":"p","seq":1}`); f.Counted != 0 {
		t.Errorf("again: %+v", f)
	}
	if f := tell(all, `{"ok":5,"process":"p","seq":1}`); f.Counted != 5 {
		t.Errorf("a process of another token with the same name: %+v", f)
	}
	if _, err := b.ledger.Pause(t.Context(), "payrail", time.Hour, ledger.Actor{By: "ann", Note: "x"}); err != nil {
		t.Fatal(err)
	}
	if f := tell(submitter, `{"ok":1}`); f.HeldBy == nil || *f.HeldBy != jobs.HoldPaused || f.Until == nil {
		t.Errorf("paused: %+v", f)
	}
}
