package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// apiBundle is a running API in front of a namespace with published kinds.
type apiBundle struct {
	t      testing.TB
	client redis.UniversalClient
	ledger *ledger.Ledger
	server *Server
	http   *http.Client // holds what it is answered to the OpenAPI document
	way    *http.Transport
	url    string
	unfit  atomic.Pointer[[]string] // what FitFunc says

	mu     sync.Mutex // guards untrue
	untrue []string   // answers that are not as the document says
}

// The tokens of the tests, one for each role and one with all.
const (
	submitter = "token-of-a-shop"
	reader    = "token-of-a-dashboard"
	operating = "token-of-a-pager"
	all       = "token-of-ann"
)

func testTokens() []config.Token {
	return []config.Token{{Name: "shop", Roles: []config.Role{config.RoleSubmit}, SHA256: sha256.Sum256([]byte(submitter))},
		{Name: "dashboard", Roles: []config.Role{config.RoleRead}, SHA256: sha256.Sum256([]byte(reader))},
		{Name: "pager", Roles: []config.Role{config.RoleOperate}, SHA256: sha256.Sum256([]byte(operating))},
		{Name: "ann", Roles: config.Roles, SHA256: sha256.Sum256([]byte(all))}}
}

// testKinds are a keyed, an unsafe and an unsafe but asked-about kind.
func testKinds() []jobs.KindSpec {
	base := jobs.KindSpec{Dependency: "payrail", Method: "POST", ContentType: "application/json", BaseURL: "https://payrail.example",
		DeadlineMS: 2 * 3600 * 1000, MaxAttempts: 5, TimeoutMS: 3000, MinResponseMS: 150, MaxBacklog: 1_000_000,
		BackoffBaseMS: 1000, BackoffCapMS: 600_000, BudgetRatioMilli: 100, BudgetCap: 100, BudgetFloorMilliPerSecond: 1000,
		Columns: map[string]string{"amount": "/amount", "currency": "/currency"}, Credentials: []string{"default", "m1"},
		Retention: jobs.Retention{SucceededMS: 3600_000, CancelledMS: 3600_000, KeysMS: 90 * 24 * 3600_000}}
	charge, payout, refund := base, base, base
	charge.Kind, charge.Path, charge.Idempotency = "charge", "/v1/charges", jobs.IdempotencyKeyed
	charge.KeyHeader, charge.KeyWindowMS, charge.KeyMaxLength = "Idempotency-Key", 24*3600*1000, 255
	payout.Kind, payout.Path, payout.Idempotency = "payout", "/v1/payouts", jobs.IdempotencyNone
	payout.Inquiry = &jobs.InquirySpec{SettleMS: 30_000, GiveUpAfterMS: 3600_000}
	refund.Kind, refund.Path, refund.Idempotency, refund.Dependency, refund.BaseURL = "refund", "/v1/refunds", jobs.IdempotencyNone, "bank", "https://bank.example"
	return []jobs.KindSpec{charge, payout, refund}
}

func testLimits() config.API {
	l := config.Default().API
	l.Timeout = 5 * time.Second
	return l
}

// startAPI serves an API over a client's store. change may change what is served.
func startAPI(t testing.TB, client redis.UniversalClient, change func(*API)) *apiBundle {
	t.Helper()
	return startWith(t, client, change, nil)
}

// startTLS is startAPI under a certificate of the test's own, over HTTP/2.
func startTLS(t testing.TB, client redis.UniversalClient, c *tls.Config) *apiBundle {
	t.Helper()
	b := startWith(t, client, nil, c)
	b.url = strings.Replace(b.url, "http:", "https:", 1)
	b.way.TLSClientConfig, b.way.ForceAttemptHTTP2 = &tls.Config{InsecureSkipVerify: true}, true // it is our own
	return b
}

func startWith(t testing.TB, client redis.UniversalClient, change func(*API), c *tls.Config) *apiBundle {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, l, client, change, c)
}

