package wire

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

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
