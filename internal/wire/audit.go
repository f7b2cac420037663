package wire

import (
	"strconv"
	"strings"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Told is an entry of the audit in people's words and units, which the gate's scripts
// do not write.
func Told(e ledger.AuditEntry) ledger.AuditEntry {
	switch {
	case e.Action == "override" || e.Action == "clear":
		e.From, e.To = overrideText(e.From), overrideText(e.To)
	case e.Action == "resume" && e.Operation != "-":
		e.Action, e.Operation = "resume credential "+e.Operation, "-"
	}
	return e
}

// overrideText shows a stored override, with or without the instant at which it ends.
func overrideText(stored string) string {
	if strings.Contains(strings.SplitN(stored, " ", 2)[0], "=") {
		return LimitsText(budget.ReadOverride("0 " + stored).Values)
	}
	o := budget.ReadOverride(stored)
	if len(o.Values) == 0 {
		return stored
	}
	return LimitsText(o.Values) + " until " + instantText(jobs.AtMS(o.UntilMS))
}

// LimitsText names limits with the values that an override stores for them.
func LimitsText(stored map[string]int64) string {
	var out []string
	for _, l := range limits {
		if v, ok := stored[l.name]; ok {
			out = append(out, l.text(v))
		}
	}
	return strings.Join(out, ", ")
}

func (l limit) text(stored int64) string {
	name := strings.ReplaceAll(l.name, "_", "-")
	if stored == 0 && l.nought != "" {
		return name + " 0 (" + l.nought + ")"
	}
	return name + " " + strconv.FormatFloat(float64(stored)/float64(l.scale), 'f', -1, 64) + l.per
}

func instantText(i *jobs.Instant) string {
	if i == nil {
		return "-"
	}
	return i.UTC().Format(time.RFC3339)
}
