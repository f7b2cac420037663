package app

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"redrive/internal/config"
	"redrive/internal/gateway/presets"
)

func (p *program) presetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "presets",
		Short: "List what is known of well-known gateways",
		Long: `List what is known of well-known gateways: dependencies.NAME.preset puts one into
force. It needs neither a configuration nor a Redis.`,
		Args: cobra.NoArgs,
		RunE: p.begin(func(*cobra.Command, []string) error { return p.listPresets() }),
	}
	var output string
	show := &cobra.Command{
		Use:   "show NAME",
		Short: "Print what a preset puts into force, why, and what is not known",
		Args:  cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return config.PresetNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	show.Flags().StringVarP(&output, "output", "o", "text", "text, or yaml: the file as it is part of the program")
	show.RunE = p.begin(func(_ *cobra.Command, args []string) error { return p.showPreset(args[0], output) })
	c.AddCommand(show)
	return c
}

func (p *program) listPresets() error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tCLASS\tKEY HEADER\tWINDOW\tRULES\tINQUIRY\tGATEWAY")
	for _, name := range config.PresetNames() {
		preset, _, err := config.FindPreset(name)
		if err != nil {
			return err
		}
		inquiry := "-"
		if preset.Inquiry != nil {
			inquiry = preset.Inquiry.Method + " " + preset.Inquiry.Path
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", name, preset.Idempotency.Value, cmp.Or(preset.Header.Value, "-"), windowText(preset, "-"), len(preset.Rules), inquiry, preset.Title)
	}
	return w.Flush()
}

func (p *program) showPreset(name, output string) error {
	if err := oneOf("output", output, "text", "yaml"); err != nil {
		return err
	}
	preset, ok, err := config.FindPreset(name)
	switch {
	case err != nil:
		return err
	case !ok:
		return usageErrorf("unknown preset %q%s", name, config.NearestPreset(name))
	}
	if output == "yaml" {
		data, _ := presets.File(name)
		_, err := p.stdout.Write(data)
		return err
	}
	_, err = io.WriteString(p.stdout, presetText(preset))
	return err
}

// presetText is all of a preset for people, without long lines being broken: a
// terminal does that.
func presetText(p *config.Preset) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	key := func(name, value, text, source string, c config.Confidence) {
		line("  %-11s %s", name, joinNonEmpty(": ", value, text))
		line("              %s", origin(source, c))
	}
	line("%s: %s", p.Name, p.Title)
	line("\nIdempotency")
	key("class", string(p.Idempotency.Value), p.Idempotency.Text, p.Idempotency.Source, p.Idempotency.Confidence)
	key("header", cmp.Or(p.Header.Value, "none"), p.Header.Text, p.Header.Source, p.Header.Confidence)
	key("window", windowText(p, "not known"), p.Window.Text, p.Window.Source, p.Window.Confidence)
	if p.MaxLength.Value > 0 {
		key("max_length", fmt.Sprint(p.MaxLength.Value), p.MaxLength.Text, p.MaxLength.Source, p.MaxLength.Confidence)
	} else {
		line("  %-11s %s", "max_length", "not known")
	}
	if mark := p.Replayed.Value.String(); mark != "" {
		key("replayed", mark, p.Replayed.Text, p.Replayed.Source, p.Replayed.Confidence)
	}

	line("\nRules, asked behind those of the configuration, before the built-in table")
	if len(p.Rules) == 0 {
		line("  none")
	}
	for _, r := range p.Rules {
		after := ""
		if r.Value.After > 0 {
			after = ", after " + r.Value.After.String()
		}
		again := ""
		if r.Value.Again != "" {
			again = ", again " + string(r.Value.Again)
		}
		line("  %s/%s: %s%s, processed %s%s", p.Name, r.Value.Name, r.Value.Verdict, after, r.Value.Processed, again)
		line("    when %s", strings.Join(strings.Fields(r.Value.When), " "))
		line("    %s", r.Text)
		line("    %s", origin(r.Source, r.Confidence))
	}

	line("\nInquiry, of kinds that name none")
	if q := p.Inquiry; q != nil {
		line("  of %s %s, where %s: %s %s", q.Method, q.Path, q.Needs, q.Inquiry.Value.Method, q.Inquiry.Value.Path)
		line("    %s; -o yaml shows how its answers are read", q.Inquiry.Text)
		line("    %s", origin(q.Inquiry.Source, q.Inquiry.Confidence))
	} else {
		line("  none: %s", p.NoInquiry)
	}

	if len(p.Templates) > 0 {
		line("\nWhat undoes an operation: for a kind of your own, not in force")
	}
	for _, t := range p.Templates {
		line("  %s: %s", t.Value.Name, joinNonEmpty(", ", t.Value.Request.Method+" "+t.Value.Request.Path, t.Value.Request.ContentType))
		line("    %s", t.Text)
		line("    %s", origin(t.Source, t.Confidence))
	}
	facts(line, "To know", p.Notes)
	facts(line, "Uncertain, and not in force", p.Uncertain)
	line("\nSources")
	for _, s := range p.Sources {
		line("  %-12s %s", s.Name, s.Ref)
	}
	return b.String()
}

// windowText is how long keys are kept, unknown where that is not known.
func windowText(p *config.Preset, unknown string) string {
	if p.Window.Value == 0 {
		return unknown
	}
	return strings.TrimSuffix(p.Window.Value.String(), "0m0s") // whole hours, all of them
}

func facts(line func(string, ...any), title string, list []config.PresetFact[string]) {
	if len(list) == 0 {
		return
	}
	line("\n%s", title)
	for _, f := range list {
		line("  - %s", f.Text)
		line("    %s", origin(f.Source, f.Confidence))
	}
}

// origin says how well something is known, and from where.
func origin(source string, c config.Confidence) string { return fmt.Sprintf("[%s: %s]", c, source) }

func joinNonEmpty(separator, a, b string) string {
	if b == "" {
		return a
	}
	return a + separator + b
}
