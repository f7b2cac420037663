package jobs

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind names how operations of one sort are sent, such as "charge".
type Kind string

// Dependency names the outside system that operations are sent to.
type Dependency string

// Key names one operation among those of its kind.
type Key string

// Limits of names. They are part of the wire format: raising one is a new
// schema number, because older binaries refuse what they cannot store.
const (
	MaxNameBytes      = 63  // kinds, dependencies, credentials
	MaxKeyBytes       = 200 // operation keys
	MaxNamespaceBytes = 32
	MaxByBytes        = 64 // who acts or submits: Redis keeps a record compact only while none of its values is longer
)

// DefaultCredential is the credential of a submission that names none.
const DefaultCredential = "default"

// CheckName reports why s cannot name a kind, dependency or credential: it must
// match [a-z][a-z0-9_-]{0,62}. Braces can therefore never reach a Redis key.
func CheckName(s string) error {
	if s == "" {
		return fmt.Errorf("a name must not be empty")
	}
	if len(s) > MaxNameBytes {
		return fmt.Errorf("name %.20q… has %d bytes, at most %d are allowed", s, len(s), MaxNameBytes)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		lower := c >= 'a' && c <= 'z'
		if lower || i > 0 && (c >= '0' && c <= '9' || c == '_' || c == '-') {
			continue
		}
		return fmt.Errorf("name %q: %q at position %d is not allowed (want a-z first, then a-z, 0-9, _ or -)", s, c, i+1)
	}
	return nil
}

// ByRedrive is who acted where nobody did, in audit and timelines: workers that pause a
// credential or undo a success by themselves.
const ByRedrive = "redrive"

// CheckBy reports why s cannot be who acts or submits, as audit and timelines keep it: 1
// to 64 bytes of UTF-8 without control characters. Its error is about the value alone.
func CheckBy(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > MaxByBytes:
		return fmt.Errorf("%d bytes, at most %d are allowed", len(s), MaxByBytes)
	case !utf8.ValidString(s):
		return errors.New("not valid UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("control characters are not allowed")
	}
	return nil
}

// CutBy makes of a name that nobody chose, such as user@host, one that [CheckBy] takes.
func CutBy(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.ToValidUTF8(s[:min(len(s), MaxByBytes)], "")
}

// CheckNamespace reports why s cannot be a namespace: [a-z0-9-]{1,32}.
func CheckNamespace(s string) error {
	if s == "" || len(s) > MaxNamespaceBytes {
		return fmt.Errorf("namespace %q must have 1 to %d bytes", s, MaxNamespaceBytes)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			continue
		}
		return fmt.Errorf("namespace %q: %q at position %d is not allowed (want a-z, 0-9 or -)", s, c, i+1)
	}
	return nil
}

// CheckKey reports why s cannot be an operation key: 1 to 200 bytes of printable
// ASCII without space, and no braces, which Redis Cluster reads as a hash tag.
func CheckKey(s string) error {
	if s == "" {
		return fmt.Errorf("key must not be empty")
	}
	if len(s) > MaxKeyBytes {
		return fmt.Errorf("key %.20q… has %d bytes, at most %d are allowed", s, len(s), MaxKeyBytes)
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '{' || c == '}':
			return fmt.Errorf("key %q: a brace at position %d is not allowed (Redis Cluster would read it as a hash tag)", s, i+1)
		case c <= ' ' || c > '~':
			return fmt.Errorf("key %q: byte 0x%02x at position %d is not printable ASCII without space", s, c, i+1)
		}
	}
	return nil
}

// ID names an operation across kinds: kind/key.
type ID struct {
	Kind Kind
	Key  Key
}

// String returns kind/key, the form used in Redis, on the command line and in logs.
func (id ID) String() string { return string(id.Kind) + "/" + string(id.Key) }

// ParseID splits s at its first slash and checks both halves.
func ParseID(s string) (ID, error) {
	kind, key, ok := strings.Cut(s, "/")
	if !ok {
		return ID{}, fmt.Errorf("operation %q has no slash: write KIND/KEY", s)
	}
	if err := CheckName(kind); err != nil {
		return ID{}, fmt.Errorf("operation %q: kind: %w", s, err)
	}
	if err := CheckKey(key); err != nil {
		return ID{}, fmt.Errorf("operation %q: %w", s, err)
	}
	return ID{Kind: Kind(kind), Key: Key(key)}, nil
}

// MarshalText writes kind/key.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads kind/key, with the errors of [ParseID].
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
