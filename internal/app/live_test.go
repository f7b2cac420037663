package app

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/sandbox"
)

// asking is a configuration with an inquiry: Redis, gateway.
const asking = `redis: {url: "%s"}
dependencies:
  payrail: {base_url: "%s", timeout: 1s}
operations:
  charge:
    dependency: payrail
    request: {path: /v1/charges}
    idempotency: keyed
    result: {id: body.id}
    inquiry:
      request: {path: "/v1/charges?reference={key}"}
      succeeded: 'body.data.exists(c, c.status == "succeeded")'
      failed: 'size(body.data) > 0 && body.data.all(c, c.status == "failed")'
      not_found: 'size(body.data) == 0'
`

// strangers hides what is random in the key of an operation that cannot exist.
func strangers(text string) string {
	return regexp.MustCompile(`redrive-check-[A-Z2-7]{26}`).ReplaceAllString(text, "KEY")
}

// inquiryLines are the lines of a check that are about inquiries, and the last one.
func inquiryLines(b *testBundle) string {
	lines := strings.SplitAfter(strangers(steady(b.stdout.String())), "\n")
	var kept []string
	for _, l := range lines {
		if strings.Contains(l, "inquiry") || strings.Contains(l, "--known") || strings.Contains(l, "error") && !strings.Contains(l, "operations.") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "")
}

func TestLiveCheckAsksForWhatCannotExistAndForWhatIsKnown(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig("appendfsync always"))
	gateway := httptest.NewServer(sandbox.New(sandbox.Options{}).Handler())
	t.Cleanup(gateway.Close)
	resp, err := http.Post(gateway.URL+"/v1/charges", "application/json", strings.NewReader(`{"amount":1,"currency":"GBP","reference":"order-7"}`))
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	path := file(t, asking, srv.URL(), gateway.URL)
	const stranger = "ok       operations.charge.inquiry: asked for KEY, which cannot exist: status 200, the rule not_found fired\n"
	for _, tt := range []struct {
		known, want string
		code        int
	}{
		{"", stranger + "0 errors, 0 warnings\n", exitDone},
		{"charge/order-7", stranger + "ok       operations.charge.inquiry: asked for charge/order-7 (not in the ledger): status 200, the rule succeeded fired\n0 errors, 0 warnings\n", exitDone},
		{"charge/order-8", stranger + "error    operations.charge.inquiry: asked for charge/order-8 (not in the ledger): status 200, the rule not_found fired; " +
			"if the gateway does know it, the inquiry looks in the wrong place, and what took effect would count as not applied\n1 error, 0 warnings\n", exitError},
		{"refund/order-7", stranger + "error    --known refund/order-7: this configuration has no kind refund\n1 error, 0 warnings\n", exitError},
	} {
		b := setup(t)
		args := []string{"check", "--live", "--config", path}
		if tt.known != "" {
			args = append(args, "--known", tt.known)
		}
		if code := b.run(t, args...); code != tt.code || inquiryLines(b) != tt.want {
			t.Errorf("%s: exit %d\n%s\nwant exit %d\n%s", tt.known, code, b.stdout, tt.code, tt.want)
		}
	}
	if n, err := srv.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("check wrote %d keys (%v): it must change nothing", n, err)
	}
}

// recordingGateway answers every request alike and keeps what it was asked.
type recordingGateway struct {
	*httptest.Server
	mu    sync.Mutex // guards asked
	asked []string   // path, Authorization and correlation id
}

func newRecordingGateway(t *testing.T, status int, body string) *recordingGateway {
	t.Helper()
	g := &recordingGateway{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.asked = append(g.asked, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("Authorization"), " ", r.Header.Get("X-Correlation-Id"))))
		g.mu.Unlock()
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *recordingGateway) was() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strangers(strings.Join(g.asked, "\n"))
}

func TestLiveCheckTakesParamsResultAndCredentialFromTheLedger(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	gateway := newRecordingGateway(t, 200, `{"data":[]}`)
	path := rewrite(t, file(t, asking, srv.URL(), gateway.URL), "?reference={key}", "/{params.account}/{idempotency_key}")
	rewrite(t, path, "timeout: 1s", `timeout: 1s, credentials: {m1: {headers: {Authorization: "Bearer ${M1}"}}, m2: {headers: {Authorization: Bearer two}}}`)
	l := ledger.New(srv.Client(t), "redrive")
	s := &jobs.Submission{Kind: "charge", Key: "order-1", Body: []byte(`{}`), Params: map[string]string{"account": "a/1"}, Credential: "m1", CorrelationID: "checkout-77", IdempotencyKey: "k-1"}
	e, err := ledger.Prepare(s, jobs.KindSpec{Kind: "charge", Dependency: "payrail", Method: "POST", Path: "/v1/charges", BaseURL: gateway.URL,
		Idempotency: jobs.IdempotencyNone, Credentials: []string{"m1"}, DeadlineMS: 3_600_000, MaxBacklog: 10})
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := l.Submit(t.Context(), ledger.SubmitTerms{Terms: ledger.Terms{Dependency: "payrail"}, MaxBacklog: 10}, []ledger.Entry{e})
	if err != nil || receipts[0].Answer != jobs.Accepted {
		t.Fatal(receipts, err)
	}
	before := dump(t, srv)
	b := setup(t)
	b.env["M1"] = "one"
	b.run(t, "check", "--live", "--known", "charge/order-1", "--config", path)
	want := "GET /v1/charges/KEY/KEY Bearer one\nGET /v1/charges/KEY/KEY Bearer two\nGET /v1/charges/a%2F1/k-1 Bearer one checkout-77"
	if got := gateway.was(); got != want {
		t.Errorf("asked\n%s\nwant\n%s\n%s", got, want, b.stdout)
	}
	if !strings.Contains(b.stdout.String(), "operations.charge.inquiry under credential m1: asked for charge/order-1 (from the ledger): status 200, the rule not_found fired") {
		t.Errorf("%s", b.stdout)
	}
	if strings.Contains(b.stdout.String(), "Bearer") {
		t.Errorf("it shows a secret:\n%s", b.stdout)
	}
	if !bytes.Equal(before, dump(t, srv)) {
		t.Error("check changed the ledger")
	}
	b = setup(t)
	b.env["M1"] = "one"
	const missing = `error    --known charge/order-2 (not in the ledger): path "/v1/charges/{params.account}/{idempotency_key}": {params.account}: the submission has no param "account"`
	if code := b.run(t, "check", "--live", "--known", "charge/order-2", "--config", path); code != exitError || !strings.Contains(b.stdout.String(), missing) {
		t.Errorf("exit %d, and not %q in\n%s", code, missing, b.stdout)
	}
}

