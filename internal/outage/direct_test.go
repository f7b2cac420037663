package outage

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A client without a socket sees of a gateway what one with a socket sees, and so does
// the door.
func TestTheDirectWayIsLikeASocket(t *testing.T) {
	t.Parallel()
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"a":1}` || r.URL.Path != "/v1/charges" {
			t.Errorf("the gateway read %q of %s: %v", body, r.URL.Path, err)
		}
		switch r.Header.Get("X-Correlation-Id") {
		case "cut":
			panic(http.ErrAbortHandler)
		case "plain":
			_, _ = io.WriteString(w, "ok")
		case "refused":
			w.Header().Set("X-Why", "because")
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	for name, serve := range map[string]func(t *testing.T, h http.Handler) (url string, way http.RoundTripper){
		"direct": func(_ *testing.T, h http.Handler) (string, http.RoundTripper) { return "http://gateway", direct{h} },
		"socket": func(t *testing.T, h http.Handler) (string, http.RoundTripper) {
			s := httptest.NewServer(h)
			t.Cleanup(s.Close)
			return s.URL, sockets()
		},
	} {
		d := &door{gateway: gateway, clock: clock{began: time.Now(), speed: 1}}
		read := &answers{clock: d.clock, refused: map[string]time.Duration{}}
		url, way := serve(t, d)
		till := newTill(url, 10*time.Second, way, read)
		for _, tc := range []struct {
			reference, body string
			status          int
			fails           bool
		}{{"cut", "", 0, true}, {"plain", "ok", 200, false}, {"refused", "", 400, false}} {
			a := till.call(t.Context(), &order{reference: tc.reference, body: []byte(`{"a":1}`)})
			if a.status != tc.status || string(a.body) != tc.body || (a.err != nil) != tc.fails {
				t.Errorf("%s, %s: %+v", name, tc.reference, a)
			}
			if tc.status == 400 && a.header.Get("X-Why") != "because" {
				t.Errorf("%s: header %v", name, a.header)
			}
		}
		calls, err := d.settled(t.Context())
		if err != nil || len(calls) != 3 {
			t.Fatalf("%s: %+v, %v", name, calls, err)
		}
		for i, want := range []int{0, 200, 400} {
			if c := calls[i]; c.status != want || c.late || c.ended < c.at || c.inquiry || c.failed() != (want == 0) {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if _, ok := read.refused["refused"]; !ok || len(read.refused) != 1 {
			t.Errorf("%s: refused are %v", name, read.refused)
		}
	}
}

func TestTheDoorSeesThatAClientLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &door{clock: clock{began: time.Now(), speed: 10}, gateway: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(240 * time.Millisecond)
			w.WriteHeader(http.StatusCreated)
		})}
		till := newTill("http://gateway", 100*time.Millisecond, direct{d}, &answers{refused: map[string]time.Duration{}})
		a := till.call(t.Context(), &order{reference: "a"})
		if !errors.Is(a.err, context.DeadlineExceeded) {
			t.Errorf("%+v", a)
		}
		calls, err := d.settled(t.Context())
		if want := (arrival{reference: "a", ended: sec, late: true}); err != nil || len(calls) != 1 || calls[0] != want || !calls[0].failed() {
			t.Errorf("%+v, %v, want %+v", calls, err, want)
		}
	})
}

func TestAStubbornClientCallsUntilItsTriesAreUsedUp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		layers  []int
		answers string // one letter for each call; the last one for all that follow
		calls   int
		want    fate
	}{
		{"naive", []int{4}, "f", 4, gaveUp},
		{"naive, at last", []int{4}, "fffs", 4, succeeded},
		{"naive, refused", []int{4}, "fr", 2, refused},
		{"stacked", []int{3, 3, 3}, "f", 27, gaveUp},
		{"stacked, in the second layer", []int{3, 3, 3}, "ffffs", 5, succeeded},
		{"stacked, refused at once", []int{3, 3, 3}, "r", 1, refused},
	} {
		calls := 0
		gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Idempotency-Key") != "charge:a" {
				t.Errorf("%s: key %q", tc.name, r.Header.Get("Idempotency-Key"))
			}
			status := map[byte]int{'s': 201, 'r': 400, 'f': 503}[tc.answers[min(calls, len(tc.answers)-1)]]
			calls++
			w.WriteHeader(status)
		})
		s := &stubborn{till: newTill("http://gateway", time.Minute, direct{gateway}, &answers{refused: map[string]time.Duration{}}), layers: tc.layers}
		got, err := s.serve(t.Context(), &order{reference: "a"})
		if got != tc.want || err != nil || calls != tc.calls {
			t.Errorf("%s: %v after %d calls, %v; want %v after %d", tc.name, got, calls, err, tc.want, tc.calls)
		}
	}
}

func TestAResetHasItsUsualError(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (direct{http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })}).RoundTrip(req); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}
