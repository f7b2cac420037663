package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// A body that was announced to be too large was asked for with 100 Continue, or waited for.
func TestABodyThatIsAnnouncedTooLargeIsRefusedBeforeItComes(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Limits.MaxImportBytes = 1 << 20 })
	for _, c := range routeCases {
		if c.body == "" {
			continue
		}
		takes, length := c.takes, maxOrder+1
		if takes == "" {
			takes = jsonType
		}
		switch {
		case c.takes == ndjsonType || strings.Contains(c.path, ":") || strings.HasPrefix(c.path, "/v1/dead-letters/") || strings.HasPrefix(c.path, "/v1/batches/"):
			length = 1<<20 + 1
		case c.path == "/v1/operations":
			length = maxSubmission + 1
		}
		for _, length := range []int{length, 900 << 20} {
			for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
				method, _, _ := strings.Cut(c.pattern, " ")
				head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n", method, c.path, all, takes, length, expect)
				b.refusesHead(t, head)
			}
		}
	}
	b.importText(strings.Repeat("\n", 1<<20+1)).is(t, "an import above its limit", tooLarge)
	if a := answersOf(t, b.importText(strings.Repeat("\n", 1<<20)).body); a.last.Problem != nil {
		t.Errorf("one as large as its limit: %+v", a.last)
	}
}

// refusesHead sends the head of a request alone, which must be answered by 413 and by the
// end of the connection.
func (b *apiBundle) refusesHead(t *testing.T, head string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(readTimeout / 2)) // the server waits for longer
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%s%v", head, err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if got := (got{resp.StatusCode, resp.Header, string(text)}); err != nil || !resp.Close {
		t.Errorf("%s%v, %+v", head, err, got)
	} else {
		got.is(t, head, tooLarge)
	}
}

// deadlines counts how often a read is given a time.
type deadlines struct {
	recorded
	reads int
}

func (d *deadlines) SetReadDeadline(time.Time) error  { d.reads++; return nil }
func (d *deadlines) SetWriteDeadline(time.Time) error { return nil }
func (d *deadlines) EnableFullDuplex() error          { return nil }
func (d *deadlines) Flush()                           {}

// 20 MB of blank lines kept a processor busy for 9 s: each was given a deadline of its own.
func TestBlankLinesCostAnImportNothingEach(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	const lines = 5 << 20
	body := strings.Repeat("\n \r\n", lines/2) + `{"kind":"charge","key":"o-1","body":{}}` + "\n"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/operations:import", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+submitter)
	r.Header.Set("Content-Type", ndjsonType)
	w := &deadlines{recorded: recorded{discard: discard{header: http.Header{}}}}
	b.server.door.ServeHTTP(w, r)
	a := answersOf(t, w.text.String())
	if len(a.lines) != 1 || a.lines[0].Line != lines+1 || a.last.Problem != nil {
		t.Errorf("%+v", a)
	}
	if most := 2*len(body)/maxSubmission + 10; w.reads > most { // one a buffer
		t.Errorf("%d deadlines for %d lines, want at most %d", w.reads, lines, most)
	}
}

func TestBlankLinesAreMeasuredToTheLastWholeOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{"": {0, 0}, "\n": {1, 1}, "  ": {0, 0}, " \t\r\n\n  {": {5, 2}, "{}\n\n": {0, 0}, "\n\u00a0\n": {1, 1}} {
		if size, lines := blank([]byte(text)); size != want[0] || lines != want[1] {
			t.Errorf("%q: %d bytes, %d lines, want %v", text, size, lines, want)
		}
	}
}
