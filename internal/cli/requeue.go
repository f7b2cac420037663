package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/operator"
)

type requeueFlags struct {
	more     int
	deadline string
	rate     string
	dryRun   bool

	canary     int           // so many first; 0: all at once
	canaryWait time.Duration // for what becomes of them
}

func (p *program) requeueCommand() *cobra.Command {
	b := &bulk{verb: "requeue", past: "requeued", states: operator.DeadStates}
	f := &requeueFlags{}
	cmd := &cobra.Command{
		Use:   "requeue KIND/KEY...|-|--all-matching FILTERS --note WHY",
		Short: "Send dead letters on their way again",
		Long: "requeue sends dead letters on their way again, those with the earliest deadline first. It refuses one that may have taken\n" +
			"effect, unless a resend is safe, and one whose deadline is over, unless --deadline gives a new one. Their history stays.\n" +
			"At least 3 attempts are left afterwards. --rate spreads when they are due, so the command need not keep running. --canary sends\n" +
			"a few first and the rest only if all of those succeeded; batch show tells how far it is, batch stop takes back what was not\n" +
			"sent yet.",
		Example: `  enqueue dlq requeue charge/order-1001 --deadline 1h --note "gateway is back" -y
  enqueue dlq requeue --all-matching --reason attempts --since 09:00 --dry-run
  enqueue dlq requeue --all-matching --reason attempts --since 09:00 --rate 5/s --note "gateway is back"
  enqueue dlq requeue --all-matching --reason attempts --since 09:00 --canary 3 --note "gateway is back, it seems"`,
		RunE: p.command(unlimited, forms, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return p.requeue(ctx, cmd, args, b, f)
		}),
	}
	b.register(cmd, filterFlags{})
	fs := cmd.Flags()
	fs.IntVar(&f.more, "more-attempts", 0, "grant `n` more attempts (default: as many as leave 3)")
	fs.StringVar(&f.deadline, "deadline", "", "new deadline: a `span` from when each is due, or RFC 3339")
	fs.StringVar(&f.rate, "rate", "", "let so many become due per span, such as `5/s`, 300/m or 1000/h")
	fs.BoolVar(&f.dryRun, "dry-run", false, "change nothing: count, sums, what would be refused and why")
	fs.IntVar(&f.canary, "canary", 0, "requeue `n` first, wait until they ended, and the rest only if all succeeded; else exit 5")
	fs.DurationVar(&f.canaryWait, "canary-wait", operator.DefaultCanaryWait, "give the canaries at most this `span` to end")
	return cmd
}

func (p *program) requeue(ctx context.Context, cmd *cobra.Command, args []string, b *bulk, f *requeueFlags) error {
	words := f.words(cmd)
	plan, err := words.Plan()
	if err != nil {
		return err
	}
	if err := b.check(p, cmd, args, !f.dryRun); err != nil {
		return err
	}
	on, set, err := b.prepare(ctx, p, cmd, args)
	if err != nil || set == nil {
		return err
	}
	defer on.close()
	if err := set.check(ctx, words); err != nil {
		return err
	}
	if f.dryRun {
		would, err := set.dryRun(ctx, words)
		if err != nil {
			return err
		}
		return p.writeDryRun(would)
	}
	if goOn, err := p.ask(ctx, requeueQuestion(set.count(), plan)); err != nil || !goOn {
		return declined(err)
	}
	order := p.order(b.note)
	order.ProgressFunc = func(now operator.Progress) {
		if now.Waiting {
			p.say("requeued %s first, batch %s; waiting for what becomes of them (at most %s)", count(now.Canaries, "operation"), now.Batch, plan.CanaryWait)
		}
	}
	report, err := set.requeue(ctx, words, order)
	if err != nil {
		return err
	}
	return p.end(report, b.past, nil)
}

// words are the flags that were given.
func (f *requeueFlags) words(cmd *cobra.Command) operator.RequeueWords {
	w := operator.RequeueWords{Deadline: f.deadline, Rate: f.rate}
	if cmd.Flags().Changed("more-attempts") {
		w.MoreAttempts = &f.more
	}
	if cmd.Flags().Changed("canary") {
		w.Canary = &f.canary
	}
	if cmd.Flags().Changed("canary-wait") {
		w.CanaryWait = &f.canaryWait
	}
	return w
}

func requeueQuestion(n int, plan operator.Plan) string {
	words := "requeue " + count(n, "operation")
	if plan.Canary > 0 && plan.Canary < n {
		words = fmt.Sprintf("requeue %d of %s, and the rest if all of those succeed", plan.Canary, count(n, "operation"))
	}
	if plan.Apart > 0 {
		words += fmt.Sprintf(", the last in %s", (plan.Apart * time.Duration(n-1)).Round(time.Second))
	}
	return words + "?"
}
