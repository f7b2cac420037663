package remote

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// speak serves raw bytes: greeting before anything is asked, answer after the request.
func speak(t *testing.T, greeting string, answer func(net.Conn)) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}) // closed when nobody is served any more
	go func() {                 // ends with the listener
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, greeting) // the client may be gone
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				answer(c)
			}
			_, _ = io.Copy(io.Discard, c) // a reset would destroy what is on its way: it waits for the client to close
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return client(t, "http://"+l.Addr().String())
}

func TestAServiceThatSpeaksNoHTTPWasSomethingToTryAgain(t *testing.T) {
	t.Parallel()
	endless := func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(c, "X-H%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	}
	say := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	for name, c := range map[string]*Client{
		"SSH":             speak(t, "SSH-2.0-OpenSSH_9.9\r\n", say("")),
		"mail":            speak(t, "220 mail.example ESMTP\r\n", say("502 5.5.2 Error\r\n")),
		"Redis":           speak(t, "", say("-ERR wrong number of arguments for 'get' command\r\n")),
		"endless headers": speak(t, "", endless),
		"broken headers":  speak(t, "", say("HTTP/1.1 200 OK\r\nno header\r\n\r\n")),
		"no status":       speak(t, "", say("HTTP/1.1 OK\r\n\r\n")),
	} {
		_, err := ask(t, c)
		var strange *StrangeError
		if !errors.As(err, &strange) || strange.Passing() || Undone(err) {
			t.Errorf("%s: %T %v", name, err, err)
			continue
		}
		says(t, err, "does not answer in HTTP")
	}
}

// Half a header is no header, and no sign of another service.
func TestAnAnswerCutInItsHeadIsCut(t *testing.T) {
	t.Parallel()
	c := speak(t, "", func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Ty")
		_ = c.(*net.TCPConn).CloseWrite()
	})
	_, err := ask(t, c)
	says(t, err, "the connection was cut")
}

func TestAPortThatCannotBeIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"0", "65536", "99999", "99999999999999999999"} {
		_, err := New(Options{Server: "http://127.0.0.1:" + port})
		says(t, err, "port "+port, "1 to 65535")
	}
	if _, err := New(Options{Server: "http://127.0.0.1:65535"}); err != nil {
		t.Error(err)
	}
}

func TestAnEndlessAnswerWasHeldInMemoryUpTo256MiB(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		_, err := io.WriteString(w, `{"items":["a"`)
		for sent := 0; err == nil; sent++ {
			if sent > 1<<12 { // 16 MiB
				t.Error("it goes on reading")
				return
			}
			_, err = io.WriteString(w, `,"`+strings.Repeat("x", 4<<10)+`"`)
		}
	})
	var out list
	for most, words := range map[int64]string{0: "more than 262144 bytes", 1 << 20: "more than 1048576 bytes"} {
		_, err := c.Ask(t.Context(), Request{Method: "GET", Path: []string{"kinds"}, MaxAnswerBytes: most}, &out)
		says(t, err, words)
	}
}
