package cli

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

// page is a list as JSON.
type page struct {
	Items      []jobs.Operation `json:"items"`
	NextCursor string           `json:"next_cursor"`
}

// writeOperations writes a list in the form asked for. tabular makes the table.
func (p *program) writeOperations(ops []jobs.Operation, cursor string, tabular func([]jobs.Operation) grid) error {
	for i := range ops {
		ops[i] = wire.Hidden(ops[i])
	}
	if cursor != "" && p.flags.output != asJSON {
		defer p.say("there is more: --cursor %s", cursor)
	}
	switch p.flags.output {
	case asJSON:
		if ops == nil {
			ops = []jobs.Operation{}
		}
		return p.writeJSON(page{Items: ops, NextCursor: cursor})
	case asJSONL:
		for i := range ops {
			if err := p.writeLine(&ops[i]); err != nil {
				return err
			}
		}
	case asCSV:
		return operationsCSV(p.stdout, ops)
	case asName:
		for i := range ops {
			p.print("%s", ops[i].ID())
		}
	default:
		p.table(tabular(ops))
	}
	return nil
}

func listGrid(ops []jobs.Operation) grid {
	g := grid{header: []string{"operation", "state", "applied", "sends", "last", "since", "next", "deadline", "columns"}}
	for i := range ops {
		o := &ops[i]
		g.add(o.ID().String(), operator.StateText(o), string(o.Applied), sendsText(o), lastText(o), instant(o.EnteredAt), instant(o.NextAt),
			instant(o.DeadlineAt), pairsText(o.Columns))
	}
	return g
}

func deadGrid(ops []jobs.Operation) grid {
	g := grid{header: []string{"operation", "reason", "applied", "sends", "last", "first sent", "last failed", "died", "deadline", "columns", "error"}}
	for i := range ops {
		o := &ops[i]
		failed, text := "never sent", "never sent"
		if o.Last != nil {
			failed = instant(o.Last.At)
			text = shorten(deref(o.Last.Error), 60)
		}
		first := "never sent"
		if o.FirstSentAt != nil {
			first = instant(o.FirstSentAt)
		}
		g.add(o.ID().String(), string(deref(o.Reason)), string(o.Applied), sendsText(o), lastText(o), first, failed, instant(o.EndedAt),
			instant(o.DeadlineAt), pairsText(o.Columns), text)
	}
	return g
}

func sendsText(o *jobs.Operation) string {
	if o.MaxAttempts == 0 {
		return strconv.Itoa(o.Sends)
	}
	return strconv.Itoa(o.Sends) + "/" + strconv.Itoa(o.MaxAttempts)
}

func lastText(o *jobs.Operation) string {
	switch {
	case o.Last == nil:
		return "-"
	case o.Last.Status != nil:
		return strconv.Itoa(*o.Last.Status)
	}
	return string(o.Last.Class)
}

func pairsText(m map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, name+"="+m[name])
	}
	return orDash(strings.Join(pairs, " "))
}

func shorten(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}

func deref[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}

// scalars are the columns of the CSV: the values of an operation's JSON in its
// order, those of last in its place.
var scalars = []struct {
	name  string
	value func(*jobs.Operation) string
}{
	{"kind", func(o *jobs.Operation) string { return string(o.Kind) }},
	{"key", func(o *jobs.Operation) string { return string(o.Key) }},
	{"dependency", func(o *jobs.Operation) string { return string(o.Dependency) }},
	{"state", func(o *jobs.Operation) string { return string(o.State) }},
	{"reason", func(o *jobs.Operation) string { return string(deref(o.Reason)) }},
	{"applied", func(o *jobs.Operation) string { return string(o.Applied) }},
	{"sends", func(o *jobs.Operation) string { return strconv.Itoa(o.Sends) }},
	{"max_attempts", func(o *jobs.Operation) string { return strconv.Itoa(o.MaxAttempts) }},
	{"inquiries", func(o *jobs.Operation) string { return strconv.Itoa(o.Inquiries) }},
	{"created_at", func(o *jobs.Operation) string { return o.CreatedAt.String() }},
	{"not_before", func(o *jobs.Operation) string { return o.NotBefore.String() }},
	{"next_at", func(o *jobs.Operation) string { return o.NextAt.String() }},
	{"deadline_at", func(o *jobs.Operation) string { return o.DeadlineAt.String() }},
	{"first_sent_at", func(o *jobs.Operation) string { return o.FirstSentAt.String() }},
	{"ended_at", func(o *jobs.Operation) string { return o.EndedAt.String() }},
	{"entered_at", func(o *jobs.Operation) string { return o.EnteredAt.String() }},
	{"idempotency", func(o *jobs.Operation) string { return string(o.Idempotency) }},
	{"idempotency_key", func(o *jobs.Operation) string { return o.IdempotencyKey }},
	{"key_safe_until", func(o *jobs.Operation) string { return o.KeySafeUntil.String() }},
	{"credential", func(o *jobs.Operation) string { return o.Credential }},
	{"correlation_id", func(o *jobs.Operation) string { return deref(o.CorrelationID) }},
	{"last.class", func(o *jobs.Operation) string { return string(deref(o.Last).Class) }},
	{"last.status", func(o *jobs.Operation) string {
		if status := deref(o.Last).Status; status != nil {
			return strconv.Itoa(*status)
		}
		return ""
	}},
	{"last.error", func(o *jobs.Operation) string { return deref(deref(o.Last).Error) }},
	{"last.at", func(o *jobs.Operation) string { return deref(o.Last).At.String() }},
	{"batch", func(o *jobs.Operation) string { return deref(o.Batch) }},
	{"flags", func(o *jobs.Operation) string { return strings.ReplaceAll(join(o.Flags), ", ", " ") }},
	{"intent", func(o *jobs.Operation) string { return deref(o.Intent) }},
	{"new_attempt_of", func(o *jobs.Operation) string { return nameOf(o.NewAttemptOf) }},
	{"again", func(o *jobs.Operation) string { return string(deref(o.Again)) }},
	{"submitted_by", func(o *jobs.Operation) string { return deref(o.SubmittedBy) }},
}

// The columns that a person fills in and resolve --from reads back.
const (
	columnKind    = "kind"
	columnKey     = "key"
	columnVerdict = "verdict"
	columnRef     = "ref"
)

func operationsCSV(w io.Writer, ops []jobs.Operation) error {
	columns, results := map[string]bool{}, map[string]bool{}
	for i := range ops {
		for name := range ops[i].Columns {
			columns[name] = true
		}
		for name := range ops[i].Result {
			results[name] = true
		}
	}
	var g grid
	for _, s := range scalars {
		g.header = append(g.header, s.name)
	}
	columnNames, resultNames := slices.Sorted(maps.Keys(columns)), slices.Sorted(maps.Keys(results))
	for _, name := range columnNames {
		g.header = append(g.header, "columns."+name)
	}
	for _, name := range resultNames {
		g.header = append(g.header, "result."+name)
	}
	g.header = append(g.header, columnVerdict, columnRef)
	for i := range ops {
		var cells []string
		for _, s := range scalars {
			cells = append(cells, s.value(&ops[i]))
		}
		for _, name := range columnNames {
			cells = append(cells, ops[i].Columns[name])
		}
		for _, name := range resultNames {
			cells = append(cells, ops[i].Result[name])
		}
		g.rows = append(g.rows, append(cells, "", ""))
	}
	return writeCSV(w, g)
}
