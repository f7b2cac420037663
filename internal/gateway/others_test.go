package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/mccutchen/go-httpbin/v2/httpbin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Every status of a server that we did not write is read as the table has it, for every
// class of kinds, and nothing is sent again on the way.
func TestEveryStatusOfAnotherServer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards seen
	seen := map[string]int{}
	bin := httpbin.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		mu.Unlock()
		bin.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client := New(Options{})
	for status := 200; status < 600; status++ { // below 200 it is no answer: see the phases
		call := testCall(server.URL)
		call.Request.Path = fmt.Sprintf("/status/%d", status)
		call.Timeout = 5 * time.Second
		answer := client.Send(t.Context(), call)
		if answer.Sample.Phase != policy.PhaseAnswered || answer.Sample.Status != status {
			t.Errorf("status %d: phase %s, status %d (%s)", status, answer.Sample.Phase, answer.Sample.Status, answer.Err)
			continue
		}
		for _, class := range jobs.Idempotencies {
			got := policy.Classify(answer.Sample, class)
			if resend := got.Verdict.Resends(); resend && class == jobs.IdempotencyNone && got.Processed != policy.ProcessedNo {
				t.Errorf("status %d of class none: %s although it may have acted", status, got.Verdict)
			}
			if status >= 400 && status < 500 && got.Class != jobs.Class4xx && got.Class != jobs.Class429 {
				t.Errorf("status %d counts as %s", status, got.Class)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s was on the wire %d times", path, n)
		}
	}
	if len(seen) != 400 {
		t.Errorf("%d statuses arrived, want 400", len(seen))
	}
}

// A proxy by others cuts, delays, limits and slices each way of a connection: what the
// server has read is never called not sent, what it has not read whole is never answered,
// and nothing is on the wire twice.
func TestWhateverAProxyDoesToAConnection(t *testing.T) {
	t.Parallel()
	toxics := []string{
		`{"name":"t","type":"reset_peer","attributes":{"timeout":0}}`,
		`{"name":"t","type":"reset_peer","attributes":{"timeout":40}}`,
		`{"name":"t","type":"timeout","attributes":{"timeout":0}}`,
		`{"name":"t","type":"timeout","attributes":{"timeout":30}}`,
		`{"name":"t","type":"limit_data","attributes":{"bytes":0}}`,
		`{"name":"t","type":"limit_data","attributes":{"bytes":1}}`,
		`{"name":"t","type":"limit_data","attributes":{"bytes":100}}`,
		`{"name":"t","type":"limit_data","attributes":{"bytes":250}}`,
		`{"name":"t","type":"limit_data","attributes":{"bytes":400}}`,
		`{"name":"t","type":"slicer","attributes":{"average_size":7,"size_variation":3,"delay":200}}`,
		`{"name":"t","type":"latency","attributes":{"latency":150,"jitter":50}}`,
		`{"name":"t","type":"slow_close","attributes":{"delay":100}}`,
	}
	for _, toxic := range toxics {
		for _, stream := range []string{"upstream", "downstream"} {
			t.Run(stream+" "+toxic, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex // guards began, whole
				began, whole := 0, 0
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					began++
					mu.Unlock()
					body, err := io.ReadAll(r.Body)
					if err == nil && string(body) == `{"amount":4200}` {
						mu.Lock()
						whole++
						mu.Unlock()
					}
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"id":"ch_1","status":"succeeded"}`)
				}))
				t.Cleanup(server.Close)
				proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
				proxy := toxiproxy.NewProxy(proxies, "gateway", "127.0.0.1:0", strings.TrimPrefix(server.URL, "http://"))
				if err := proxy.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(proxy.Stop)
				if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(strings.Replace(toxic, `"type"`, `"stream":"`+stream+`","type"`, 1))); err != nil {
					t.Fatal(err)
				}
				call := testCall("http://" + proxy.Listen)
				call.Timeout = 700 * time.Millisecond
				answer := New(Options{}).Send(t.Context(), call)
				proxy.Stop()
				server.Close() // waits for what it is still reading
				c := checkAnswer(t, answer)
				mu.Lock()
				defer mu.Unlock()
				if began > 1 {
					t.Errorf("on the wire %d times", began)
				}
				if began > 0 && c.Outcome == jobs.OutcomeNotSent {
					t.Errorf("the server saw it, and it is called not sent (phase %s)", answer.Sample.Phase)
				}
				if c.Outcome == jobs.OutcomeSucceeded && whole == 0 {
					t.Errorf("succeeded, and the server never had all of it")
				}
				if c.Outcome == jobs.OutcomeRefused {
					t.Errorf("refused (phase %s, status %d), and the server refuses nothing", answer.Sample.Phase, answer.Sample.Status)
				}
			})
		}
	}
}
