package httpapi

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

func TestEveryWrongFieldOfASubmissionIsNamed(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for _, c := range []struct {
		body     string
		kind     problemKind
		location string
	}{
		{`{"kind":"charge","key":"a"`, malformed, ""},
		{``, malformed, ""},
		{`not json`, malformed, ""},
		{"{\"kind\":\"ch\xffarge\"}", malformed, ""},
		{`[]`, invalid, "body"},
		{`null`, invalid, "body"},
		{`{"kind":"charge","key":"a","bdy":{}}`, invalid, "body"},
		{`{"Kind":"charge","key":"a"}`, invalid, "body"},
		{`{"kind":"charge","kind":"charge","key":"a"}`, invalid, "body"},
		{`{"kind":"charge"} {"kind":"charge"}`, malformed, ""},
		{`{"kind":7,"key":"a"}`, invalid, "body.kind"},
		{`{"kind":"nothing","key":"a"}`, invalid, "body.kind"},
		{`{"kind":"Charge","key":"a"}`, invalid, "body.kind"},
		{`{"key":"a"}`, invalid, "body.kind"},
		{`{"kind":"charge","body":{}}`, invalid, "body.key"},
		{`{"kind":"charge","key":"a b","body":{}}`, invalid, "body.key"},
		{`{"kind":"charge","key":"` + strings.Repeat("k", 201) + `","body":{}}`, invalid, "body.key"},
		{`{"kind":"charge","key":"a","body":{},"body_text":"x"}`, invalid, "body.body"},
		{`{"kind":"charge","key":"a","body_base64":"!"}`, invalid, "body.body_base64"},
		{`{"kind":"charge","key":"a","body":{},"deadline":"soon"}`, invalid, "body.deadline"},
		{`{"kind":"charge","key":"a","body":{},"not_before":"09:00"}`, invalid, "body.not_before"},
		{`{"kind":"charge","key":"a","body":{},"created_at":"yesterday"}`, invalid, "body.created_at"},
		{`{"kind":"charge","key":"a","body":{},"credential":"M1"}`, invalid, "body.credential"},
		{`{"kind":"charge","key":"a","body":{},"headers":{"Authorization":"x"}}`, invalid, "body.headers"},
		{`{"kind":"charge","key":"a","body":{},"params":{"id":1}}`, invalid, "body.params.id"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"odd"}}`, invalid, "body.attempted.outcome"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"unknown","class":"odd"}}`, invalid, "body.attempted.class"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"unknown","attempts":-1}}`, invalid, "body.attempted.attempts"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"not_sent","status":504}}`, invalid, "body.attempted.status"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"refused","status":200,"class":"2xx"}}`, invalid, "body.attempted.step"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"unknown","status":202,"class":"5xx"}}`, invalid, "body.attempted.class"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"unknown","step":"succeed"}}`, invalid, "body.attempted.step"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"refused","step":"end"}}`, invalid, "body.attempted.reason"},
		{`{"kind":"charge","key":"a","body":{},"attempted":{"outcome":"refused","step":"end","reason":"poison"}}`, invalid, "body.attempted.reason"},
		{`{"kind":"charge","key":"a","body":{},"traceparent":"x"}`, invalid, "body.traceparent"},
		{`{"kind":"charge","key":"a","body":{},"new_attempt_of":"x"}`, invalid, "body.new_attempt_of"},
	} {
		g := b.ask(ask{method: "POST", path: "/v1/operations", token: submitter, body: c.body, contentType: jsonType})
		p := g.is(t, c.body, c.kind)
		if c.location != "" && (len(p.Errors) != 1 || p.Errors[0].Location != c.location) {
			t.Errorf("%s: %+v, want it at %s", c.body, p.Errors, c.location)
		}
	}
	if g := b.get("/v1/operations"); len(into[Page](t, g).Items) != 0 {
		t.Errorf("something was taken: %s", g.body)
	}
}

