package cli

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"redrive/internal/redistest"
)

// between is a proxy before a server that may spoil answers.
func between(t *testing.T, b *testBundle, spoil func(*http.Request, *http.Response) error) {
	t.Helper()
	to, err := url.Parse(b.env["REDRIVE_SERVER"])
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), // answers are to be cut
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error { return spoil(r.Request, r) },
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }}
	s := httptest.NewServer(proxy)
	t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
	b.useServer(s.URL, testToken)
}

// cutAfter ends a body with an error after so many lines.
type cutAfter struct {
	io.ReadCloser
	lines int
}

func (c *cutAfter) Read(p []byte) (int, error) {
	if c.lines <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:1])
	if n == 1 && p[0] == '\n' {
		c.lines--
	}
	return n, err
}

func TestAnImportThatIsCutSaysUpToWhereItIsKnown(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	var cuts atomic.Int32
	between(t, b, func(r *http.Request, resp *http.Response) error {
		if strings.HasSuffix(r.URL.Path, ":import") && cuts.Add(1) == 1 {
			resp.Body = &cutAfter{resp.Body, 3}
		}
		return nil
	})
	var file strings.Builder
	for i := range 10 {
		fmt.Fprintf(&file, "# comment\n{\"kind\":\"charge\",\"key\":\"o%d\",\"body\":{\"amount\":1}}\n", i)
	}
	got := b.mustWith(exitAgain, file.String(), "import", "-", "-o", "json")
	says(t, got.stderr, "the connection was cut", "all up to line 6 are answered", "3 lines surely taken", "importing the same file again is safe")
	again := into[summary](t, b.mustWith(exitOK, file.String(), "import", "-", "-o", "json"))
	if again.Lines != 10 || again.Accepted+again.Duplicate != 10 || again.Duplicate < 3 {
		t.Errorf("%+v", again)
	}
}

func TestAnImportOfManyPartsAnswersEachLineOnce(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	const n = 2*partLines + 100
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, "{\"kind\":\"charge\",\"key\":\"o%d\",\"body\":{\"amount\":%d}}\n", i%(n-50), i%(n-50))
		if i == 5 {
			file.WriteString("{\"kind\":\"charge\"}\n")
		}
	}
	got := b.mustWith(exitPartly, file.String(), "import", "-", "-o", "json")
	sum := into[summary](t, got)
	if sum.Lines != n+1 || sum.Accepted != n-50 || sum.Duplicate != 50 || sum.Refused != 1 || sum.Error != nil {
		t.Errorf("%+v\n%s", sum, got.stderr)
	}
}

// A backlog that is full, and a new attempt that is not allowed, end an import through a
// server as they do on Redis.
func TestWhyLinesWereNotTakenGoesThroughTheServer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.mustWith(exitConflict, `{"kind":"charge","key":"o2","body":{},"new_attempt_of":"charge/o1"}`, "import", "-")
		says(t, b.must(exitConflict, "add", "charge/o2", "--body", "{}", "--new-attempt-of", "charge/o1").stderr, "refused")
	})
	full := testSpecs()
	for i := range full {
		full[i].MaxBacklog = 1
	}
	for _, through := range []bool{false, true} {
		_, client := redistest.Mini(t)
		b := setup(t, client)
		if err := b.ledger.PublishKinds(t.Context(), full); err != nil {
			t.Fatal(err)
		}
		if through {
			b.serve(nil)
		}
		b.must(exitOK, "add", "charge/o1", "--body", "{}")
		b.must(exitAgain, "add", "charge/o2", "--body", "{}")
		b.mustWith(exitAgain, `{"kind":"charge","key":"o2","body":{}}`, "import", "-")
	}
}
