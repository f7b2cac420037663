package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// answers are what an import answered.
type answers struct {
	lines []Line
	last  LastLine
}

// answersOf reads the answers to an import: each but the last is a [Line].
func answersOf(t testing.TB, text string) answers {
	t.Helper()
	var out answers
	rows := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, row := range rows {
		g := got{body: row}
		if i == len(rows)-1 {
			out.last = into[LastLine](t, g)
			continue
		}
		out.lines = append(out.lines, into[Line](t, g))
	}
	if !out.last.End || out.last.Lines != len(out.lines) {
		t.Errorf("the last line is %+v after %d lines", out.last, len(out.lines))
	}
	return out
}

func (b *apiBundle) importText(text string) got {
	b.t.Helper()
	return b.ask(ask{method: "POST", path: "/v1/operations:import", token: submitter, body: text, contentType: ndjsonType})
}

// importBody posts what comes from a reader, of no known length, and returns the answers.
func (b *apiBundle) importBody(t testing.TB, body io.Reader) (answers, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/operations:import", io.MultiReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+submitter)
	r.Header.Set("Content-Type", ndjsonType)
	resp, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", resp.StatusCode, text, err)
	}
	return answersOf(t, string(text)), string(text)
}

func TestAnImportAnswersEachLineInItsOrder(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"known","body":{}}`)
	g := b.importText(strings.Join([]string{
		`{"kind":"charge","key":"new","body":{"amount":1}}`,
		``,
		`{"kind":"charge","key":"known","body":{}}`,
		`{"kind":"charge","key":"known","body":{"amount":2}}`,
		`{"kind":"charge","key":"new","body":{"amount":1}}`,
		`{"kind":"nothing","key":"a","body":{}}`,
		`{"kind":"charge","key":"a","bdy":{}}`,
		`not json`,
		`{"kind":"refund","key":"elsewhere","body":{}}`,
		`{"kind":"charge","key":"sent","body":{},"attempted":{"outcome":"odd"}}`,
		`{"kind":"payout","key":"doubt","body":{},"attempted":{"outcome":"unknown","class":"timeout"}}`,
	}, "\r\n"))
	if g.status != 200 || g.header.Get("Content-Type") != ndjsonType {
		t.Fatalf("%d %s", g.status, g.body)
	}
	a := answersOf(t, g.body)
	want := []struct {
		line   int
		answer jobs.Answer
		at     string
	}{{1, jobs.Accepted, ""}, {3, jobs.Duplicate, ""}, {4, jobs.Conflict, ""}, {5, jobs.Duplicate, ""}, {6, jobs.Refused, "body.kind"}, {7, jobs.Refused, "body"},
		{8, jobs.Refused, ""}, {9, jobs.Accepted, ""}, {10, jobs.Refused, "body.attempted.outcome"}, {11, jobs.Accepted, ""}}
	if len(a.lines) != len(want) || a.last.Problem != nil {
		t.Fatalf("%d answers, want %d: %s", len(a.lines), len(want), g.body)
	}
	for i, w := range want {
		l := a.lines[i]
		at := ""
		if len(l.Errors) > 0 {
			at = l.Errors[0].Location
		}
		if l.Line != w.line || l.Answer != w.answer || at != w.at || l.Differs == nil || l.Warnings == nil {
			t.Errorf("%+v, want %+v", l, w)
		}
	}
	if a.last.Answers[jobs.Accepted] != 3 || a.last.Answers[jobs.Refused] != 4 {
		t.Errorf("counts %v", a.last.Answers)
	}
}

func TestAnImportAnswersWhileItsBodyGoesOn(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	body, feed := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/operations:import", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+submitter)
	r.Header.Set("Content-Type", ndjsonType)
	fed := make(chan error, 1)
	go func() { // ends with its write; the test waits for fed
		_, err := io.WriteString(feed, `{"kind":"charge","key":"o-0","body":{}}`+"\n")
		fed <- err
	}()
	resp, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(resp.Body)
	for i := range 5 { // each line is sent only when the one before was answered
		if !in.Scan() {
			t.Fatalf("no answer to line %d: %v", i+1, in.Err())
		}
		if l := into[Line](t, got{body: in.Text()}); l.Line != i+1 || l.Answer != jobs.Accepted {
			t.Errorf("%+v", l)
		}
		if _, err := fmt.Fprintf(feed, "{\"kind\":\"charge\",\"key\":\"o-%d\",\"body\":{}}\n", i+1); err != nil {
			t.Fatal(err)
		}
	}
	feed.Close()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), `"end":true`) {
		t.Errorf("the end is %s, %v", rest, err)
	}
}

func TestAnImportTakesThousandsOfLines(t *testing.T) {
	t.Parallel()
	b := startAPI(t, redistest.Server(t).Client(t), nil)
	const n = 2000
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, "{\"kind\":\"charge\",\"key\":\"o-%d\",\"body\":{\"amount\":%d,\"currency\":\"GBP\"}}\n", i%(n-10), i%(n-10))
	}
	b.importText(`{"kind":"charge","key":"warm","body":{}}`)
	began := time.Now()
	a := answersOf(t, b.importText(text.String()).body)
	if a.last.Answers[jobs.Accepted] != n-10 || a.last.Answers[jobs.Duplicate] != 10 || a.last.Problem != nil {
		t.Errorf("%+v", a.last)
	}
	t.Logf("%.0f lines per second", n/time.Since(began).Seconds())
}

func TestAnImportThatIsTooLargeSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Limits.MaxImportBytes = 4 << 10 })
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "{\"kind\":\"charge\",\"key\":\"o-%d\",\"body\":{}}\n", i)
	}
	a, _ := b.importBody(t, strings.NewReader(text.String()))
	if a.last.Problem == nil || a.last.Problem.Type != problemURN+tooLarge.name || len(a.lines) == 0 || len(a.lines) == 200 {
		t.Errorf("%d lines, %+v", len(a.lines), a.last)
	}
	long := setupAPI(t)
	long.importText(strings.Repeat("x", maxSubmission+10)).is(t, "a line that no submission has", tooLarge)
}

func TestAnImportOfNothingIsOneLastLine(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	if a := answersOf(t, b.importText("\n\n").body); a.last.Lines != 0 || a.last.Problem != nil {
		t.Errorf("%+v", a.last)
	}
}

func TestImportsBeyondTheirPlacesAreTurnedAwayAndEndWithTheServer(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Limits.MaxImports = 1 })
	body, feed := io.Pipe()
	defer feed.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/operations:import", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+submitter)
	r.Header.Set("Content-Type", ndjsonType)
	fed := make(chan error, 1)
	go func() { // ends with its write; the test waits for fed
		_, err := io.WriteString(feed, `{"kind":"charge","key":"o-0","body":{}}`+"\n")
		fed <- err
	}()
	resp, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(resp.Body)
	if !in.Scan() {
		t.Fatal("no answer")
	}
	b.importText(`{"kind":"charge","key":"o-1","body":{}}`).is(t, "a second import", busy)
	if g := b.get("/v1/operations"); g.status != 200 {
		t.Errorf("another request beside an import: %d", g.status)
	}
	b.server.door.close()
	if _, err := io.WriteString(feed, `{"kind":"charge","key":"o-2","body":{}}`+"\n"); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	for in.Scan() {
		if strings.Contains(in.Text(), `"end"`) {
			if l := into[LastLine](t, got{body: in.Text()}); l.Problem == nil || l.Problem.Type != problemURN+closing.name {
				t.Errorf("the last line is %+v", l)
			}
			return
		}
	}
	t.Error("the import did not end in order")
}

// Whatever the lines are, each that is not blank is answered once and in order, and the
// last line says how many were.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{"", "\n", `{"kind":"charge","key":"a","body":{}}`, "{}\n[]\nnull\n\"\"", "\xff\n{\"kind\":\"charge\"}", `{"kind":"charge","key":"a","body":{}}` + "\r\n" + `{"kind":"charge","key":"a","body":[]}`} {
		f.Add([]byte(seed))
	}
	b := setupAPI(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxSubmission {
			return
		}
		a, out := b.importBody(t, bytes.NewReader(text))
		want := 0
		for i, line := range bytes.Split(text, []byte("\n")) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if want >= len(a.lines) || a.lines[want].Line != i+1 {
				t.Fatalf("line %d is not answered in its place: %s", i+1, out)
			}
			if a.lines[want].Answer == jobs.Accepted && !json.Valid(line) {
				t.Fatalf("line %d is no JSON and was taken", i+1)
			}
			want++
		}
		if want != len(a.lines) {
			t.Fatalf("%d answers to %d lines", len(a.lines), want)
		}
	})
}
