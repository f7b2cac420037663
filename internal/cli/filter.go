package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/operator"
)

// filters are the FILTERS flags.
type filters struct{ operator.FilterWords }

// filterFlags says which of them a command has.
type filterFlags struct {
	state bool // --state; else it is fixed by the command
	page  bool // --limit 50 and --cursor; else all that matches
}

func (f *filters) register(cmd *cobra.Command, o filterFlags) {
	s := cmd.Flags()
	s.StringSliceVar(&f.Dependencies, "dependency", nil, "of these dependencies")
	s.StringSliceVar(&f.Kinds, "kind", nil, "of these kinds")
	if o.state {
		s.StringSliceVar(&f.States, "state", nil, "in these states")
		completeWords(cmd, "state", jobs.States)
	}
	s.StringSliceVar(&f.Reasons, "reason", nil, "dead for these reasons")
	s.StringSliceVar(&f.Classes, "class", nil, "whose last attempt met these response classes")
	s.StringSliceVar(&f.Flags, "flag", nil, "with one of these flags: late, conflict, recreated")
	s.StringSliceVar(&f.Credentials, "credential", nil, "under these credentials")
	s.StringSliceVar(&f.Batches, "batch", nil, "last requeued by these bulk actions")
	s.StringVar(&f.Key, "key", "", "whose key matches this `glob`")
	s.StringVar(&f.ErrorText, "error", "", "whose last error contains this `text`, in any case")
	s.BoolVar(&f.Unknown, "unknown", false, "only those that may have taken effect")
	s.StringVar(&f.Since, "since", "", "that entered their state at or after this `time`: RFC 3339, 09:00 (today, local) or 2h (ago)")
	s.StringVar(&f.Until, "until", "", "that entered their state before this `time`")
	if o.page {
		s.IntVar(&f.Limit, "limit", 50, "show at most `n`, 0 for all")
		s.StringVar(&f.Cursor, "cursor", "", "go on after the page that ended with this")
	}
	completeWords(cmd, "reason", jobs.Reasons)
	completeWords(cmd, "class", jobs.Classes)
	completeWords(cmd, "flag", jobs.Flags)
}

// filterNames are the flags that choose operations.
var filterNames = []string{"dependency", "kind", "state", "reason", "class", "flag", "credential", "batch", "key", "error", "unknown", "since", "until"}

// filtered reports whether a filter was given.
func filtered(cmd *cobra.Command) bool {
	return slices.ContainsFunc(filterNames, func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Changed
	})
}
