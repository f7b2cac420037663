package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redrive/internal/jobs"
)

// Step is where policy sends an operation after an attempt.
type Step = jobs.Step

// The steps.
const (
	StepSucceed  = jobs.StepSucceed
	StepRetry    = jobs.StepRetry // waiting, after Delay
	StepAsk      = jobs.StepAsk   // a resend is not safe: settle(waiting)
	StepEnd      = jobs.StepEnd   // settle(dead(Reason))
	StepConflict = jobs.StepConflict
)

// Result is what one attempt brought, and what policy makes of it. The ledger
// checks again what may have changed since begin: a merged unknown send, a
// cancellation, a late success of another attempt.
type Result struct {
	Outcome jobs.Outcome
	Class   jobs.Class
	Status  int // 0: no answer
	Verdict jobs.Verdict

	Duration time.Duration
	Step     Step
	Reason   jobs.Reason   // with StepEnd
	Delay    time.Duration // with StepRetry

	Settles           bool // the answer settles earlier unknown attempts too
	Acted             bool // the other side took it and did not finish
	Original          bool // an original stands at the other side under this name, and must be read
	Counted           bool // the send counts against max_attempts
	CredentialRefused bool
	// Told: whoever made the attempt has told its customer of a permanent failure, so that
	// nobody needs to look: the operation is cancelled instead of dead.
	Told  bool
	Again jobs.Again // what a decline said of trying the payment again; "": nothing
	Said  Said       // of the dependency

	Values map[string]string // of a success, such as the gateway's id: kept and shown; two successes that differ in them are a conflict

	Error string // clean text, kept as it is
	Body  []byte // of the answer, within the caller's limits; kept for unknown, successful and last attempts
}

// How says what finish made of a result.
type How string

// What finish can make of a result.
const (
	HowOwn       How = "own"       // recorded by the run that holds the claim
	HowKnown     How = "known"     // recorded before under this run id; nothing changed
	HowLate      How = "late"      // the lease had run out; recorded as a late result
	HowStale     How = "stale"     // no such attempt, or the claim moved on; nothing changed
	HowRecreated How = "recreated" // the record was lost and written again from the worker's copy
)

// Finish is the ledger's word on a result.
type Finish struct {
	State  jobs.State
	Reason jobs.Reason
	How    How
	// Conflict: this result contradicts another, and may be a second effect. A dead
	// letter with that reason is not meant.
	Conflict bool
	Paused   bool // this answer paused its credential; the default one with its dependency
	News     News
	Ended    []Ended
}

// Finish records the result of a granted attempt. It is idempotent for the run
// id, so it may be repeated until it is recorded. When the store has lost the
// record it is written again from the grant.
func (l *Ledger) Finish(ctx context.Context, t Terms, target Target, g *Grant, res Result) (Finish, error) {
	f, gone, err := l.finish(ctx, t, target, fence{id: g.ID, runID: g.RunID, attempt: g.Attempt, generation: g.Generation}, res)
	if err != nil || !gone {
		return f, err
	}
	f, _, err = l.finish(ctx, t, target, fence{id: g.ID, runID: g.RunID, attempt: g.Attempt, generation: g.Generation, copy: g.copy, request: g.raw}, res)
	return f, err
}

// fence is what a finish must find in the record to be allowed to write.
type fence struct {
	id      jobs.ID
	runID   string
	attempt int

	generation int64 // of the breaker when it began

	lost    bool // by recover: only if the lease has run out
	stepped bool // and that may be the clock's doing: no loss is counted
	blind   bool // this process does not know the kind
	copy    string
	request []byte
}

func (l *Ledger) finish(ctx context.Context, t Terms, target Target, at fence, res Result) (Finish, bool, error) {
	args := res.Said.args(target.args(t.args(), "configured"), at.generation).Str("id", at.id.String()).Str("run", at.runID).Int("attempt", int64(at.attempt)).
		Str("outcome", string(res.Outcome)).Str("codes", encodeCodes(res)).Str("class", string(res.Class)).Int("status", int64(res.Status)).
		Int("duration", res.Duration.Milliseconds()).Int("delay", ceilMS(res.Delay)).Str("step", string(res.Step)).Str("reason", string(res.Reason)).
		Flag("settles", res.Settles).Flag("acted", res.Acted).Flag("original", res.Original).Flag("counted", res.Counted).
		Flag("refused_credential", res.CredentialRefused).Flag("told", res.Told).Flag("lost", at.lost).Flag("stepped", at.stepped).Flag("blind", at.blind)
	if res.Again != "" {
		args.Str("again", string(res.Again))
	}
	if res.Error != "" {
		args.Str("error", res.Error)
	}
	if len(res.Body) > 0 {
		args.Bytes("body", res.Body)
	}
	if len(res.Values) > 0 {
		values, err := json.Marshal(res.Values)
		if err != nil {
			return Finish{}, false, fmt.Errorf("finish %s: %w", at.id, err)
		}
		args.Bytes("result", values)
	}
	if at.copy != "" {
		args.Str("copy", at.copy).Bytes("request", at.request)
	}
	r, err := finishScript.Run(ctx, l.rdb, l.slot(t.Dependency), args)
	if err != nil {
		return Finish{}, false, err
	}
	if r.At(0) == "gone" {
		return Finish{}, true, nil
	}
	if len(r) < 6 {
		return Finish{}, false, unexpected("finish", r)
	}
	return Finish{State: jobs.State(r[0]), Reason: jobs.Reason(r[1]), How: How(r[2]), Conflict: r[3] == "1", News: news(r[4]), Paused: r[5] == "1",
		Ended: ended(r, 6)}, false, nil
}

