package httpapi

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"redrive/internal/config"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

var zeroTime time.Time

// routeCase is a route and a request to it that does what the route is for.
type routeCase struct {
	pattern string // method and path, as they are registered
	role    config.Role
	also    config.Role // needed beside role; "": none is
	path    string
	body    string
	takes   string // "": JSON where there is a body
	gives   string // "": JSON
	status  int
}

// routeCases are all routes below /v1, in an order in which each request works.
var routeCases = []routeCase{
	{pattern: "POST /v1/operations", role: config.RoleSubmit, path: "/v1/operations", body: `{"kind":"charge","key":"ROLE-1","body":{}}`, status: 201},
	{pattern: "POST /v1/operations:import", role: config.RoleSubmit, path: "/v1/operations:import", body: `{"kind":"charge","key":"ROLE-2","body":{}}`, takes: ndjsonType, gives: ndjsonType, status: 200},
	{pattern: "GET /v1/operations", role: config.RoleRead, path: "/v1/operations?state=waiting", status: 200},
	{pattern: "GET /v1/operations/{kind}/{key}", role: config.RoleRead, path: "/v1/operations/charge/o-1", status: 200},
	{pattern: "GET /v1/operations/{kind}/{key}/timeline", role: config.RoleRead, path: "/v1/operations/charge/o-1/timeline", status: 200},
	{pattern: "POST /v1/operations/{kind}/{key}/reconcile", role: config.RoleOperate, path: "/v1/operations/payout/ROLE/reconcile", body: `{"note":"asked"}`, status: 200},
	{pattern: "POST /v1/operations/{kind}/{key}/cancel", role: config.RoleOperate, path: "/v1/operations/charge/CANCEL/cancel", body: `{"note":"withdrawn"}`, status: 200},
	{pattern: "POST /v1/operations/{kind}/{key}/resolve", role: config.RoleOperate, path: "/v1/operations/refund/RESOLVE/resolve", body: `{"note":"seen","verdict":"applied","ref":"r-1"}`, status: 200},
	{pattern: "POST /v1/operations:cancel", role: config.RoleOperate, path: "/v1/operations:cancel", body: `{"note":"x","filter":{"key":"nothing"}}`, status: 200},
	{pattern: "POST /v1/operations:reconcile", role: config.RoleOperate, path: "/v1/operations:reconcile", body: `{"note":"x","operations":["payout/ROLE"]}`, status: 200},
	{pattern: "POST /v1/operations:resolve", role: config.RoleOperate, path: "/v1/operations:resolve", body: `{"note":"x","findings":[{"operation":"charge/nobody","verdict":"written_off"}]}`, status: 200},
	{pattern: "GET /v1/dead-letters", role: config.RoleRead, path: "/v1/dead-letters", status: 200},
	{pattern: "GET /v1/dead-letters/stats", role: config.RoleRead, path: "/v1/dead-letters/stats", status: 200},
	{pattern: "GET /v1/dead-letters/export", role: config.RoleRead, also: config.RoleOperate, path: "/v1/dead-letters/export", status: 200},
	{pattern: "POST /v1/dead-letters/requeue", role: config.RoleOperate, path: "/v1/dead-letters/requeue", body: `{"note":"x","filter":{"key":"nothing"}}`, status: 200},
	{pattern: "POST /v1/dead-letters/discard", role: config.RoleOperate, path: "/v1/dead-letters/discard", body: `{"note":"x","filter":{"key":"nothing"}}`, status: 200},
	{pattern: "GET /v1/batches", role: config.RoleRead, path: "/v1/batches", status: 200},
	{pattern: "GET /v1/batches/{batch}", role: config.RoleRead, path: "/v1/batches/b-nobody", status: 404},
	{pattern: "GET /v1/batches/{batch}/outcome", role: config.RoleRead, path: "/v1/batches/b-nobody/outcome", status: 404},
	{pattern: "POST /v1/batches/{batch}/stop", role: config.RoleOperate, path: "/v1/batches/b-nobody/stop", body: `{"note":"x"}`, status: 404},
	{pattern: "GET /v1/dependencies", role: config.RoleRead, path: "/v1/dependencies", status: 200},
	{pattern: "GET /v1/dependencies/{dependency}", role: config.RoleRead, path: "/v1/dependencies/payrail", status: 200},
	{pattern: "POST /v1/dependencies/{dependency}/pause", role: config.RoleOperate, path: "/v1/dependencies/payrail/pause", body: `{"note":"maintenance","for":"1h"}`, status: 200},
	{pattern: "POST /v1/dependencies/{dependency}/resume", role: config.RoleOperate, path: "/v1/dependencies/payrail/resume", body: `{"note":"over"}`, status: 200},
	{pattern: "PUT /v1/dependencies/{dependency}/override", role: config.RoleOperate, path: "/v1/dependencies/payrail/override", body: `{"note":"headroom","for":"30m","limits":{"ratio":0.3,"floor":5}}`, status: 200},
	{pattern: "DELETE /v1/dependencies/{dependency}/override", role: config.RoleOperate, path: "/v1/dependencies/payrail/override?note=over", status: 200},
	{pattern: "POST /v1/dependencies/{dependency}/first-attempts", role: config.RoleSubmit, path: "/v1/dependencies/payrail/first-attempts", body: `{"ok":9,"failed":1}`, status: 200},
	{pattern: "GET /v1/kinds", path: "/v1/kinds", status: 200},
	{pattern: "GET /v1/stats", role: config.RoleRead, path: "/v1/stats", status: 200},
	{pattern: "GET /v1/audit", role: config.RoleRead, path: "/v1/audit", status: 200},
	{pattern: "GET /v1/events", role: config.RoleRead, path: "/v1/events", gives: eventType, status: 200},
	{pattern: "GET /v1/openapi.json", path: "/v1/openapi.json", status: 200},
	{pattern: "GET /v1/openapi.yaml", path: "/v1/openapi.yaml", gives: yamlType, status: 200},
}

