package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// askOnce is the environment variable that makes the test binary ask a server and end.
const askOnce = "REDRIVE_TEST_ASK"

func TestMain(m *testing.M) {
	if server := os.Getenv(askOnce); server != "" { // in a process of its own: the system's authorities are read once
		c, err := New(Options{Server: server, Token: testToken})
		if err == nil {
			_, err = c.Ask(context.Background(), Request{Method: "GET", Path: []string{"kinds"}}, &struct {
				Items []any `json:"items"`
			}{})
		}
		fmt.Println(err)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const testToken = "token-of-the-tests"

// serve serves one handler and returns a client of it.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return client(t, s.URL)
}

func client(t *testing.T, server string) *Client {
	t.Helper()
	c, err := New(Options{Server: server, Token: testToken, Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c.idle, c.pause, c.patience = 2*time.Second, 10*time.Millisecond, 5*time.Second
	return c
}

// list is an answer of the API.
type list struct {
	Items []string `json:"items"`
	Next  string   `json:"next_cursor"`
}

// says fails unless err is one line that has every word and not the token.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is missing in: %s", w, err)
		}
	}
	if strings.Contains(err.Error(), testToken) || strings.Contains(err.Error(), "\n") {
		t.Errorf("it tells the token, or more than a line: %q", err)
	}
}
