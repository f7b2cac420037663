package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// attemptsLeft must be left after a requeue, unless --more-attempts says how many
// are granted: a dead letter that has none would die of its first failure.
const attemptsLeft = 3

type requeueFlags struct {
	more     int
	deadline string
	rate     string
	dryRun   bool
}

func (p *program) requeueCommand() *cobra.Command {
	b := &bulk{verb: "requeue", past: "requeued", states: []jobs.State{jobs.Dead}}
	f := &requeueFlags{}
	cmd := &cobra.Command{
		Use:   "requeue KIND/KEY...|-|--all-matching FILTERS --note WHY",
		Short: "Send dead letters on their way again",
		Long: "requeue sends dead letters on their way again, those with the earliest deadline first. It refuses one that may have taken\n" +
			"effect, unless a resend is safe, and one whose deadline is over, unless --deadline gives a new one. Their history stays.\n" +
			"At least 3 attempts are left afterwards. --rate spreads when they are due, so the command need not keep running.",
		Example: `  enqueue dlq requeue charge/order-1001 --deadline 1h --note "gateway is back" -y
  enqueue dlq requeue --all-matching --reason attempts --since 09:00 --dry-run
  enqueue dlq requeue --all-matching --reason attempts --since 09:00 --rate 5/s --note "gateway is back"`,
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
	notHereFlags(fs, "canary", "canary-wait")
	return cmd
}

func (p *program) requeue(ctx context.Context, cmd *cobra.Command, args []string, b *bulk, f *requeueFlags) error {
	base, apart, err := f.read()
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("more-attempts") && f.more < 1 {
		return usagef("--more-attempts %d: must be at least 1", f.more)
	}
	if err := b.check(p, cmd, args, !f.dryRun); err != nil {
		return err
	}
	s, set, err := p.prepareBulk(ctx, b, args)
	if err != nil || set == nil {
		return err
	}
	defer s.close()
	earliestDeadlineFirst(set)
	if f.dryRun {
		base.DryRun = true
		results, err := s.requeueAll(ctx, set, base, apart, ledger.Actor{})
		if err != nil {
			return err
		}
		return p.writeDryRun(set, results)
	}
	question := fmt.Sprintf("requeue %s?", count(len(set), "operation"))
	if apart > 0 {
		question = fmt.Sprintf("requeue %s, the last in %s?", count(len(set), "operation"), (apart * time.Duration(len(set)-1)).Round(time.Second))
	}
	if goOn, err := p.ask(question); err != nil || !goOn {
		return declined(err)
	}
	who, err := s.actor(ctx, b.note)
	if err != nil {
		return err
	}
	base.RequestID = who.Batch
	if err := b.record(ctx, s, cmd, set, who); err != nil {
		return err
	}
	results, failed := s.requeueAll(ctx, set, base, apart, who)
	return p.writeResults(b.verb, b.past, who.Batch, results, failed)
}

// read returns what every operation is requeued with, and how far apart they become
// due.
func (f *requeueFlags) read() (ledger.Requeue, time.Duration, error) {
	q := ledger.Requeue{More: f.more, AtLeast: attemptsLeft}
	if f.more > 0 {
		q.AtLeast = 0
	}
	if f.deadline != "" {
		if span, err := time.ParseDuration(f.deadline); err == nil {
			if span <= 0 || span > ledger.MaxDeadline {
				return q, 0, usagef("--deadline %s: a span must be above 0 and at most %s", f.deadline, ledger.MaxDeadline)
			}
			q.DeadlineSpan = span
		} else if q.DeadlineAt, err = time.Parse(time.RFC3339, f.deadline); err != nil {
			return q, 0, usagef("--deadline %q is neither a span such as 2h nor an RFC 3339 instant", f.deadline)
		}
	}
	if f.rate == "" {
		return q, 0, nil
	}
	apart, err := parseRate(f.rate)
	return q, apart, err
}

// parseRate returns the time between two, for a rate such as 5/s.
func parseRate(s string) (time.Duration, error) {
	number, unit, _ := strings.Cut(s, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || per == 0 || !(n > 0) || n > 1e6 {
		return 0, usagef("--rate %q: want such as 5/s, 300/m or 1000/h", s)
	}
	apart := time.Duration(float64(per) / n)
	if apart > 24*time.Hour {
		return 0, usagef("--rate %q: less than one a day", s)
	}
	return apart, nil
}

// earliestDeadlineFirst orders what has the least time to lose first.
func earliestDeadlineFirst(set []chosen) {
	deadline := func(c chosen) int64 {
		if c.op == nil || c.op.DeadlineAt == nil {
			return 0
		}
		return c.op.DeadlineAt.UnixMilli()
	}
	slices.SortStableFunc(set, func(a, b chosen) int { return cmp.Compare(deadline(a), deadline(b)) })
}

func (s *session) requeueAll(ctx context.Context, set []chosen, base ledger.Requeue, apart time.Duration, who ledger.Actor) ([]result, error) {
	return s.p.carryOut(ctx, set, func(ctx context.Context, i int, c chosen) (result, error) {
		spec, ok := s.known[c.place.ID.Kind]
		if !ok {
			return result{Operation: c.place.ID, Result: resultRefused, State: c.op.State, Detail: "nobody knows its kind: start a worker that does"}, nil
		}
		q := base
		q.Delay = apart * time.Duration(i)
		q.MaxAttempts = spec.MaxAttempts
		done, err := s.ledger.Requeue(ctx, terms(spec), target(spec), c.place.ID, q, who)
		if err != nil {
			return result{}, err
		}
		r := resultOf(c.place.ID, done.Done)
		r.AttemptsLeft = &done.AttemptsLeft
		return r, nil
	})
}
