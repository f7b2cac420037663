package ledger

import (
	"context"
	"errors"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// Actor is who does something and why: kept in the audit stream.
type Actor struct {
	By    string // user@host, or what the caller says
	Note  string
	Batch string // id of the bulk action it belongs to; "" for a single one
}

func (a Actor) args() *luascript.Args {
	return new(luascript.Args).Str("by", a.By).Str("note", a.Note).Str("batch", a.Batch)
}

// Done says what came of a person's action on one operation.
type Done struct {
	Verdict DoneVerdict
	State   jobs.State
	Detail  string // why it was refused, or what to know
	Ended   []Ended
	Unsure  bool // written, but not yet on the replicas asked for ([Ledger.WaitingFor])
}

// DoneVerdict is the outcome of a person's action on one operation.
type DoneVerdict string

// What can come of an action.
const (
	DoneOK      DoneVerdict = "ok"
	DonePending DoneVerdict = "pending" // an attempt is under way; it happens when that ends
	DoneAgain   DoneVerdict = "again"   // done before under this request id; nothing changed
	DoneRefused DoneVerdict = "refused" // not allowed in its state
	DoneMissing DoneVerdict = "missing" // no such operation
)

func done(r luascript.Reply) Done {
	return Done{Verdict: DoneVerdict(r.At(0)), State: jobs.State(r.At(1)), Detail: r.At(2), Ended: ended(r, 3)}
}

// act runs the script of a person's action. That it is on too few replicas is no
// error: it is done, and [Done] says so if it changed anything.
func (l *Ledger) act(ctx context.Context, s *luascript.Script, dep jobs.Dependency, args *luascript.Args) (luascript.Reply, Done, error) {
	r, err := s.Run(ctx, l.rdb, l.slot(dep), args.Replicas(l.replicas))
	unsure := errors.Is(err, luascript.ErrTooFewReplicas)
	if err != nil && !unsure {
		return nil, Done{}, err
	}
	d := done(r)
	d.Unsure = unsure && d.Verdict != DoneRefused && d.Verdict != DoneMissing
	return r, d, nil
}

// Cancel stops an operation for good; of one that is being sent, when that ends.
// An operation whose outcome is unknown is not cancelled but becomes a dead letter
// (unsafe) that keeps the intent.
func (l *Ledger) Cancel(ctx context.Context, dep jobs.Dependency, id jobs.ID, keep jobs.Retention, who Actor) (Done, error) {
	return l.cancel(ctx, dep, id, keep, who, "cancel")
}

// Discard cancels a dead letter. One with an unknown outcome is refused.
func (l *Ledger) Discard(ctx context.Context, dep jobs.Dependency, id jobs.ID, keep jobs.Retention, who Actor) (Done, error) {
	return l.cancel(ctx, dep, id, keep, who, "discard")
}

func (l *Ledger) cancel(ctx context.Context, dep jobs.Dependency, id jobs.ID, keep jobs.Retention, who Actor, action string) (Done, error) {
	args := retentionArgs(who.args(), keep).Str("id", id.String()).Str("action", action)
	_, d, err := l.act(ctx, cancelScript, dep, args)
	return d, err
}

// Resolution is what a person found out about an unknown outcome.
type Resolution string

// The resolutions.
const (
	ResolvedApplied    Resolution = "applied"     // -> succeeded
	ResolvedNotApplied Resolution = "not_applied" // stays dead without the mark, may be requeued
	WrittenOff         Resolution = "written_off" // -> cancelled; it may have acted, and says so
)

// Resolve settles the unknown outcome of a dead letter. ref names the proof, such
// as the gateway's id; may be empty.
func (l *Ledger) Resolve(ctx context.Context, dep jobs.Dependency, id jobs.ID, verdict Resolution, ref string, keep jobs.Retention, who Actor) (Done, error) {
	args := retentionArgs(who.args(), keep).Str("id", id.String()).Str("verdict", string(verdict)).Str("ref", ref)
	_, d, err := l.act(ctx, resolveScript, dep, args)
	return d, err
}

// Requeue says how a dead letter goes on its way again.
type Requeue struct {
	RequestID    string        // of this action: repeating it with the same id is harmless
	More         int           // attempts granted on top; 0: see AtLeast
	AtLeast      int           // attempts that must be left; missing ones are granted
	DeadlineAt   time.Time     // new deadline; zero: see DeadlineSpan
	DeadlineSpan time.Duration // new deadline, from when it is due; 0: keep the old one
	Delay        time.Duration // until it is due: spreads a bulk action
	MaxAttempts  int           // of the kind
	DryRun       bool          // change nothing, say what would happen
}

// Requeued says what came of a requeue.
type Requeued struct {
	Done
	AttemptsLeft int
	Had          jobs.Reason // the reason it was dead for
}

// Requeue sends a dead letter on its way again. One whose outcome is unknown only
// while a resend is safe.
func (l *Ledger) Requeue(ctx context.Context, t Terms, target Target, id jobs.ID, q Requeue, who Actor) (Requeued, error) {
	args := target.args(retentionArgs(who.args(), t.Retention), "class").Str("id", id.String()).Str("request_id", q.RequestID).
		Int("min_response", t.MinResponse.Milliseconds()).Int("more", int64(q.More)).Int("at_least", int64(q.AtLeast)).
		Int("delay", ceilMS(q.Delay)).Int("deadline_span", ceilMS(q.DeadlineSpan)).Int("max_attempts", int64(q.MaxAttempts)).Flag("dry", q.DryRun)
	if !q.DeadlineAt.IsZero() {
		args.Int("deadline_at", q.DeadlineAt.UnixMilli())
	}
	if q.DryRun {
		l = l.WaitingFor(0)
	}
	r, d, err := l.act(ctx, requeueScript, t.Dependency, args)
	if err != nil {
		return Requeued{}, err
	}
	return Requeued{Done: d, AttemptsLeft: int(r.Int(3)), Had: jobs.Reason(r.At(4))}, nil
}

// Paused says how a dependency is held.
type Paused struct {
	Until  time.Time // zero: until it is resumed
	Doomed int       // waiting operations whose deadline falls inside the pause
}

// Pause stops the attempts of a dependency for span (0: until resumed). Deadlines
// run on.
func (l *Ledger) Pause(ctx context.Context, dep jobs.Dependency, span time.Duration, who Actor) (Paused, error) {
	r, err := pauseScript.Run(ctx, l.rdb, l.slot(dep), who.args().Str("action", "pause").Int("span", ceilMS(span)))
	if err != nil {
		return Paused{}, err
	}
	var p Paused
	if r.Int(1) > 0 {
		p.Until = time.UnixMilli(r.Int(1)).UTC()
	}
	p.Doomed, err = l.doomed(ctx, dep, p.Until)
	return p, err
}

// doomed counts the waiting operations whose deadline comes before until (zero:
// all of them). It walks them in chunks, outside any script.
func (l *Ledger) doomed(ctx context.Context, dep jobs.Dependency, until time.Time) (int, error) {
	seen := map[jobs.ID]bool{} // one that came due meanwhile stands in two of the indexes
	for _, index := range stateIndexes[jobs.Waiting] {
		err := l.walk(ctx, dep, index, func(ops []jobs.Operation) bool {
			for _, o := range ops {
				if o.State == jobs.Waiting && o.DeadlineAt != nil && (until.IsZero() || o.DeadlineAt.Before(until)) {
					seen[o.ID()] = true
				}
			}
			return false
		})
		if err != nil {
			return 0, err
		}
	}
	return len(seen), nil
}

// Resume lets a paused dependency go on.
func (l *Ledger) Resume(ctx context.Context, dep jobs.Dependency, who Actor) error {
	_, err := pauseScript.Run(ctx, l.rdb, l.slot(dep), who.args().Str("action", "resume"))
	return err
}
