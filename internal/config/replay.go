package config

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// ReplayMark is how an answer says that it repeats an earlier one, given under the
// same key: by a header. The zero value is none, and marks nothing.
type ReplayMark struct {
	Header string // canonical name; "": replays are not told apart
	Value  string // what the header must say, upper and lower case being the same; "": anything, it must only be there
}

// parseReplayMark reads `Name` or `Name: value`.
func parseReplayMark(text string) (ReplayMark, error) {
	name, value, valued := strings.Cut(text, ":")
	m := ReplayMark{Header: textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), Value: strings.TrimSpace(value)}
	if text == "" {
		return ReplayMark{}, nil
	}
	if err := checkToken(m.Header); err != nil {
		return ReplayMark{}, err
	}
	if valued && m.Value == "" {
		return ReplayMark{}, fmt.Errorf("%q says no value: without one write the name alone", text)
	}
	return m, nil
}

// String writes m as a configuration does.
func (m ReplayMark) String() string {
	if m.Value == "" {
		return m.Header
	}
	return m.Header + ": " + m.Value
}

// In reports whether the header of an answer bears the mark.
func (m ReplayMark) In(header map[string][]string) bool {
	if m.Header == "" {
		return false
	}
	said := header[m.Header]
	if m.Value == "" {
		return len(said) > 0
	}
	return slices.ContainsFunc(said, func(v string) bool { return strings.EqualFold(strings.TrimSpace(v), m.Value) })
}