func TestEveryWrongValueOfTheOtherRoutesIsRefused(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	long := strings.Repeat("x", 1001)
	for _, c := range []struct {
		request string // method, path, body
		kind    problemKind
	}{
		{"GET /v1/nothing", notFound},
		{"GET /v1/", notFound},
		{"GET /v1/operations/charge", notFound},
		{"GET /v1/operations/charge/o-1/nothing", notFound},
		{"PUT /v1/operations", badMethod},
		{"DELETE /v1/operations/charge/o-1", badMethod},
		{"GET /v1/operations:import", badMethod},
		{"PATCH /v1/dependencies/payrail/override", badMethod},
		{"POST /v1/events", badMethod},

		{"GET /v1/operations/charge/nobody", notFound},
		{"GET /v1/operations/nothing/o-1", notFound},
		{"GET /v1/operations/Charge/o-1", invalid},
		{"GET /v1/operations/charge/%20", invalid},
		{"GET /v1/operations/charge/%7Bx%7D", invalid},
		{"GET /v1/operations/charge/o-1?reveal=maybe", invalid},
		{"GET /v1/operations/charge/o-1?revael=true", invalid},
		{"GET /v1/operations/charge/nobody/timeline", notFound},
		{"GET /v1/operations/charge/o-1/timeline?reveal=true", invalid},

		{"GET /v1/operations?limit=0", invalid},
		{"GET /v1/operations?limit=1001", invalid},
		{"GET /v1/operations?limit=many", invalid},
		{"GET /v1/operations?limit=1&limit=2", invalid},
		{"GET /v1/operations?limti=1", invalid},
		{"GET /v1/operations?cursor=abc", invalid},
		{"GET /v1/operations?cursor=" + url.QueryEscape(`{"a":1}`), invalid},
		{"GET /v1/operations?state=lost", invalid},
		{"GET /v1/operations?state=dead,lost", invalid},
		{"GET /v1/operations?reason=bad", invalid},
		{"GET /v1/operations?class=6xx", invalid},
		{"GET /v1/operations?flag=red", invalid},
		{"GET /v1/operations?kind=Charge", invalid},
		{"GET /v1/operations?dependency=*", invalid},
		{"GET /v1/operations?key=%5B", invalid},
		{"GET /v1/operations?unknown=perhaps", invalid},
		{"GET /v1/operations?since=tomorrow", invalid},
		{"GET /v1/operations?until=soon", invalid},
		{"GET /v1/operations?since=1h&until=2h", invalid},
		{"GET /v1/operations?key=%zz", malformed},
		{"GET /v1/operations?key=a;b", malformed},
		{"GET /v1/dead-letters?state=dead", invalid},
		{"GET /v1/dead-letters?cursor=x", invalid},
		{"GET /v1/dead-letters/stats?limit=5", invalid},
		{"GET /v1/dead-letters/stats?reason=bad", invalid},

		{"POST /v1/operations/charge/o-1/cancel {", malformed},
		{"POST /v1/operations/charge/o-1/cancel []", invalid},
		{"POST /v1/operations/charge/o-1/cancel {}", invalid},
		{`POST /v1/operations/charge/o-1/cancel {"note":" "}`, invalid},
		{`POST /v1/operations/charge/o-1/cancel {"note":7}`, invalid},
		{`POST /v1/operations/charge/o-1/cancel {"Note":"x"}`, invalid},
		{`POST /v1/operations/charge/o-1/cancel {"note":"x","note":"y"}`, invalid},
		{`POST /v1/operations/charge/o-1/cancel {"note":"x","force":true}`, invalid},
		{`POST /v1/operations/charge/o-1/cancel {"note":"` + long + `"}`, invalid},
		{`POST /v1/operations/charge/nobody/cancel {"note":"x"}`, notFound},
		{`POST /v1/operations/Charge/o-1/cancel {"note":"x"}`, invalid},
		{`POST /v1/operations/payout/o-9/reconcile {"note":"x","first_sent_at":"yesterday"}`, invalid},
		{`POST /v1/operations/nothing/o-9/reconcile {"note":"x"}`, invalid},
		{`POST /v1/operations/charge/o-1/reconcile {"note":"x"}`, notInState},

		{"GET /v1/dependencies/nobody", notFound},
		{"GET /v1/dependencies/No", invalid},
		{`POST /v1/dependencies/nobody/pause {"note":"x"}`, notFound},
		{`POST /v1/dependencies/payrail/pause {}`, invalid},
		{`POST /v1/dependencies/payrail/pause {"note":"x","for":"long"}`, invalid},
		{`POST /v1/dependencies/payrail/pause {"note":"x","for":"-1h"}`, invalid},
		{`POST /v1/dependencies/payrail/pause {"note":"x","for":8}`, invalid},
		{`POST /v1/dependencies/payrail/resume {"note":"x","credential":"m1"}`, notInState},
		{`POST /v1/dependencies/payrail/resume {"note":"x","credential":"M1"}`, invalid},
		{`POST /v1/dependencies/payrail/resume {"note":"x","credential":"default"}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"1h"}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"1h","limits":{}}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","limits":{"cap":5}}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"25h","limits":{"cap":5}}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"10ms","limits":{"cap":5}}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"1h","limits":{"cap":0}}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"1h","limits":{"speed":1}}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"1h","limits":{"ratio":"0.3"}}`, invalid},
		{`PUT /v1/dependencies/payrail/override {"note":"x","for":"1h","limits":{"cap":5,"cap":6}}`, invalid},
		{"DELETE /v1/dependencies/payrail/override", invalid},
		{"DELETE /v1/dependencies/payrail/override?note=%20", invalid},
		{`POST /v1/dependencies/payrail/first-attempts {}`, invalid},
		{`POST /v1/dependencies/payrail/first-attempts {"ok":-1}`, invalid},
		{`POST /v1/dependencies/payrail/first-attempts {"ok":1.5}`, invalid},
		{`POST /v1/dependencies/payrail/first-attempts {"ok":1000000,"failed":1}`, invalid},
		{`POST /v1/dependencies/payrail/first-attempts {"ok":1,"process":"p"}`, invalid},
		{`POST /v1/dependencies/payrail/first-attempts {"ok":1,"process":"a b","seq":1}`, invalid},
		{`POST /v1/dependencies/nobody/first-attempts {"ok":1}`, notFound},

		{"GET /v1/events?kind=Charge", invalid},
		{"GET /v1/events?operation=charge", invalid},
		{"GET /v1/events?dependency=%20", invalid},
		{"GET /v1/events?stat=dead", invalid},
		{"GET /v1/openapi.json?x=1", invalid},
	} {
		method, rest, _ := strings.Cut(c.request, " ")
		path, body, _ := strings.Cut(rest, " ")
		g := b.ask(ask{method: method, path: path, body: body, token: all})
		g.is(t, c.request, c.kind)
		if c.kind == badMethod && g.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow", c.request)
		}
		if strings.Contains(g.body, long) {
			t.Errorf("%.60s: the value is repeated", c.request)
		}
	}
	for _, cursor := range []string{"x", "payrail=1", "payrail=1-1,", "payrail=-1-1", "=1-1", "payrail=1-1;bank=1-1", strings.Repeat("payrail=1-1,", 1000)} {
		b.ask(ask{method: "GET", path: "/v1/events", token: reader, header: http.Header{"Last-Event-Id": {cursor}}}).is(t, "Last-Event-ID "+cursor[:min(20, len(cursor))], invalid)
	}
}

