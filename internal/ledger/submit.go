package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// MaxBatch is how many operations one call of [Ledger.Submit] takes.
const MaxBatch = 100

// spans are the milliseconds in what submit.lua says; people read 2160h0m0s better.
var spans = regexp.MustCompile(`\b\d+ ms\b`)

// Refusals of submit.lua: backlogFull begins the one that passes by itself, pastDeadline and
// inThePast are both ends of the one that no waiting helps.
const (
	backlogFull  = "backlog full"
	pastDeadline = "deadline: "
	inThePast    = " in the past"
)

// SubmitTerms is what a submission of one dependency is held to.
type SubmitTerms struct {
	Terms
	By         string // who submits, as [jobs.CheckBy] takes it; "": a worker that tells of its own
	MaxBacklog int64
	ClaimLease time.Duration // shortens a key's safe window, see policy.SafeUntil
	Jitter     int64         // 0 to 1000, drawn anew for each call: of the open time, should a reported failure open the breaker
}

// Submit writes at most [MaxBatch] prepared operations of one dependency, and
// returns one receipt each, in order. An error means that the fate of all of them
// is unknown (the reply may have been lost): submitting the same again is safe. So it
// is where an operation is [jobs.Unsure], which waits for the replicas once more
// ([Ledger.WaitingFor]).
func (l *Ledger) Submit(ctx context.Context, t SubmitTerms, entries []Entry) ([]jobs.Receipt, error) {
	r, unsure, err := l.submit(ctx, t, entries)
	if err != nil {
		return nil, err
	}
	receipts := make([]jobs.Receipt, len(entries))
	for i, e := range entries {
		receipts[i] = receipt(e, r[6*i:6*i+6])
		if unsure && (receipts[i].Answer == jobs.Accepted || receipts[i].Answer == jobs.Duplicate) {
			receipts[i].Answer = jobs.Unsure
		}
	}
	return receipts, nil
}

// submit runs the script. unsure: what it wrote is not on enough replicas yet.
func (l *Ledger) submit(ctx context.Context, t SubmitTerms, entries []Entry) (r luascript.Reply, unsure bool, err error) {
	if len(entries) > MaxBatch {
		return nil, false, fmt.Errorf("submit: %d operations in one call, at most %d", len(entries), MaxBatch)
	}
	if t.By != "" {
		if err := jobs.CheckBy(t.By); err != nil {
			return nil, false, fmt.Errorf("submit: by: %w", err)
		}
	}
	spare := t.Gate // a submission may come from anywhere: what the workers say counts
	t.Gate = budget.Params{}
	args := spare.SpareArgs(t.args()).Int("jitter", t.Jitter).Int("n", int64(len(entries))).Int("keys", t.Retention.KeysMS).Int("max_backlog", t.MaxBacklog).
		Int("lease", t.ClaimLease.Milliseconds())
	expectArgs(args, t.Expect)
	if t.By != "" {
		args.Str("by", t.By)
	}
	for i, e := range entries {
		if e.Dependency != t.Dependency {
			return nil, false, fmt.Errorf("submit %s: belongs to dependency %s, not %s", e.ID, e.Dependency, t.Dependency)
		}
		e.meta.DelayMS = ceilMS(e.Delay)
		meta, err := json.Marshal(e.meta)
		if err != nil {
			return nil, false, fmt.Errorf("submit %s: %w", e.ID, err)
		}
		args.Bytes("e"+strconv.Itoa(i+1), meta).Bytes("q"+strconv.Itoa(i+1), e.request)
	}
	if t.Seen > 0 {
		args.Int("seen", t.Seen)
	}
	r, err = submitScript.Run(ctx, l.rdb, l.slot(t.Dependency), args.Replicas(l.replicas))
	if unsure = errors.Is(err, luascript.ErrTooFewReplicas); err != nil && !unsure {
		return nil, false, err
	}
	if err := unstepped(r); err != nil {
		return nil, false, err
	}
	if len(r) < 6*len(entries) {
		return nil, false, unexpected("submit", r)
	}
	return r, unsure, nil
}

