package sandbox

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBundle is a sandbox served on loopback and a client that opens one
// connection per request, so that net/http never resends by itself.
type testBundle struct {
	t       *testing.T
	sandbox *Sandbox
	url     string
	client  *http.Client
}

func setup(t *testing.T, o Options) *testBundle {
	t.Helper()
	s := New(o)
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	t.Cleanup(transport.CloseIdleConnections)
	return &testBundle{t: t, sandbox: s, url: url, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// reply is what a client saw; err of the call or of reading the body.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (tb *testBundle) call(method, path, key, body string) reply {
	tb.t.Helper()
	r, err := http.NewRequest(method, tb.url+path, strings.NewReader(body))
	if err != nil {
		tb.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := tb.client.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}
}

// charge posts a charge of 4200 for reference under key ("" = none).
func (tb *testBundle) charge(reference, key string) reply {
	tb.t.Helper()
	return tb.call("POST", "/v1/charges", key, chargeBody(reference))
}

func (tb *testBundle) setFault(f Fault) {
	tb.t.Helper()
	if err := tb.sandbox.SetFault(f); err != nil {
		tb.t.Fatal(err)
	}
}

// entry returns the ledger's entry of a charge, empty when there is none.
func (tb *testBundle) entry(reference string) Entry {
	tb.t.Helper()
	return entryOf(tb.sandbox, "charges", reference)
}

func entryOf(s *Sandbox, route, reference string) Entry {
	for _, e := range s.Ledger() {
		if e.Route == route && e.Reference == reference {
			return e
		}
	}
	return Entry{}
}

func chargeBody(reference string) string {
	return fmt.Sprintf(`{"amount":4200,"currency":"GBP","reference":%q}`, reference)
}

func (r reply) want(t *testing.T, status int) {
	t.Helper()
	if r.err != nil || r.status != status {
		t.Fatalf("got status %d, error %v, body %q; want status %d", r.status, r.err, r.body, status)
	}
}

func (r reply) wantCode(t *testing.T, status int, code string) {
	t.Helper()
	r.want(t, status)
	if !strings.Contains(r.body, fmt.Sprintf(`"code":%q`, code)) {
		t.Fatalf("got body %q, want code %s", r.body, code)
	}
}
