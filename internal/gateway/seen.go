package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"redrive/internal/policy"
)

// ErrNotSent is wrapped by what a sender that is not ours knows not to have left.
var ErrNotSent = errors.New("not sent")

// noSecrets hides nothing: what such a sender sent along is not known here.
var noSecrets = secretsOf(nil)

// Seen is the answer as a sender that is not [Client] saw it: a status with header and
// body, or an error. An error without [ErrNotSent] proves nothing, as such a sender may
// have sent before it failed: it is of unknown outcome. With a status and an error the
// body is not whole.
func Seen(status int, header http.Header, body []byte, took time.Duration, err error) Answer {
	var timeout interface{ Timeout() bool }
	a := Answer{Duration: took, WireBytes: 1}
	switch {
	case status != 0:
		a.Sample = policy.Sample{Phase: policy.PhaseAnswered, Status: status, Header: header, Body: body, BodyCut: err != nil, ReceivedAt: time.Now()}
		if len(body) > MaxAnswerBytes {
			a.Sample.Body, a.Sample.BodyCut = body[:MaxAnswerBytes], true
		}
		if err != nil || status < 200 || status > 299 {
			a.Err = fmt.Sprintf("status %d %s", status, http.StatusText(status))
		}
	case err == nil:
		a.Sample.Phase, a.Err = policy.PhaseGarbage, "the sender returned neither a status nor an error"
	case errors.Is(err, ErrNotSent):
		a.Sample.Phase, a.WireBytes = policy.PhaseConnect, 0
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		a.Sample.Phase = policy.PhaseAnswerTimeout
	case errors.Is(err, context.Canceled):
		a.Sample.Phase = policy.PhaseCancelledSent
	default:
		a.Sample.Phase = policy.PhaseNoAnswer
	}
	a.Sample.WireBytes = a.WireBytes
	if a.Err == "" && err != nil {
		a.Err = err.Error()
	}
	a.Err = cleanLine(cleanText(a.Err), MaxErrBytes)
	a.Kept, a.KeptCut = keep(a.Sample.Body, noSecrets)
	return a
}