func TestWrongTypesOfBodiesAndAnswersAreRefusedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	for _, c := range routeCases {
		a := c.ask(all)
		gives := c.gives
		if gives == "" {
			gives = jsonType
		}
		a.header = http.Header{"Accept": {"image/png, " + gives + ";q=0"}}
		b.ask(a).is(t, c.pattern+" in another type", notAcceptable)
		if c.body == "" {
			continue
		}
		for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "x", "multipart/form-data; boundary=x"} {
			a := c.ask(all)
			a.contentType = contentType
			b.ask(a).is(t, c.pattern+" with "+contentType, badMediaType)
		}
		a = c.ask(all)
		a.header = http.Header{"Content-Encoding": {"gzip"}}
		b.ask(a).is(t, c.pattern+" compressed", badMediaType)
	}
	if g := b.get("/v1/operations"); len(into[Page](t, g).Items) != 0 {
		t.Errorf("something was taken: %s", g.body)
	}
}

func TestAnAcceptHeaderIsReadAsHTTPSays(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{"": false, "*/*": true, "application/*": true, "application/json": true, "application/json;q=0": false, "text/html, */*;q=0.1": true,
		"application/json;q=0, */*": false, "text/html": false, "application/*;q=0, application/json": true, "APPLICATION/JSON; charset=utf-8": true, ";;,": false} {
		if got := accepts([]string{header}, jsonType); got != want {
			t.Errorf("Accept: %s: %v, want %v", header, got, want)
		}
	}
	if !accepts(nil, jsonType) {
		t.Error("no header accepts nothing")
	}
}

