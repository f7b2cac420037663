package app

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"redrive/internal/analysis"
)

// policyCommand prints the retry decision record.
func (p *program) policyCommand() *cobra.Command {
	load := analysis.DefaultLoad()
	var output string
	c := &cobra.Command{
		Use:   "policy",
		Short: "Print the retry decision record: what the configuration decides, and what that leads to under load",
		Long: `Print the retry decision record: for each kind when it is retried and how often, what
each answer leads to, what keeps an effect from happening twice, how long slots are held
and when they are exhausted, and what tells of trouble. Findings come first, worst first.

It looks at the file alone and needs neither secrets nor Redis. The figures are for a
load, which stands in the record; state your own with the flags.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVarP(&output, "output", "o", "md", "md or json")
	loadFlags(c, &load)
	c.RunE = p.begin(func(*cobra.Command, []string) error {
		if err := oneOf("output", output, "md", "json"); err != nil {
			return err
		}
		if err := checkLoad(load); err != nil {
			return err
		}
		cfg, err := p.open()
		if err != nil {
			return err
		}
		record := analysis.Build(cfg, load)
		if output == "md" {
			return record.WriteMarkdown(p.stdout)
		}
		enc := json.NewEncoder(p.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(record)
	})
	return c
}

// loadFlags are the load that policy and check work with.
func loadFlags(c *cobra.Command, l *analysis.Load) {
	c.Flags().Float64Var(&l.PerSecond, "load", l.PerSecond, "first attempts per second at each dependency, of all processes (0: half of its rate, 1 without one)")
	c.Flags().Float64Var(&l.Failing, "failing", l.Failing, "share of the calls that run into the timeout, 0 to 1")
	c.Flags().IntVar(&l.Processes, "processes", l.Processes, "workers that share each dependency")
	c.Flags().IntVar(&l.ResendsInRequest, "resends-in-request", l.ResendsInRequest, "how often a request path sends again inside its own slot")
	c.Flags().DurationVar(&l.Outage, "outage", l.Outage, "how long a dependency is away, its backlog growing")
}

func checkLoad(l analysis.Load) error {
	if err := l.Validate(); err != nil {
		return &usageError{err}
	}
	return nil
}

// findings says what the analysis finds, each under its severity.
func (k *check) findings(load analysis.Load) {
	for _, f := range analysis.Findings(k.c, load) {
		text := fmt.Sprintf("%s\nright: %s (%s)", f, strings.TrimSuffix(f.Want, "."), f.ID)
		switch f.Severity {
		case analysis.Error:
			k.wrong("%s", text)
		case analysis.Warning:
			k.warn("%s", text)
		default:
			k.say(string(f.Severity), "%s", text)
		}
	}
}
