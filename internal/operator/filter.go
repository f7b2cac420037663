package operator

import (
	"fmt"
	"path"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// FilterWords choose operations, in the words in which a person or a program gives
// them. Empty ones choose all; lists choose any of theirs.
type FilterWords struct {
	Dependencies []string `json:"dependency,omitempty"`
	Kinds        []string `json:"kind,omitempty"`
	States       []string `json:"state,omitempty"`
	Reasons      []string `json:"reason,omitempty"` // of dead letters
	Classes      []string `json:"class,omitempty"`  // that the last attempt met
	Flags        []string `json:"flag,omitempty"`
	Credentials  []string `json:"credential,omitempty"`
	Batches      []string `json:"batch,omitempty"` // that last requeued it

	Key       string `json:"key,omitempty"`     // glob, as in [path.Match]
	ErrorText string `json:"error,omitempty"`   // part of the last error, in any case
	Unknown   bool   `json:"unknown,omitempty"` // only those that may have taken effect
	Since     string `json:"since,omitempty"`   // when it entered its state: see [ParseWhen]
	Until     string `json:"until,omitempty"`

	Limit  int    `json:"limit,omitempty"`  // of one page; 0: all that matches
	Cursor string `json:"cursor,omitempty"` // of the page before; "": from the newest
}

// Filter checks the words. now is what 2h and 09:00 count from; its location is the
// person's. An [InvalidError] when a word is wrong; a cursor is checked where it is
// used.
func (w *FilterWords) Filter(now time.Time) (ledger.Filter, error) {
	out := ledger.Filter{Credentials: w.Credentials, Batches: w.Batches, KeyGlob: w.Key, ErrorText: w.ErrorText,
		Unknown: w.Unknown, Limit: w.Limit, Cursor: w.Cursor}
	for _, name := range w.Dependencies {
		if err := jobs.CheckName(name); err != nil {
			return out, invalidf(FieldDependency, "%s: %w", FieldDependency, err)
		}
		out.Dependencies = append(out.Dependencies, jobs.Dependency(name))
	}
	for _, name := range w.Kinds {
		if err := jobs.CheckName(name); err != nil {
			return out, invalidf(FieldKind, "%s: %w", FieldKind, err)
		}
		out.Kinds = append(out.Kinds, jobs.Kind(name))
	}
	var err error
	if out.States, err = parseAll(FieldState, w.States, jobs.States); err != nil {
		return out, err
	}
	if out.Reasons, err = parseAll(FieldReason, w.Reasons, jobs.Reasons); err != nil {
		return out, err
	}
	if out.Classes, err = parseAll(FieldClass, w.Classes, jobs.Classes); err != nil {
		return out, err
	}
	if out.Flags, err = parseAll(FieldFlag, w.Flags, jobs.Flags); err != nil {
		return out, err
	}
	if _, err := path.Match(w.Key, ""); err != nil {
		return out, invalidf(FieldKey, "%s %q: %w", FieldKey, w.Key, err)
	}
	if w.Limit < 0 {
		return out, invalidf(FieldLimit, "%s %d: must not be negative", FieldLimit, w.Limit)
	}
	if out.Since, err = ParseWhen(FieldSince, w.Since, now); err != nil {
		return out, err
	}
	if out.Until, err = ParseWhen(FieldUntil, w.Until, now); err != nil {
		return out, err
	}
	if !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until) {
		return out, invalidf(FieldSince, "%s %s is not before %s %s: nothing can match", FieldSince, w.Since, FieldUntil, w.Until)
	}
	return out, nil
}

func parseAll[T ~string](field Field, words []string, allowed []T) ([]T, error) {
	var out []T
	for _, w := range words {
		v, err := jobs.Parse(string(field), w, allowed)
		if err != nil {
			return nil, invalidf(field, "%s: %w", field, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// ParseWhen reads an RFC 3339 instant, a time of today, or how long ago; the zero
// time for "". now is what the latter two count from, in the person's location.
func ParseWhen(field Field, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	if span, err := time.ParseDuration(s); err == nil && span >= 0 {
		return now.Add(-span), nil
	}
	return time.Time{}, invalidf(field, "%s %q is neither an RFC 3339 instant, nor a time of today such as 09:00, nor a span such as 2h (ago)", field, s)
}

// String says for the audit what is chosen by: reason=deadline since=2h; "" when
// nothing narrows the choice.
func (w *FilterWords) String() string {
	var words []string
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"dependency", w.Dependencies}, {"kind", w.Kinds}, {"state", w.States}, {"reason", w.Reasons}, {"class", w.Classes},
		{"flag", w.Flags}, {"credential", w.Credentials}, {"batch", w.Batches}} {
		add(list.name, strings.Join(list.values, ","))
	}
	add("key", w.Key)
	add("error", w.ErrorText)
	if w.Unknown {
		add("unknown", fmt.Sprint(w.Unknown))
	}
	add("since", w.Since)
	add("until", w.Until)
	if w.Limit > 0 {
		add("limit", fmt.Sprint(w.Limit))
	}
	add("cursor", w.Cursor)
	return strings.Join(words, " ")
}