// startOn is startWith on a listener of the test's.
func startOn(t testing.TB, l net.Listener, client redis.UniversalClient, change func(*API), c *tls.Config) *apiBundle {
	t.Helper()
	b := &apiBundle{t: t, client: client, ledger: ledger.New(client, "rd")}
	b.unfit.Store(&[]string{})
	if err := b.ledger.PublishKinds(t.Context(), testKinds()); err != nil {
		t.Fatal(err)
	}
	a := API{Ledger: b.ledger, Kinds: testKinds(), Tokens: testTokens(), Limits: testLimits(), FitFunc: func() []string { return *b.unfit.Load() }, Version: "test"}
	if change != nil {
		change(&a)
	}
	b.server = Serve(l, Options{AliveFunc: func() error { return nil }, ReadyFunc: func() []string { return nil }, Metrics: http.NotFoundHandler(), API: &a, TLS: c})
	b.way = &http.Transport{}
	b.http, b.url = &http.Client{Transport: &truthful{b.way, b}, Timeout: 20 * time.Second}, "http://"+l.Addr().String()
	t.Cleanup(func() {
		b.tellUntrue()
		b.way.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := b.server.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

// setupAPI serves an API with tokens over a miniredis.
func setupAPI(t testing.TB) *apiBundle {
	t.Helper()
	_, client := redistest.Mini(t)
	return startAPI(t, client, nil)
}

// ask is a request under construction.
type ask struct {
	method, path string
	token        string // "": none
	body         string
	contentType  string // "": JSON where there is a body
	header       http.Header
	host         string
}

// got is an answer.
type got struct {
	status int
	header http.Header
	body   string
}

func (b *apiBundle) ask(a ask) got {
	b.t.Helper()
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), a.method, b.url+a.path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, values := range a.header {
		r.Header[name] = values
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.body != "" && a.contentType == "" {
		a.contentType = jsonType
	}
	if a.contentType != "" {
		r.Header.Set("Content-Type", a.contentType)
	}
	r.Host = a.host
	resp, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return got{resp.StatusCode, resp.Header, string(text)}
}

func (b *apiBundle) get(path string) got {
	b.t.Helper()
	return b.ask(ask{method: "GET", path: path, token: all})
}
func (b *apiBundle) post(path, body string) got {
	b.t.Helper()
	return b.ask(ask{method: "POST", path: path, token: all, body: body})
}

// submit hands an operation over that must be taken.
func (b *apiBundle) submit(body string) jobs.Receipt {
	b.t.Helper()
	g := b.post("/v1/operations", body)
	if g.status != http.StatusCreated && g.status != http.StatusOK {
		b.t.Fatalf("submit: %d %s", g.status, g.body)
	}
	return into[jobs.Receipt](b.t, g)
}

// into decodes an answer, strictly.
func into[T any](t testing.TB, g got) T {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader([]byte(g.body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not the JSON expected: %v\n%s", err, g.body)
	}
	return v
}

// is fails unless an answer is the problem of a kind, and returns it.
func (g got) is(t testing.TB, what string, k problemKind) Problem {
	t.Helper()
	if g.header.Get("Content-Type") != problemType || g.status != k.status {
		t.Errorf("%s: %d %s %s, want a problem %s (%d)", what, g.status, g.header.Get("Content-Type"), g.body, k.name, k.status)
		return Problem{}
	}
	p := into[Problem](t, g)
	if p.Type != problemURN+k.name || p.Status != k.status || p.Title != k.title || p.Detail == "" {
		t.Errorf("%s: %+v, want %s", what, p, k.name)
	}
	if again := g.header.Get("Retry-After") != ""; again != (k.status == 503 || k.status == 429) {
		t.Errorf("%s: Retry-After %q with %d", what, g.header.Get("Retry-After"), k.status)
	}
	return p
}

// says fails unless text contains every word.
func says(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

// nextMillisecond waits until the store's clock has gone on.
func (b *apiBundle) nextMillisecond() {
	b.t.Helper()
	first, err := b.ledger.Now(b.t.Context())
	for now := first; err == nil && now.UnixMilli() <= first.UnixMilli(); {
		now, err = b.ledger.Now(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
