package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

var resolutions = []ledger.Resolution{ledger.ResolvedApplied, ledger.ResolvedNotApplied, ledger.WrittenOff}

type resolveFlags struct {
	applied, notApplied, writtenOff bool
	ref, from, note                 string
}

// finding is what a person found out about one operation.
type finding struct {
	id      jobs.ID
	verdict ledger.Resolution
	ref     string
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
			if all || given(cmd) != "" {
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
func (f *resolveFlags) findings(p *program, args []string) ([]finding, []fault, error) {
	verdicts := 0
	verdict := ledger.Resolution("")
	for v, given := range map[ledger.Resolution]bool{ledger.ResolvedApplied: f.applied, ledger.ResolvedNotApplied: f.notApplied, ledger.WrittenOff: f.writtenOff} {
		if given {
			verdicts++
			verdict = v
		}
	}
	if err := checkNote(f.note); err != nil {
		return nil, nil, err
	}
	if f.from != "" {
		if len(args) > 0 || verdicts > 0 || f.ref != "" {
			return nil, nil, usagef("--from names operations, verdicts and refs itself: give none beside it")
		}
		text, err := p.readFrom(f.from)
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
	if err := checkRef(f.ref); err != nil {
		return nil, nil, usagef("--ref: %w", err)
	}
	ids, err := namedOperations(p.stdin, args)
	if err != nil {
		return nil, nil, err
	}
	out := make([]finding, len(ids))
	for i, id := range ids {
		out[i] = finding{id, verdict, f.ref}
	}
	return out, nil, nil
}

const maxRefBytes = 200

func checkRef(ref string) error {
	switch {
	case len(ref) > maxRefBytes:
		return fmt.Errorf("%d bytes, at most %d are allowed", len(ref), maxRefBytes)
	case strings.ContainsFunc(ref, unicode.IsControl):
		return errors.New("control characters are not allowed")
	}
	return nil
}

// parseFindings reads the CSV of dlq export with verdicts filled in. A line that is
// wrong is a fault; the rest counts.
func parseFindings(text []byte) ([]finding, []fault, error) {
	var out []finding
	seen := map[jobs.ID]int{}
	faults, err := eachRow(text, []string{columnKind, columnKey, columnVerdict}, func(line int, cell func(string) string) error {
		if cell(columnVerdict) == "" {
			return nil
		}
		f, err := parseFinding(cell)
		if err != nil {
			return err
		}
		if before, twice := seen[f.id]; twice {
			return fmt.Errorf("%s stands in line %d already", f.id, before)
		}
		seen[f.id] = line
		out = append(out, f)
		return nil
	})
	return out, faults, err
}

func parseFinding(cell func(string) string) (finding, error) {
	id, err := jobs.ParseID(cell(columnKind) + "/" + cell(columnKey))
	if err != nil {
		return finding{}, err
	}
	verdict, err := jobs.Parse("verdict", strings.ReplaceAll(strings.ToLower(cell(columnVerdict)), "-", "_"), resolutions)
	if err != nil {
		return finding{}, err
	}
	ref := cell(columnRef)
	if ref != "" && verdict != ledger.ResolvedApplied {
		return finding{}, fmt.Errorf("%s: a ref is proof that it was applied, the verdict is %s", id, verdict)
	}
	if err := checkRef(ref); err != nil {
		return finding{}, fmt.Errorf("%s: ref: %w", id, err)
	}
	return finding{id, verdict, ref}, nil
}

func (p *program) resolve(ctx context.Context, args []string, f *resolveFlags) error {
	found, faults, err := f.findings(p, args)
	if err != nil {
		return err
	}
	if len(found) == 0 && len(faults) == 0 {
		p.say("no line has a verdict: nothing to resolve")
		return p.writeOutcome(outcome{Action: "resolve"})
	}
	end := ending{action: "resolve", past: "resolved", faults: faults}
	if len(found) == 0 {
		return p.end(end)
	}
	s, err := p.open(ctx, writes)
	if err != nil {
		return err
	}
	defer s.close()
	ids := make([]jobs.ID, len(found))
	for i := range found {
		ids[i] = found[i].id
	}
	set, err := s.named(ctx, ids)
	if err != nil {
		return err
	}
	who, err := s.actor(ctx, f.note)
	if err != nil {
		return err
	}
	do := func(ctx context.Context, i int, c chosen) (result, error) {
		done, err := s.ledger.Resolve(ctx, c.place.Dependency, c.place.ID, found[i].verdict, found[i].ref, s.known[c.place.ID.Kind].Retention, who)
		return resultOf(c.place.ID, done), err
	}
	end.batch, end.results, end.failed, err = (&bulk{verb: "resolve"}).several(ctx, s, set, &who, do)
	if err != nil {
		return err
	}
	return p.end(end)
}