// ask is the request, for one of the operations that the test made.
func (c routeCase) ask(token string) ask {
	method, _, _ := strings.Cut(c.pattern, " ")
	return ask{method: method, path: c.path, body: c.body, contentType: c.takes, token: token}
}

// status asks and returns the status alone, so that a stream need not end.
func (b *apiBundle) status(a ask) (int, http.Header) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), a.method, b.url+a.path, strings.NewReader(a.body))
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
	resp, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// recorder is an adapter that notes what is registered.
type recorder struct {
	huma.Adapter
	patterns []string // method and path
}

func (r *recorder) Handle(op *huma.Operation, handler func(huma.Context)) {
	r.patterns = append(r.patterns, op.Method+" "+op.Path)
	r.Adapter.Handle(op, handler)
}

// registered are method and path of every route that a door serves, by the code that
// registers them.
func registered() []string {
	r := &recorder{Adapter: humago.NewAdapter(http.NewServeMux(), "")}
	d := newDoor(API{Ledger: ledger.New(nil, "rd"), Limits: testLimits()}, true, slog.New(slog.DiscardHandler))
	d.register(huma.NewAPI(humaConfig("test"), r))
	return r.patterns
}

// byPath groups the cases of all registered routes. A route without a case, and a case
// without a route, fail the test.
func byPath(t *testing.T) map[string]map[string]routeCase {
	t.Helper()
	cases := map[string]routeCase{}
	for _, c := range routeCases {
		cases[c.pattern] = c
	}
	out := map[string]map[string]routeCase{}
	for _, pattern := range registered() {
		c, ok := cases[pattern]
		if !ok {
			t.Errorf("%s is served, and no case tries it", pattern)
			continue
		}
		delete(cases, pattern)
		method, path, _ := strings.Cut(pattern, " ")
		if out[path] == nil {
			out[path] = map[string]routeCase{}
		}
		out[path][method] = c
	}
	for pattern := range cases {
		t.Errorf("%s has a case and is not served", pattern)
	}
	return out
}

var allMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// tokensAndRoles are the tokens of the tests, the one of no role at all included.
var tokensAndRoles = map[string][]config.Role{submitter: {config.RoleSubmit}, reader: {config.RoleRead}, operating: {config.RoleOperate}, all: config.Roles, idle: {}}

// idle is a token that may do nothing.
const idle = "token-of-nobody"

func (c routeCase) lets(roles []config.Role) bool {
	return (c.role == "" || slices.Contains(roles, c.role)) && (c.also == "" || slices.Contains(roles, c.also))
}

// Every route, with every method, for every role: who has the roles is served, who has
// not is refused, and a method that the path does not know is refused for all alike.
func TestEveryRouteAndMethodServesItsRoleAndNobodyElse(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) {
		a.Tokens = append(a.Tokens, config.Token{Name: "nobody", SHA256: sha256.Sum256([]byte(idle))})
	})
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	tried := 0
	for path, served := range byPath(t) {
		var allowed []string
		for method := range served {
			if allowed = append(allowed, method); method == "GET" {
				allowed = append(allowed, "HEAD")
			}
		}
		slices.Sort(allowed)
		for _, method := range allMethods {
			c, known := served[method]
			if method == "HEAD" {
				c, known = served["GET"] // which it is, without the body
			}
			if !known {
				for _, any := range served {
					c = any
				}
			}
			for token, roles := range tokensAndRoles {
				tried++
				what := method + " " + path + " with " + token
				if !known {
					a := ask{method: method, path: c.concrete(b, "x", false).path, token: token}
					status, h := b.status(a)
					allow := strings.Split(h.Get("Allow"), ", ")
					slices.Sort(allow)
					if status != http.StatusMethodNotAllowed || !slices.Equal(allow, allowed) {
						t.Errorf("%s: %d, Allow %q, want 405 and %q", what, status, allow, allowed)
					}
					continue
				}
				want := http.StatusForbidden
				if c.lets(roles) {
					want = c.status
				}
				a := c.concrete(b, token, want == c.status).ask(token)
				a.method = method
				if status, h := b.status(a); status != want || want >= 400 && h.Get("Content-Type") != problemType {
					t.Errorf("%s: %d %s, want %d", what, status, h.Get("Content-Type"), want)
				}
			}
			b.refusesStrangers(t, method, c)
		}
	}
	if want := len(byPath(t)) * len(allMethods) * len(tokensAndRoles); tried != want {
		t.Errorf("%d tried, want %d", tried, want)
	}
}

// concrete names operations of their own in a request that changes them, and makes those
// that must be there if the request is to be served.
func (c routeCase) concrete(b *apiBundle, token string, serve bool) routeCase {
	switch {
	case strings.Contains(c.path, "CANCEL") && serve:
		b.submit(`{"kind":"charge","key":"` + token + `","body":{}}`)
	case strings.Contains(c.path, "RESOLVE") && serve:
		b.dead(token, false)
	}
	c.path, c.body = strings.NewReplacer("CANCEL", token, "RESOLVE", token, "ROLE", token).Replace(c.path), strings.ReplaceAll(c.body, "ROLE", token)
	return c
}

