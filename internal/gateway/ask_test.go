package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

func testQuestion(base string) Question {
	return Question{Method: "GET", Path: "/v1/charges?reference=order-1001", BaseURL: base, CorrelationID: "checkout-77", Timeout: patience}
}

// asked is what every request of testQuestion has on the wire once.
const asked = "\r\nX-Correlation-Id: checkout-77\r\n"

func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		got := make(chan *http.Request, 1)
		s := startFault(t, nil, func(p *peer) { got <- p.readRequest(); p.say(okAnswer) })
		q := testQuestion(s.url() + "/api/")
		q.Method, q.Path = method, "/v1/charges?reference=order%2F1"
		q.Header = http.Header{"authorization": {"Bearer s3cret"}}
		a := New(Options{UserAgent: "redrive/test"}).Ask(t.Context(), q)
		if a.Sample.Phase != policy.PhaseAnswered || a.Sample.Status != 200 || string(a.Kept) != `{"id":"ch_1"}` || a.Err != "" {
			t.Fatalf("%s: got %+v", method, a)
		}
		req := <-got
		if req.Method != method || req.RequestURI != "/api/v1/charges?reference=order%2F1" {
			t.Errorf("got %s %s", req.Method, req.RequestURI)
		}
		if body, _ := io.ReadAll(req.Body); len(body) > 0 || req.ContentLength > 0 {
			t.Errorf("%s: an inquiry has the body %q", method, body)
		}
		for name, want := range map[string]string{"X-Correlation-Id": "checkout-77", "User-Agent": "redrive/test", "Authorization": "Bearer s3cret",
			"Redrive-Attempt": "", "Idempotency-Key": "", "Content-Type": "", "Accept-Encoding": "", "Traceparent": ""} {
			if got := req.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", method, name, got, want)
			}
		}
	}
}

// net/http repeats a GET whose connection broke: here it must not, or the gateway
// would count calls that the budget has not seen.
func TestAnInquiryIsOneRequestOnTheWireWhateverBreaks(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*peer){
		"closed":        func(*peer) {},
		"reset":         (*peer).reset,
		"no answer":     func(p *peer) { _ = p.untilGone() },
		"half a header": func(p *peer) { p.say("HTTP/1.1 200 OK\r\nContent-Le") },
		"a redirect": func(p *peer) {
			p.say("HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/other\r\nContent-Length: 0\r\n\r\n")
		},
		"refuses credentials":        func(p *peer) { p.say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n") },
		"asks for another time, 408": func(p *peer) { p.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, afterRequest(then))
			q := testQuestion(s.url())
			if name == "no answer" {
				q.Timeout = time.Second
			}
			a := New(Options{}).Ask(t.Context(), q)
			if n := s.seen(asked); n != 1 {
				t.Errorf("the server saw %d requests, want 1", n)
			}
			if says, rule, err := chargeInquiry(t).Read(a.Sample); says != jobs.InquiryNothing || rule != "" || err == nil || a.Err == "" {
				t.Errorf("%s by %q (%v), answer %+v", says, rule, err, a)
			}
		})
	}
}

func TestAnInquiryThatCannotBeMadeIsNotSent(t *testing.T) {
	t.Parallel()
	s := startFault(t, nil, afterRequest(func(p *peer) { p.say(okAnswer) }))
	for name, change := range map[string]func(*Question){
		"no timeout":      func(q *Question) { q.Timeout = 0 },
		"no path":         func(q *Question) { q.Path = "" },
		"no base URL":     func(q *Question) { q.BaseURL = "" },
		"another host":    func(q *Question) { q.Path = "@elsewhere.example/v1" },
		"no method at it": func(q *Question) { q.Method = "GE T" },
	} {
		q := testQuestion(s.url())
		change(&q)
		if a := New(Options{}).Ask(t.Context(), q); a.Sample.Phase != policy.PhaseInvalidRequest || a.WireBytes != 0 || a.Err == "" {
			t.Errorf("%s: got %+v", name, a)
		}
	}
	if n := s.seen(asked); n != 0 {
		t.Errorf("the server saw %d requests", n)
	}
}

// chargeInquiry reads answers by the expressions that docs/rules.md gives.
func chargeInquiry(t *testing.T) *policy.Inquiry {
	t.Helper()
	q, err := policy.CompileInquiry(policy.InquirySpec{
		Answers:   []int{200},
		Succeeded: `body.data.exists(c, c.status == "succeeded")`,
		Pending:   `body.data.exists(c, c.status == "pending")`,
		Failed:    `size(body.data) > 0 && body.data.all(c, c.status == "failed")`,
		NotFound:  `size(body.data) == 0`,
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// said is an answer as it stands on the wire.
func said(status, contentType, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, contentType, len(body), body)
}

func TestOnlyAWholeAndPlainAnswerToAnInquiryProvesAnything(t *testing.T) {
	t.Parallel()
	const asJSON = "application/json"
	page := `{"data":[{"status":"failed"},{"status":"succeeded"}]}`
	for _, tt := range []struct {
		name, answer string
		want         jobs.InquiryAnswer
	}{
		{"500 with an empty list", said("500 Internal Server Error", asJSON, `{"data":[]}`), jobs.InquiryNothing},
		{"401", said("401 Unauthorized", asJSON, `{"data":[]}`), jobs.InquiryNothing},
		{"429", said("429 Too Many Requests", asJSON, `{"data":[]}`), jobs.InquiryNothing},
		{"HTML with 200", said("200 OK", "text/html", "<!DOCTYPE html><html><body>[]</body></html>"), jobs.InquiryNothing},
		{"data is null", said("200 OK", asJSON, `{"data":null}`), jobs.InquiryNothing},
		{"an unknown status word", said("200 OK", asJSON, `{"data":[{"status":"limbo"}]}`), jobs.InquiryNothing},
		{"a page cut short", strings.TrimSuffix(said("200 OK", asJSON, page), `,{"status":"succeeded"}]}`), jobs.InquiryNothing},
		{"a page cut where it is JSON still", said("200 OK", asJSON, `{"data":[]}     `)[:len(said("200 OK", asJSON, `{"data":[]}     `))-5], jobs.InquiryNothing},
		{"a chunked page without its end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{\"data\":[]}\r\n", jobs.InquiryNothing},
		{"nothing with 200", said("200 OK", asJSON, ""), jobs.InquiryNothing},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", jobs.InquiryNothing},
		{"an empty list", said("200 OK", asJSON, `{"data":[]}`), jobs.InquiryNotFound},
		{"failed twice", said("200 OK", asJSON, `{"data":[{"status":"failed"},{"status":"failed"}]}`), jobs.InquiryFailed},
		{"failed and pending", said("200 OK", asJSON, `{"data":[{"status":"failed"},{"status":"pending"}]}`), jobs.InquiryPending},
		{"failed and succeeded", said("200 OK", asJSON, page), jobs.InquirySucceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, afterRequest(func(p *peer) { p.say(tt.answer) }))
			a := New(Options{}).Ask(t.Context(), testQuestion(s.url()))
			if a.Sample.Phase != policy.PhaseAnswered {
				t.Fatalf("no answer: %+v", a)
			}
			says, rule, err := chargeInquiry(t).Read(a.Sample)
			if says != tt.want || (says == jobs.InquiryNothing) != (err != nil) {
				t.Errorf("%s by %q (%v), want %s", says, rule, err, tt.want)
			}
		})
	}
}