func TestLiveCheckFailsWhenWhatCannotExistIsNotAnsweredNotFound(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig("appendfsync always"))
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{200, `{"data":[{"status":"succeeded","card":"4242"}]}`, "status 200, the rule succeeded fired; want not_found"},
		{200, `{"data":[{"status":"failed"}]}`, "status 200, the rule failed fired; want not_found"},
		{200, `{"data":null}`, "status 200: inquiry: succeeded: cannot be evaluated on this answer; want not_found"},
		{200, "<html>4242</html>", "want not_found"},
		{500, `{"data":[]}`, "status 500 is none of those that are read [200] (status 500 Internal Server Error); want not_found"},
		{401, "", "status 401 is none of those that are read [200] (status 401 Unauthorized); want not_found"},
	} {
		gateway := newRecordingGateway(t, tt.status, tt.body)
		b := setup(t)
		code := b.run(t, "check", "--live", "--config", file(t, asking, srv.URL(), gateway.URL))
		got := inquiryLines(b)
		if code != exitError || !strings.HasPrefix(got, "error    operations.charge.inquiry: asked for KEY, which cannot exist: ") || !strings.Contains(got, tt.want) || strings.Contains(got, "4242") {
			t.Errorf("%d %s: exit %d, and not %q in\n%s", tt.status, tt.body, code, tt.want, b.stdout)
		}
	}
	b := setup(t)
	if code := b.run(t, "check", "--live", "--config", file(t, asking, srv.URL(), "http://127.0.0.1:1")); code != exitError || !strings.Contains(inquiryLines(b), "no answer") {
		t.Errorf("nothing listens: exit %d\n%s", code, b.stdout)
	}
}

func TestLiveCheckSaysWhenThereIsNothingToAsk(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t)
	path := file(t, working, srv.URL(), "http://127.0.0.1:1")
	if code := b.run(t, "check", "--live", "--config", path); code != exitDone || !strings.Contains(b.stdout.String(), "warning  no kind has an inquiry: there is nothing to ask\n") {
		t.Errorf("exit %d\n%s", code, b.stdout)
	}
	b = setup(t)
	if code := b.run(t, "check", "--live", "--known", "charge/x", "--config", path); code != exitError || !strings.Contains(b.stdout.String(), "error    --known charge/x: kind charge has no inquiry\n") {
		t.Errorf("exit %d\n%s", code, b.stdout)
	}
}

func TestLiveCheckNeedsSecretsAndSoundFlags(t *testing.T) {
	t.Parallel()
	gateway := newRecordingGateway(t, 200, `{"data":[]}`)
	path := rewrite(t, file(t, asking, "redis://127.0.0.1:1/0", gateway.URL), "timeout: 1s", `headers: {Authorization: "Bearer ${PAYRAIL_KEY}"}, timeout: 1s`)
	b := setup(t)
	if code := b.run(t, "check", "--live", "--config", path); code != exitError || gateway.was() != "" {
		t.Errorf("exit %d, asked %q without its secret\n%s", code, gateway.was(), b.stdout)
	}
	for _, args := range [][]string{{"--live", "--offline"}, {"--known", "charge/1"}, {"--live", "--known", "charge"}} {
		b := setup(t)
		if code := b.run(t, append([]string{"check", "--config", path}, args...)...); code != exitUsage || b.stdout.String() != "" {
			t.Errorf("%v: exit %d\n%s%s", args, code, b.stdout, b.stderr)
		}
	}
}

// dump is all that a Redis holds, sorted.
func dump(t *testing.T, srv *redistest.Redis) []byte {
	t.Helper()
	rdb := srv.Client(t)
	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("no keys (%v)", err)
	}
	slices.Sort(keys)
	var out []byte
	for _, key := range keys {
		value, err := rdb.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, key...), value...)
	}
	return out
}
