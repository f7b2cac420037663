package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

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
	cmd := &cobra.Command{
		Use:   "resolve KIND/KEY...|- --applied [--ref ID]|--not-applied|--written-off --note WHY",
		Short: "Say what a person found out about unknown outcomes",
		Long: "resolve settles dead letters that may have taken effect: --applied, they did (they become succeeded); --not-applied, they did\n" +
			"not (they stay dead letters and can be requeued); --written-off, nobody can tell (they become cancelled and keep saying so).\n" +
			"--from reads a CSV that dlq export wrote, with the columns verdict (applied, not_applied or written_off) and ref filled in;\n" +
			"lines without a verdict are passed over.",
		Example: `  enqueue resolve charge/order-1001 --applied --ref ch_3Nq --note "seen in the dashboard"
  enqueue dlq export --unknown -o csv --out unknown.csv
  enqueue resolve --from unknown.csv --note "checked by accounting"`,
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.resolve(ctx, args, f)
		}),
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.applied, "applied", false, "it took effect")
	fs.BoolVar(&f.notApplied, "not-applied", false, "it did not take effect")
	fs.BoolVar(&f.writtenOff, "written-off", false, "nobody can tell")
	fs.StringVar(&f.ref, "ref", "", "proof, such as the dependency's `id` of it")
	fs.StringVar(&f.from, "from", "", "CSV `file` (- for stdin) with columns kind, key, verdict and ref")
	fs.StringVar(&f.note, "note", "", "why, for the audit (required)")
	return cmd
}

// findings reads the command line, or the file it names.
func (f *resolveFlags) findings(stdin *bufio.Reader, args []string) ([]finding, error) {
	verdicts := 0
	verdict := ledger.Resolution("")
	for v, given := range map[ledger.Resolution]bool{ledger.ResolvedApplied: f.applied, ledger.ResolvedNotApplied: f.notApplied, ledger.WrittenOff: f.writtenOff} {
		if given {
			verdicts++
			verdict = v
		}
	}
	if err := checkNote(f.note); err != nil {
		return nil, err
	}
	if f.from != "" {
		if len(args) > 0 || verdicts > 0 || f.ref != "" {
			return nil, usagef("--from names operations, verdicts and refs itself: give none beside it")
		}
		return readFindings(stdin, f.from)
	}
	switch {
	case len(args) == 0:
		return nil, usagef("name the operations (KIND/KEY...), - to read them from stdin, or --from FILE")
	case slices.Contains(args, "-") && len(args) > 1:
		return nil, usagef("- reads all operations from stdin: name no others beside it")
	case verdicts != 1:
		return nil, usagef("give one of --applied, --not-applied and --written-off")
	case f.ref != "" && !f.applied:
		return nil, usagef("--ref is proof that it was applied: it goes with --applied")
	}
	if err := checkRef(f.ref); err != nil {
		return nil, usagef("--ref: %w", err)
	}
	ids, err := namedOperations(stdin, args)
	if err != nil {
		return nil, err
	}
	out := make([]finding, len(ids))
	for i, id := range ids {
		out[i] = finding{id, verdict, f.ref}
	}
	return out, nil
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

func readFindings(stdin *bufio.Reader, path string) ([]finding, error) {
	in := io.Reader(stdin)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, usagef("--from: %w", err)
		}
		defer f.Close() // only read from
		in = f
	}
	out, err := parseFindings(in)
	if err != nil {
		return nil, usagef("--from %s: %w", path, err)
	}
	return out, nil
}

// parseFindings reads the CSV of dlq export as a spreadsheet may have saved it: with
// a byte order mark, with semicolons or tabs, with other columns in any order.
func parseFindings(in io.Reader) ([]finding, error) {
	buffered := bufio.NewReader(in)
	head, _ := buffered.Peek(4096) // an error shows again below
	if bytes.HasPrefix(head, byteOrderMark) {
		_, _ = buffered.Discard(len(byteOrderMark))
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	r := csv.NewReader(buffered)
	r.FieldsPerRecord = -1
	for _, comma := range []rune{';', '\t'} {
		if !bytes.ContainsRune(first, ',') && bytes.ContainsRune(first, comma) {
			r.Comma = comma
		}
	}
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read its header: %w", err)
	}
	column := map[string]int{}
	for i, name := range header {
		column[strings.ToLower(strings.TrimSpace(name))] = i
	}
	for _, name := range []string{columnKind, columnKey, columnVerdict} {
		if _, ok := column[name]; !ok {
			return nil, fmt.Errorf("its header has no column %q", name)
		}
	}
	var out []finding
	seen := map[jobs.ID]int{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err // names its line and column
		}
		line, _ := r.FieldPos(0)
		cell := func(name string) string {
			if i, ok := column[name]; ok && i < len(record) {
				return plainCell(strings.TrimSpace(record[i]))
			}
			return ""
		}
		if cell(columnVerdict) == "" {
			continue
		}
		f, err := parseFinding(cell)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if before, twice := seen[f.id]; twice {
			return nil, fmt.Errorf("line %d: %s stands in line %d already", line, f.id, before)
		}
		seen[f.id] = line
		out = append(out, f)
	}
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
	found, err := f.findings(p.stdin, args)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		p.say("no line has a verdict: nothing to resolve")
		return p.writeOutcome(outcome{Action: "resolve"})
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
	if len(set) == 1 {
		who.Batch = ""
	} else if err := (&bulk{verb: "resolve"}).record(ctx, s, nil, set, who); err != nil {
		return err
	}
	results, failed := p.carryOut(ctx, set, func(ctx context.Context, i int, c chosen) (result, error) {
		done, err := s.ledger.Resolve(ctx, c.place.Dependency, c.place.ID, found[i].verdict, found[i].ref, s.known[c.place.ID.Kind].Retention, who)
		return resultOf(c.place.ID, done), err
	})
	return p.writeResults("resolve", "resolved", who.Batch, results, failed)
}
