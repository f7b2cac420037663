package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"redrive/internal/policy"
)

// Send makes the attempt: one HTTP request, or none. It blocks until the answer is
// read, the call's timeout is over or ctx ends (then the attempt is cancelled:
// what was sent by then is unknown). It returns no error: whatever happened is
// the answer.
func (c *Client) Send(ctx context.Context, call Call) Answer {
	began := time.Now()
	a := c.send(ctx, call)
	secrets := secretsOf(call.Header)
	a.Err = cleanLine(secrets.Replace(cleanText(a.Err)), MaxErrBytes)
	a.Kept, a.KeptCut = keep(a.Sample.Body, secrets)
	a.KeptCut = a.KeptCut || a.Sample.BodyCut
	a.Sample.WireBytes = a.WireBytes
	a.Duration = time.Since(began)
	return a
}

func (c *Client) send(ctx context.Context, call Call) (a Answer) {
	attempt, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	req, err := newRequest(attempt, call, c.userAgent)
	if err != nil {
		return failed(policy.PhaseInvalidRequest, err)
	}
	x := c.newExchange(attempt, call)
	if x.late() {
		return failed(policy.PhaseTooLate, errTooLate)
	}
	dialling, stop := context.WithDeadline(attempt, call.StartedAt.Add(call.SendBy))
	defer stop()

	whole := false
	defer func() {
		if !whole {
			cancel() // before end, which waits for a dial under way
		}
		a.WireBytes = x.end(whole)
	}()

	wrote := make(chan error, 1) // what the transport says of its writing, once
	req = req.WithContext(httptrace.WithClientTrace(attempt, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			select {
			case wrote <- info.Err:
			default:
			}
		},
	}))
	// RoundTrip and not a Client: a Client follows redirects, and turns an answer
	// whose Location it cannot read into an error.
	resp, err := x.transport(dialling).RoundTrip(req)
	if err != nil {
		how := ending{
			cancelled: errors.Is(ctx.Err(), context.Canceled),
			timedOut:  attempt.Err() != nil,
			wroteAll:  wroteAll(wrote, 0),
			err:       err,
		}
		if !x.connected() {
			cancel()
			x.settle() // the dial knows better than the transport how far it got
		}
		return x.failure(how)
	}
	a = answered(resp, time.Now())
	_ = resp.Body.Close() // the transport goes on writing a large request until then
	sentAll := wroteAll(wrote, wroteWait)
	if saw, _ := x.conn.snapshot(); saw.writeError != nil {
		sentAll = false // the transport was not told: it looks for an answer then
	}
	whole = sentAll && !a.Sample.BodyCut && a.Sample.Status != http.StatusSwitchingProtocols
	if !sentAll && a.Sample.Status/100 == 2 {
		// Nobody can have done what was not asked in full.
		a = failed(policy.PhaseWriteCut, fmt.Errorf("status %d came before the request was written", a.Sample.Status))
	}
	return a
}

// wroteWait is for the transport's writer to say that it is done: an answer can
// overtake it. It is needed in full only when the writer never began.
const wroteWait = time.Second

// wroteAll reports whether the transport says within d that it wrote the whole request.
func wroteAll(wrote <-chan error, d time.Duration) bool {
	select {
	case err := <-wrote:
		return err == nil
	default:
	}
	if d <= 0 {
		return false
	}
	select {
	case err := <-wrote:
		return err == nil
	case <-time.After(d):
		return false
	}
}

func failed(p policy.Phase, err error) Answer {
	return Answer{Sample: policy.Sample{Phase: p}, Err: describe(p, err)}
}

// answered reads the body, within limits. A body that ends early or is longer
// than we read is cut: there is a status, and part of the answer is missing.
func answered(resp *http.Response, at time.Time) Answer {
	a := Answer{Sample: policy.Sample{
		Phase:      policy.PhaseAnswered,
		Status:     resp.StatusCode,
		Header:     resp.Header,
		UntilClose: resp.ContentLength < 0 && len(resp.TransferEncoding) == 0,
		ReceivedAt: at,
	}}
	text := fmt.Sprintf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode == http.StatusSwitchingProtocols {
		a.Err = text // what follows is not HTTP, and may never end
		return a
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswerBytes+1))
	switch {
	case err != nil:
		a.Sample.BodyCut = true
		a.Err = fmt.Sprintf("%s, body cut after %d bytes: %v", text, len(body), err)
	case len(body) > MaxAnswerBytes:
		body, a.Sample.BodyCut = body[:MaxAnswerBytes], true
		a.Err = fmt.Sprintf("%s, body longer than %d bytes", text, MaxAnswerBytes)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		a.Err = text
	}
	a.Sample.Body = body
	return a
}
