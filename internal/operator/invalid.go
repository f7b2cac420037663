package operator

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Field is a value that an action is given, by its name: more_attempts. Where such
// values have other names, such as --more-attempts, [InvalidError.Text] uses those.
type Field string

// The fields that errors tell of.
const (
	FieldDependency   Field = "dependency"
	FieldKind         Field = "kind"
	FieldState        Field = "state"
	FieldReason       Field = "reason"
	FieldClass        Field = "class"
	FieldFlag         Field = "flag"
	FieldKey          Field = "key"
	FieldLimit        Field = "limit"
	FieldSince        Field = "since"
	FieldUntil        Field = "until"
	FieldNote         Field = "note"
	FieldMoreAttempts Field = "more_attempts"
	FieldDeadline     Field = "deadline"
	FieldRate         Field = "rate"
	FieldCanary       Field = "canary"
	FieldCanaryWait   Field = "canary_wait"
	FieldVerdict      Field = "verdict"
	FieldRef          Field = "ref"
)

// Fields lists all of them.
var Fields = []Field{FieldDependency, FieldKind, FieldState, FieldReason, FieldClass, FieldFlag, FieldKey, FieldLimit, FieldSince, FieldUntil, FieldNote,
	FieldMoreAttempts, FieldDeadline, FieldRate, FieldCanary, FieldCanaryWait, FieldVerdict, FieldRef}

// InvalidError tells of a value that cannot be, whatever the ledger holds.
type InvalidError struct {
	Field  Field // the one to change
	format string
	args   []any // those that are a Field are named as the reader knows them
}

func invalidf(field Field, format string, args ...any) error {
	return &InvalidError{Field: field, format: format, args: args}
}

// Error names fields by their own names.
func (e *InvalidError) Error() string {
	return e.Text(func(f Field) string { return string(f) })
}

// Text is the error with each field under the name that nameFunc gives it.
func (e *InvalidError) Text(nameFunc func(Field) string) string {
	args := make([]any, len(e.args))
	for i, a := range e.args {
		if f, ok := a.(Field); ok {
			a = nameFunc(f)
		}
		args[i] = a
	}
	return fmt.Errorf(e.format, args...).Error()
}

// Unwrap returns the cause, nil if there is none.
func (e *InvalidError) Unwrap() error {
	for _, a := range e.args {
		if err, ok := a.(error); ok {
			return err
		}
	}
	return nil
}

const maxNoteBytes = 1000

// CheckNote refuses a note that the audit would not keep: an empty one, one above
// 1000 bytes, one that is not UTF-8.
func CheckNote(note string) error {
	switch {
	case strings.TrimSpace(note) == "":
		return invalidf(FieldNote, "%s is required: it says why, and stays in the audit", FieldNote)
	case len(note) > maxNoteBytes:
		return invalidf(FieldNote, "%s has %d bytes, at most %d are allowed", FieldNote, len(note), maxNoteBytes)
	case !utf8.ValidString(note):
		return invalidf(FieldNote, "%s is not valid UTF-8", FieldNote)
	}
	return nil
}

const maxRefBytes = 200

// CheckRef refuses a reference above 200 bytes or with control characters. Its error
// is about the value alone; the caller says where it stood.
func CheckRef(ref string) error {
	switch {
	case len(ref) > maxRefBytes:
		return fmt.Errorf("%d bytes, at most %d are allowed", len(ref), maxRefBytes)
	case strings.ContainsFunc(ref, unicode.IsControl):
		return errors.New("control characters are not allowed")
	}
	return nil
}
