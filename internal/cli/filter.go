package cli

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// filters are the FILTERS flags.
type filters struct {
	dependencies, kinds, states, reasons, classes, flags, credentials, batches []string

	key, errorText, since, until, cursor string
	unknown                              bool
	limit                                int
}

// filterFlags says which of them a command has.
type filterFlags struct {
	state bool // --state; else it is fixed by the command
	page  bool // --limit 50 and --cursor; else all that matches
}

func (f *filters) register(cmd *cobra.Command, o filterFlags) {
	s := cmd.Flags()
	s.StringSliceVar(&f.dependencies, "dependency", nil, "of these dependencies")
	s.StringSliceVar(&f.kinds, "kind", nil, "of these kinds")
	if o.state {
		s.StringSliceVar(&f.states, "state", nil, "in these states")
		completeWords(cmd, "state", jobs.States)
	}
	s.StringSliceVar(&f.reasons, "reason", nil, "dead for these reasons")
	s.StringSliceVar(&f.classes, "class", nil, "whose last attempt met these response classes")
	s.StringSliceVar(&f.flags, "flag", nil, "with one of these flags: late, conflict, recreated")
	s.StringSliceVar(&f.credentials, "credential", nil, "under these credentials")
	s.StringSliceVar(&f.batches, "batch", nil, "last requeued by these bulk actions")
	s.StringVar(&f.key, "key", "", "whose key matches this `glob`")
	s.StringVar(&f.errorText, "error", "", "whose last error contains this `text`, in any case")
	s.BoolVar(&f.unknown, "unknown", false, "only those that may have taken effect")
	s.StringVar(&f.since, "since", "", "that entered their state at or after this `time`: RFC 3339, 09:00 (today, local) or 2h (ago)")
	s.StringVar(&f.until, "until", "", "that entered their state before this `time`")
	if o.page {
		s.IntVar(&f.limit, "limit", 50, "show at most `n`, 0 for all")
		s.StringVar(&f.cursor, "cursor", "", "go on after the page that ended with this")
	}
	completeWords(cmd, "reason", jobs.Reasons)
	completeWords(cmd, "class", jobs.Classes)
	completeWords(cmd, "flag", jobs.Flags)
}

// filterNames are the flags that choose operations.
var filterNames = []string{"dependency", "kind", "state", "reason", "class", "flag", "credential", "batch", "key", "error", "unknown", "since", "until"}

// given returns the filter as it was typed, for the audit; "" when none was.
func given(cmd *cobra.Command) string {
	var words []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, name := range filterNames {
			if f.Name == name {
				words = append(words, fmt.Sprintf("--%s=%s", name, strings.Trim(f.Value.String(), "[]")))
			}
		}
	})
	return strings.Join(words, " ")
}

// filter checks the flags. now is what 2h and 09:00 count from; its location is the
// person's.
func (f *filters) filter(now time.Time) (ledger.Filter, error) {
	out := ledger.Filter{Credentials: f.credentials, Batches: f.batches, KeyGlob: f.key, ErrorText: f.errorText,
		Unknown: f.unknown, Limit: f.limit, Cursor: f.cursor}
	for _, name := range f.dependencies {
		if err := jobs.CheckName(name); err != nil {
			return out, usagef("--dependency: %w", err)
		}
		out.Dependencies = append(out.Dependencies, jobs.Dependency(name))
	}
	for _, name := range f.kinds {
		if err := jobs.CheckName(name); err != nil {
			return out, usagef("--kind: %w", err)
		}
		out.Kinds = append(out.Kinds, jobs.Kind(name))
	}
	var err error
	if out.States, err = parseAll("state", f.states, jobs.States); err != nil {
		return out, err
	}
	if out.Reasons, err = parseAll("reason", f.reasons, jobs.Reasons); err != nil {
		return out, err
	}
	if out.Classes, err = parseAll("class", f.classes, jobs.Classes); err != nil {
		return out, err
	}
	if out.Flags, err = parseAll("flag", f.flags, jobs.Flags); err != nil {
		return out, err
	}
	if _, err := path.Match(f.key, ""); err != nil {
		return out, usagef("--key %q: %w", f.key, err)
	}
	if f.limit < 0 {
		return out, usagef("--limit %d: must not be negative", f.limit)
	}
	if out.Since, err = parseWhen("--since", f.since, now); err != nil {
		return out, err
	}
	if out.Until, err = parseWhen("--until", f.until, now); err != nil {
		return out, err
	}
	if !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until) {
		return out, usagef("--since %s is not before --until %s: nothing can match", f.since, f.until)
	}
	return out, nil
}

func parseAll[T ~string](what string, words []string, allowed []T) ([]T, error) {
	var out []T
	for _, w := range words {
		v, err := jobs.Parse(what, w, allowed)
		if err != nil {
			return nil, usagef("--%s: %w", what, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// parseWhen reads an RFC 3339 instant, a time of today, or how long ago; the zero
// time for "".
func parseWhen(flag, s string, now time.Time) (time.Time, error) {
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
	return time.Time{}, usagef("%s %q is neither an RFC 3339 instant, nor a time of today such as 09:00, nor a span such as 2h (ago)", flag, s)
}

// now is Redis' clock, where the person is.
func (s *session) now(ctx context.Context) (time.Time, error) {
	t, err := s.ledger.Now(ctx)
	return t.In(time.Local), err
}
