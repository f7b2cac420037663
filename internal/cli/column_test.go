package cli

import (
	"strings"
	"testing"

	"redrive/internal/wire"
)

const fullLine = `{"kind":"charge","key":"order-1001","body":{"amount":4200,"currency":"GBP"},"deadline":"2h","not_before":"2026-12-01T09:00:00Z",` +
	`"attempted":{"id":"req-1","outcome":"unknown","attempts":1,"first_sent_at":"2026-11-30T09:14:00Z","class":"timeout","counted":true},` +
	`"created_at":"2026-11-30T09:14:03Z","idempotency_key":"order-1001-charge","correlation_id":"checkout-77","credential":"m1","params":{"id":"x"},"headers":{"X-Account":"a1"},"new_attempt_of":"charge/order-1000"}`

func TestAWrongLineIsToldWithItsColumn(t *testing.T) {
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
		{`{"attempted":[]}`, 14, "attempted: want an object, not an array"},
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
		_, err := wire.DecodeSubmission([]byte(c.line))
		if err == nil {
			t.Errorf("%s: accepted", c.line)
			continue
		}
		if got := column([]byte(c.line), 0, err); got.column != c.column || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%s:\ncolumn %d: %s\nwant column %d: %s", c.line, got.column, got, c.column, c.says)
		}
	}
}
