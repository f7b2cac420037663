package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// Batch is a bulk action on operations of one dependency. It is written before
// anything is done, so that what a command left behind when it was cut off can be
// looked at and stopped.
type Batch struct {
	ID         string
	Dependency jobs.Dependency
	Action     string // such as "requeue"
	Filter     string // what chose its operations
	By, Note   string
	At         *jobs.Instant
	Planned    int // operations of this dependency that the command chose
	Phase      Phase
	AliveAt    *jobs.Instant // when its command last gave a sign of life; nil: it is of a version that gives none
	StoppedAt  *jobs.Instant // nil: nobody stopped it
	StoppedBy  string
	StopNote   string
}

// Phase says how far the command of a bulk action came. What becomes of its
// operations afterwards is theirs.
type Phase string

// The phases.
const (
	PhaseCanary       Phase = "canary"        // the first few are on their way; the rest waits for what becomes of them
	PhaseRunning      Phase = "running"       // the command is at work
	PhaseDone         Phase = "done"          // the command went through its set
	PhaseCanaryFailed Phase = "canary_failed" // not all of the first few succeeded; the rest was left as it was
	PhaseStopped      Phase = "stopped"       // a person stopped it
	PhaseCutOff       Phase = "cut_off"       // it was canary or running, and the command gives no sign of life any more; never written
)

// Phases lists every phase.
var Phases = []Phase{PhaseCanary, PhaseRunning, PhaseDone, PhaseCanaryFailed, PhaseStopped, PhaseCutOff}

// The command of a batch gives a sign of life every SignEvery, and counts as cut off
// once it has given none for cutOffAfter: as long as a Redis that fails over may be away.
const (
	SignEvery   = 5 * time.Second
	cutOffAfter = 60 * time.Second
)

// Fields of a batch's hash. Those of its operations have a slash in their names.
const (
	batchAction, batchFilter, batchBy, batchNote  = "action", "filter", "by", "note"
	batchAt, batchPlanned, batchPhase             = "at", "planned", "phase"
	batchAliveAt                                  = "alive_at"
	batchStoppedAt, batchStoppedBy, batchStopNote = "stopped_at", "stopped_by", "stop_note"
	batchChunk                                    = 500
)

// ErrNoBatch is returned when no bulk action has the name.
var ErrNoBatch = errors.New("no such batch")

var batchFields = []string{batchAction, batchFilter, batchBy, batchNote, batchAt, batchPlanned, batchPhase, batchAliveAt, batchStoppedAt, batchStoppedBy, batchStopNote}

// OpenBatch writes a bulk action down. keep is how long it is remembered; 0: for ever.
func (l *Ledger) OpenBatch(ctx context.Context, b Batch, keep time.Duration) error {
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	key := l.key(b.Dependency, "batch:"+b.ID)
	pipe := l.rdb.Pipeline()
	pipe.HSet(ctx, key, batchAction, b.Action, batchFilter, b.Filter, batchBy, b.By, batchNote, b.Note, batchAt, now.UnixMilli(),
		batchPlanned, b.Planned, batchPhase, string(b.Phase), batchAliveAt, now.UnixMilli())
	if keep > 0 {
		pipe.PExpire(ctx, key, keep)
		pipe.ZRemRangeByScore(ctx, l.key(b.Dependency, "batches"), "-inf", strconv.FormatInt(now.Add(-keep).UnixMilli(), 10))
	}
	pipe.ZAdd(ctx, l.key(b.Dependency, "batches"), redis.Z{Score: float64(now.UnixMilli()), Member: b.ID})
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("write batch %s: %w", b.ID, err)
	}
	return nil
}

// SetPhase says how far the command of a batch came.
func (l *Ledger) SetPhase(ctx context.Context, dep jobs.Dependency, id string, phase Phase) error {
	if err := l.rdb.HSet(ctx, l.key(dep, "batch:"+id), batchPhase, string(phase)).Err(); err != nil {
		return fmt.Errorf("write batch %s: %w", id, err)
	}
	return nil
}

// SignBatch gives a sign of life of the command of a batch.
func (l *Ledger) SignBatch(ctx context.Context, dep jobs.Dependency, id string) error {
	now, err := l.Now(ctx)
	if err == nil {
		err = l.rdb.HSet(ctx, l.key(dep, "batch:"+id), batchAliveAt, now.UnixMilli()).Err()
	}
	if err != nil {
		return fmt.Errorf("write batch %s: %w", id, err)
	}
	return nil
}

// silent reports whether the command of a batch should be at work and gave no sign of
// life for long. One that never gives any counts from when it began.
func (b *Batch) silent(now time.Time) bool {
	sign := b.AliveAt
	if sign == nil {
		sign = b.At
	}
	return (b.Phase == PhaseCanary || b.Phase == PhaseRunning) && sign != nil && now.Sub(sign.Time) > cutOffAfter
}

