package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"redrive/internal/jobs"
)

const fullLine = `{"kind":"charge","key":"order-1001","body":{"amount":4200,"currency":"GBP"},"deadline":"2h","not_before":"2026-12-01T09:00:00Z",` +
	`"attempted":{"id":"req-1","outcome":"unknown","attempts":1,"first_sent_at":"2026-11-30T09:14:00Z","class":"timeout","counted":true},` +
	`"created_at":"2026-11-30T09:14:03Z","idempotency_key":"order-1001-charge","correlation_id":"checkout-77","credential":"m1","params":{"id":"x"},"headers":{"X-Account":"a1"},"new_attempt_of":"charge/order-1000"}`

func TestEveryFieldOfASubmissionIsRead(t *testing.T) {
	t.Parallel()
	got, err := decodeSubmission([]byte(fullLine))
	if err != nil {
		t.Fatal(err)
	}
	var want jobs.Submission
	if err := json.Unmarshal([]byte(fullLine), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

func TestDecodingIsStrictAndSaysWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line   string
		column int
		says   string
	}{
		{`{"kind":"charge","key":"a","bdy":{}}`, 28, `unknown field "bdy" in a submission`},
		{`{"Kind":"charge"}`, 2, `unknown field "Kind"`},
		{`{"kind":"charge","kind":"void"}`, 18, `field "kind" stands there twice`},
		{`{"kind":"charge","key":7}`, 24, "key: want a string, not a number"},
		{`{"attempted":{"outcome":"unknown","when":1}}`, 35, `unknown field "when" in attempted`},
		{`{"attempted":{"attempts":1.5}}`, 26, "want a whole number"},
		{`{"attempted":{"counted":"yes"}}`, 25, "want true or false"},
		{`{"attempted":[]}`, 14, "attempted must be one JSON object"},
		{`{"params":{"a":1}}`, 16, "params.a: want a string, not a number"},
		{`{"attempted":{"class":["x"]}}`, 23, "attempted.class: want a string, not an array"},
		{`{"deadline":true}`, 13, "deadline: want a string, not true or false"},
		{`{"headers":{"a":"1","a":"2"}}`, 21, `field "a" stands there twice`},
		{`{"headers":"x"}`, 12, "headers: want an object of strings, not a string"},
		{`[]`, 1, "a submission must be one JSON object"},
		{`"x"`, 1, "a submission must be one JSON object"},
		{`{"kind":"charge"`, 17, "it ends too early"},
		{`{"kind":"charge",}`, 18, "invalid character '}'"},
		{`{"kind":"chärge","key":x}`, 24, "invalid character 'x'"},
		{`{"kind":"charge"} {"kind":"void"}`, 19, "invalid character '{' after top-level value"},
		{"{\"kind\":\"ch\xffrge\"}", 12, "not valid UTF-8"},
		{`{"key":"\ud800"}`, 8, "half a surrogate pair"},
		{``, 1, "it ends too early"},
	} {
		_, err := decodeSubmission([]byte(c.line))
		if err == nil {
			t.Errorf("%s: accepted", c.line)
			continue
		}
		if got := column([]byte(c.line), 0, err); got.column != c.column || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%s:\ncolumn %d: %s\nwant column %d: %s", c.line, got.column, got, c.column, c.says)
		}
	}
}

func TestFieldsAreFoundAgain(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"kind": `"charge"`, "attempted.class": `"timeout"`, "params.id": `"x"`, "headers.X-Account": `"a1"`, "body": `{"amount"`,
		"attempted.nothing": `{"id":"req-1"`, "nothing": `{"kind"`, "credential": `"m1"`,
	} {
		if at := locate([]byte(fullLine), field); !strings.HasPrefix(fullLine[at:], want) {
			t.Errorf("%s is said to stand at %q, want at %s", field, fullLine[at:min(at+20, len(fullLine))], want)
		}
	}
}

func TestNullIsAbsentAndABodyMayBeNull(t *testing.T) {
	t.Parallel()
	s, err := decodeSubmission([]byte(`{"kind":"charge","key":"a","body":null,"body_text":null,"attempted":null,"params":null,"deadline":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if string(s.Body) != "null" || s.BodyText != nil || s.Attempted != nil || s.Params != nil || s.Deadline != "" {
		t.Errorf("%+v", s)
	}
}

// The decoder never panics, says a place inside the line for what it refuses, never
// takes what package json would not, and reads what it takes as package json does.
func FuzzDecodeSubmission(f *testing.F) {
	for _, seed := range []string{fullLine, `{"kind":"charge","key":"a","body":[1,{"x":"\"}"}],"body_text":"é\u0000"}`, `{"a":{"b":[[]]}}`, "{}", "[", `{"key":"\ud83d\ude00"}`,
		" {\t\"kind\" : \"x\" } ", `{"params":{"":""},"attempted":{}}`, "\xef\xbb\xbf{}", `{"body":-0.5e10}`, `{"body":tru}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		got, err := decodeSubmission(text)
		if !bytes.Equal(before, text) {
			t.Fatal("the line was changed")
		}
		if err != nil {
			var where *lineError
			if !errors.As(err, &where) || where.offset < 0 || where.offset > len(text) {
				t.Fatalf("no place in the line: %#v", err)
			}
			if c := column(text, 0, err); c.column < 1 || c.column > utf8.RuneCount(text)+1 {
				t.Fatalf("column %d of %d", c.column, utf8.RuneCount(text))
			}
			return
		}
		var want jobs.Submission
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("package json refuses it: %v", err)
		}
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("got  %+v\nwant %+v", *got, want)
		}
		for _, field := range []string{"kind", "attempted.class", "params.x", "body"} {
			if at := locate(text, field); at < 0 || at > len(text) {
				t.Fatalf("%s at %d of %d", field, at, len(text))
			}
		}
	})
}
