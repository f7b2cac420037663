package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/wire"
)

func (p *program) exportCommand() *cobra.Command {
	f := &filters{}
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "export [FILTERS] -o jsonl|csv [--out FILE]",
		Short: "Write dead letters out: to import again, or for a spreadsheet",
		Long: "export writes dead letters to stdout or to --out. -o jsonl (the default) writes submissions that import takes: into the same\n" +
			"namespace they are duplicates, into another they go on there, and none that may have taken effect is resent unless that is\n" +
			"safe. It holds the payload, so it is written to the audit. -o csv is for spreadsheets; with verdict and ref filled in it\n" +
			"goes to resolve --from.",
		Example: `  enqueue dlq export --reason deadline --out late.jsonl
  enqueue dlq export --unknown -o csv --out unknown.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("output") {
				p.flags.output = asJSONL
			}
			return p.command(unlimited, []string{asJSONL, asCSV}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
				return p.export(ctx, cmd, f, out, force)
			})(cmd, args)
		},
	}
	f.register(cmd, filterFlags{})
	cmd.Flags().StringVar(&out, "out", "", "write to this `file`, for its owner only, instead of stdout")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite --out if it exists")
	return cmd
}

func (p *program) export(ctx context.Context, cmd *cobra.Command, f *filters, path string, force bool) (err error) {
	if path != "" && !force {
		if _, err := os.Lstat(path); err == nil {
			return usagef("--out %s exists: --force overwrites it", path)
		}
	}
	a := reads
	if p.flags.output == asJSONL {
		a = writes
	}
	b, err := p.openFiltered(ctx, a, f)
	if err != nil {
		return err
	}
	defer b.close()
	var table []jobs.Operation
	if p.flags.output == asCSV { // before the file: an error leaves none behind
		if table, err = p.deadOperations(ctx, b, f); err != nil {
			return err
		}
	}
	w := io.Writer(p.stdout)
	if path != "" {
		file, err := newOutFile(path)
		if err != nil {
			return usagef("--out: %w", err)
		}
		defer func() { err = file.close(err) }()
		w = file.w
	}
	if p.flags.output == asCSV {
		if err := operationsCSV(w, table); err != nil {
			return err
		}
		p.say("exported %s", count(len(table), "dead letter"))
		return nil
	}
	return p.exportLines(ctx, b, w, f)
}

func (p *program) deadOperations(ctx context.Context, b backend, f *filters) ([]jobs.Operation, error) {
	words := f.FilterWords
	words.States = []string{string(jobs.Dead)}
	found, err := b.list(ctx, &words)
	for i := range found.Items {
		found.Items[i] = wire.Hidden(found.Items[i])
	}
	return found.Items, err
}

// exportLines writes submissions, as they are read.
func (p *program) exportLines(ctx context.Context, b backend, w io.Writer, f *filters) error {
	written, left := 0, 0
	err := b.export(ctx, &f.FilterWords, func(sub *jobs.Submission) error {
		written++
		return writeSubmission(w, sub)
	}, func(why string) {
		left++
		p.say("not exported: %s", why)
	})
	if err != nil {
		return err
	}
	p.say("exported %s", count(written, "dead letter"))
	switch {
	case left > 0 && written > 0:
		return exitWith(exitPartly)
	case left > 0:
		return exitWith(exitConflict)
	}
	return nil
}

// writeSubmission writes one line. A body with characters that a terminal would obey
// goes in as text, where they can be escaped without changing a byte of it.
func writeSubmission(w io.Writer, sub *jobs.Submission) error {
	if sub.Body != nil && strings.ContainsFunc(string(sub.Body), hidden) {
		text := string(sub.Body)
		sub.Body, sub.BodyText = nil, &text
	}
	line, err := encode(sub, false)
	if err != nil {
		return err
	}
	if _, err := w.Write(line); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// outFile is a file that appears under its name only when it is complete.
type outFile struct {
	path string
	file *os.File
	w    *bufio.Writer
}

// newOutFile writes beside path; only its owner may read it.
func newOutFile(path string) (*outFile, error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return nil, err
	}
	return &outFile{path: path, file: file, w: bufio.NewWriter(file)}, nil
}

// close gives the file its name, or removes it when failed says that it is not whole.
func (o *outFile) close(failed error) error {
	var partly *failure
	whole := failed == nil || errors.As(failed, &partly) && partly.code == exitPartly
	err := o.w.Flush()
	if closed := o.file.Close(); err == nil {
		err = closed
	}
	if err == nil && whole {
		err = os.Rename(o.file.Name(), o.path)
	}
	if err != nil || !whole {
		_ = os.Remove(o.file.Name()) // the error that matters is told
	}
	if failed == nil && err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	return failed
}