// Member is an operation of a batch, as it was before the bulk action.
type Member struct {
	ID       jobs.ID
	Sends    int
	Deadline *jobs.Instant
	Extra    int         // attempts granted by earlier requeues
	Reason   jobs.Reason // "": it was no dead letter
	Intent   string
}

// MemberOf describes an operation before a bulk action. spec is its kind; nil if
// nobody knows it.
func MemberOf(o *jobs.Operation, spec *jobs.KindSpec) Member {
	m := Member{ID: o.ID(), Sends: o.Sends, Deadline: o.DeadlineAt}
	if spec != nil {
		m.Extra = o.MaxAttempts - spec.MaxAttempts
	}
	if o.Reason != nil {
		m.Reason = *o.Reason
	}
	if o.Intent != nil {
		m.Intent = *o.Intent
	}
	return m
}

// line is how a member stands in the batch's hash: sends, deadline, extra, reason or -, intent.
func (m Member) line() string {
	deadline := int64(0)
	if m.Deadline != nil {
		deadline = m.Deadline.UnixMilli()
	}
	reason := string(m.Reason)
	if reason == "" {
		reason = "-"
	}
	return fmt.Sprintf("%d %d %d %s %s", m.Sends, deadline, m.Extra, reason, m.Intent)
}

func parseMember(name, line string) (Member, error) {
	id, err := jobs.ParseID(name)
	if err != nil {
		return Member{}, err
	}
	f := strings.SplitN(line, " ", 5)
	if len(f) < 5 {
		return Member{}, fmt.Errorf("%s: unexpected line %q in its batch", id, line)
	}
	return Member{ID: id, Sends: int(number(f[0])), Deadline: jobs.AtMS(number(f[1])), Extra: int(number(f[2])),
		Reason: jobs.Reason(dash(f[3])), Intent: f[4]}, nil
}

// AddToBatch writes down which operations a bulk action is about to change.
func (l *Ledger) AddToBatch(ctx context.Context, dep jobs.Dependency, id string, members []Member) error {
	for chunk := range slices.Chunk(members, batchChunk) {
		values := make([]any, 0, 2*len(chunk))
		for _, m := range chunk {
			values = append(values, m.ID.String(), m.line())
		}
		if err := l.rdb.HSet(ctx, l.key(dep, "batch:"+id), values...).Err(); err != nil {
			return fmt.Errorf("write batch %s: %w", id, err)
		}
	}
	return nil
}

// DropFromBatch forgets operations that a bulk action did not change after all.
func (l *Ledger) DropFromBatch(ctx context.Context, dep jobs.Dependency, id string, ops []jobs.ID) error {
	for chunk := range slices.Chunk(ops, batchChunk) {
		names := make([]string, len(chunk))
		for i, op := range chunk {
			names[i] = op.String()
		}
		if err := l.rdb.HDel(ctx, l.key(dep, "batch:"+id), names...).Err(); err != nil {
			return fmt.Errorf("write batch %s: %w", id, err)
		}
	}
	return nil
}

// Batch returns a bulk action at a dependency. [ErrNoBatch] when there is none of
// that name.
func (l *Ledger) Batch(ctx context.Context, dep jobs.Dependency, id string) (Batch, error) {
	found, err := l.batches(ctx, dep, []string{id})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s at %s: %w", id, dep, ErrNoBatch)
	}
	if err != nil {
		return Batch{}, err
	}
	return found[0], nil
}

// Batches returns the bulk actions at a dependency since an instant (zero: all that
// are remembered), newest first, at most limit.
func (l *Ledger) Batches(ctx context.Context, dep jobs.Dependency, since time.Time, limit int) ([]Batch, error) {
	from := "-inf"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	ids, err := l.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: l.key(dep, "batches"), ByScore: true, Rev: true, Start: "+inf", Stop: from, Count: int64(limit)}).Result()
	if err != nil {
		return nil, fmt.Errorf("read batches of %s: %w", dep, err)
	}
	return l.batches(ctx, dep, ids)
}

func (l *Ledger) batches(ctx context.Context, dep jobs.Dependency, ids []string) ([]Batch, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := l.rdb.Pipeline()
	read := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		read[i] = pipe.HMGet(ctx, l.key(dep, "batch:"+id), batchFields...)
	}
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read batches of %s: %w", dep, err)
	}
	var out []Batch
	for i, id := range ids {
		f := map[string]string{}
		for j, v := range read[i].Val() {
			f[batchFields[j]], _ = v.(string)
		}
		if f[batchAction] == "" {
			continue // its time is over
		}
		b := Batch{ID: id, Dependency: dep, Action: f[batchAction], Filter: f[batchFilter], By: f[batchBy], Note: f[batchNote], At: jobs.AtMS(number(f[batchAt])),
			Planned: int(number(f[batchPlanned])), Phase: Phase(f[batchPhase]), AliveAt: jobs.AtMS(number(f[batchAliveAt])), StoppedAt: jobs.AtMS(number(f[batchStoppedAt])), StoppedBy: f[batchStoppedBy], StopNote: f[batchStopNote]}
		if b.StoppedAt != nil {
			b.Phase = PhaseStopped
		}
		if b.silent(clock.Val()) {
			b.Phase = PhaseCutOff
		}
		out = append(out, b)
	}
	return out, nil
}

