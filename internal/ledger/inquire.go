package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// Question is one inquiry to be made: what became of this operation?
type Question struct {
	ID     jobs.ID
	RunID  string            // to be given back with the answer
	Bare   bool              // only the gateway knows it: there is no request
	Result map[string]string // named values of an earlier answer
	// Request is zero but for its key, credential, correlation id and traceparent when Bare.
	Request jobs.Request

	Generation    int64 // of the breaker, to be given back with the answer
	Tries         int   // inquiries since the last news of it, this one included: the backoff grows with it
	Used, Extra   int
	Attempt       int // sends so far
	DeadlineLeft  time.Duration
	CorrelationID string
}

// Inquire is what the gate lets be asked now.
type Inquire struct {
	Questions []Question
	Hold      jobs.Hold     // why no more may be asked; none when no more are due
	Next      time.Duration // when it is worth asking again; at most a second
	News      News
}

// Inquire hands out at most want inquiries that are due, of kinds whose inquiry the
// process knows. Each costs a token, its share of the drain lane or a probe's permit, and is this process' alone until lease is over;
// one whose answer never comes is handed out again then, and nothing was counted.
func (l *Ledger) Inquire(ctx context.Context, t Terms, kinds []jobs.Kind, want int, runID string, lease time.Duration) (Inquire, error) {
	args := expectArgs(t.gateArgs(new(luascript.Args)), t.Expect).Int("want", int64(want)).Str("kinds", words(kinds)).Str("run", runID).
		Int("lease", lease.Milliseconds())
	r, err := inquireScript.Run(ctx, l.rdb, l.slot(t.Dependency), args)
	if err != nil {
		return Inquire{}, err
	}
	if err := unstepped(r); err != nil {
		return Inquire{}, err
	}
	if len(r) < 4 {
		return Inquire{}, unexpected("inquire", r)
	}
	out := Inquire{Hold: jobs.Hold(r[0]), Next: ms(r.Int(1)), News: news(r[3])}
	for i := 4; i+6 < len(r) && r[i] == "ask"; i += 7 {
		q, err := newQuestion(r[i+1 : i+7])
		if err != nil {
			return Inquire{}, err
		}
		q.RunID, q.Generation = runID, r.Int(2)
		out.Questions = append(out.Questions, q)
	}
	return out, nil
}

func newQuestion(r luascript.Reply) (Question, error) {
	id, err := jobs.ParseID(r[0])
	if err != nil {
		return Question{}, err
	}
	q := Question{ID: id, Bare: r[1] == "", Tries: int(r.Int(3))}
	if !q.Bare {
		if q.Request, err = decodeRequest([]byte(r[1])); err != nil {
			return Question{}, fmt.Errorf("%s: %w", id, err)
		}
	}
	if r[2] != "" {
		if err := json.Unmarshal([]byte(r[2]), &q.Result); err != nil {
			return Question{}, fmt.Errorf("%s: result: %w", id, err)
		}
	}
	q.Request.Credential, q.Request.IdempotencyKey, _ = strings.Cut(r[4], " ")
	f := strings.SplitN(r[5], " ", 6)
	if len(f) < 6 {
		return Question{}, unexpected("inquire", r)
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i], 10, 64); return v }
	q.Used, q.Extra, q.Attempt, q.DeadlineLeft, q.CorrelationID = int(n(0)), int(n(1)), int(n(2)), ms(n(3)), f[5]
	q.Request.CorrelationID, q.Request.Traceparent = q.CorrelationID, dash(f[4])
	return q, nil
}

// Inquired is what an inquiry brought, as the process' configuration reads it.
type Inquired struct {
	Answer   jobs.InquiryAnswer
	BaseURL  string // where it was asked
	Status   int    // 0: no answer came
	Duration time.Duration
	Error    string            // clean text, why it proves nothing
	Values   map[string]string // of a success, as in [Result]

	Delay      time.Duration // until the next inquiry
	Wait       time.Duration // until the next attempt, where the operation goes back to waiting
	StayDead   bool          // after "not found" a person decides
	NotApplied bool          // "failed" means that the operation may go on

	Said Said // of the dependency
}

// Inquired records the answer of an inquiry. It is idempotent for the run id. One that
// comes when the operation has moved on is known and changes nothing, unless it says
// that the operation took effect.
func (l *Ledger) Inquired(ctx context.Context, t Terms, q Question, in Inquired) (Finish, error) {
	args := in.Said.args(retentionArgs(t.gateArgs(new(luascript.Args)), t.Retention), q.Generation).Str("id", q.ID.String()).Str("run", q.RunID).Str("answer", string(in.Answer)).Str("base", in.BaseURL).
		Int("duration", in.Duration.Milliseconds()).Int("status", int64(in.Status)).Int("delay", ceilMS(in.Delay)).Int("wait", ceilMS(in.Wait)).
		Flag("stay_dead", in.StayDead).Flag("not_applied", in.NotApplied)
	if in.Error != "" {
		args.Str("error", in.Error)
	}
	if len(in.Values) > 0 {
		values, err := json.Marshal(in.Values)
		if err != nil {
			return Finish{}, fmt.Errorf("inquired %s: %w", q.ID, err)
		}
		args.Bytes("result", values)
	}
	r, err := inquiredScript.Run(ctx, l.rdb, l.slot(t.Dependency), args)
	if err != nil {
		return Finish{}, err
	}
	if r.At(0) == "gone" {
		return Finish{How: HowStale}, nil
	}
	if len(r) < 5 {
		return Finish{}, unexpected("inquired", r)
	}
	return Finish{State: jobs.State(r[0]), Reason: jobs.Reason(r[1]), How: How(r[2]), Conflict: r[3] == "1", News: news(r[4]), Ended: ended(r, 5)}, nil
}

