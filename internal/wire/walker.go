package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
