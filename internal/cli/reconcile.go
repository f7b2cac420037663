package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

type reconcileFlags struct {
	from, firstSentAt, note string
}

func (p *program) reconcileCommand() *cobra.Command {
	f := &reconcileFlags{}
	cmd := &cobra.Command{
		Use:   "reconcile KIND/KEY...|-|--from FILE --note WHY",
		Short: "Have the dependency asked what became of operations",
		Long: "reconcile has workers ask the dependency what became of operations, by the inquiry of their kind. One in the ledger that waits,\n" +
			"is dead or was cancelled becomes unresolved until the answer is known; one that is unresolved is asked about at once. One that\n" +
			"only the dependency knows is taken in without a request: it ends succeeded or, where it was not applied, cancelled, and its key\n" +
			"is free again. Nothing is sent for it. --from reads one KIND/KEY a line, or the CSV of dlq export; lines that are wrong are told\n" +
			"and the rest goes on.",
		Example: `  enqueue reconcile charge/order-1001 --note "customer says it was charged"
  enqueue reconcile charge/order-0817 --first-sent-at 2026-11-29T08:00:00Z --note "sent by the old system"
  enqueue dlq export --unknown -o csv --out unknown.csv
  enqueue reconcile --from unknown.csv --note "their read API is back"`,
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.reconcile(ctx, args, f)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "`file` (- for stdin) with one KIND/KEY a line, or a CSV with the columns kind and key")
	fs.StringVar(&f.firstSentAt, "first-sent-at", "", "`instant` of the first send (RFC 3339) of what is not in the ledger (default: now)")
	fs.StringVar(&f.note, "note", "", "why, for the audit (required)")
	return cmd
}

// operations reads the command line, or the file it names.
func (f *reconcileFlags) operations(ctx context.Context, p *program, args []string) ([]namedAt, []operator.Fault, error) {
	switch {
	case f.from != "" && len(args) > 0:
		return nil, nil, usagef("--from names the operations: name none beside it")
	case f.from != "":
		text, err := p.readFrom(ctx, f.from)
		if err != nil {
			return nil, nil, err
		}
		out, faults, err := operationsIn(text)
		if err != nil {
			return nil, nil, usagef("--from %s: %w", f.from, err)
		}
		if len(out) == 0 && len(faults) == 0 {
			return nil, nil, usagef("--from %s names no operation", f.from)
		}
		return out, faults, nil
	case len(args) == 0:
		return nil, nil, usagef("name the operations (KIND/KEY...), - to read them from stdin, or --from FILE")
	case slices.Contains(args, "-") && len(args) > 1:
		return nil, nil, usagef("- reads all operations from stdin: name no others beside it")
	}
	ids, err := p.namedOperations(ctx, args)
	out := make([]namedAt, len(ids))
	for i, id := range ids {
		out[i] = namedAt{id: id}
	}
	return out, nil, err
}

func (p *program) reconcile(ctx context.Context, args []string, f *reconcileFlags) error {
	if err := operator.CheckNote(f.note); err != nil {
		return err
	}
	var firstSent time.Time
	if f.firstSentAt != "" {
		var err error
		if firstSent, err = time.Parse(time.RFC3339, f.firstSentAt); err != nil {
			return usagef("--first-sent-at %q is not an RFC 3339 instant such as 2026-11-30T09:14:00Z", f.firstSentAt)
		}
	}
	named, faults, err := f.operations(ctx, p, args)
	if err != nil {
		return err
	}
	report := operator.Report{Action: "reconcile"}
	const past = "to be asked about:"
	if len(named) == 0 {
		return p.end(report, past, faults)
	}
	b, err := p.open(ctx, writes)
	if err != nil {
		return err
	}
	defer b.close()
	if err := p.warnOfFuture(ctx, b, firstSent); err != nil {
		return err
	}
	ids, unknown, err := b.reconcilable(ctx, named, f.from != "")
	if err != nil {
		return err
	}
	faults = append(faults, unknown...)
	slices.SortStableFunc(faults, func(a, b operator.Fault) int { return a.Line - b.Line })
	if len(ids) > 0 {
		if report, err = b.reconcile(ctx, ids, firstSent, p.order(f.note)); err != nil {
			return err
		}
	}
	return p.end(report, past, faults)
}

// warnOfFuture says that an instant that has not come yet counts as now.
func (p *program) warnOfFuture(ctx context.Context, b backend, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	now, err := b.now(ctx)
	if err != nil {
		return err
	}
	if w := wire.FutureWarning("first-sent-at", t, now); w != "" {
		p.say("warning: %s", w)
	}
	return nil
}

// ofKnownKinds leaves out operations of kinds that nobody knows: faults, or the end of
// the command before anything is done.
func ofKnownKinds(named []namedAt, faulty bool, knows func(jobs.Kind) bool, unknown func(jobs.Kind) error) ([]jobs.ID, []operator.Fault, error) {
	var ids []jobs.ID
	var faults []operator.Fault
	for _, n := range named {
		switch {
		case knows(n.id.Kind):
			ids = append(ids, n.id)
		case faulty:
			faults = append(faults, operator.Fault{Line: n.line, Error: unknown(n.id.Kind).Error()})
		default:
			return nil, nil, unknown(n.id.Kind)
		}
	}
	return ids, faults, nil
}
