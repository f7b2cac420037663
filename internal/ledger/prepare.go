package ledger

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"redrive/internal/dedupe"
	"redrive/internal/jobs"
)

// Limits of one submission beside its body.
const (
	MaxParams     = 32
	MaxHeaders    = 32
	MaxValueBytes = 1024 // of one param or its name, header value, correlation id or idempotency key
	MaxDeadline   = 366 * 24 * time.Hour
)

// Entry is a submission that was checked against its kind and is ready to be
// written.
type Entry struct {
	ID         jobs.ID
	Dependency jobs.Dependency
	Warnings   []string
	// Delay is how long the first attempt made here waits; 0: at once. The request
	// path's failed attempt was just now, so its retry should wait a backoff.
	Delay time.Duration

	meta    entryMeta
	request []byte
}

// Size returns about how many bytes the entry takes.
func (e Entry) Size() int { return len(e.request) + 300 }

// entryMeta is what submit.lua reads of an entry.
type entryMeta struct {
	ID           string        `json:"id"`
	Fingerprint  string        `json:"fp"`
	Idempotency  string        `json:"idem"`
	WindowMS     int64         `json:"window,omitempty"`
	BaseURL      string        `json:"base,omitempty"`
	Credential   string        `json:"cred,omitempty"`
	KeyHeader    string        `json:"keyheader,omitempty"`
	Key          string        `json:"ikey,omitempty"`
	Correlation  string        `json:"corr,omitempty"`
	Traceparent  string        `json:"tp,omitempty"`
	DeadlineAt   int64         `json:"deadline_at,omitempty"`
	DeadlineSpan int64         `json:"deadline_span,omitempty"`
	NotBefore    int64         `json:"not_before,omitempty"`
	Created      int64         `json:"created,omitempty"`
	DelayMS      int64         `json:"delay,omitempty"`
	Run          string        `json:"run,omitempty"`
	Attempted    *reportedMeta `json:"att,omitempty"`

	link
}

// FieldError says which field of a submission is wrong.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

func fieldErrorf(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}

// defaultIdempotencyKey is never the bare key: gateways share keys across routes,
// so a charge and a refund of one order must not send the same one.
func defaultIdempotencyKey(id jobs.ID) string { return string(id.Kind) + ":" + string(id.Key) }

// Prepare checks a submission against its kind and fixes what will be sent. It is
// pure. Errors are [*FieldError]s; what depends on the clock or on what is stored
// (a deadline in the past, a known key, a full backlog) is answered by
// [Ledger.Submit].
func Prepare(s *jobs.Submission, spec jobs.KindSpec) (Entry, error) {
	e, request, err := check(s, spec)
	if err != nil {
		return e, err
	}
	e.meta.Fingerprint = string(dedupe.Of(dedupe.Request{ContentType: request.ContentType, Params: s.Params, Headers: s.Headers,
		Credential: orDefault(s.Credential), IdempotencyKey: e.meta.Key, Body: request.Body}))
	for _, name := range unusedParams(s.Params, spec) {
		e.Warnings = append(e.Warnings, fmt.Sprintf("param %q is used nowhere: neither the path %s nor what asks about or undoes a %s has a place for it", name, spec.Path, spec.Kind))
	}
	e.request, err = encodeRequest(request)
	return e, err
}

// RequestOf is what every attempt of a submission would send, after the checks of
// [Prepare] and without what only an entry needs.
func RequestOf(s *jobs.Submission, spec jobs.KindSpec) (jobs.Request, error) {
	e, r, err := check(s, spec)
	r.IdempotencyKey, r.CorrelationID, r.Traceparent, r.Credential = e.meta.Key, s.CorrelationID, s.Traceparent, orDefault(s.Credential)
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = defaultIdempotencyKey(e.ID)
	}
	return r, err
}

func check(s *jobs.Submission, spec jobs.KindSpec) (Entry, jobs.Request, error) {
	id := s.ID()
	e := Entry{ID: id, Dependency: spec.Dependency}
	var request jobs.Request
	if err := jobs.CheckName(string(s.Kind)); err != nil {
		return e, request, &FieldError{"kind", err}
	}
	if err := jobs.CheckKey(string(s.Key)); err != nil {
		return e, request, &FieldError{"key", err}
	}
	body, err := bodyOf(s, spec)
	if err != nil {
		return e, request, err
	}
	request = jobs.Request{Method: spec.Method, ContentType: spec.ContentType, Headers: s.Headers, Params: s.Params, Body: body}
	if s.ContentType != "" {
		request.ContentType = s.ContentType
	}
	if err := checkText("content_type", request.ContentType); err != nil {
		return e, request, err
	}
	if err := checkMaps(s, spec); err != nil {
		return e, request, err
	}
	if request.Path, err = jobs.RenderPath(spec.Path, s.Key, s.Params); err != nil {
		return e, request, &FieldError{"params", err}
	}
	e.meta = entryMeta{ID: id.String(), Idempotency: string(spec.Idempotency), WindowMS: spec.KeyWindowMS, BaseURL: spec.BaseURL,
		KeyHeader: spec.KeyHeader, Correlation: s.CorrelationID, Traceparent: s.Traceparent}
	if err := e.names(s, spec); err != nil {
		return e, request, err
	}
	if err := e.times(s, spec); err != nil {
		return e, request, err
	}
	if err := e.attempted(s, spec); err != nil {
		return e, request, err
	}
	if err := e.newAttempt(s, spec); err != nil {
		return e, request, err
	}
	return e, request, nil
}

