package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

type resolveFlags struct {
	applied, notApplied, writtenOff bool
	ref, from, note                 string
}

func (p *program) resolveCommand() *cobra.Command {
	f := &resolveFlags{}
	var all bool
	cmd := &cobra.Command{
		Use:   "resolve KIND/KEY...|- --applied [--ref ID]|--not-applied|--written-off --note WHY",
		Short: "Say what a person found out about unknown outcomes",
		Long: "resolve settles operations that may have taken effect, dead letters and unresolved ones: --applied, they did (they become\n" +
			"succeeded); --not-applied, they did not (a dead letter stays one and can be requeued; an unresolved one does what it was about\n" +
			"to: it waits for its next attempt, or ends); --written-off, nobody can tell (they become cancelled and keep saying so).\n" +
			"--from reads a CSV that dlq export (or list -o csv) wrote, with the columns verdict (applied, not_applied or written_off) and\n" +
			"ref filled in; lines without a verdict are passed over, lines that are wrong are told and the rest goes on.",
		Example: `  enqueue resolve charge/order-1001 --applied --ref ch_3Nq --note "seen in the dashboard"
  enqueue dlq export --unknown -o csv --out unknown.csv
  enqueue resolve --from unknown.csv --note "checked by accounting"`,
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if all || filtered(cmd) {
				return usagef("resolve takes no filters: what a person found out is about each operation. Write them out with dlq export --unknown -o csv, " +
					"fill in verdict and ref, and give the file to resolve --from")
			}
			return p.resolve(ctx, args, f)
		}),
	}
	fs := cmd.Flags()
	(&filters{}).register(cmd, filterFlags{state: true})
	fs.BoolVar(&all, "all-matching", false, "")
	fs.VisitAll(func(f *pflag.Flag) { f.Hidden = true }) // known only to say what to do instead
	fs.BoolVar(&f.applied, "applied", false, "it took effect")
	fs.BoolVar(&f.notApplied, "not-applied", false, "it did not take effect")
	fs.BoolVar(&f.writtenOff, "written-off", false, "nobody can tell")
	fs.StringVar(&f.ref, "ref", "", "proof, such as the dependency's `id` of it")
	fs.StringVar(&f.from, "from", "", "CSV `file` (- for stdin) with columns kind, key, verdict and ref")
	fs.StringVar(&f.note, "note", "", "why, for the audit (required)")
	return cmd
}

// findings reads the command line, or the file it names.
func (f *resolveFlags) findings(ctx context.Context, p *program, args []string) ([]operator.Finding, []operator.Fault, error) {
	verdicts := 0
	verdict := ledger.Resolution("")
	for v, given := range map[ledger.Resolution]bool{ledger.ResolvedApplied: f.applied, ledger.ResolvedNotApplied: f.notApplied, ledger.WrittenOff: f.writtenOff} {
		if given {
			verdicts++
			verdict = v
		}
	}
	if err := operator.CheckNote(f.note); err != nil {
		return nil, nil, err
	}
	if f.from != "" {
		if len(args) > 0 || verdicts > 0 || f.ref != "" {
			return nil, nil, usagef("--from names operations, verdicts and refs itself: give none beside it")
		}
		text, err := p.readFrom(ctx, f.from)
		if err != nil {
			return nil, nil, err
		}
		out, faults, err := parseFindings(text)
		if err != nil {
			return nil, nil, usagef("--from %s: %w", f.from, err)
		}
		return out, faults, nil
	}
	switch {
	case len(args) == 0:
		return nil, nil, usagef("name the operations (KIND/KEY...), - to read them from stdin, or --from FILE")
	case slices.Contains(args, "-") && len(args) > 1:
		return nil, nil, usagef("- reads all operations from stdin: name no others beside it")
	case verdicts != 1:
		return nil, nil, usagef("give one of --applied, --not-applied and --written-off")
	case f.ref != "" && !f.applied:
		return nil, nil, usagef("--ref is proof that it was applied: it goes with --applied")
	}
	if err := operator.CheckRef(f.ref); err != nil {
		return nil, nil, usagef("--ref: %w", err)
	}
	ids, err := p.namedOperations(ctx, args)
	if err != nil {
		return nil, nil, err
	}
	out := make([]operator.Finding, len(ids))
	for i, id := range ids {
		out[i] = operator.Finding{ID: id, Verdict: verdict, Ref: f.ref}
	}
	return out, nil, nil
}

// parseFindings reads the CSV of dlq export with verdicts filled in. A line that is
// wrong is a fault; the rest counts.
func parseFindings(text []byte) ([]operator.Finding, []operator.Fault, error) {
	var out []operator.Finding
	seen := map[jobs.ID]int{}
	faults, err := eachRow(text, []string{columnKind, columnKey, columnVerdict}, func(line int, cell func(string) string) error {
		if cell(columnVerdict) == "" {
			return nil
		}
		f, err := parseFinding(cell)
		if err != nil {
			return err
		}
		if before, twice := seen[f.ID]; twice {
			return fmt.Errorf("%s stands in line %d already", f.ID, before)
		}
		seen[f.ID] = line
		out = append(out, f)
		return nil
	})
	return out, faults, err
}

func parseFinding(cell func(string) string) (operator.Finding, error) {
	id, err := jobs.ParseID(cell(columnKind) + "/" + cell(columnKey))
	if err != nil {
		return operator.Finding{}, err
	}
	verdict, err := operator.ParseVerdict(cell(columnVerdict))
	if err != nil {
		return operator.Finding{}, err
	}
	f := operator.Finding{ID: id, Verdict: verdict, Ref: cell(columnRef)}
	return f, f.Check()
}

func (p *program) resolve(ctx context.Context, args []string, f *resolveFlags) error {
	found, faults, err := f.findings(ctx, p, args)
	if err != nil {
		return err
	}
	report := operator.Report{Action: "resolve"}
	if len(found) == 0 && len(faults) == 0 {
		p.say("no line has a verdict: nothing to resolve")
		return p.writeOutcome(report.Outcome(nil))
	}
	if len(found) > 0 {
		b, err := p.open(ctx, writes)
		if err != nil {
			return err
		}
		defer b.close()
		if report, err = b.resolve(ctx, found, p.order(f.note)); err != nil {
			return err
		}
	}
	return p.end(report, "resolved", faults)
}
