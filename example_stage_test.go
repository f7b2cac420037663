package redrive_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"redrive"
)

// stage is what the examples play on: a store in memory, and a gateway. It charges what
// is not called declined or lost, and shows charges.
type stage struct {
	redis   *miniredis.Miniredis
	gateway *httptest.Server
	client  *redrive.Client
}

func newStage() *stage {
	store, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	return &stage{redis: store, gateway: httptest.NewServer(http.HandlerFunc(charges))}
}

func (s *stage) redisURL() string { return "redis://" + s.redis.Addr() + "/0" }

// newClient makes the client of an example; change may be nil.
func (s *stage) newClient(change func(*redrive.Options)) *redrive.Client {
	o := redrive.Options{
		RedisURL:     s.redisURL(),
		Dependencies: []redrive.Dependency{{Name: "payrail", BaseURL: s.gateway.URL}},
		Kinds:        []redrive.Kind{{Name: "charge", Dependency: "payrail", Path: "/v1/charges", Class: redrive.Keyed}},
		Reserve:      5 * time.Second, // however busy the machine is
	}
	if change != nil {
		change(&o)
	}
	client, err := redrive.New(background, o)
	if err != nil {
		log.Fatal(err)
	}
	s.client = client
	return client
}

func (s *stage) end() {
	if s.client != nil {
		s.client.Close()
	}
	s.gateway.Close()
	s.redis.Close()
}

func charges(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil, strings.Contains(string(body), "lost"):
		panic(http.ErrAbortHandler) // it may have charged
	case strings.Contains(string(body), "declined"):
		w.WriteHeader(http.StatusPaymentRequired)
	case strings.HasSuffix(r.URL.Path, "/nobody"):
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
	}
	_, _ = io.WriteString(w, `{"id":"ch_1"}`)
}
