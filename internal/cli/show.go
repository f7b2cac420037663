package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
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

// shown is an operation as show writes it: its JSON, and what only show has.
type shown struct {
	jobs.Operation
	Request *revealed         `json:"request,omitempty"`       // with --reveal
	Answers map[string]string `json:"answers,omitempty"`       // with --reveal: by number of the attempt
	Ref     *string           `json:"ref,omitempty"`           // what a person gave as proof
	Unsafe  string            `json:"resend_unsafe,omitempty"` // why one more send would not be safe
	Cut     bool              `json:"timeline_cut,omitempty"`  // what people did long ago may be missing
	Chain   *chain            `json:"chain,omitempty"`         // of one that is a new attempt, or was tried again
	Next    []string          `json:"next,omitempty"`          // dlq show: what can be done
}

// revealed is the request, for eyes that asked for it.
type revealed struct {
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Params      map[string]string `json:"params"`
	Body        string            `json:"body"`                  // "" if it is not text
	BodyBase64  string            `json:"body_base64,omitempty"` // then it is here
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
	s, err := p.open(ctx, a)
	if err != nil {
		return err
	}
	defer s.close()
	places, err := s.find(ctx, name, whole)
	if err != nil {
		return err
	}
	details, err := s.ledger.Details(ctx, places, s.known)
	if err != nil {
		return err
	}
	details = slices.DeleteFunc(details, func(d *ledger.Detail) bool { return d == nil })
	if len(details) == 0 {
		if !whole && len(s.known) == 0 {
			return s.unknownKind("")
		}
		return &failure{exitNotFound, fmt.Errorf("%s: %w in namespace %s", name, ledger.ErrNotFound, s.ledger.Namespace())}
	}
	if reveal {
		for _, d := range details { // before anything is shown: who cannot be written down sees nothing
			if err := s.ledger.Note(ctx, d.Dependency, d.ID().String(), wire.ActionReveal, ledger.Actor{By: p.by()}); err != nil {
				return err
			}
		}
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return err
	}
	items := make([]shown, len(details))
	for i, d := range details {
		cut, err := s.tellDoings(ctx, d)
		if err != nil {
			return err
		}
		among, err := s.ledger.ChainOf(ctx, d, s.op.SpecOf(d.Kind))
		if err != nil {
			return err
		}
		items[i] = s.shownOf(d, reveal, advise, now)
		items[i].Chain = chainText(d, among)
		if advise && items[i].State == jobs.Dead {
			items[i].Next = adviseChain(items[i])
		}
		items[i].Cut = cut
	}
	return p.writeShown(s, details, items, whole, reveal)
}

func checkOperationName(name string, whole bool) error {
	if whole {
		_, err := jobs.ParseID(name)
		return err
	}
	return jobs.CheckKey(name)
}

// find returns where an operation may be. A bare key is looked for under every kind.
func (s *session) find(ctx context.Context, name string, whole bool) ([]ledger.Place, error) {
	if whole {
		id, err := jobs.ParseID(name)
		if err != nil {
			return nil, err
		}
		return s.op.Places(ctx, []jobs.ID{id})
	}
	var places []ledger.Place
	for _, kind := range slices.Sorted(maps.Keys(s.known)) {
		places = append(places, ledger.Place{Dependency: s.known[kind].Dependency, ID: jobs.ID{Kind: kind, Key: jobs.Key(name)}})
	}
	return places, nil
}

func (s *session) shownOf(d *ledger.Detail, reveal, advise bool, now time.Time) shown {
	out := shown{Operation: d.Operation}
	if d.Ref != "" {
		out.Ref = &d.Ref
	}
	out.Unsafe = d.ResendUnsafe(s.op.SpecOf(d.Kind), now)
	if advise {
		spec, known := s.known[d.Kind]
		a := advice{op: &d.Operation, sent: sentText(d, spec, known), now: now, unsafe: out.Unsafe, asks: spec.Inquiry != nil, bare: d.Bare}
		if known {
			a.moved = d.Moved(&spec)
		}
		out.Next = a.next()
	}
	if reveal {
		out.Answers = d.Answers
		if d.Request.Method != "" {
			out.Request = &revealed{Method: d.Request.Method, Path: d.Request.Path, ContentType: d.Request.ContentType,
				Headers: d.Request.Headers, Params: d.Request.Params}
			if utf8.Valid(d.Request.Body) {
				out.Request.Body = string(d.Request.Body)
			} else {
				out.Request.BodyBase64 = base64.StdEncoding.EncodeToString(d.Request.Body)
			}
		}
		return out
	}
	out.Operation = wire.Hidden(out.Operation)
	return out
}

func (p *program) writeShown(s *session, details []*ledger.Detail, items []shown, whole, reveal bool) error {
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
		p.showText(s, details[i], item, reveal)
	}
	return nil
}

// showText is what a person sees: the answer to the most pressing questions first.
func (p *program) showText(s *session, d *ledger.Detail, o shown, reveal bool) {
	spec, known := s.known[o.Kind]
	p.print("%s: %s, applied %s, %s, result %s", o.ID(), operator.StateText(&o.Operation), o.Applied, sentText(d, spec, known), pairsOrNone(o.Result))
	p.print("")
	p.table(grid{rows: factRows(o, d)})
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
	p.showRequest(d, spec, known, reveal)
	if len(o.Next) > 0 {
		p.print("")
		p.print("what to do next:")
		for _, line := range o.Next {
			p.print("  %s", line)
		}
	}
}

func sentText(o *ledger.Detail, spec jobs.KindSpec, known bool) string {
	switch {
	case o.Bare:
		return "never sent from here"
	case o.Sends == 0:
		return "never sent"
	case known && spec.KeyHeader == "":
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

func factRows(o shown, d *ledger.Detail) [][]string {
	rows := [][]string{
		{"dependency", string(o.Dependency)},
		{"attempts", sendsText(&o.Operation) + " sends, " + strconv.Itoa(d.Used) + " of them count"},
		{"created", instant(o.CreatedAt)},
		{"deadline", instant(o.DeadlineAt)},
	}
	add := func(name, value string) {
		if value != "" && value != "-" {
			rows = append(rows, []string{name, value})
		}
	}
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
		add("new attempt of", o.Chain.text(o.NewAttemptOf))
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
	if d.By != "" {
		add("resolved by", strings.TrimSpace(d.By+" "+d.Ref))
	}
	return rows
}

func spanText(n *int64) string {
	if n == nil {
		return "-"
	}
	return terms.MS(*n).String()
}
