package ledger

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// BeginStatus says what became of a request to begin an attempt.
type BeginStatus string

// The answers of begin.
const (
	BeginGranted BeginStatus = "granted" // the attempt is written ahead: send it
	BeginStale   BeginStatus = "stale"   // another delivery or run; drop it
	BeginGone    BeginStatus = "gone"    // no record; drop it
	BeginHeld    BeginStatus = "held"    // the gate has no room; it went back to the waiting room
	BeginEnded   BeginStatus = "ended"   // it could not be sent any more and left the way
)

// Begin is the answer to a request to begin.
type Begin struct {
	Status BeginStatus
	Grant  *Grant    // with granted
	Hold   jobs.Hold // with held
	Ended  []Ended

	// With held, of the operation: attempts so far, and what its last one met.
	Sends         int
	Class         jobs.Class
	CorrelationID string
}

// Grant is the right to make one attempt, and all that is needed for it. Spans
// count from the instant before the call to [Ledger.Begin].
type Grant struct {
	ID       jobs.ID
	Delivery int64
	RunID    string
	Attempt  int // number of this attempt, from 1

	LeaseLeft    time.Duration // after it the attempt counts as lost
	DeadlineLeft time.Duration

	Idempotency   jobs.Idempotency // class in force
	Used          int              // sends that count, this one included
	Extra         int              // attempts granted on top by requeues
	UnknownBefore bool             // an earlier attempt's unknown outcome is not settled
	SafeFor       time.Duration    // how long a resend stays safe; Always for natural; 0: it is not
	Refusals      int              // refused credentials in a row so far
	Losses        int              // lost workers in a row so far
	Begins        int64            // attempts written ahead, ever, this one included
	Generation    int64            // of the breaker
	Waited        time.Duration    // since the attempt before ended or, before the first, since the operation was created

	Request jobs.Request
	copy    string // the record's fields as JSON, to write it again if the store loses it
	raw     []byte // the stored request
}

// Always is the SafeFor of an operation whose resend is safe at any time.
const Always = time.Duration(1<<63 - 1)

// NewRunID returns a name that no other handler run ever had.
func NewRunID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Begin asks for the right to make the attempt of a delivery, and writes it ahead
// if the gate grants it. It is idempotent for the run id: after a lost reply the
// caller asks again with the same one. Whoever gets no clear answer must call
// [Ledger.Abandon] with the same delivery and run id, and send nothing. A grant that
// is on too few replicas ([Ledger.WaitingFor]) is none: [luascript.ErrTooFewReplicas].
func (l *Ledger) Begin(ctx context.Context, t Terms, target Target, maxAttempts int, d Delivery, runID string) (Begin, error) {
	args := target.args(t.args(), "class").Str("id", d.ID.String()).Int("delivery", d.Number).Str("run", runID).
		Int("max_attempts", int64(maxAttempts))
	r, err := beginScript.Run(ctx, l.rdb, l.slot(t.Dependency), args.Replicas(l.replicas))
	status := BeginStatus(r.At(0))
	// Only what is sent must survive the primary; the other answers bind nobody.
	if err != nil && (!errors.Is(err, luascript.ErrTooFewReplicas) || status == BeginGranted) {
		return Begin{}, err
	}
	switch status {
	case BeginGranted:
		g, err := newGrant(d.ID, runID, []byte(r.At(1)), luascript.Reply(strings.Split(r.At(2), "\n")).Named(0))
		if err != nil {
			return Begin{}, err
		}
		return Begin{Status: status, Grant: g}, nil
	case BeginHeld:
		return Begin{Status: status, Hold: jobs.Hold(r.At(1)), Sends: int(r.Int(3)), Class: jobs.Class(r.At(4)), CorrelationID: r.At(5)}, nil
	case BeginStale, BeginGone:
		return Begin{Status: status}, nil
	case BeginEnded:
		return Begin{Status: status, Ended: ended(r, 2)}, nil
	default:
		return Begin{}, unexpected("begin", r)
	}
}

// Again is the submission that reports this attempt once more, as of unknown outcome
// (see [Entry.Outcome]): what a process that remembers it hands in when the store has
// lost it. Where the record still has the attempt it changes nothing.
func (g *Grant) Again(dep jobs.Dependency, target Target) (Entry, error) {
	var f map[string]string
	if err := json.Unmarshal([]byte(g.copy), &f); err != nil {
		return Entry{}, fmt.Errorf("%s: %w", g.ID, err)
	}
	n := strconv.Itoa(g.Attempt)
	start, _, _ := strings.Cut(f["a"+n], ",")
	return Entry{ID: g.ID, Dependency: dep, request: g.raw, meta: entryMeta{
		ID: g.ID.String(), Fingerprint: f["fp"], Idempotency: f["idem"], WindowMS: number(f["window"]), BaseURL: target.BaseURL,
		Credential: f["cred"], KeyHeader: target.KeyHeader, Key: f["ikey"], Correlation: f["corr"], Traceparent: f["tp"], DeadlineAt: number(f["deadline"]),
		Created: number(f["created"]), Attempted: &reportedMeta{ID: "ledger:" + n + ":" + start, Outcome: string(jobs.OutcomeUnknown), N: 1,
			First: number(start), Class: string(jobs.ClassWorkerLost), Codes: reportedCodes(jobs.OutcomeUnknown, jobs.ClassWorkerLost, 0, false),
			Counted: true, Keyed: target.KeyHeader != "", By: "w"},
	}}, nil
}

