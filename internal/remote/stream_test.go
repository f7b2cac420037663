package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func exchange(t *testing.T, c *Client, lines string) ([]string, error) {
	t.Helper()
	var got []string
	err := c.Exchange(t.Context(), Request{Method: "POST", Path: []string{"operations:import"}}, []byte(lines), func(line []byte) error {
		got = append(got, string(line))
		return nil
	})
	return got, err
}

func TestLinesAreAnsweredWhileTheyAreSent(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Content-Type", ndjsonType)
		in := bufio.NewScanner(r.Body)
		for in.Scan() {
			fmt.Fprintf(w, "%s\r\n", strings.ToUpper(in.Text()))
			w.(http.Flusher).Flush()
		}
	})
	lines := strings.Repeat("abc\n", 50_000)
	got, err := exchange(t, c, lines)
	if err != nil || len(got) != 50_000 || got[49_999] != "ABC" {
		t.Fatalf("%d answers, %v", len(got), err)
	}
}

func TestAnExchangeThatIsCutOrHasNoEndIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		answers int
		word    string
	}{
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ndjsonType)
			_, _ = io.WriteString(w, "1\n2\n3")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 2, "the connection was cut"},
		"without its last end": {answers(200, ndjsonType, "1\n2"), 1, "the connection was cut"},
		"an endless line": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", ndjsonType)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
					return
				}
			}
		}, 0, "a line of more than"},
		"silence": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client goes away
			w.Header().Set("Content-Type", ndjsonType)
			_, _ = io.WriteString(w, "1\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, 1, "no answer in time"},
		"HTML":      {answers(200, "text/html", "<html>"), 0, "text/html"},
		"a problem": {answers(503, problemType, `{"type":"urn:redrive:problem:busy","title":"too many","detail":"4 are being answered"}`), 0, "4 are being answered"},
	} {
		client := serve(t, c.handler)
		client.idle = 200 * time.Millisecond
		got, err := exchange(t, client, "a\nb\nc\n")
		says(t, err, c.word)
		if len(got) != c.answers {
			t.Errorf("%s: %q, want %d answers", name, got, c.answers)
		}
	}
}

// events serves one handler for each connection that follows, the last for all further.
func events(t *testing.T, handlers ...func(w http.ResponseWriter, last string)) *Client {
	t.Helper()
	var connections atomic.Int32
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := min(int(connections.Add(1)), len(handlers))
		w.Header().Set("Content-Type", eventType)
		handlers[n-1](w, r.Header.Get("Last-Event-ID"))
		w.(http.Flusher).Flush()
	})
}

var errEnough = errors.New("enough")

// follow collects so many events.
func follow(ctx context.Context, c *Client, n int) ([]string, error) {
	var got []string
	err := c.Follow(ctx, Request{Method: "GET", Path: []string{"events"}}, func(data []byte) error {
		got = append(got, string(data))
		if len(got) == n {
			return errEnough
		}
		return nil
	})
	return got, err
}

func TestEventsGoOnWhereTheConnectionWasCut(t *testing.T) {
	t.Parallel()
	var lasts []string
	c := events(t, func(w http.ResponseWriter, _ string) {
		_, _ = io.WriteString(w, ": connected\n\nid: a=1-0\nevent: change\ndata: one\n\nid: a=2-0\ndata: two\ndata:  lines\n\nid: a=3-0\ndata: half")
	}, func(w http.ResponseWriter, last string) {
		lasts = append(lasts, last)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
	}, func(w http.ResponseWriter, last string) {
		lasts = append(lasts, last)
		w.Header().Set("Content-Type", problemType)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"type":"urn:redrive:problem:closing","detail":"the worker ends"}`)
	}, func(w http.ResponseWriter, last string) {
		lasts = append(lasts, last)
		_, _ = io.WriteString(w, "retry: 5\r\nid: a=3-0\r\ndata: three\r\n\r\n")
	})
	got, err := follow(t.Context(), c, 3)
	if !errors.Is(err, errEnough) || strings.Join(got, "|") != "one|two\n lines|three" {
		t.Fatalf("%q %v", got, err)
	}
	if strings.Join(lasts, " ") != "a=2-0 a=2-0 a=2-0" {
		t.Errorf("it went on after %q, want a=2-0 each time", lasts)
	}
}

func TestEventsAreNotFollowedForEver(t *testing.T) {
	t.Parallel()
	one := func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, "id: a=1-0\ndata: one\n\n") }
	for name, c := range map[string]struct {
		then func(w http.ResponseWriter, _ string)
		word string
	}{
		"a token that is not known any more": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", problemType)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"type":"urn:redrive:problem:unauthorized","detail":"the token is not known here"}`)
		}, "not known here"},
		"another server": {func(w http.ResponseWriter, _ string) { w.Header().Set("Content-Type", "text/html") }, "text/html"},
		"away for long": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
		}, "502"},
		"an event without an end": {func(w http.ResponseWriter, _ string) {
			for range 100 {
				_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 64<<10)+"\n")
			}
		}, "an event of more than"},
	} {
		client := events(t, one, c.then)
		client.patience = 100 * time.Millisecond
		got, err := follow(t.Context(), client, 9)
		if len(got) != 1 {
			t.Errorf("%s: %d events", name, len(got))
		}
		says(t, err, c.word)
	}
	never := events(t, func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
	})
	never.patience = time.Hour
	_, err := follow(t.Context(), never, 1)
	says(t, err, "502") // what never was there is not waited for
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventType)
		_, _ = io.WriteString(w, "id: a=1-0\ndata: one\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	done := make(chan error, 1)
	go func() { // ends with ctx; waited for below
		done <- c.Follow(ctx, Request{Method: "GET", Path: []string{"events"}}, func([]byte) error { cancel(); return nil })
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("it ended as if the stream had an end")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it still follows")
	}
}