// SubmitBegun writes one prepared operation and its first attempt in one step, for a
// request path that sends it itself: it is attempting at once, held by runID until the
// claim's lease ends. The grant is nil when there is nothing to send: the operation is
// known already (duplicate, conflict), was refused, or waits because its dependency is
// paused; or, with [jobs.Unsure], because too few replicas have it. The same run id
// again gets the same grant. Errors mean, as those of Submit, that its fate is unknown:
// send nothing, and call [Ledger.Abandon] with delivery 0 and the run id.
func (l *Ledger) SubmitBegun(ctx context.Context, t SubmitTerms, target Target, e Entry, runID string) (jobs.Receipt, *Grant, error) {
	if e.meta.Attempted != nil || e.meta.NotBefore > 0 {
		return jobs.Receipt{}, nil, fmt.Errorf("submit %s: an operation that is sent at once has neither attempted nor not_before", e.ID)
	}
	e.meta.Run = runID
	r, unsure, err := l.submit(ctx, t, []Entry{e})
	if err != nil {
		return jobs.Receipt{}, nil, err
	}
	facts := r[5]
	begun := jobs.Answer(r[0]) == jobs.Accepted && facts != ""
	if begun {
		r[5] = ""
	}
	answer := receipt(e, r[:6])
	if unsure && answer.Answer == jobs.Accepted {
		answer.Answer = jobs.Unsure
	}
	if !begun || unsure {
		return answer, nil, nil
	}
	g, err := e.begun(target, runID, strings.Fields(facts))
	return answer, g, err
}

// begun is the grant of an attempt that submit wrote ahead.
func (e Entry) begun(target Target, runID string, facts []string) (*Grant, error) {
	if len(facts) < 7 {
		return nil, unexpected("submit", facts)
	}
	key, credential := e.meta.Key, orDefault(e.meta.Credential)
	if key == "" {
		key = defaultIdempotencyKey(e.ID)
	}
	class := jobs.Idempotency(e.meta.Idempotency).Weaker(target.Idempotency)
	safe := "0"
	switch class {
	case jobs.IdempotencyNatural:
		safe = "-1"
	case jobs.IdempotencyKeyed:
		safe = strconv.FormatInt(max(number(facts[6])-number(facts[3]), 0), 10)
	}
	deadline := number(facts[3]) + number(facts[1])
	return newGrant(e.ID, runID, e.request, map[string]string{"attempt": "1", "lease_left": facts[0], "deadline_left": facts[1], "seq": facts[2],
		"started": facts[3], "target": facts[4], "used": "1", "unknown": "0", "class": string(class), "safe_for": safe, "ikey": key, "cred": credential,
		"corr": e.meta.Correlation, "tp": e.meta.Traceparent, "fp": e.meta.Fingerprint, "created": facts[3], "idem": e.meta.Idempotency,
		"deadline": strconv.FormatInt(deadline, 10), "window": strconv.FormatInt(e.meta.WindowMS, 10), "first": facts[3], "safe": facts[6],
		"generation": facts[5]})
}

func receipt(e Entry, f luascript.Reply) jobs.Receipt {
	r := jobs.Receipt{Answer: jobs.Answer(f[0]), Operation: e.ID, State: jobs.State(f[1]), Applied: jobs.Applied(f[2]),
		NextAt: jobs.AtMS(f.Int(3)), Merged: f[4] == "1", Differs: []string{}, Warnings: []string{}}
	r.Warnings = append(r.Warnings, e.Warnings...)
	switch {
	case r.Answer == jobs.Conflict:
		if f[5] != "" {
			r.Differs = strings.Split(f[5], ",")
		}
	case r.Answer == jobs.Accepted && f[5] != "":
		r.Warnings = append(r.Warnings, "it was sent, so it is kept, and nothing more is sent for it: "+legible(f[5]))
	case f[5] != "":
		why := legible(f[5])
		r.Error = &why
		r.Later, r.Barred = strings.HasPrefix(why, backlogFull), strings.HasPrefix(why, barredBecause)
		r.Past = strings.HasPrefix(why, pastDeadline) && strings.HasSuffix(why, inThePast)
	}
	if r.Answer == jobs.Refused { // there is no record: only the submission can tell of a send
		r.Applied = jobs.AppliedNo
		if a := e.meta.Attempted; a != nil && a.Outcome == string(jobs.OutcomeUnknown) {
			r.Applied = jobs.AppliedUnknown
		}
	}
	return r
}