func TestOversizedBodiesAreCutOff(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	big := `{"kind":"charge","key":"a","body":"` + strings.Repeat("x", maxSubmission) + `"}`
	b.post("/v1/operations", big).is(t, "a submission above the limit", tooLarge)
	b.post("/v1/operations/charge/o-1/cancel", `{"note":"`+strings.Repeat("x", maxOrder)+`"}`).is(t, "an order above the limit", tooLarge)
	fits := `{"kind":"charge","key":"a","body":"` + strings.Repeat("x", jobs.MaxBodyBytes-2) + `"}`
	if g := b.post("/v1/operations", fits); g.status != 201 {
		t.Errorf("a body of the greatest size: %d %.200s", g.status, g.body)
	}
	b.post("/v1/operations", `{"kind":"charge","key":"b","body":"`+strings.Repeat("x", jobs.MaxBodyBytes-1)+`"}`).is(t, "a byte more", invalid)
}

// endless is a body that goes on for ever.
type endless struct {
	read   atomic.Int64 // bytes: the transport may still read when the answer is there
	letter byte         // 0: a space
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = cmp.Or(e.letter, ' ')
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// send asks with a body that is no text, over a connection that is not used again.
func (b *apiBundle) send(c routeCase, body io.Reader) (got, error) {
	b.t.Helper()
	a := c.ask(all)
	r, err := http.NewRequestWithContext(b.t.Context(), a.method, b.url+a.path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+all)
	if c.body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	r.Close = true
	resp, err := b.http.Do(r)
	if err != nil {
		return got{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, string(text)}, err
}

// maxRead is more than any body that is read whole, and than what the sockets hold.
const maxRead = 64 << 20

// Of every route that takes a body, one that never ends is cut off at the route's limit;
// of every other it is not read.
func TestAnEndlessBodyIsCutOffByEveryRoute(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	for _, c := range routeCases {
		if c.takes != "" || c.gives == eventType { // an import is bounded by its lines; of a stream nothing is read
			continue
		}
		own := c.concrete(b, "endless", true)
		body := &endless{}
		g, err := b.send(own, body)
		switch {
		case body.read.Load() > maxRead:
			t.Errorf("%s read %d MiB", c.pattern, body.read.Load()>>20)
		case err != nil: // cut while it was written
		case c.body == "":
			if g.status != c.status {
				t.Errorf("%s: %d %s", c.pattern, g.status, g.body)
			}
		default:
			g.is(t, c.pattern, tooLarge)
		}
	}
	if g := b.get("/v1/operations?state=cancelled"); len(into[Page](t, g).Items) != 0 {
		t.Errorf("something was done: %s", g.body)
	}
}

// A head that never ends holds no connection.
func TestAHeadThatStopsIsCutOff(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(6 * headerTimeout))
	if _, err := io.WriteString(conn, "GET /v1/operations HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || strings.Contains(string(text), " 200 ") {
		t.Errorf("the connection is open still: %q, %v", text, err)
	}
}

func TestAHeadThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	g := b.ask(ask{method: "GET", path: "/v1/operations", token: all, header: http.Header{"X-Large": {strings.Repeat("x", 2*maxHeaderBytes)}}})
	if g.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d %s", g.status, g.body)
	}
}

func TestABodyThatStopsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Limits.Timeout = 300 * time.Millisecond })
	head := fmt.Sprintf("POST /v1/operations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", submitter, jsonType)
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	got{resp.StatusCode, resp.Header, string(text)}.is(t, "a body that stops", tooSlow)
}

func TestMoreRequestsThanPlacesAreTurnedAway(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Limits.MaxRequests = 1 })
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := fmt.Sprintf("POST /v1/operations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", submitter, jsonType)
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	places := b.server.door.requests
	for range 2000 {
		if len(places) == 1 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	b.get("/v1/operations").is(t, "one too many", busy)
}
