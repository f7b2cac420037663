package httpapi

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// deaf sends the head of a request over a connection whose answers nobody reads.
func (b *apiBundle) deaf(token, head string) net.Conn {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintf(conn, head+"\r\nHost: x\r\nAuthorization: Bearer %s\r\n", token); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// freed waits until nobody holds a place.
func (b *apiBundle) freed(what string, places chan struct{}) {
	b.t.Helper()
	for range 1000 {
		if len(places) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.t.Errorf("%s is held by a client that does not read", what)
}

func TestAClientThatDoesNotReadItsEventsLosesItsPlace(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.takeTime = 100 * time.Millisecond })
	conn := b.deaf(reader, "GET /v1/events HTTP/1.1")
	if _, err := io.WriteString(conn, "\r\n"); err != nil {
		t.Fatal(err)
	}
	b.joined(1)
	h := b.server.door.hub
	change := ledger.Change{Dependency: "payrail", Operation: "charge/" + strings.Repeat("k", 190), State: "waiting", Cursor: "payrail=1-1"}
	for range 200 { // far more than the sockets hold
		for range listenerRoom / 2 {
			h.tell(change)
		}
		time.Sleep(time.Millisecond)
	}
	b.joined(0)
	b.freed("a place of streams", b.server.door.streams)
}

func TestAClientThatDoesNotReadItsAnswersLosesItsPlace(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.lineTime = 150 * time.Millisecond })
	conn := b.deaf(submitter, "POST /v1/operations:import HTTP/1.1")
	if _, err := io.WriteString(conn, "Content-Type: "+ndjsonType+"\r\nContent-Length: 100000000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Repeat("x\n", 1000)
	for range 500 {
		if _, err := io.WriteString(conn, lines); err != nil {
			break // cut off, as it should be
		}
	}
	b.freed("a place of imports", b.server.door.imports)
}

func TestAnImportWhoseNextLineNeverComesIsEnded(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.lineTime = 100 * time.Millisecond })
	body, feed := io.Pipe()
	defer feed.Close()
	a, text := b.importBody(t, io.MultiReader(strings.NewReader(`{"kind":"charge","key":"o-1","body":{}}`+"\n{"), body))
	if len(a.lines) != 1 || a.last.Problem == nil || a.last.Problem.Type != problemURN+tooSlow.name {
		t.Errorf("%s", text)
	}
}

// Whatever a request is, it is answered, with a problem that is listed where it is not
// done, and never with a fault of ours.
func FuzzRequest(f *testing.F) {
	for _, c := range routeCases {
		method, _, _ := strings.Cut(c.pattern, " ")
		f.Add(method, c.path, c.body, c.takes, "payrail=1-1")
	}
	f.Add("GET", "/v1/operations?limit=%00&cursor=eyJ9", "", "", "")
	f.Add("POST", "/v1//operations/../x", "{", jsonType, ",=")
	f.Add("PUT", "/v1/dependencies/payrail/override", `{"note":"x","for":"1h","limits":{"cap":1e999}}`, jsonType, "")
	f.Add("POST", "/v1/dead-letters/requeue", `{"note":"x","filter":null,"operations":[""]}`, jsonType, "")
	b := setupAPI(f)
	f.Fuzz(func(t *testing.T, method, target, body, contentType, last string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(u.Path, "/v1/") || u.Path == "/v1/events" {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), method, b.url+u.RequestURI(), strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header = http.Header{"Authorization": {"Bearer " + all}, "Content-Type": {contentType}, "Last-Event-Id": {last}}
		w := &recorded{discard: discard{header: http.Header{}}}
		b.server.door.ServeHTTP(w, r)
		if w.status >= 500 || w.status >= 400 && method != http.MethodHead && !strings.Contains(w.text.String(), problemURN) {
			t.Errorf("%s %s: %d %s", method, target, w.status, w.text.String())
		}
	})
}
