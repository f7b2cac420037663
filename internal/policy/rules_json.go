package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxBodyBytes is how long a body may be to be decoded for expressions.
	MaxBodyBytes = 1 << 20
	// MaxBodyDepth is how deep its arrays and objects may be nested.
	MaxBodyDepth = 64
)

var (
	errNoJSON    = errors.New("the body is not JSON")
	errJSONDepth = fmt.Errorf("the body is JSON nested deeper than %d", MaxBodyDepth)
	errJSONTwice = errors.New("the body is JSON with the same name twice in one object: it can be read in more than one way")
	errJSONRange = errors.New("the body is JSON with a number that is out of range")
)

// decodeJSON differs from encoding/json where a charge could hang on it: an
// integer stays one (int64, uint64 above it, float64 only beyond that), and a name
// given twice is an error instead of the last one winning.
func decodeJSON(b []byte) (any, error) {
	if !json.Valid(b) {
		return nil, errNoJSON
	}
	d := jsonDecoder{text: string(b)}
	return d.value(0)
}

// jsonDecoder reads a text that is known to be valid JSON.
type jsonDecoder struct {
	text string
	pos  int
}

func (d *jsonDecoder) value(depth int) (any, error) {
	switch c := d.peek(); c {
	case '{', '[':
		if depth == MaxBodyDepth {
			return nil, errJSONDepth
		}
		if c == '[' {
			return d.array(depth + 1)
		}
		return d.object(depth + 1)
	case '"':
		return d.str()
	case 't':
		d.pos += len("true")
		return true, nil
	case 'f':
		d.pos += len("false")
		return false, nil
	case 'n':
		d.pos += len("null")
		return nil, nil
	default:
		return d.number()
	}
}

// peek skips white space and returns the byte behind it.
func (d *jsonDecoder) peek() byte {
	for {
		switch c := d.text[d.pos]; c {
		case ' ', '\t', '\r', '\n':
			d.pos++
		default:
			return c
		}
	}
}

// next skips one structural byte after white space, and says whether it was c.
func (d *jsonDecoder) next(c byte) bool {
	is := d.peek() == c
	d.pos++
	return is
}

func (d *jsonDecoder) object(depth int) (any, error) {
	out := map[string]any{}
	d.pos++
	if d.peek() == '}' {
		d.pos++
		return out, nil
	}
	for {
		d.peek()
		name, err := d.str()
		if err != nil {
			return nil, err
		}
		if _, twice := out[name]; twice {
			return nil, errJSONTwice
		}
		d.next(':')
		if out[name], err = d.value(depth); err != nil {
			return nil, err
		}
		if d.next('}') {
			return out, nil
		}
	}
}

func (d *jsonDecoder) array(depth int) (any, error) {
	out := []any{}
	d.pos++
	if d.peek() == ']' {
		d.pos++
		return out, nil
	}
	for {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if d.next(']') {
			return out, nil
		}
	}
}

func (d *jsonDecoder) str() (string, error) {
	start, escaped := d.pos, false
	d.pos++
	for d.text[d.pos] != '"' {
		if d.text[d.pos] == '\\' {
			escaped = true
			d.pos++
		}
		d.pos++
	}
	d.pos++
	raw := d.text[start:d.pos]
	if !escaped && utf8.ValidString(raw) {
		return raw[1 : len(raw)-1], nil
	}
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return "", errNoJSON
	}
	return s, nil
}

func (d *jsonDecoder) number() (any, error) {
	start := d.pos
	for d.pos < len(d.text) && strings.IndexByte("+-.0123456789Ee", d.text[d.pos]) >= 0 {
		d.pos++
	}
	raw := d.text[start:d.pos]
	if !strings.ContainsAny(raw, ".eE") {
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(raw, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return nil, errJSONRange
	}
	return f, nil
}