// refusesStrangers asks as whoever has no token, or a wrong one, and as a page of another
// site with the token of somebody who may do all.
func (b *apiBundle) refusesStrangers(t *testing.T, method string, c routeCase) {
	t.Helper()
	for what, change := range map[string]func(*ask){
		"no token":    func(a *ask) { a.token = "" },
		"wrong token": func(a *ask) { a.token = all + "x" },
		"an empty token": func(a *ask) {
			a.token, a.header = "", http.Header{"Authorization": {"Bearer "}}
		},
		"two tokens":   func(a *ask) { a.token, a.header = "", http.Header{"Authorization": {"Bearer " + all, "Bearer " + all}} },
		"basic":        func(a *ask) { a.token, a.header = "", http.Header{"Authorization": {"Basic " + all}} },
		"the digest":   func(a *ask) { a.token = "7c4a8d09ca3762af61e59520943dc26494f8941b" },
		"in the query": func(a *ask) { a.token, a.path = "", a.path+"?access_token="+all },
	} {
		a := c.ask(all)
		a.method = method
		change(&a)
		if status, h := b.status(a); status != http.StatusUnauthorized || h.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s with %s: %d, want 401", method, c.path, what, status)
		}
	}
	for what, header := range map[string]http.Header{
		"another site":   {"Sec-Fetch-Site": {"cross-site"}},
		"a sibling site": {"Sec-Fetch-Site": {"same-site"}},
		"another origin": {"Origin": {"https://evil.example"}},
		"no origin":      {"Origin": {"null"}},
		"a preflight":    {"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {method}},
	} {
		a := c.ask(all)
		a.method, a.header = method, header
		status, h := b.status(a)
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s for %s is answered with %s", method, c.path, what, name)
			}
		}
		if status != http.StatusForbidden {
			t.Errorf("%s %s for %s: %d, want 403", method, c.path, what, status)
		}
		if method != http.MethodHead {
			b.ask(a).is(t, method+" "+c.path+" for "+what, crossSite)
		}
	}
}

// Whatever is registered stands in the documentation and, but for the documents
// themselves, in the OpenAPI document.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range problemKinds {
		says(t, string(page), fmt.Sprintf("| `%s` | %d |", k.name, k.status))
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(setupAPI(t).get("/v1/openapi.json").body), &document); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range registered() {
		says(t, string(page), "`"+pattern+"`")
		method, path, _ := strings.Cut(pattern, " ")
		if _, told := document.Paths[path][strings.ToLower(method)]; told == strings.Contains(path, "openapi") {
			t.Errorf("%s: in the document: %v", pattern, told)
		}
	}
}

func TestASameOriginPageAndAToolMayAsk(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for _, h := range []http.Header{{"Sec-Fetch-Site": {"same-origin"}}, {"Sec-Fetch-Site": {"none"}}, {"Origin": {b.url}}, {}} {
		if g := b.ask(ask{method: "POST", path: "/v1/operations", token: all, body: `{"kind":"charge","key":"o-1","body":{}}`, header: h}); g.status >= 300 {
			t.Errorf("%v: %d %s", h, g.status, g.body)
		}
	}
}

func TestWithoutTokensOnlyThisMachineIsServed(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Tokens = nil })
	one := ask{method: "POST", path: "/v1/operations", body: `{"kind":"charge","key":"o-1","body":{}}`}
	if g := b.ask(one); g.status != 201 {
		t.Fatalf("from here: %d %s", g.status, g.body)
	}
	for _, host := range []string{"evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1"} {
		one.host = host
		b.ask(one).is(t, "a page that lets its name point here: "+host, wrongHost)
	}
	for _, host := range []string{"localhost", "LOCALHOST:8080", "[::1]:8080", "127.9.9.9"} {
		one.host = host
		if g := b.ask(one); g.status != 200 {
			t.Errorf("host %s: %d %s", host, g.status, g.body)
		}
	}
	one.host, one.header = "", http.Header{"X-Forwarded-For": {"192.0.2.1"}}
	b.ask(one).is(t, "through a proxy", notServed)
	one.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	b.ask(one).is(t, "from a page elsewhere", crossSite)

	pausing := b.ask(ask{method: "POST", path: "/v1/dependencies/payrail/pause", body: `{"note":"x"}`})
	entries, err := b.ledger.Audit(t.Context(), "payrail", zeroTime, 10)
	if err != nil || pausing.status != 200 || len(entries) != 1 || entries[0].By != "loopback" {
		t.Errorf("pause: %d %s; audit %+v, %v", pausing.status, pausing.body, entries, err)
	}
}