// unusedParams are the names of params for which no path of the kind has a place.
func unusedParams(params map[string]string, spec jobs.KindSpec) []string {
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		used := strings.Contains(spec.Path, "{params."+name+"}")
		if spec.Inquiry != nil {
			used = used || slices.Contains(spec.Inquiry.Params, name)
		}
		if spec.Void != nil {
			for _, from := range spec.Void.Params {
				used = used || from == "params."+name
			}
		}
		if !used {
			unused = append(unused, name)
		}
	}
	return unused
}

func orDefault(credential string) string {
	if credential == "" {
		return jobs.DefaultCredential
	}
	return credential
}

func bodyOf(s *jobs.Submission, spec jobs.KindSpec) ([]byte, error) {
	given := 0
	var body []byte
	if s.Body != nil {
		given++
		body = s.Body
	}
	if s.BodyText != nil {
		given++
		if !utf8.ValidString(*s.BodyText) {
			return nil, fieldErrorf("body_text", "not valid UTF-8")
		}
		body = []byte(*s.BodyText)
	}
	if s.BodyBase64 != nil {
		given++
		decoded, err := base64.StdEncoding.DecodeString(*s.BodyBase64)
		if err != nil {
			return nil, fieldErrorf("body_base64", "not standard base64: %w", err)
		}
		body = decoded
	}
	if given > 1 {
		return nil, fieldErrorf("body", "give one of body, body_text and body_base64, not %d", given)
	}
	if len(body) > jobs.MaxBodyBytes {
		return nil, fieldErrorf("body", "%d bytes, at most %d are allowed", len(body), jobs.MaxBodyBytes)
	}
	if s.Body != nil && !json.Valid(s.Body) {
		return nil, fieldErrorf("body", "not valid JSON (use body_text or body_base64 for anything else)")
	}
	if given == 0 && needsBody(spec.Method) {
		return nil, fieldErrorf("body", "missing: kind %s sends %s %s, which needs one", spec.Kind, spec.Method, spec.Path)
	}
	return body, nil
}

// needsBody: methods whose request is a body. An empty one is given explicitly, as
// body_text "".
func needsBody(method string) bool { return method == "POST" || method == "PUT" || method == "PATCH" }

func checkText(field, v string) error {
	if len(v) > MaxValueBytes {
		return fieldErrorf(field, "%d bytes, at most %d are allowed", len(v), MaxValueBytes)
	}
	if i := strings.IndexFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }); i >= 0 {
		return fieldErrorf(field, "control byte or invalid UTF-8 at position %d", i+1)
	}
	return nil
}

func (e *Entry) times(s *jobs.Submission, spec jobs.KindSpec) error {
	if s.CreatedAt != "" {
		t, err := parseInstant("created_at", s.CreatedAt)
		if err != nil {
			return &FieldError{"created_at", err}
		}
		e.meta.Created = t.UnixMilli()
	}
	if s.NotBefore != "" {
		t, err := parseInstant("not_before", s.NotBefore)
		if err != nil {
			return &FieldError{"not_before", err}
		}
		e.meta.NotBefore = t.UnixMilli()
	}
	if s.Deadline == "" {
		e.meta.DeadlineSpan = spec.DeadlineMS
		return nil
	}
	if span, err := time.ParseDuration(s.Deadline); err == nil {
		if span <= 0 {
			return fieldErrorf("deadline", "a span of %s lies in the past", span)
		}
		if span > MaxDeadline {
			return fieldErrorf("deadline", "a span of %s is longer than %s", span, MaxDeadline)
		}
		e.meta.DeadlineSpan = max(span.Milliseconds(), 1)
		return nil
	}
	t, err := parseInstant("deadline", s.Deadline)
	if _, noInstant := time.Parse(time.RFC3339, s.Deadline); err != nil && noInstant == nil {
		return &FieldError{"deadline", err}
	}
	if err != nil {
		return fieldErrorf("deadline", "%q is neither a span such as 2h nor an RFC 3339 instant", s.Deadline)
	}
	e.meta.DeadlineAt = t.UnixMilli()
	return nil
}
