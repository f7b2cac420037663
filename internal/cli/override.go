package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/wire"
)

// overrideAnswer is the JSON of what an override, or its end, came to.
type overrideAnswer struct {
	Dependency jobs.Dependency `json:"dependency"`
	Override   *wire.Override  `json:"override"` // in force now
	Replaced   *wire.Override  `json:"replaced"` // in force before
	Warnings   []string        `json:"warnings"`
}

// inForceText tells of an override in a line.
func inForceText(o *wire.Override) string {
	return fmt.Sprintf("%s until %s, by %s: %s", knobsText(o.Values), instant(o.Until), o.By, orDash(o.Note))
}

func (p *program) overrideCommand() *cobra.Command {
	var span time.Duration
	var note string
	cmd := &cobra.Command{
		Use:   "override DEPENDENCY [--ratio N] [--cap N] [--floor N] [--rate N] [--drain N] [--max-in-flight N] --for SPAN --note WHY",
		Short: "Replace limits of a dependency's gate for a while",
		Long: "override replaces limits of a dependency's gate for all processes. It ends by itself, whether or not anything runs then, and\n" +
			"replaces an earlier override whole: what is not given again is as configured.",
		Example: `  enqueue gate override payrail --ratio 0.3 --floor 5 --for 30m --note "they confirmed headroom"`,
		Args:    cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			values, err := givenKnobs(cmd)
			if err != nil {
				return err
			}
			switch {
			case !cmd.Flags().Changed("for"):
				return usagef("--for is required: an override ends by itself, after %s at most", hours(ledger.MaxOverride))
			case span < time.Second || span > ledger.MaxOverride:
				return usagef("--for %s: must be at least 1s and at most %s", span, hours(ledger.MaxOverride))
			}
			b, dep, err := p.openDependency(ctx, args[0], note)
			if err != nil {
				return err
			}
			defer b.close()
			answer, err := b.override(ctx, dep, values, span, p.order(note))
			if err != nil {
				return err
			}
			return p.writeOverride(answer)
		}),
	}
	knobFlags(cmd)
	cmd.Flags().DurationVar(&span, "for", 0, "end it after this `span`, at most 24h (required)")
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit (required)")
	p.completeDependencies(cmd, 1)
	return cmd
}

func (p *program) clearCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "clear DEPENDENCY --note WHY",
		Short: "End an override before its time",
		Args:  cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			b, dep, err := p.openDependency(ctx, args[0], note)
			if err != nil {
				return err
			}
			defer b.close()
			answer, err := b.clearOverride(ctx, dep, p.order(note))
			if err != nil {
				return err
			}
			return p.writeOverride(answer)
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit (required)")
	p.completeDependencies(cmd, 1)
	return cmd
}

func (p *program) writeOverride(a overrideAnswer) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(a)
	case asJSONL:
		return p.writeLine(a)
	}
	switch {
	case a.Override != nil:
		p.print("%s: %s until %s", a.Dependency, knobsText(a.Override.Values), instant(a.Override.Until))
		if a.Replaced != nil {
			p.print("replaced: %s", inForceText(a.Replaced))
		}
	case a.Replaced != nil:
		p.print("%s is as configured again", a.Dependency)
		p.print("ended: %s", inForceText(a.Replaced))
	default:
		p.print("%s: no override was in force", a.Dependency)
	}
	for _, w := range a.Warnings {
		p.say("warning: %s", w)
	}
	return nil
}

// hours writes a span of whole hours as flags are written.
func hours(d time.Duration) string { return fmt.Sprintf("%dh", int(d.Hours())) }