func TestAnAddressOfOtherMachinesWithoutTokensServesHealthAlone(t *testing.T) {
	t.Parallel()
	d := newDoor(API{Ledger: ledger.New(nil, "rd"), Limits: testLimits()}, onLoopback(&net.TCPAddr{IP: net.IPv4zero}), slog.New(slog.DiscardHandler))
	for _, c := range routeCases {
		w := &recorded{discard: discard{header: http.Header{}}}
		method, _, _ := strings.Cut(c.pattern, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		d.ServeHTTP(w, r)
		if w.status != http.StatusForbidden || !strings.Contains(w.text.String(), problemURN+notServed.name) || !strings.Contains(w.text.String(), "tokens") {
			t.Errorf("%s: %d %s", c.pattern, w.status, w.text.String())
		}
	}
	for addr, want := range map[net.Addr]bool{&net.TCPAddr{IP: net.IPv6loopback}: true, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}: false, &net.TCPAddr{}: false, &net.UnixAddr{}: true} {
		if got := onLoopback(addr); got != want {
			t.Errorf("%v on loopback: %v", addr, got)
		}
	}
}

// recorded keeps an answer.
type recorded struct {
	discard
	status int
	text   strings.Builder
}

func (r *recorded) WriteHeader(status int)      { r.status = status }
func (r *recorded) Flush()                      {}
func (r *recorded) Write(b []byte) (int, error) { return r.text.Write(b) }

func TestEveryChangeCarriesTheNameOfItsToken(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	b.submit(`{"kind":"payout","key":"o-2","body":{}}`)
	for _, a := range []ask{
		{method: "POST", path: "/v1/dependencies/payrail/pause", body: `{"note":"n1"}`},
		{method: "PUT", path: "/v1/dependencies/payrail/override", body: `{"note":"n2","for":"1m","limits":{"cap":5}}`},
		{method: "DELETE", path: "/v1/dependencies/payrail/override?note=n3"},
		{method: "POST", path: "/v1/dependencies/payrail/resume", body: `{"note":"n4"}`},
		{method: "POST", path: "/v1/operations/payout/o-2/reconcile", body: `{"note":"n5"}`},
		{method: "POST", path: "/v1/operations/charge/o-1/cancel", body: `{"note":"n6"}`},
	} {
		a.token = operating
		if g := b.ask(a); g.status != 200 {
			t.Fatalf("%s %s: %d %s", a.method, a.path, g.status, g.body)
		}
	}
	if g := b.get("/v1/operations/charge/o-1?reveal=true"); g.status != 200 {
		t.Fatalf("reveal: %d %s", g.status, g.body)
	}
	entries, err := b.ledger.Audit(t.Context(), "payrail", zeroTime, 100)
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, e := range entries {
		notes = append(notes, e.By+" "+e.Note)
	}
	if want := []string{"pager n1", "pager n2", "pager n3", "pager n4", "pager n5", "pager n6", "ann "}; !slices.Equal(notes, want) {
		t.Errorf("audit %q, want %q", notes, want)
	}
}

func TestPayloadIsForRoleOperateAlone(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"o-1","body":{"card":"4111111111111111"},"headers":{"X-Account":"secret-account"}}`)
	revealed := b.get("/v1/operations/charge/o-1?reveal=true")
	if v := into[wire.OperationView](t, revealed); v.Request == nil || v.Request.Body != `{"card":"4111111111111111"}` || v.Request.Headers["X-Account"] != "secret-account" {
		t.Errorf("to operate: %s", revealed.body)
	}
	b.ask(ask{method: "GET", path: "/v1/operations/charge/o-1?reveal=true", token: reader}).is(t, "reveal for role read", forbidden)
	for _, path := range []string{"/v1/operations/charge/o-1", "/v1/operations", "/v1/operations/charge/o-1/timeline", "/v1/operations/charge/o-1?reveal=false"} {
		if g := b.ask(ask{method: "GET", path: path, token: reader}); g.status != 200 || strings.Contains(g.body, "4111") || strings.Contains(g.body, "secret-account") {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
}