// BatchMembers calls visit with the operations of a batch, some at a time, in no
// order.
func (l *Ledger) BatchMembers(ctx context.Context, dep jobs.Dependency, id string, visit func([]Member) error) error {
	for cursor := uint64(0); ; {
		fields, next, err := l.rdb.HScan(ctx, l.key(dep, "batch:"+id), cursor, "", batchChunk).Result()
		if err != nil {
			return fmt.Errorf("read batch %s: %w", id, err)
		}
		var members []Member
		for i := 0; i+1 < len(fields); i += 2 {
			if !strings.Contains(fields[i], "/") {
				continue
			}
			m, err := parseMember(fields[i], fields[i+1])
			if err != nil {
				return fmt.Errorf("read batch %s: %w", id, err)
			}
			members = append(members, m)
		}
		if err := visit(members); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Progress is what became of the operations of a batch so far.
type Progress struct {
	Operations int
	States     map[jobs.State]int
	Reasons    map[jobs.Reason]int // of the dead letters among them
	Gone       int                 // records that retention took
}

// Open is how many are still on their way.
func (p *Progress) Open() int {
	open := 0
	for state, n := range p.States {
		if !state.Ended() {
			open += n
		}
	}
	return open
}

// Add adds what is known of another part of the same batch.
func (p *Progress) Add(q Progress) {
	p.Operations += q.Operations
	p.Gone += q.Gone
	for state, n := range q.States {
		p.States[state] += n
	}
	for reason, n := range q.Reasons {
		p.Reasons[reason] += n
	}
}

// NewProgress returns the progress of nothing.
func NewProgress() Progress {
	return Progress{States: map[jobs.State]int{}, Reasons: map[jobs.Reason]int{}}
}

// Progress counts the operations of a batch by state. It reads each record's state
// in chunks that never block Redis.
func (l *Ledger) Progress(ctx context.Context, dep jobs.Dependency, id string) (Progress, error) {
	out := NewProgress()
	seen := map[jobs.ID]bool{} // a scan may meet a field twice
	err := l.BatchMembers(ctx, dep, id, func(members []Member) error {
		pipe := l.rdb.Pipeline()
		var read []*redis.SliceCmd
		for _, m := range members {
			if !seen[m.ID] {
				seen[m.ID] = true
				read = append(read, pipe.HMGet(ctx, l.key(dep, "op:"+m.ID.String()), "state", "reason"))
			}
		}
		if len(read) == 0 {
			return nil
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("read the operations of batch %s: %w", id, err)
		}
		for _, r := range read {
			out.Operations++
			state, _ := r.Val()[0].(string)
			reason, _ := r.Val()[1].(string)
			switch {
			case state == "":
				out.Gone++
			default:
				out.States[jobs.State(state)]++
				if reason != "" {
					out.Reasons[jobs.Reason(reason)]++
				}
			}
		}
		return nil
	})
	return out, err
}

// StopBatch says that a batch is stopped: its command, should it still be at work,
// goes no further. What it sent on its way is put back by [Ledger.PutBack].
func (l *Ledger) StopBatch(ctx context.Context, dep jobs.Dependency, id string, who Actor) error {
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	if err := l.rdb.HSet(ctx, l.key(dep, "batch:"+id), batchStoppedAt, now.UnixMilli(), batchStoppedBy, who.By, batchStopNote, who.Note).Err(); err != nil {
		return fmt.Errorf("stop batch %s: %w", id, err)
	}
	return nil
}

// PutBack makes a requeued dead letter what it was, as long as nothing was sent of
// it since: [DoneRefused] when it was, or has left the batch. who.Batch names the
// batch.
func (l *Ledger) PutBack(ctx context.Context, dep jobs.Dependency, m Member, who Actor) (Done, error) {
	args := who.args().Str("id", m.ID.String()).Int("sends", int64(m.Sends)).Str("reason", string(m.Reason)).Int("extra", int64(m.Extra)).Str("intent", m.Intent)
	if m.Deadline != nil {
		args.Int("deadline", m.Deadline.UnixMilli())
	}
	r, err := stopScript.Run(ctx, l.rdb, l.slot(dep), args)
	return done(r), err
}