// Outcome returns an entry of [Grant.Again] for an attempt whose outcome is known.
func (e Entry) Outcome(outcome jobs.Outcome, class jobs.Class) Entry {
	att := *e.meta.Attempted
	att.Outcome, att.Class, att.Codes = string(outcome), string(class), reportedCodes(outcome, class, 0, false)
	if taken(outcome, class) {
		att.Step, att.Acted = string(jobs.StepAsk), true
	}
	e.meta.Attempted = &att
	return e
}

// Ended returns an entry that tells of one attempt of the request path with what it came to,
// known for good: a success, or a refusal that no retry can change. It is known by the run id,
// so that telling it twice counts once. The gate has heard of it.
func (e Entry) Ended(runID string, startedAt time.Time, res Result) Entry {
	m := &reportedMeta{ID: runID, Outcome: string(res.Outcome), N: 1, First: startedAt.UnixMilli(), Class: string(res.Class), Status: res.Status,
		Codes: encodeCodes(res), Counted: true, Keyed: e.meta.KeyHeader != "", By: "p"}
	if res.Outcome != jobs.OutcomeSucceeded {
		m.Step, m.Reason = string(res.Step), string(res.Reason)
	}
	e.meta.Attempted = m
	return e
}

func newGrant(id jobs.ID, runID string, raw []byte, m map[string]string) (*Grant, error) {
	n := func(name string) int64 { return luascript.Reply{m[name]}.Int(0) }
	g := &Grant{
		ID: id, Delivery: n("delivery"), RunID: runID, Attempt: int(n("attempt")),
		LeaseLeft: ms(n("lease_left")), DeadlineLeft: ms(n("deadline_left")),
		Idempotency: jobs.Idempotency(m["class"]), Used: int(n("used")), Extra: int(n("extra")),
		UnknownBefore: m["unknown"] == "1", SafeFor: ms(max(n("safe_for"), 0)),
		Refusals: int(n("refusals")), Losses: int(n("losses")), Begins: n("seq"), Generation: n("generation"),
	}
	if n("safe_for") < 0 {
		g.SafeFor = Always
	}
	g.raw = raw
	request, err := decodeRequest(raw)
	if err != nil {
		return nil, err
	}
	request.IdempotencyKey, request.CorrelationID, request.Credential, request.Traceparent = m["ikey"], m["corr"], m["cred"], m["tp"]
	g.Waited = waited(m)
	g.Request = request
	g.copy = recordCopy(g, m)
	return g, nil
}

// waited reads how long the operation has waited when its attempt was written ahead.
func waited(m map[string]string) time.Duration {
	since := number(m["created"])
	if before := strings.SplitN(m["prev"], ",", 5); len(before) > 3 {
		since = number(before[0]) + number(before[3])
	}
	return max(ms(number(m["started"])-since), 0)
}

// Abandon gives back a delivery of which nothing was sent, after a begin without a
// clear answer, for a kind this worker does not know (orphan), or because the
// process cannot take it now (wait: how long it stays in the waiting room).
func (l *Ledger) Abandon(ctx context.Context, t Terms, d Delivery, runID string, wait time.Duration, orphan bool) ([]Ended, error) {
	return l.abandon(ctx, t, t.args().Str("id", d.ID.String()).Int("delivery", d.Number).Str("run", runID).
		Int("wait", wait.Milliseconds()).Flag("orphan", orphan))
}

// Withdraw is [Ledger.Abandon] for a request path that has told its customer that nothing
// is kept: an operation that the run wrote ahead, and of which nobody else has heard, is
// as if it had never been submitted; a new attempt of another, which stands in its chain,
// is cancelled. One that somebody submitted meanwhile goes on.
func (l *Ledger) Withdraw(ctx context.Context, t Terms, id jobs.ID, runID string) error {
	_, err := l.abandon(ctx, t, t.args().Str("id", id.String()).Int("delivery", 0).Str("run", runID).Int("wait", 0).Flag("withdraw", true))
	return err
}

func (l *Ledger) abandon(ctx context.Context, t Terms, args *luascript.Args) ([]Ended, error) {
	r, err := abandonScript.Run(ctx, l.rdb, l.slot(t.Dependency), args)
	if err != nil {
		return nil, err
	}
	return ended(r, 1), nil
}
