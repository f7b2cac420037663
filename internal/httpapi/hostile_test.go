package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

// slowStore holds all commands up but a look at the clock, while it is told to, for as
// long as their context lasts at most.
type slowStore struct{ hold atomic.Int64 } // ns

func (s *slowStore) wait(ctx context.Context) error {
	pause(ctx, time.Duration(s.hold.Load()))
	return ctx.Err()
}

func (s *slowStore) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowStore) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "time" {
			return next(ctx, cmd)
		}
		if err := s.wait(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (s *slowStore) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := s.wait(ctx); err != nil {
			cmds[0].SetErr(err)
			return err
		}
		return next(ctx, cmds)
	}
}

// It was told as the worker's end or as a Redis that was away.
func TestWhatTakesLongerThanItsTimeSaysSo(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	store := &slowStore{}
	client.(*redis.Client).AddHook(store)
	b := startAPI(t, client, func(a *API) { a.Limits.Timeout = 200 * time.Millisecond })
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	store.hold.Store(int64(time.Minute))
	for range 5 { // two clocks ran against each other
		p := b.get("/v1/operations").is(t, "a list", timedOut)
		says(t, p.Detail, "narrow the filter", "200ms")
		p = b.post("/v1/operations/charge/o-1/cancel", `{"note":"x"}`).is(t, "a change", timedOut)
		says(t, p.Detail, "may have been made")
		p = b.post("/v1/operations:cancel", `{"note":"x","filter":{}}`).is(t, "a bulk action", timedOut)
		says(t, p.Detail, "nothing was changed")
	}
	store.hold.Store(0)
	if g := b.get("/v1/operations"); g.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", g.status, g.body)
	}
}

// A deadline for bodies that were in already cut off what took longer than five seconds.
func TestARequestMayTakeLongerThanItsBodyMayTakeToCome(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	store := &slowStore{}
	client.(*redis.Client).AddHook(store)
	b := startAPI(t, client, func(a *API) { a.Limits.Timeout = time.Minute })
	if g := b.post("/v1/dependencies/payrail/pause", `{"note":"x"}`); g.status != 200 {
		t.Fatalf("%d %s", g.status, g.body)
	}
	store.hold.Store(int64(2800 * time.Millisecond)) // of at least two calls
	if g := b.post("/v1/dependencies/payrail/resume", `{"note":"x"}`); g.status != 200 {
		t.Errorf("%d %s", g.status, g.body)
	}
}

