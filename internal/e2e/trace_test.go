package e2e

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracing "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlp is a collector that keeps the spans it is sent.
type otlp struct {
	*httptest.Server
	mu    sync.Mutex // guards spans
	spans []*tracing.Span
}

func startCollector(t *testing.T) *otlp {
	c := &otlp{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unzipped
		}
		raw, err := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &req) != nil {
			http.Error(w, fmt.Sprintf("%s: no traces", r.URL.Path), http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// named returns the spans of a name, as often as they came.
func (c *otlp) named(name string) []*tracing.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*tracing.Span
	for _, s := range c.spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// TestATraceFollowsAnOperation: submit, wait, attempt, inquiry are one trace, over
// three processes, and the gateway is told which attempt called it.
func TestATraceFollowsAnOperation(t *testing.T) {
	c := startCollector(t)
	var mu sync.Mutex
	seen := map[string]string{} // method -> traceparent
	g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Method] = r.Header.Get("traceparent")
		mu.Unlock()
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"status":"succeeded"}]}`)
			return
		}
		panic(http.ErrAbortHandler) // the reply is lost
	}))
	t.Cleanup(g.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	const outside = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	t.Setenv("TRACEPARENT", outside)
	s := newSetting(t, redisServer(t).URL(), "traced", g.URL, "")
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	asks := strings.Replace(string(text), "payout: {dependency: payrail,", `payout: {dependency: payrail, inquiry: {settle: 2s, backoff: {base: 200ms, cap: 1s}, request: {method: GET, path: "/v1/charges?reference={key}"},
    answers: [200], succeeded: 'body.data.exists(c, c.status == "succeeded")', not_found: 'size(body.data) == 0'},`, 1)
	if err := os.WriteFile(s.config, []byte(asks), 0o600); err != nil {
		t.Fatal(err)
	}
	s.worker(t)
	s.awaitKinds(t)
	if out, code := s.enqueue(t, "add", "payout/order-1", "--body", `{"amount":5}`); code != 0 {
		t.Fatalf("add: exit %d\n%s", code, out)
	}
	s.awaitStates(t, 30*time.Second, map[string]int{"succeeded": 1})
	await(t, 10*time.Second, "all spans", func() bool { return len(c.named("inquiry payout")) > 0 })

	submits := c.named("submit payout")
	if len(submits) != 1 || hex.EncodeToString(submits[0].ParentSpanId) != "b7ad6b7169203331" {
		t.Fatalf("submissions: %v, want one below %s", submits, outside)
	}
	id := func(s *tracing.Span) string {
		return fmt.Sprintf("00-%x-%x-01", s.TraceId, s.SpanId)
	}
	for name, method := range map[string]string{"wait payout": "", "attempt payout": "POST", "inquiry payout": "GET"} {
		spans := c.named(name)
		if len(spans) != 1 {
			t.Errorf("%s: %d spans, want 1", name, len(spans))
			continue
		}
		span := spans[0]
		if hex.EncodeToString(span.TraceId) != "0af7651916cd43dd8448eb211c80319c" || string(span.ParentSpanId) != string(submits[0].SpanId) {
			t.Errorf("%s is not below the submission: %v", name, span)
		}
		if span.EndTimeUnixNano < span.StartTimeUnixNano {
			t.Errorf("%s ends before it begins", name)
		}
		if mu.Lock(); method != "" && seen[method] != id(span) {
			t.Errorf("the gateway was called with %q, want %q (%s)", seen[method], id(span), name)
		}
		mu.Unlock()
	}
	if out, _ := s.enqueue(t, "show", "payout/order-1", "-o", "json"); !strings.Contains(out, id(submits[0])) {
		t.Errorf("show does not tell the trace %s:\n%s", id(submits[0]), out)
	}
}

// TestACollectorThatIsAwayHoldsNobodyUp: neither a submission nor a worker's work or end.
func TestACollectorThatIsAwayHoldsNobodyUp(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address(t))
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	g := startGateway(t)
	s := newSetting(t, redisServer(t).URL(), "traced", g.url, "")
	w := s.worker(t)
	s.awaitKinds(t)
	if _, code := s.enqueue(t, "add", "charge/order-1", "--body", `{"amount":5,"currency":"GBP","reference":"order-1"}`); code != 0 {
		t.Fatalf("add: exit %d", code)
	}
	s.awaitStates(t, 30*time.Second, map[string]int{"succeeded": 1})
	await(t, 30*time.Second, "a line about it", func() bool { return strings.Contains(w.out.String(), "traces not delivered") })
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the worker does not end")
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
