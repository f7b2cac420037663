package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/operator"
	"redrive/internal/remote"
)

// paused is the answer to pause and resume, as JSON.
type paused struct {
	Dependency jobs.Dependency `json:"dependency"`
	Credential *string         `json:"credential"` // null: all of the dependency
	Paused     bool            `json:"paused"`
	Until      *jobs.Instant   `json:"until"`  // null: until it is resumed
	Doomed     int             `json:"doomed"` // waiting operations whose deadline falls inside the pause
}

func (p *program) pauseCommand() *cobra.Command {
	var span time.Duration
	var note string
	cmd := &cobra.Command{
		Use:     "pause DEPENDENCY [--for SPAN] --note WHY",
		Short:   "Stop calls to a dependency",
		Long:    "pause stops attempts and inquiries of every operation of a dependency. Deadlines run on: it says how many waiting\noperations will miss theirs.",
		Example: `  enqueue pause payrail --for 8h --note "their maintenance"`,
		Args:    cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") && span <= 0 {
				return usagef("--for %s: must be above 0", span)
			}
			b, dep, err := p.openDependency(ctx, args[0], note)
			if err != nil {
				return err
			}
			defer b.close()
			answer, err := b.pause(ctx, dep, span, p.order(note))
			if err != nil {
				return err
			}
			return p.writePaused(answer)
		}),
	}
	cmd.Flags().DurationVar(&span, "for", 0, "resume by itself after this `span` (default: when it is resumed)")
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit (required)")
	p.completeDependencies(cmd, 1)
	return cmd
}

func (p *program) resumeCommand() *cobra.Command {
	var credential, note string
	cmd := &cobra.Command{
		Use:   "resume DEPENDENCY [--credential NAME] --note WHY",
		Short: "Let calls to a paused dependency, or under a paused credential, go on",
		Long: "resume ends a pause, whoever made it: a person, redrive because a credential was refused or Redis lost attempts, or the dependency\n" +
			"because it asked to wait. All paused credentials of the dependency go on too; with --credential that one alone.",
		Args: cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			single := cmd.Flags().Changed("credential")
			if single {
				if err := checkCredential(credential); err != nil {
					return err
				}
			}
			b, dep, err := p.openDependency(ctx, args[0], note)
			if err != nil {
				return err
			}
			defer b.close()
			answer, err := b.resume(ctx, dep, credential, p.order(note))
			if err != nil {
				return err
			}
			if err := p.writePaused(answer); err != nil || single {
				return err
			}
			return p.stillHeld(ctx, b, dep)
		}),
	}
	cmd.Flags().StringVar(&credential, "credential", "", "only the operations under this credential: its `name`")
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit (required)")
	p.completeDependencies(cmd, 1)
	return cmd
}

// stillHeld says what holds a dependency that is not paused any more, and how what came
// due meanwhile leaves.
func (p *program) stillHeld(ctx context.Context, b backend, dep jobs.Dependency) error {
	gates, err := b.gates(ctx, []string{string(dep)})
	if remote.Is(err, remote.Forbidden) {
		return nil // whose token may act and not look is told no more
	}
	if err != nil {
		return &noted{err, "it goes on; what still holds it is not known"}
	}
	g := gates[0]
	if g.Backlog.HeldBy != nil && *g.Backlog.HeldBy == jobs.HoldBreaker {
		p.say("its breaker is %s: probes try it by themselves, nothing else leaves before (enqueue gate %s)", strings.ReplaceAll(string(g.Breaker.State), "_", " "), dep)
	}
	if g.Backlog.Due > 0 {
		p.say("%s came due meanwhile: what waits leaves by tokens and the drain lane, at most %s/s of it; for more, for a while: enqueue gate override %s --drain N --for 1h",
			count(int(g.Backlog.Due), "operation"), decimal(deref(g.Drain.Most)), dep)
	}
	return nil
}

func checkCredential(name string) error {
	if err := jobs.CheckName(name); err != nil {
		return usagef("--credential: %w", err)
	}
	if name == jobs.DefaultCredential {
		return usagef("--credential %s: that is the dependency's own, which pauses all of it: resume it without --credential", name)
	}
	return nil
}

// openDependency opens what an action on a dependency is about, once it says why.
func (p *program) openDependency(ctx context.Context, name, note string) (backend, jobs.Dependency, error) {
	if err := jobs.CheckName(name); err != nil {
		return nil, "", usagef("dependency: %w", err)
	}
	if err := operator.CheckNote(note); err != nil {
		return nil, "", err
	}
	b, err := p.open(ctx, writes)
	return b, jobs.Dependency(name), err
}

func (p *program) writePaused(a paused) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(a)
	case asJSONL:
		return p.writeLine(a)
	}
	switch {
	case a.Credential != nil:
		p.print("credential %s of %s goes on", *a.Credential, a.Dependency)
	case !a.Paused:
		p.print("%s goes on", a.Dependency)
	case a.Until == nil:
		p.print("%s is paused until it is resumed", a.Dependency)
	default:
		p.print("%s is paused until %s", a.Dependency, instant(a.Until))
	}
	if a.Doomed > 0 {
		p.say("warning: %s will miss the deadline during the pause", count(a.Doomed, "waiting operation"))
	}
	return nil
}