// ceilMS rounds up: a wait that was asked for is never shortened.
func ceilMS(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// recordCopy keeps what finish needs to write a lost record again. The attempt's
// own line is in it, so that the timeline survives.
func recordCopy(g *Grant, m map[string]string) string {
	fields := map[string]string{
		"fp": m["fp"], "created": m["created"], "idem": m["idem"], "deadline": m["deadline"], "sends": strconv.Itoa(g.Attempt),
		"used": m["used"], "delivery": m["delivery"],
		"a" + strconv.Itoa(g.Attempt): m["started"] + ",w," + m["target"],
	}
	for field, name := range map[string]string{"window": "window", "unk": "unk", "first": "first", "safe": "safe", "extra": "extra", "losses": "losses", "refusals": "refusals"} {
		if v := m[name]; v != "" && v != "0" {
			fields[field] = v
		}
	}
	for field, name := range map[string]string{"corr": "corr", "tp": "tp", "target": "unk_target"} {
		if v := m[name]; v != "" {
			fields[field] = v
		}
	}
	if m["cred"] != jobs.DefaultCredential {
		fields["cred"] = m["cred"]
	}
	if m["ikey"] != defaultIdempotencyKey(g.ID) {
		fields["ikey"] = m["ikey"]
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic("ledger: strings do not marshal: " + err.Error()) // cannot happen
	}
	return string(b)
}

// Lost is an attempt whose claim's lease ran out.
type Lost struct {
	ID            jobs.ID
	RunID         string
	Attempt       int
	Idempotency   jobs.Idempotency // at submission
	Used, Extra   int
	UnknownBefore bool
	SafeFor       time.Duration // what is left of the key's window
	DeadlineLeft  time.Duration
	Losses        int
	Age           time.Duration // since the attempt was written ahead
	Over          time.Duration // since its lease ended
	CorrelationID string

	// Stepped is the caller's: the lease may have ended by a step of Redis' clock, so
	// that this is not counted among the losses in a row.
	Stepped bool
}

// LostAttempts lists at most 100 attempts whose lease ran out at least grace ago.
// expect is as in [Terms].
func (l *Ledger) LostAttempts(ctx context.Context, dep jobs.Dependency, grace time.Duration, expect time.Time) ([]Lost, error) {
	r, err := recoverScript.Run(ctx, l.rdb, l.slot(dep), expectArgs(argsInt("grace", grace.Milliseconds()), expect))
	if err == nil {
		err = unstepped(r)
	}
	if err != nil {
		return nil, err
	}
	var out []Lost
	for i := 0; i+1 < len(r); i += 2 {
		facts, correlation, _ := strings.Cut(r[i+1], " corr=")
		m := pairs(facts)
		id, err := jobs.ParseID(m["id"])
		if err != nil {
			return nil, err
		}
		n := func(name string) int64 { v, _ := strconv.ParseInt(m[name], 10, 64); return v }
		out = append(out, Lost{ID: id, RunID: m["run"], Attempt: int(n("attempt")), Idempotency: jobs.Idempotency(m["class"]),
			Used: int(n("used")), Extra: int(n("extra")), UnknownBefore: n("unknown") > 0, SafeFor: ms(max(n("safe"), 0)),
			DeadlineLeft: ms(n("deadline_left")), Losses: int(n("losses")), Age: ms(n("age")), Over: ms(n("over")), CorrelationID: correlation})
	}
	return out, nil
}

// FinishLost closes a lost attempt. It changes nothing unless the same run still
// holds the claim and its lease is over: the worker's own result, or another
// instance's recovery, may have come first (then How is stale). blind: this
// process does not know the kind, so it may only put the operation back.
func (l *Ledger) FinishLost(ctx context.Context, t Terms, target Target, lost Lost, res Result, blind bool) (Finish, error) {
	f, gone, err := l.finish(ctx, t, target, fence{id: lost.ID, runID: lost.RunID, attempt: lost.Attempt, lost: true,
		stepped: lost.Stepped, blind: blind}, res)
	if gone {
		f.How = HowStale
	}
	return f, err
}
