package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type testBundle struct {
	server  *Server
	url     string
	reasons *atomic.Pointer[[]string]
	dead    *atomic.Pointer[error]
	scrape  chan struct{} // a value lets one scrape go on
	scraped chan struct{} // gets a value from each scrape that begins
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	b := &testBundle{reasons: new(atomic.Pointer[[]string]), dead: new(atomic.Pointer[error]), scrape: make(chan struct{}, 1), scraped: make(chan struct{}, 2*maxInFlight)}
	b.reasons.Store(&[]string{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, Options{
		ReadyFunc: func() []string { return *b.reasons.Load() },
		AliveFunc: func() error {
			if err := b.dead.Load(); err != nil {
				return *err
			}
			return nil
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b.scraped <- struct{}{}
			select {
			case <-b.scrape:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, "redrive_up 1\n")
		}),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	b.server, b.url = s, "http://"+l.Addr().String()
	return b
}

func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestReadyTellsTheReasonsAndLiveDoesNotCare(t *testing.T) {
	t.Parallel()
	b, c := setup(t), client(t)
	if status, body := get(t, c, b.url+"/readyz"); status != 200 || body != `{"ready":true,"reasons":[]}`+"\n" {
		t.Errorf("ready: %d %s", status, body)
	}
	b.reasons.Store(&[]string{"redis: connection refused", "payrail was not asked for 20s"})
	status, body := get(t, c, b.url+"/readyz")
	want := `{"ready":false,"reasons":["redis: connection refused","payrail was not asked for 20s"]}` + "\n"
	if status != 503 || body != want {
		t.Errorf("not ready: %d %s, want 503 %s", status, body, want)
	}
	if status, _ := get(t, c, b.url+"/livez"); status != 200 {
		t.Errorf("/livez: %d while not ready, want 200", status)
	}
}

func TestLiveFailsOnlyWhenARestartWouldHelp(t *testing.T) {
	t.Parallel()
	b, c := setup(t), client(t)
	if status, body := get(t, c, b.url+"/livez"); status != 200 || body != `{"alive":true,"error":null}`+"\n" {
		t.Errorf("alive: %d %s", status, body)
	}
	stuck := errors.New("the releaser of payrail stands still")
	b.dead.Store(&stuck)
	if status, body := get(t, c, b.url+"/livez"); status != 503 || body != `{"alive":false,"error":"the releaser of payrail stands still"}`+"\n" {
		t.Errorf("stuck: %d %s", status, body)
	}
}

func TestOnlyWhatIsKnownIsServed(t *testing.T) {
	t.Parallel()
	b, c := setup(t), client(t)
	if status, _ := get(t, c, b.url+"/debug/pprof/"); status != 404 {
		t.Errorf("/debug/pprof/: %d, want 404", status)
	}
	resp, err := c.Post(b.url+"/readyz", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 {
		t.Errorf("POST /readyz: %d, want 405", resp.StatusCode)
	}
}

func TestACrowdOfScrapesIsTurnedAwayAndHealthStillAnswers(t *testing.T) {
	t.Parallel()
	b, c := setup(t), client(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, maxInFlight)
	for range maxInFlight {
		go func() { // ended by cancel; the test waits for ended
			defer func() { ended <- struct{}{} }()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/metrics", nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := c.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
	}
	for range maxInFlight {
		select {
		case <-b.scraped:
		case <-time.After(5 * time.Second):
			t.Fatal("the scrapes never began")
		}
	}
	if status, _ := get(t, c, b.url+"/metrics"); status != 503 {
		t.Errorf("one scrape too many: %d, want 503", status)
	}
	if status, _ := get(t, c, b.url+"/livez"); status != 200 {
		t.Errorf("/livez in a crowd: %d, want 200", status)
	}
	cancel()
	for range maxInFlight {
		<-ended
	}
}

func TestCloseWaitsForAScrapeAndIsIdempotent(t *testing.T) {
	t.Parallel()
	b, c := setup(t), client(t)
	status := make(chan int, 1)
	go func() { // ends with the scrape; the test waits for status
		resp, err := c.Get(b.url + "/metrics")
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-b.scraped
	b.scrape <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := b.server.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := b.server.Close(ctx); err != nil {
		t.Error(err)
	}
	if got := <-status; got != 200 {
		t.Errorf("the scrape under way: %d, want 200", got)
	}
}

func TestCloseCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	b, c := setup(t), client(t)
	failed := make(chan error, 1)
	go func() { // ended by Close; the test waits for failed
		resp, err := c.Get(b.url + "/metrics")
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-b.scraped
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.server.Close(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-failed:
	case <-time.After(5 * time.Second):
		t.Fatal("Close let a request hang")
	}
}
