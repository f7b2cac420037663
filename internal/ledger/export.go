package ledger

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"redrive/internal/jobs"
)

// ErrNoRequest is returned when the request of an operation is gone, so that it
// cannot be handed in again.
var ErrNoRequest = errors.New("its request is gone")

// Submission returns what would hand the operation in again, with what was sent of
// it: submitted to the same namespace it is a duplicate that changes nothing, in
// an empty one it goes on without resending what may have acted. spec is the kind
// as it is configured now; nil if nobody knows it.
//
// An unknown outcome stays safe to resend there only where it is so here: its first
// send is told only if all unknown attempts went where an attempt would go now, and
// what is reported unknown without its first send is never resent.
func (d *Detail) Submission(spec *jobs.KindSpec) (*jobs.Submission, error) {
	if d.Request.Method == "" {
		return nil, fmt.Errorf("%s: %w", d.ID(), ErrNoRequest)
	}
	s := &jobs.Submission{Kind: d.Kind, Key: d.Key, ContentType: d.Request.ContentType, IdempotencyKey: d.IdempotencyKey,
		CorrelationID: d.Request.CorrelationID, Traceparent: d.Request.Traceparent, Params: maps.Clone(d.Request.Params), Headers: maps.Clone(d.Request.Headers),
		CreatedAt: d.CreatedAt.String(), NotBefore: d.NotBefore.String(), Deadline: d.DeadlineAt.String()}
	if d.Credential != jobs.DefaultCredential {
		s.Credential = d.Credential
	}
	setBody(s, d.Request)
	if d.Sends == 0 {
		return s, nil
	}
	a := &jobs.Attempted{ID: fmt.Sprintf("ledger:%d:%d", d.Sends, d.lastSentMS()), Attempts: d.Sends, Counted: true, Class: jobs.ClassOther}
	if d.Last != nil {
		a.Class = d.Last.Class
	}
	s.Attempted = a
	switch {
	case d.Applied == jobs.AppliedUnknown:
		a.Outcome = jobs.OutcomeUnknown
		if d.acted {
			a.Acted, a.Step = true, jobs.StepAsk
		}
		same := spec != nil && d.target == d.digest(*spec)
		if same && d.first > 0 {
			a.FirstSentAt = jobs.AtMS(d.first).String()
		}
		if !same && (spec == nil || spec.Idempotency == jobs.IdempotencyNatural) {
			return nil, fmt.Errorf("%s: its outcome is unknown and it may have gone to another target: resolve it first", d.ID())
		}
	case d.Used == 0 && slices.Contains(unsentClasses, a.Class):
		a.Outcome, a.FirstSentAt = jobs.OutcomeNotSent, d.FirstSentAt.String()
	case d.Used == 0: // sent, and no failure of its own: one too many, or a refused credential
		a.Outcome, a.FirstSentAt, a.RefusedCredential = jobs.OutcomeRefused, d.FirstSentAt.String(), a.Class == jobs.Class4xx
	default:
		a.Outcome, a.Attempts, a.FirstSentAt = jobs.OutcomeRefused, d.Used, d.FirstSentAt.String()
	}
	if a.Outcome == jobs.OutcomeRefused && a.Class == jobs.Class2xx {
		a.Step = jobs.StepRetry // known here, and doubted without a word of it
	}
	return s, nil
}

// setBody carries the body's exact bytes. A JSON text goes in as it is only if a
// JSON encoder leaves it so: on its way it would lose its layout.
func setBody(s *jobs.Submission, r jobs.Request) {
	var compact bytes.Buffer
	text := string(r.Body)
	switch {
	case len(r.Body) == 0 && !needsBody(r.Method):
	case utf8.Valid(r.Body) && json.Compact(&compact, r.Body) == nil && bytes.Equal(compact.Bytes(), r.Body):
		s.Body = r.Body
	case utf8.Valid(r.Body):
		s.BodyText = &text
	default:
		encoded := base64.StdEncoding.EncodeToString(r.Body)
		s.BodyBase64 = &encoded
	}
}

func (d *Detail) lastSentMS() int64 {
	for i := len(d.Timeline) - 1; i >= 0; i-- {
		if e := d.Timeline[i]; e.Event == "attempt" && e.At != nil {
			return e.At.UnixMilli()
		}
	}
	return 0
}
