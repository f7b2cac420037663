package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"redrive/internal/jobs"
)

// Error says where in a JSON text what is wrong. Its text never repeats a value,
// which is payload.
type Error struct {
	Offset int    // bytes into the text
	Field  string // such as attempted.class; "": of no field's value
	Err    error

	Malformed bool // the text is no JSON at all
	ofValue   bool // it is about the value of a field, whose name it bears
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// in says in which field, or in which object, the value stands.
func (e *Error) in(name string) error {
	inner := *e
	inner.Field = shorten(name)
	if e.Field != "" && e.Field[0] != '[' {
		inner.Field += "."
	}
	inner.Field += e.Field
	return &inner
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func at(offset int, format string, args ...any) error {
	return &Error{Offset: offset, Err: fmt.Errorf(format, args...)}
}

// malformed is an error about a text that is no JSON.
func malformed(offset int, format string, args ...any) error {
	return &Error{Offset: offset, Err: fmt.Errorf(format, args...), Malformed: true}
}

// wrong is an error about the value that stands at offset.
func wrong(offset int, format string, args ...any) error {
	return &Error{Offset: offset, Err: fmt.Errorf(format, args...), ofValue: true}
}

// shorten cuts a name that a stranger chose.
func shorten(name string) string {
	const most = 40 // characters
	if r := []rune(name); len(r) > most {
		return string(r[:most]) + "…"
	}
	return name
}

// DecodeSubmission reads one submission, strictly: a field that is unknown, given
// twice or of the wrong type is an [*Error], and so is null where it is no body: what is
// not given is left out. Field names count in their case, which package json would pass
// over. text must not change as long as the
// submission is used: its body lies in it.
func DecodeSubmission(text []byte) (*jobs.Submission, error) {
	if !utf8.Valid(text) {
		return nil, malformed(validPrefix(text), "not valid UTF-8")
	}
	if err := checkSyntax(text); err != nil {
		return nil, err
	}
	w := &walker{text: text}
	s := &jobs.Submission{}
	err := w.object("a submission", func(name string, v value) error {
		switch name {
		case "kind":
			return v.text((*string)(&s.Kind))
		case "key":
			return v.text((*string)(&s.Key))
		case "body":
			s.Body = v.raw
		case "body_text":
			return v.optional(&s.BodyText)
		case "body_base64":
			return v.optional(&s.BodyBase64)
		case "content_type":
			return v.text(&s.ContentType)
		case "deadline":
			return v.text(&s.Deadline)
		case "not_before":
			return v.text(&s.NotBefore)
		case "attempted":
			if !v.is('{') {
				return v.not("an object")
			}
			s.Attempted = &jobs.Attempted{}
			return decodeAttempted(v, s.Attempted)
		case "created_at":
			return v.text(&s.CreatedAt)
		case "idempotency_key":
			return v.text(&s.IdempotencyKey)
		case "correlation_id":
			return v.text(&s.CorrelationID)
		case "traceparent":
			return v.text(&s.Traceparent)
		case "credential":
			return v.text(&s.Credential)
		case "new_attempt_of":
			return v.text(&s.NewAttemptOf)
		case "params":
			return v.texts(&s.Params)
		case "headers":
			return v.texts(&s.Headers)
		default:
			return errUnknownField
		}
		return nil
	})
	return s, err
}

func decodeAttempted(v value, a *jobs.Attempted) error {
	return v.walk().object("attempted", func(name string, v value) error {
		switch name {
		case "id":
			return v.text(&a.ID)
		case "outcome":
			return v.text((*string)(&a.Outcome))
		case "attempts":
			return v.decode(&a.Attempts, "a whole number")
		case "first_sent_at":
			return v.text(&a.FirstSentAt)
		case "class":
			return v.text((*string)(&a.Class))
		case "counted":
			return v.decode(&a.Counted, "true or false")
		case "status":
			return v.decode(&a.Status, "a whole number")
		case "step":
			return v.text((*string)(&a.Step))
		case "reason":
			return v.text((*string)(&a.Reason))
		case "acted":
			return v.decode(&a.Acted, "true or false")
		case "refused_credential":
			return v.decode(&a.RefusedCredential, "true or false")
		}
		return errUnknownField
	})
}

func validPrefix(text []byte) int {
	n := 0
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

func checkSyntax(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	// With a space behind it, a text that ends too early is one that fails there.
	var whole json.RawMessage
	err := json.Unmarshal(append(bytes.Clone(text), ' '), &whole)
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return malformed(0, "not valid JSON")
	case int(syntax.Offset) > len(text):
		return malformed(len(text), "not valid JSON: it ends too early")
	}
	return malformed(max(int(syntax.Offset)-1, 0), "not valid JSON: %w", syntax)
}

var errUnknownField = errors.New("unknown field")
