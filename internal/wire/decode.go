package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
		}
		return errUnknownField
	})
}

// maxDepth is how deep objects and arrays may lie in a body that [CheckObject] reads: each
// level costs a pass over what is in it.
const maxDepth = 8

// CheckObject reports why text is not one JSON object that can mean one thing alone:
// objects have each name once (package json would let the last of two win), nothing is
// null (which it would take for what is not given), and numbers can be read.
func CheckObject(text []byte) error {
	if !utf8.Valid(text) {
		return malformed(validPrefix(text), "not valid UTF-8")
	}
	if err := checkSyntax(text); err != nil {
		return err
	}
	w := &walker{text: text}
	return w.object("the body", func(_ string, v value) error { return v.plain(maxDepth) })
}

// plain refuses what lies up to so deep in a value and could mean two things.
func (v value) plain(depth int) error {
	switch {
	case v.null():
		return v.not("a value")
	case !v.is('{') && !v.is('['):
		return v.inRange()
	case depth == 0:
		return wrong(v.at, "it lies deeper than %d objects and arrays", maxDepth)
	case v.is('{'):
		return v.walk().object("it", func(_ string, v value) error { return v.plain(depth - 1) })
	}
	return v.walk().array(func(v value) error { return v.plain(depth - 1) })
}

// inRange refuses a number that no float holds, such as 1e999.
func (v value) inRange() error {
	if len(v.raw) == 0 || strings.IndexByte("-0123456789", v.raw[0]) < 0 {
		return nil
	}
	if _, err := strconv.ParseFloat(string(v.raw), 64); err != nil {
		return wrong(v.at, "a number out of range")
	}
	return nil
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

// walker walks JSON that is known to be valid, and knows where it is.
type walker struct {
	text []byte
	base int // where text begins in the line
	pos  int
}

// value is one JSON value and where it begins in the line.
type value struct {
	raw []byte
	at  int
}

func (w *walker) start() int {
	w.space()
	return w.base + w.pos
}

func (w *walker) space() {
	for w.pos < len(w.text) && strings.IndexByte(" \t\r\n", w.text[w.pos]) >= 0 {
		w.pos++
	}
}

// object calls visit for each member. what names the object in errors.
func (w *walker) object(what string, visit func(name string, v value) error) error {
	begin := w.start()
	if w.pos >= len(w.text) || w.text[w.pos] != '{' {
		return at(begin, "%s must be one JSON object", what)
	}
	w.pos++
	seen := map[string]bool{}
	for {
		w.space()
		switch w.text[w.pos] {
		case '}':
			return nil
		case ',':
			w.pos++
			continue
		}
		key := w.value()
		var name string
		if err := key.text(&name); err != nil {
			return err
		}
		w.space()
		w.pos++ // the colon
		v := w.value()
		if seen[name] {
			return at(key.at, "field %q stands there twice", name)
		}
		seen[name] = true
		err := visit(name, v)
		var wrong *Error
		switch {
		case errors.Is(err, errUnknownField):
			return at(key.at, "unknown field %q in %s", shorten(name), what)
		case errors.As(err, &wrong) && wrong.ofValue:
			return wrong.in(name)
		case err != nil:
			return err
		}
	}
}

// array calls visit for each element. It is known that an array begins here.
func (w *walker) array(visit func(v value) error) error {
	w.start()
	w.pos++
	for i := 0; ; i++ {
		w.space()
		if w.text[w.pos] == ',' {
			w.pos++
			w.space()
		}
		if w.text[w.pos] == ']' {
			return nil
		}
		err := visit(w.value())
		var wrong *Error
		if errors.As(err, &wrong) && wrong.ofValue {
			return wrong.in("[" + strconv.Itoa(i) + "]")
		}
		if err != nil {
			return err
		}
	}
}

// value reads the value that begins here.
func (w *walker) value() value {
	begin := w.start()
	from := w.pos
	depth, quoted := 0, false
	for ; w.pos < len(w.text); w.pos++ {
		switch c := w.text[w.pos]; {
		case quoted:
			if c == '\\' {
				w.pos++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return value{w.text[from:w.pos], begin} // of a number or word: the end of what holds it
			}
			depth--
		case depth == 0 && (c == ',' || c == ':' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			return value{w.text[from:w.pos], begin}
		}
		if depth == 0 && !quoted && (w.text[w.pos] == '"' || w.text[w.pos] == '}' || w.text[w.pos] == ']') {
			w.pos++
			break
		}
	}
	return value{w.text[from:w.pos], begin}
}

func (v value) is(first byte) bool { return len(v.raw) > 0 && v.raw[0] == first }

func (v value) null() bool { return string(v.raw) == "null" }

// what says of which type a value is, never which value.
func (v value) what() string {
	switch {
	case v.null():
		return "null"
	case v.is('"'):
		return "a string"
	case v.is('{'):
		return "an object"
	case v.is('['):
		return "an array"
	case v.is('t'), v.is('f'):
		return "true or false"
	}
	return "a number"
}

func (v value) walk() *walker { return &walker{text: v.raw, base: v.at} }

// not says that a value is not what is wanted.
func (v value) not(what string) error {
	if v.null() {
		return wrong(v.at, "want %s, not null: what is not given is left out", what)
	}
	return wrong(v.at, "want %s, not %s", what, v.what())
}

// text reads a string.
func (v value) text(into *string) error {
	if !v.is('"') {
		return v.not("a string")
	}
	inner := v.raw[1 : len(v.raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		*into = string(inner)
		return nil
	}
	if err := json.Unmarshal(v.raw, into); err != nil {
		return v.not("a string")
	}
	// Package json turns half a surrogate pair into U+FFFD: other text than was meant.
	if strings.ContainsRune(*into, utf8.RuneError) && !bytes.Contains(inner, []byte(string(utf8.RuneError))) && !bytes.Contains(bytes.ToLower(inner), []byte(`\ufffd`)) {
		return wrong(v.at, "half a surrogate pair is no text")
	}
	return nil
}

func (v value) optional(into **string) error {
	*into = new(string)
	return v.text(*into)
}

func (v value) texts(into *map[string]string) error {
	if !v.is('{') {
		return v.not("an object of strings")
	}
	m := map[string]string{}
	err := v.walk().object("it", func(name string, v value) error {
		var text string
		err := v.text(&text)
		m[name] = text
		return err
	})
	*into = m
	return err
}

func (v value) decode(into any, want string) error {
	if v.null() || json.Unmarshal(v.raw, into) != nil {
		return v.not(want)
	}
	return nil
}
