package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// maxSecretFileBytes bounds what ${file:...} reads: no header is longer.
const maxSecretFileBytes = 64 << 10

// masked is all that a set Secret ever shows.
const masked = "[secret]"

// Secret is a string with ${NAME} and ${file:/path} in it that are looked up at
// the moment of use. It never shows its text: not to fmt with any verb, not to
// log/slog, not to encoding/json. The zero value is an empty string. A Secret is
// immutable and safe for concurrent use.
type Secret struct {
	// Behind two pointers: in somebody's unexported field fmt cannot call Format, and
	// with a verb that does not fit it follows one pointer, but never two.
	parts **[]part
}

func secretOf(parts []part) Secret {
	p := &parts
	return Secret{&p}
}

// part is a piece of a Secret: text, or the reference of a ${...}.
type part struct {
	text string
	env  string // NAME of ${NAME}
	file string // path of ${file:path}
}

func (p part) isRef() bool { return p.env != "" || p.file != "" }

// NewSecret reads text in which ${NAME} is an environment variable, ${file:/path}
// the content of a file and $$ a dollar. It returns an error that does not show
// the text when a dollar starts none of them, and for control characters, which
// no header and no URL can carry.
func NewSecret(text string) (Secret, error) {
	if hasControl(text) {
		return Secret{}, errors.New("a line break or another control character cannot stand here")
	}
	var parts []part
	for rest := text; rest != ""; {
		plain, after, found := strings.Cut(rest, "$")
		if plain != "" {
			parts = append(parts, part{text: plain})
		}
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "$"):
			parts = append(parts, part{text: "$"})
			rest = after[1:]
		case strings.HasPrefix(after, "{"):
			ref, tail, closed := strings.Cut(after[1:], "}")
			if !closed {
				return Secret{}, errors.New("a ${ is never closed by }")
			}
			p, err := parseRef(ref)
			if err != nil {
				return Secret{}, err
			}
			parts = append(parts, p)
			rest = tail
		default:
			return Secret{}, errors.New("a single $ means nothing: write $$ for a dollar, ${NAME} for a variable, ${file:/path} for a file")
		}
	}
	if parts == nil {
		return Secret{}, nil
	}
	return secretOf(parts), nil
}

// LiteralSecret returns a Secret of exactly text: dollars in it mean nothing. It is
// for values that come from a flag or the environment already.
func LiteralSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return secretOf([]part{{text: text}})
}

func parseRef(ref string) (part, error) {
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		if !strings.HasPrefix(path, "/") {
			return part{}, fmt.Errorf("${%s}: write the whole path, ${file:/path}", ref)
		}
		return part{file: path}, nil
	}
	for i := 0; i < len(ref); i++ {
		c := ref[i]
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return part{}, fmt.Errorf("${%s}: %q cannot stand in the name of a variable", ref, c)
		}
	}
	if ref == "" {
		return part{}, errors.New("${} names nothing: write ${NAME} or ${file:/path}")
	}
	return part{env: ref}, nil
}

// IsZero reports whether s is the empty string.
func (s Secret) IsZero() bool { return s.parts == nil }

// HasRefs reports whether s contains a ${...}.
func (s Secret) HasRefs() bool {
	for _, p := range s.all() {
		if p.isRef() {
			return true
		}
	}
	return false
}

// literal returns the text of s; only for a Secret without references.
func (s Secret) literal() string {
	var b strings.Builder
	for _, p := range s.all() {
		b.WriteString(p.text)
	}
	return b.String()
}

func (s Secret) all() []part {
	if s.parts == nil {
		return nil
	}
	return **s.parts
}

// Resolve returns the text with every ${...} replaced: variables by getenv (such
// as os.Getenv), files by their content without white space around it. A file is
// read each time, so a rotated secret is used at once and no cache can be stale;
// that costs some microseconds, against the round trip the secret is for.
//
// It fails when a variable is unset or empty, when a file cannot be read, is empty
// or longer than 64 KiB, and when a value holds a control character, which no
// header or URL can carry. The errors name the reference, never a value; those of
// all references are joined.
func (s Secret) Resolve(getenv func(string) string) (string, error) {
	text, errs := s.resolve(getenv)
	return text, errors.Join(errs...)
}

// resolve is Resolve with an error for each reference.
func (s Secret) resolve(getenv func(string) string) (string, []error) {
	var b strings.Builder
	var errs []error
	for _, p := range s.all() {
		text, err := p.resolve(getenv)
		if err != nil {
			errs = append(errs, err)
		}
		b.WriteString(text)
	}
	if len(errs) > 0 {
		return "", errs
	}
	return b.String(), nil
}

func (p part) resolve(getenv func(string) string) (string, error) {
	var value string
	switch {
	case p.env != "":
		value = getenv(p.env)
		if value == "" {
			return "", fmt.Errorf("environment variable %s is not set", p.env)
		}
	case p.file != "":
		content, err := readSecretFile(p.file)
		if err != nil {
			return "", err
		}
		value = content
		if value == "" {
			return "", fmt.Errorf("file %s is empty", p.file)
		}
	default:
		return p.text, nil
	}
	if hasControl(value) {
		return "", fmt.Errorf("the value of %s holds a control character (a line break?)", p.name())
	}
	return value, nil
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func (p part) name() string {
	if p.env != "" {
		return "environment variable " + p.env
	}
	return "file " + p.file
}

func readSecretFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err) // *PathError names the file
	}
	defer f.Close() // only read from: nothing to lose
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	if len(content) > maxSecretFileBytes {
		return "", fmt.Errorf("file %s is longer than %d KiB: no secret is", path, maxSecretFileBytes>>10)
	}
	return strings.TrimSpace(string(content)), nil
}

// String returns "" for the zero value and a mask for any other.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return masked
}

// Format writes String whatever the verb is, so that %#v and %x do not reveal it.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText writes String, for encoding/json and every other encoder of text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue shows String to log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
