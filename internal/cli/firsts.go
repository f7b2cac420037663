package cli

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"

	"github.com/spf13/cobra"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// maxFirsts is how many first attempts one command may tell of: more is a mistake.
const maxFirsts = 1_000_000

// firstsAnswer is the JSON of first-attempts.
type firstsAnswer struct {
	Dependency jobs.Dependency `json:"dependency"`
	Counted    int64           `json:"counted"`
	Breaker    budget.State    `json:"breaker"`
	HeldBy     *jobs.Hold      `json:"held_by"` // why nothing should be sent now
	Until      *jobs.Instant   `json:"until"`   // until when that lasts at least; null: nothing holds, or until it is resumed
}

func (p *program) firstsCommand() *cobra.Command {
	var f ledger.Firsts
	cmd := &cobra.Command{
		Use:   "first-attempts DEPENDENCY [--ok N] [--failed N] [--timed-out N]",
		Short: "Tell what a request path sent by itself, and how it ended",
		Long: "first-attempts counts first attempts that a request path made by itself: they fill the retry budget, and their results\n" +
			"feed the breaker. Tell of each once: the same command again counts again. Gather them and tell every second or so. The answer says\n" +
			"what the breaker lets through, and until when nothing should be sent.",
		Example: "  enqueue first-attempts payrail --ok 96 --failed 3 --timed-out 1 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := checkFirsts(f); err != nil {
				return err
			}
			if err := jobs.CheckName(args[0]); err != nil {
				return usagef("dependency: %w", err)
			}
			b, err := p.open(ctx, writes)
			if err != nil {
				return err
			}
			defer b.close()
			// Of a run of its own: a reply that got lost on the way is not counted again.
			f.Process, f.Seq, f.Jitter = "enqueue-"+rand.Text(), 1, mathrand.Int64N(1001)
			answer, err := b.firstAttempts(ctx, jobs.Dependency(args[0]), f)
			if err != nil {
				return err
			}
			return p.writeFirsts(answer)
		}),
	}
	cmd.Flags().Int64Var(&f.OK, "ok", 0, "`n` that the dependency answered, also by declining")
	cmd.Flags().Int64Var(&f.Failed, "failed", 0, "`n` that failed: no connection, reset, 5xx, 429")
	cmd.Flags().Int64Var(&f.TimedOut, "timed-out", 0, "`n` without an answer in time")
	p.completeDependencies(cmd, 1)
	return cmd
}

func checkFirsts(f ledger.Firsts) error {
	for _, c := range []struct {
		flag string
		n    int64
	}{{"ok", f.OK}, {"failed", f.Failed}, {"timed-out", f.TimedOut}} {
		if c.n < 0 || c.n > maxFirsts {
			return usagef("--%s %d is not from 0 to %d", c.flag, c.n, maxFirsts)
		}
	}
	switch sum := f.OK + f.Failed + f.TimedOut; {
	case sum == 0:
		return usagef("nothing to count: give --ok, --failed or --timed-out")
	case sum > maxFirsts:
		return usagef("%d first attempts at once, at most %d are taken", sum, maxFirsts)
	}
	return nil
}

// firstsNote says what became of a report that was not answered.
func firstsNote(err error) error {
	if unchanged(err) {
		return &noted{err, "nothing was counted: give the same command again later"}
	}
	return &noted{err, "it may have been counted, and the same command again would count it again"}
}

func (p *program) writeFirsts(a firstsAnswer) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(a)
	case asJSONL:
		return p.writeLine(a)
	}
	counted := count(int(a.Counted), "first attempt")
	if a.HeldBy == nil {
		p.print("%s: %s counted, breaker %s", a.Dependency, counted, a.Breaker)
		return nil
	}
	p.print("%s: %s counted, breaker %s; send nothing until %s: %s (%s)", a.Dependency, counted, a.Breaker, untilText(a.Until), *a.HeldBy, holdTexts[*a.HeldBy])
	return nil
}
