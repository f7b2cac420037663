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
	"redrive/internal/terms"
)

// attemptsLeft must be left after a requeue, unless --more-attempts says how many
// are granted: a dead letter that has none would die of its first failure.
const attemptsLeft = 3

// requeueVerb names the action in the audit and in batches.
const requeueVerb = "requeue"

type requeueFlags struct {
	more     int
	deadline string
	rate     string
	dryRun   bool

	canary     int           // so many first; 0: all at once
	canaryWait time.Duration // for what becomes of them
}

func (p *program) requeueCommand() *cobra.Command {
	b := &bulk{verb: requeueVerb, past: "requeued", states: []jobs.State{jobs.Dead}}
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
	fs.DurationVar(&f.canaryWait, "canary-wait", 5*time.Minute, "give the canaries at most this `span` to end")
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
	switch {
	case cmd.Flags().Changed("canary") && f.canary < 1:
		return usagef("--canary %d: must be at least 1", f.canary)
	case cmd.Flags().Changed("canary-wait") && f.canary == 0:
		return usagef("--canary-wait says how long to wait for --canary, which is missing")
	case f.canaryWait <= 0:
		return usagef("--canary-wait %s: must be above 0", f.canaryWait)
	}
	if err := b.check(p, cmd, args, !f.dryRun); err != nil {
		return err
	}
	s, set, err := p.prepareBulk(ctx, b, args)
	if err != nil || set == nil {
		return err
	}
	defer s.close()
	if err := s.checkDeadline(ctx, base.DeadlineAt); err != nil {
		return err
	}
	earliestDeadlineFirst(set)
	run := &requeueRun{s: s, base: base, apart: apart}
	if f.dryRun {
		run.base.DryRun = true
		results, err := p.carryOut(ctx, set, run.one(0))
		if err != nil {
			return err
		}
		return p.writeDryRun(set, results)
	}
	if goOn, err := p.ask(f.question(len(set), apart)); err != nil || !goOn {
		return declined(err)
	}
	if run.who, err = s.actor(ctx, b.note); err != nil {
		return err
	}
	run.base.RequestID = run.who.Batch
	phase := ledger.PhaseRunning
	if f.canary > 0 {
		phase = ledger.PhaseCanary
	}
	if run.u, err = b.record(ctx, s, cmd, set, run.who, phase); err != nil {
		return err
	}
	end := ending{action: b.verb, past: b.past, batch: run.who.Batch}
	if f.canary > 0 {
		end.results, end.canary, end.failed = run.canaried(ctx, set, f)
	} else {
		end.results, end.failed = run.all(ctx, set)
	}
	if end.failed == nil {
		end.failed = run.u.phase(ctx, ledger.PhaseDone)
	}
	return p.end(end)
}

// checkDeadline refuses a new deadline that is over already.
func (s *session) checkDeadline(ctx context.Context, deadline time.Time) error {
	if deadline.IsZero() {
		return nil
	}
	now, err := s.redisNow(ctx)
	if err == nil && !deadline.After(now) {
		err = usagef("--deadline %s is over already: it is %s", deadline.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return err
}

func (f *requeueFlags) question(n int, apart time.Duration) string {
	words := "requeue " + count(n, "operation")
	if f.canary > 0 && f.canary < n {
		words = fmt.Sprintf("requeue %d of %s, and the rest if all of those succeed", f.canary, count(n, "operation"))
	}
	if apart > 0 {
		words += fmt.Sprintf(", the last in %s", (apart * time.Duration(n-1)).Round(time.Second))
	}
	return words + "?"
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

// requeueRun is one requeue of a set.
type requeueRun struct {
	s     *session
	base  ledger.Requeue
	apart time.Duration // between when one and the next become due
	who   ledger.Actor
	u     *underway
}

// requeueChunk operations are requeued before it is looked whether a person stopped
// the batch meanwhile.
const requeueChunk = 500

// all requeues a set, the first at once.
func (r *requeueRun) all(ctx context.Context, set []chosen) ([]result, error) {
	results := make([]result, 0, len(set))
	for from := 0; from < len(set); from += requeueChunk {
		if err := r.u.stopped(ctx); err != nil {
			return results, err
		}
		part := set[from:min(from+requeueChunk, len(set))]
		done, err := r.u.carry(ctx, part, r.one(from))
		results = append(results, done...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// one requeues number from+i of the set.
func (r *requeueRun) one(from int) func(context.Context, int, chosen) (result, error) {
	return func(ctx context.Context, i int, c chosen) (result, error) {
		spec, ok := r.s.known[c.place.ID.Kind]
		if !ok {
			return result{Operation: c.place.ID, Result: resultRefused, State: c.op.State, Detail: "nobody knows its kind: start a worker that does"}, nil
		}
		q := r.base
		q.Delay = r.apart * time.Duration(from+i)
		q.MaxAttempts = spec.MaxAttempts
		done, err := r.s.ledger.Requeue(ctx, terms.Of(spec), terms.Target(spec), c.place.ID, q, r.who)
		if err != nil {
			return result{}, err
		}
		res := resultOf(c.place.ID, done.Done)
		res.AttemptsLeft = &done.AttemptsLeft
		if done.Verdict == ledger.DoneRefused && done.State == jobs.Dead {
			if why, err := r.s.whyUnsafe(ctx, c.place, spec, q.Delay); err != nil {
				return result{}, err
			} else if why != "" {
				res.Detail = why
			}
		}
		return res, nil
	}
}

// whyUnsafe says why a dead letter may not be resent after delay, "" if that is not
// what is in the way.
func (s *session) whyUnsafe(ctx context.Context, place ledger.Place, spec jobs.KindSpec, delay time.Duration) (string, error) {
	d, err := s.ledger.Get(ctx, place.Dependency, place.ID, &spec)
	if err != nil || d.State != jobs.Dead || d.Request.Method == "" {
		return "", err
	}
	now, err := s.redisNow(ctx)
	if err != nil {
		return "", err
	}
	why := d.ResendUnsafe(&spec, now.Add(delay))
	if why == "" {
		return "", nil
	}
	if d.Moved(&spec) != "" {
		from, err := s.whereFrom(ctx, spec)
		if err != nil {
			return "", err
		}
		why += from
	}
	instead := "resolve it first"
	if spec.Inquiry != nil {
		instead += ", or have it asked about (reconcile)"
	}
	return fmt.Sprintf("its outcome is unknown and a resend is not safe (%s): %s", why, instead), nil
}
