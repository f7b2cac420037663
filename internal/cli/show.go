package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/operator"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

func (p *program) showCommand() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "show KIND/KEY|KEY",
		Short: "Show one operation with its timeline",
		Long: "show tells what is known of an operation: first its state, whether it took effect, how often it was sent and under which\n" +
			"key, and its result; then everything that happened. A bare KEY shows every kind that has it. Path, body, headers and\n" +
			"answers are masked unless --reveal is given, which is written to the audit.",
		Args: cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asName}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.show(ctx, args[0], reveal, false)
		}),
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show path, body, headers and answers too; written to the audit")
	return cmd
}

func (p *program) dlqShowCommand() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "show KIND/KEY|KEY",
		Short: "Show one dead letter, and what to do next",
		Args:  cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asName}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.show(ctx, args[0], reveal, true)
		}),
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show path, body, headers and answers too; written to the audit")
	return cmd
}

// shown is an operation as show writes it.
type shown struct {
	wire.OperationView
	Next []string `json:"next,omitempty"` // dlq show: what can be done

	kind *wire.Kind // nil: nobody knows it
}

func (p *program) show(ctx context.Context, name string, reveal, advise bool) error {
	whole := strings.Contains(name, "/")
	if err := checkOperationName(name, whole); err != nil {
		return &failure{exitUsage, err}
	}
	a := reads
	if reveal {
		a = writes
	}
	b, err := p.open(ctx, a)
	if err != nil {
		return err
	}
	defer b.close()
	items, err := b.show(ctx, name, reveal)
	if err != nil {
		return err
	}
	if advise {
		for i := range items {
			items[i].Next = adviceOn(items[i])
		}
	}
	return p.writeShown(items, whole, reveal)
}

func checkOperationName(name string, whole bool) error {
	if whole {
		_, err := jobs.ParseID(name)
		return err
	}
	return jobs.CheckKey(name)
}

func (p *program) writeShown(items []shown, whole, reveal bool) error {
	switch p.flags.output {
	case asJSON:
		if whole && len(items) == 1 {
			return p.writeJSON(items[0])
		}
		return p.writeJSON(struct {
			Items []shown `json:"items"`
		}{items})
	case asJSONL:
		for _, item := range items {
			if err := p.writeLine(item); err != nil {
				return err
			}
		}
		return nil
	case asName:
		for _, item := range items {
			p.print("%s", item.ID())
		}
		return nil
	}
	for i, item := range items {
		if i > 0 {
			p.print("")
		}
		p.showText(item, reveal)
	}
	return nil
}

// showText is what a person sees: the answer to the most pressing questions first.
func (p *program) showText(o shown, reveal bool) {
	p.print("%s: %s, applied %s, %s, result %s", o.ID(), operator.StateText(&o.Operation), o.Applied, sentText(o), pairsOrNone(o.Result))
	p.print("")
	p.table(grid{rows: factRows(o)})
	p.print("")
	timeline := grid{header: []string{"at", "event", "n", "by", "outcome", "class", "status", "took", "verdict", "next in", "note"}}
	for _, e := range o.Timeline {
		n, status := "-", "-"
		if e.N > 0 {
			n = strconv.Itoa(e.N)
		}
		if e.Status > 0 {
			status = strconv.Itoa(e.Status)
		}
		timeline.add(instant(e.At), e.Event, n, orDash(e.By), orDash(string(e.Outcome)), orDash(string(e.Class)), status,
			spanText(e.DurationMS), orDash(string(e.Verdict)), spanText(e.DelayMS), orDash(deref(e.Note)))
	}
	p.table(timeline)
	if o.Cut {
		p.print("(of what people did, only what stands among the newest %s of the audit of %s)", count(maxDoings, "entry"), o.Dependency)
	}
	p.print("")
	p.showRequest(o, reveal)
	if len(o.Next) > 0 {
		p.print("")
		p.print("what to do next:")
		for _, line := range o.Next {
			p.print("  %s", line)
		}
	}
}

func sentText(o shown) string {
	switch {
	case o.Bare:
		return "never sent from here"
	case o.Sends == 0:
		return "never sent"
	case o.kind != nil && o.kind.KeyHeader == "":
		return count(o.Sends, "send") + " without a key"
	}
	return count(o.Sends, "send") + " under key " + o.IdempotencyKey
}

func pairsOrNone(m map[string]string) string {
	if len(m) == 0 {
		return "none"
	}
	return pairsText(m)
}

func factRows(o shown) [][]string {
	rows := [][]string{
		{"dependency", string(o.Dependency)},
		{"attempts", sendsText(&o.Operation) + " sends, " + strconv.Itoa(o.Used) + " of them count"},
		{"created", instant(o.CreatedAt)},
		{"deadline", instant(o.DeadlineAt)},
	}
	add := func(name, value string) {
		if value != "" && value != "-" {
			rows = append(rows, []string{name, value})
		}
	}
	add("submitted by", deref(o.SubmittedBy))
	add("not before", instant(o.NotBefore))
	add("next attempt", instant(o.NextAt))
	add("first sent", instant(o.FirstSentAt))
	add("ended", instant(o.EndedAt))
	add("idempotency", string(o.Idempotency))
	add("key safe until", instant(o.KeySafeUntil))
	if o.Unsafe != "" {
		add("a resend", "is not safe: "+o.Unsafe)
	}
	if o.Inquiries > 0 {
		add("inquiries", strconv.Itoa(o.Inquiries))
	}
	add("credential", o.Credential)
	add("correlation id", deref(o.CorrelationID))
	add("traceparent", deref(o.Traceparent))
	add("columns", pairsText(o.Columns))
	if o.Chain != nil {
		add("new attempt of", chainText(o.Chain, o.NewAttemptOf))
		add("tried again as", nameOf(o.Chain.TriedAgainAs))
	}
	if deref(o.Again) == jobs.AgainNever {
		add("again", "never: its decline forbids another attempt")
	}
	add("flags", join(o.Flags))
	add("then", deref(o.Intent))
	add("batch", deref(o.Batch))
	if o.Last != nil {
		add("last error", deref(o.Last.Error))
	}
	if o.By != "" {
		add("resolved by", strings.TrimSpace(o.By+" "+deref(o.Ref)))
	}
	return rows
}

func spanText(n *int64) string {
	if n == nil {
		return "-"
	}
	return terms.MS(*n).String()
}