// ErrBacklogFull is returned when so many operations are on their way that no more
// are taken in.
var ErrBacklogFull = errors.New("backlog full")

// Reconcile has the gateway asked what became of an operation: of one in the ledger,
// or of one that only the gateway knows, which was first sent at firstSent (zero: not
// known). It makes no attempt. An operation that the ledger does not know ends
// succeeded or, where the gateway knows nothing of it either, cancelled, and its key
// is free again. [ErrBacklogFull] when it cannot be taken in.
func (l *Ledger) Reconcile(ctx context.Context, spec jobs.KindSpec, id jobs.ID, firstSent time.Time, who Actor) (Done, error) {
	args := retentionArgs(who.args(), spec.Retention).Str("id", id.String()).Str("idem", string(spec.Idempotency)).Str("base", spec.BaseURL).Int("max_backlog", spec.MaxBacklog)
	if !firstSent.IsZero() {
		args.Int("first", firstSent.UnixMilli())
	}
	r, d, err := l.act(ctx, reconcileScript, spec.Dependency, args)
	if err != nil {
		return Done{}, err
	}
	if r.At(0) == "full" {
		return Done{}, fmt.Errorf("%s: %w", id, ErrBacklogFull)
	}
	return d, nil
}

// Voids lists at most 100 operations whose late success is to be undone by now.
func (l *Ledger) Voids(ctx context.Context, dep jobs.Dependency) ([]jobs.ID, error) {
	now, err := l.Now(ctx)
	if err != nil {
		return nil, err
	}
	names, err := l.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: l.key(dep, "outbox"), ByScore: true, Start: "-inf",
		Stop: strconv.FormatInt(now.UnixMilli(), 10), Count: 100}).Result()
	if err != nil {
		return nil, fmt.Errorf("read the outbox of %s: %w", dep, err)
	}
	var out []jobs.ID
	for _, name := range names {
		id, err := jobs.ParseID(name)
		if err != nil {
			return nil, fmt.Errorf("read the outbox of %s: %w", dep, err)
		}
		out = append(out, id)
	}
	return out, nil
}

// Voided removes an operation from the outbox and notes which operation undoes it, now
// that it is submitted.
func (l *Ledger) Voided(ctx context.Context, dep jobs.Dependency, id, by jobs.ID) error {
	who := Actor{By: "redrive", Note: "its success came when nobody waited for it any more"}
	_, err := voidedScript.Run(ctx, l.rdb, l.slot(dep), who.args().Str("id", id.String()).Str("void", by.String()))
	return err
}

// VoidLater has the outbox show an operation again after a while, because its void
// could not be submitted.
func (l *Ledger) VoidLater(ctx context.Context, dep jobs.Dependency, id jobs.ID, wait time.Duration) error {
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	return l.rdb.ZAddXX(ctx, l.key(dep, "outbox"), redis.Z{Score: float64(now.Add(wait).UnixMilli()), Member: id.String()}).Err()
}

// termsOfKind is what the scripts must know of a kind, "" for a kind of which they
// need to know nothing: see ask.lua.
func termsOfKind(s jobs.KindSpec, now time.Time) string {
	if s.Inquiry == nil && s.Void == nil {
		return ""
	}
	settle, giveUp, void := "-", "-", "0"
	if s.Inquiry != nil {
		settle, giveUp = strconv.FormatInt(s.Inquiry.SettleMS, 10), strconv.FormatInt(s.Inquiry.GiveUpAfterMS, 10)
	}
	if s.Void != nil {
		void = "1"
	}
	return fmt.Sprintf("%s %s %s %d", settle, giveUp, void, now.UnixMilli())
}

// SeenKinds says that this process' configuration has an inquiry, or a void, for these
// kinds: where nobody said so for an hour, nobody is waited for any more.
func (l *Ledger) SeenKinds(ctx context.Context, specs []jobs.KindSpec) error {
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	pipe := l.rdb.Pipeline()
	for _, s := range specs {
		if terms := termsOfKind(s, now); terms != "" {
			pipe.HSet(ctx, l.key(s.Dependency, "kinds"), string(s.Kind), terms)
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("say which kinds can be asked about: %w", err)
	}
	return nil
}
