package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
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
			s, dep, err := p.openDependency(ctx, args[0], note)
			if err != nil {
				return err
			}
			defer s.close()
			state, err := s.ledger.Pause(ctx, dep, span, ledger.Actor{By: p.by(), Note: note})
			if err != nil {
				return err
			}
			answer := paused{Dependency: dep, Paused: true, Doomed: state.Doomed}
			if !state.Until.IsZero() {
				answer.Until = jobs.At(state.Until)
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
			s, dep, err := p.openDependency(ctx, args[0], note)
			if err != nil {
				return err
			}
			defer s.close()
			if single {
				return s.resumeCredential(ctx, dep, credential, note)
			}
			if err := s.ledger.Resume(ctx, dep, ledger.Actor{By: p.by(), Note: note}); err != nil {
				return err
			}
			if err := p.writePaused(paused{Dependency: dep}); err != nil {
				return err
			}
			return s.stillHeld(ctx, dep)
		}),
	}
	cmd.Flags().StringVar(&credential, "credential", "", "only the operations under this credential: its `name`")
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit (required)")
	p.completeDependencies(cmd, 1)
	return cmd
}

// stillHeld says what holds a dependency that is not paused any more, and how what came
// due meanwhile leaves.
func (s *session) stillHeld(ctx context.Context, dep jobs.Dependency) error {
	state, err := s.ledger.Gate(ctx, dep)
	if err != nil {
		return err
	}
	if backlog, _ := state.Hold(); backlog == jobs.HoldBreaker {
		s.p.say("its breaker is %s: probes try it by themselves, nothing else leaves before (enqueue gate %s)", strings.ReplaceAll(string(state.Gate.State), "_", " "), dep)
	}
	if state.Backlog > 0 {
		s.p.say("%s came due meanwhile: what waits leaves by tokens and the drain lane, at most %s/s of it; for more, for a while: enqueue gate override %s --drain N --for 1h",
			count(int(state.Backlog), "operation"), decimal(float64(state.InForce.DrainMilliPerSecond)/1000), dep)
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

func (s *session) resumeCredential(ctx context.Context, dep jobs.Dependency, credential, note string) error {
	state, err := s.ledger.Gate(ctx, dep)
	if err != nil {
		return err
	}
	if _, paused := state.PausedCredentials[credential]; !paused {
		which := "none is"
		if names := slices.Sorted(maps.Keys(state.PausedCredentials)); len(names) > 0 {
			which = join(names) + " are"
		}
		return &failure{exitConflict, fmt.Errorf("credential %q of %s is not paused: %s", credential, dep, which)}
	}
	if err := s.ledger.ResumeCredential(ctx, dep, credential, ledger.Actor{By: s.p.by(), Note: note}); err != nil {
		return err
	}
	return s.p.writePaused(paused{Dependency: dep, Credential: &credential})
}

// openDependency is openKnown for an action, which has to say why.
func (p *program) openDependency(ctx context.Context, name, note string) (*session, jobs.Dependency, error) {
	if err := jobs.CheckName(name); err != nil {
		return nil, "", usagef("dependency: %w", err)
	}
	if err := operator.CheckNote(note); err != nil {
		return nil, "", err
	}
	return p.openKnown(ctx, name)
}

// openKnown connects to write, and makes sure that the namespace knows the dependency:
// a typo would pause nothing and say so to nobody.
func (p *program) openKnown(ctx context.Context, name string) (*session, jobs.Dependency, error) {
	if err := jobs.CheckName(name); err != nil {
		return nil, "", usagef("dependency: %w", err)
	}
	s, err := p.open(ctx, writes)
	if err != nil {
		return nil, "", err
	}
	dep := jobs.Dependency(name)
	deps, err := s.op.Dependencies(ctx)
	if err == nil && !slices.Contains(deps, dep) {
		err = s.noDependency(dep, deps)
	}
	if err != nil {
		s.close()
		return nil, "", err
	}
	return s, dep, nil
}

func (s *session) noDependency(dep jobs.Dependency, known []jobs.Dependency) error {
	list := "none is"
	if len(known) > 0 {
		list = join(known) + " are"
	}
	return &failure{exitNotFound, fmt.Errorf("no dependency %q in namespace %s: %s known", dep, s.ledger.Namespace(), list)}
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