// Paths were cleaned by a redirect to what may be another operation, before it was known
// who asks.
func TestNoPathIsRedirected(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"payout","key":"vict","body":{}}`)
	ask := func(method, path, token string) got {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://")) // a client might clean it
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		body := `{"note":"x"}`
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s", method, path, jsonType, len(body), token, body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return got{resp.StatusCode, resp.Header, string(text)}
	}
	header := "Authorization: Bearer " + all + "\r\n"
	for _, path := range []string{"/v1", "/v1/", "/v1//operations", "/v1/operations/", "/v1/operations/payout//vict/cancel", "/v1/operations/payout/x/../vict/cancel", "/v1/operations/payout/./vict/cancel",
		"/v1/operations/payout/../cancel", "/v1/operations/payout/./cancel", "/v1/operations/payout/vict/cancel/", "/v1/operations//vict/cancel", "/v1/../metrics", "/v1/./operations"} {
		ask("POST", path, "").is(t, path+" without a token", unauthorized)
		ask("POST", path, header).is(t, path, notFound)
		ask("GET", path, header).is(t, path, notFound)
	}
	// What would be cleaned into a path of ours was answered by plain text.
	for _, path := range []string{"//v1/operations/payout/vict/cancel", "/x/../v1/operations/payout/vict/cancel", "/./v1/operations", "//v1", "/%2e/v1/kinds", "/%2Fv1/kinds"} {
		ask("POST", path, "").is(t, path+" without a token", unauthorized)
		ask("POST", path, header).is(t, path, notFound)
		ask("GET", path, header).is(t, path, notFound)
	}
	for _, path := range []string{"//livez", "/livez/", "/v2/kinds", "//"} {
		if g := ask("POST", path, header); g.status != http.StatusNotFound || g.header.Get("Location") != "" {
			t.Errorf("%s: %d %s", path, g.status, g.header.Get("Location"))
		}
	}
	if v := into[wire.OperationView](t, b.get("/v1/operations/payout/vict")); v.State != jobs.Waiting {
		t.Errorf("it is %s", v.State)
	}
}

// A key that is a slash was taken and could not be reached.
func TestEveryKeyCanBeReached(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	keys := []string{"/", "//", "/a", "a/", "a//b", ".", "..", "...", "/.", "./", "../", "a/../b", "a/./b", "%", "%2F", "%2e", "%zz", "?", "a?b=c", "#", "a#b", ";", "&", "+", "*", `\`, `"`, "'", "<", "~", ":", "@", "cancel", "timeline", "a/cancel", "operations:cancel"}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const odd = `/./.%?#;&+*\"'<>~:@=,|^!$()[]-_aB0`
	for range 100 {
		key := make([]byte, 1+random.IntN(12))
		for i := range key {
			key[i] = odd[random.IntN(len(odd))]
		}
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		text := fmt.Sprintf(`{"kind":"payout","key":%s,"body":{}}`, quoted(t, key))
		b.submit(text)
		segment := url.PathEscape(key)
		if strings.Trim(key, ".") == "" {
			segment = strings.ReplaceAll(key, ".", "%2E")
		}
		path := "/v1/operations/payout/" + segment
		if v := b.get(path); v.status != 200 || string(into[wire.OperationView](t, v).Key) != key {
			t.Errorf("key %q: %d %s", key, v.status, v.body)
			continue
		}
		if g := b.get(path + "/timeline"); g.status != 200 || len(into[Timeline](t, g).Items) == 0 {
			t.Errorf("timeline of key %q: %d %s", key, g.status, g.body)
		}
		if g := b.post(path+"/cancel", `{"note":"x"}`); g.status != 200 || into[Done](t, g).Operation.Key != jobs.Key(key) {
			t.Errorf("cancel of key %q: %d %s", key, g.status, g.body)
		}
		b.post(path+"/resolve", `{"note":"x","verdict":"written_off"}`).is(t, "resolve of cancelled key "+key, notInState)
		if g := b.post(path+"/reconcile", `{"note":"x"}`); g.status != 200 || into[Done](t, g).Operation.Key != jobs.Key(key) {
			t.Errorf("reconcile of key %q: %d %s", key, g.status, g.body)
		}
	}
}

func TestEveryMarkOfAProxyIsRefusedWithoutTokens(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Tokens = nil })
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-IP", "X-Client-IP", "X-Envoy-External-Address",
		"True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP", "X-Original-Forwarded-For"} {
		for _, value := range []string{"127.0.0.1", ""} {
			h := http.Header{}
			h.Set(name, value)
			b.ask(ask{method: "GET", path: "/v1/operations", header: h}).is(t, fmt.Sprintf("%s: %q", name, value), notServed)
		}
	}
	if g := b.get("/v1/operations"); g.status != 200 {
		t.Errorf("without: %d %s", g.status, g.body)
	}
}

func TestHeadersMayHaveAsMuchAsIsSaid(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	send := func(size int) int {
		g := b.ask(ask{method: "GET", path: "/v1/operations", token: reader, header: http.Header{"X-Much": {strings.Repeat("x", size)}}})
		return g.status
	}
	const rest = 400 // the request line and the other headers
	if status := send(16<<10 - rest); status != 200 {
		t.Errorf("16 KiB: %d", status)
	}
	if status := send(20 << 10); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("more: %d", status)
	}
}

// Texts of Go's own came through, which name its types.
func TestNumbersThatNoFieldHoldsAreToldInWordsOfOurs(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for body, place := range map[string]string{
		`{"note":"x","filter":{},"rate":1e999}`:                      "body.rate",
		`{"note":"x","filter":{},"canary":1e999}`:                    "body.canary",
		`{"note":"x","filter":{"limit":1e999}}`:                      "body.filter.limit",
		`{"note":"x","filter":{},"canary":1000000000.0}`:             "canary",
		`{"note":"x","filter":{},"canary":99999999999999999999}`:     "canary",
		`{"note":"x","filter":{},"more_attempts":5e0}`:               "more_attempts",
		`{"note":"x","filter":{},"more_attempts":1001}`:              "body.more_attempts",
		`{"note":"x","filter":{},"deadline":"9999-12-31T23:59:59Z"}`: "body.deadline",
		`{"note":"x","operations":[1e999]}`:                          "body",
	} {
		p := b.post("/v1/dead-letters/requeue", body).is(t, body, invalid)
		says(t, p.Detail, place)
		for _, word := range []string{"json:", "Go ", "float64", "int"} {
			if strings.Contains(strings.ReplaceAll(p.Detail, "point", ""), word) {
				t.Errorf("%s: %s", body, p.Detail)
			}
		}
	}
	p := b.post("/v1/operations", `{"kind":"charge","key":"o-1","body":{},"deadline":"9999-12-31T23:59:59Z"}`).is(t, "a deadline in far away", invalid)
	says(t, p.Detail, "2200")
	p = b.post("/v1/operations/charge/never-seen/reconcile", `{"note":"x"}`).is(t, "reconcile of what nobody knows", notInState)
	if strings.Contains(p.Detail, " is :") {
		t.Errorf("%s", p.Detail)
	}
}
