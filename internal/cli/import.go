package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
)

func (p *program) importCommand() *cobra.Command {
	var rejectsPath string
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Submit one operation per line of JSON",
		Long: "import submits each line of FILE (- is stdin). Blank lines and lines that begin with # are skipped. A line that is wrong\n" +
			"does not stop the rest; it is told with line and column, and goes unchanged to --rejects. Importing a file again is safe:\n" +
			"what is known is a duplicate. Ends with 3 if some lines were not taken.",
		Example: `  enqueue import charges.jsonl --rejects rejected.jsonl
  export-failed-charges | enqueue import - -o json`,
		Args: cobra.ExactArgs(1),
		RunE: p.command(unlimited, []string{asTable, asJSON, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.importFile(ctx, args[0], rejectsPath)
		}),
	}
	cmd.Flags().StringVar(&rejectsPath, "rejects", "", "write lines that were not taken to this new `file`")
	return cmd
}

func (p *program) importFile(ctx context.Context, path, rejectsPath string) (err error) {
	in, size := io.Reader(p.stdin), int64(-1)
	if path != "-" {
		f, err := await(ctx, func() (*os.File, error) { return os.Open(path) })
		if err != nil {
			return inputError(ctx, "import", err)
		}
		defer f.Close() // only read from
		info, err := f.Stat()
		if err != nil {
			return usagef("import: %w", err)
		}
		if info.IsDir() {
			return usagef("import: %s is a directory", path)
		}
		in = f
		if info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	b, err := p.open(ctx, writes)
	if err != nil {
		return err
	}
	defer b.close()
	tracer, stopTracing := p.tracing(ctx)
	defer stopTracing()
	im, err := b.importer(ctx, tracer)
	if err != nil {
		return err
	}
	r, err := createRejects(rejectsPath)
	if err != nil {
		return err
	}
	t := newTally(p, r, newBar(p, size))
	if p.flags.output == asJSONL {
		t.each = p.writeAnswer
	}
	failed := im.run(ctx, newLineReader(in), t)
	if closed := r.close(); failed == nil {
		failed = closed
	}
	t.finish()
	return p.endImport(ctx, t, failed)
}

// writeAnswer is one line of -o jsonl.
func (p *program) writeAnswer(line int, r jobs.Receipt) error {
	return p.writeLine(struct {
		Line int `json:"line"`
		jobs.Receipt
	}{line, r})
}

// endImport writes the counts, and says what is sure if it ended early.
func (p *program) endImport(ctx context.Context, t *tally, failed error) error {
	sum := t.summary()
	if failed != nil {
		sure := sum.Accepted + sum.Duplicate
		failed = &noted{failed, fmt.Sprintf("%s surely taken; importing the same file again is safe", count(sure, "line"))}
		text := failed.Error()
		if fromStore(failed) && !outOfTime(ctx) {
			text = p.storeText(failed)
		}
		sum.Error = &text
	}
	switch p.flags.output {
	case asJSON:
		if err := p.writeJSON(sum); err != nil {
			return err
		}
	case asTable:
		g := grid{header: []string{"answer", "lines"}}
		for _, answer := range t.sortedAnswers() {
			g.add(string(answer), strconv.Itoa(t.answers[answer]))
		}
		p.table(g)
		p.say("%s in %.1f s, %.0f per second", count(sum.Lines, "line"), sum.Seconds, sum.PerSecond)
		if sum.Merged > 0 {
			p.say("%s told of sends that were not known yet: they were added", count(sum.Merged, "line"))
		}
	}
	switch {
	case failed == nil:
		return exitWith(t.code())
	case ctx.Err() != nil && errors.Is(failed, context.Canceled):
		return &failure{exitError, fmt.Errorf("interrupted; %s surely taken; importing the same file again is safe", count(sum.Accepted+sum.Duplicate, "line"))}
	}
	return failed
}
