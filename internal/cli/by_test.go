package cli

import (
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/wire"
)

func TestShowTellsWhoSubmittedAnOperation(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.must(exitOK, "add", "charge/added", "--body", "{}")
		b.mustWith(exitOK, `{"kind":"charge","key":"imported","body":{}}`, "import", "-")
		for _, name := range []string{"charge/added", "charge/imported"} {
			o := into[wire.OperationView](t, b.must(exitOK, "show", name, "-o", "json"))
			if deref(o.SubmittedBy) != "ann@desk" || o.Timeline[0].Event != "submitted" || o.Timeline[0].By != "ann@desk" {
				t.Errorf("%s: submitted by %q, timeline %+v", name, deref(o.SubmittedBy), o.Timeline)
			}
			says(t, b.must(exitOK, "show", name).stdout, "submitted by  ann@desk")
		}
		says(t, b.must(exitOK, "list", "-o", "csv").stdout, ",submitted_by,", ",ann@desk,")
		hides(t, b.must(exitOK, "audit", "charge/added").stdout, "ann@desk")
	})
}

// Names of any length, and with line breaks, went into the audit.
func TestANameThatTheAuditCannotKeepIsRefused(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.must(exitOK, "add", "charge/o1", "--body", "{}", "--by", "bob@desk")
		if o := into[wire.OperationView](t, b.must(exitOK, "show", "charge/o1", "-o", "json")); deref(o.SubmittedBy) != "bob@desk" {
			t.Errorf("submitted by %q", deref(o.SubmittedBy))
		}
		long := strings.Repeat("a", jobs.MaxByBytes+1)
		for _, act := range [][]string{{"add", "charge/o2", "--body", "{}"}, {"import", "-"}, {"cancel", "charge/o1", "-y", "--note", "x"},
			{"pause", "payrail", "--note", "x"}, {"show", "charge/o1", "--reveal"}} {
			says(t, b.must(exitUsage, append(act, "--by", long)...).stderr, "--by", "65 bytes", "at most 64")
			says(t, b.must(exitUsage, append(act, "--by", "a\nb")...).stderr, "--by", "control characters")
			b.env["REDRIVE_BY"] = long
			says(t, b.must(exitUsage, act...).stderr, "REDRIVE_BY", "65 bytes")
			b.env["REDRIVE_BY"] = "ann@desk"
		}
		b.must(exitNotFound, "show", "charge/o2")
		if o := into[wire.OperationView](t, b.must(exitOK, "show", "charge/o1", "-o", "json")); o.State != jobs.Waiting {
			t.Errorf("it is %s", o.State)
		}
	})
}
