package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"redrive/internal/config"
	"redrive/internal/outage"
	"redrive/internal/picture"
	"redrive/internal/rehearsal"
)

func (p *program) rehearseCommand() *cobra.Command {
	o := outage.Options{}
	var folder, store, output string
	c := &cobra.Command{
		Use:   "rehearse SCENARIO",
		Short: "Play an outage, beside two clients that retry at once, and write a report of it",
		Long: `Play an outage, beside two clients that retry at once, and write a report of it.

The same orders go to the same misbehaving gateway three times: from a client that
retries three times in the request, from three layers that each try three times, and
from this system, with a real request path, workers and store. Everything runs in
this process, some times faster than in life, and needs no configuration.

Without a scenario they are listed. The report is written into a folder: report.html
for people, one file that needs no network, and report.json for programs; what an
earlier rehearsal left there under these names is replaced. The exit code is 1 if a
target was missed.

With --against it is played against a sandbox of your own (worker sandbox), by this
system alone. It has to be on this machine, or named by --allow, and must not have
been charged yet.

Scenarios:
` + strings.TrimSuffix(scenarioList(), "\n"),
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, s := range outage.Scenarios() {
				names = append(names, cobra.CompletionWithDesc(s.Name, s.Text))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&folder, "out", "", "`folder` of the report (default ./rehearsal-SCENARIO)")
	c.Flags().Float64Var(&o.Speed, "speed", 0, fmt.Sprintf("how many times as fast as in life, 1 to %v (default the scenario's own)", outage.MaxSpeed))
	c.Flags().Uint64Var(&o.Seed, "seed", rand.Uint64N(1_000_000), "`number` that everything drawn is drawn from")
	c.Flags().StringVar(&o.Against, "against", "", "`URL` of a sandbox of your own to play against")
	c.Flags().StringArrayVar(&o.Allow, "allow", nil, "`host` that --against may name beside this machine; may be given several times")
	c.Flags().StringVar(&store, "store", string(rehearsal.StoreAuto), "where operations are kept: "+joinWords(rehearsal.StoreChoices))
	c.Flags().StringVarP(&output, "output", "o", "table", "form of the report on standard output: table or json")
	c.Flags().Lookup("seed").DefValue = "random"
	c.RunE = p.begin(func(c *cobra.Command, args []string) error {
		o.Store = rehearsal.StoreChoice(store)
		if c.Flags().Changed("against") && o.Against == "" {
			return usageErrorf("--against: want the URL of a sandbox")
		}
		if err := checkRehearse(o, c.Flags().Changed("speed"), output); err != nil {
			return err
		}
		if len(args) == 0 {
			_, err := io.WriteString(p.stdout, scenarioList())
			return err
		}
		var err error
		if o.Scenario, err = outage.Find(args[0]); err != nil {
			return usageErrorf("unknown scenario %q: want one of\n%s", args[0], strings.TrimSuffix(scenarioList(), "\n"))
		}
		if folder == "" {
			folder = "rehearsal-" + o.Scenario.Name
		}
		ctx, done := p.interruptible(c.Context())
		defer done()
		return p.rehearse(ctx, o, folder, output)
	})
	return c
}

// scenarioList is a line for each scenario.
func scenarioList() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range outage.Scenarios() {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Text)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func checkRehearse(o outage.Options, speedGiven bool, output string) error {
	if speedGiven && !(o.Speed >= 1 && o.Speed <= outage.MaxSpeed) {
		return usageErrorf("--speed %v: want 1 to %v", o.Speed, outage.MaxSpeed)
	}
	if len(o.Allow) > 0 && o.Against == "" {
		return usageErrorf("--allow %s: there is nothing to allow without --against", o.Allow[0])
	}
	if err := oneOf("store", string(o.Store), "auto", "redis", "memory"); err != nil {
		return err
	}
	return oneOf("output", output, "table", "json")
}

func (p *program) rehearse(ctx context.Context, o outage.Options, folder, output string) error {
	abandon, err := reserve(folder)
	if err != nil {
		return err
	}
	// What workers log would tear the picture apart; whoever asks for it gets it.
	const nothing = slog.LevelError + 1
	wanted := p.flags.LogLevel != "" || p.getenv(config.EnvLogLevel) != ""
	o.ShowFunc = outage.Lines(p.stderr)
	if columns(p.stderr) >= picture.Width && !wanted {
		o.ShowFunc = outage.Table(p.stderr, colour(p.stderr, p.getenv))
	}
	if o.Log, err = p.flagLogger(nothing); err != nil {
		abandon()
		return err
	}
	report, err := p.rehearseFunc(ctx, o)
	switch {
	case err == context.Canceled: // alone: nothing went wrong beside it
		abandon()
		return errors.New("interrupted: everything was stopped in order, there is no report")
	case err != nil:
		abandon()
		return err
	}
	written, writeErr := writeReport(report, folder)
	// A folder that filled up meanwhile must not take what was played with it.
	show := func(w io.Writer) error { return report.WriteText(w, colour(p.stdout, p.getenv)) }
	if output == "json" {
		show = report.WriteJSON
	}
	if err := show(p.stdout); err != nil {
		return errors.Join(fmt.Errorf("write the report: %w", err), writeErr)
	}
	for _, path := range written {
		fmt.Fprintf(p.stderr, "written: %s\n", path)
	}
	if writeErr != nil {
		return writeErr
	}
	if !report.Reached() {
		return errSaid
	}
	return nil
}

// reserve makes the folder of a report, and finds out whether files can be written
// there before a minute is spent on playing. abandon removes what it made.
func reserve(folder string) (abandon func(), err error) {
	_, missing := os.Stat(folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the report: %w", err)
	}
	abandon = func() {
		if missing != nil {
			_ = os.Remove(folder) // which removes only what is empty
		}
	}
	probe, err := os.CreateTemp(folder, ".report-*")
	if err != nil {
		abandon()
		return nil, fmt.Errorf("folder of the report: %w", err)
	}
	_, err = probe.WriteString("x")
	if err := errors.Join(err, probe.Close(), os.Remove(probe.Name())); err != nil {
		abandon()
		return nil, fmt.Errorf("folder of the report: %w", err)
	}
	for _, name := range []string{"report.html", "report.json"} {
		// An old report is replaced; what is no file, or not ours to write, is in the way.
		f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("folder of the report: %w", err)
		}
	}
	return abandon, nil
}

// writeReport writes the files of a report and returns the paths of those that are
// whole.
func writeReport(r *outage.Report, folder string) (written []string, err error) {
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{"report.html", r.WriteHTML}, {"report.json", r.WriteJSON}} {
		var b bytes.Buffer
		if err := file.write(&b); err != nil {
			return written, err
		}
		path := filepath.Join(folder, file.name)
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			return written, fmt.Errorf("write the report: %w", err)
		}
		written = append(written, path)
	}
	return written, nil
}
