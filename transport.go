package redrive

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// Transport returns a transport for calls that one's own code makes and does not hand
// over: each counts as a first attempt of the dependency, with its result, and bears
// Redrive-Attempt: 1. It never sends a request twice, and keeps base from doing so: what
// net/http would repeat by itself on a connection that has died comes back as an error. (A
// POST without a body but with an Idempotency-Key goes out in chunks for that, of which
// there are none.)
// Each call of a dependency that is not known ends with [*Invalid] before it is sent. After [Client.Close] calls go on, and are not counted.
// base nil: [http.DefaultTransport]. Do not use it below [Client.Do] or [Client.Call],
// which count themselves.
func (c *Client) Transport(dependency string, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &countingTransport{c: c, dep: jobs.Dependency(dependency), base: base}
}

type countingTransport struct {
	c    *Client
	dep  jobs.Dependency
	base http.RoundTripper

	known atomic.Bool // dep is: what is known once stays so
}

// RoundTrip makes the call and counts it.
func (t *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := whole(req); err != nil {
		return nil, err
	}
	if !t.known.Load() {
		if err := t.c.knows(req.Context(), t.dep); err != nil {
			if req.Body != nil {
				_ = req.Body.Close() // as a RoundTripper must
			}
			return nil, err
		}
		t.known.Store(true)
	}
	once := req.Clone(req.Context())
	once.GetBody = nil // nothing may rewind the body,
	if (once.Body == nil || once.Body == http.NoBody) && repeatedByNetHTTP(once) {
		once.Body = empty{} // and one that is not there would be sent again
	}
	once.Header.Set("Redrive-Attempt", "1")
	began := time.Now()
	resp, err := t.base.RoundTrip(once)
	status, header := 0, http.Header(nil)
	if resp != nil {
		status, header = resp.StatusCode, resp.Header
	}
	if err != nil && req.Context().Err() != nil {
		err = errors.Join(err, req.Context().Err())
	}
	answer := gateway.Seen(status, header, nil, time.Since(began), err)
	cl := policy.Classify(answer.Sample, jobs.IdempotencyNatural)
	if !t.c.underway.isClosed() { // nobody would hear of it
		t.c.path.Record(t.dep, attempt.First(ledger.Result{Class: cl.Class, Outcome: cl.Outcome}))
	}
	return resp, err
}

// whole refuses, as net/http does, a request that was put together without what every one
// has, and closes its body.
func whole(req *http.Request) error {
	var missing string
	switch {
	case req == nil:
		return errors.New("redrive: nil Request")
	case req.URL == nil:
		missing = "URL"
	case req.Header == nil:
		missing = "Header"
	default:
		return nil
	}
	if req.Body != nil {
		_ = req.Body.Close() // a RoundTripper must, and nothing is left to say of it
	}
	return fmt.Errorf("redrive: nil Request.%s", missing)
}

// repeatedByNetHTTP is which requests without a body net/http sends again by itself.
func repeatedByNetHTTP(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}

// empty is a body without bytes that net/http does not know to be empty.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }
