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

	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// MaxBatch is how many operations one call of [Ledger.Submit] takes.
const MaxBatch = 100

// countedWithin is how old a reported send may be to count as a first attempt in
// the budget: the width of the breaker's window.
const countedWithin = 10 * time.Second

// spans are the milliseconds in what submit.lua says; people read 2160h0m0s better.
var spans = regexp.MustCompile(`\b\d+ ms\b`)

// backlogFull begins the refusal of submit.lua that passes by itself.
const backlogFull = "backlog full"

// SubmitTerms is what a submission of one dependency is held to.
type SubmitTerms struct {
	Terms
	MaxBacklog int64
	ClaimLease time.Duration // shortens a key's safe window, see policy.SafeUntil
}

// Submit writes at most [MaxBatch] prepared operations of one dependency, and
// returns one receipt each, in order. An error means that the fate of all of them
// is unknown (the reply may have been lost): submitting the same again is safe. So it
// is where an operation is [jobs.Unsure], which waits for the replicas once more
// ([Ledger.WaitingFor]).
func (l *Ledger) Submit(ctx context.Context, t SubmitTerms, entries []Entry) ([]jobs.Receipt, error) {
	if len(entries) > MaxBatch {
		return nil, fmt.Errorf("submit: %d operations in one call, at most %d", len(entries), MaxBatch)
	}
	args := t.args().Int("n", int64(len(entries))).Int("keys", t.Retention.KeysMS).Int("max_backlog", t.MaxBacklog).
		Int("lease", t.ClaimLease.Milliseconds()).Int("counted_within", countedWithin.Milliseconds())
	for i, e := range entries {
		if e.Dependency != t.Dependency {
			return nil, fmt.Errorf("submit %s: belongs to dependency %s, not %s", e.ID, e.Dependency, t.Dependency)
		}
		e.meta.DelayMS = ceilMS(e.Delay)
		meta, err := json.Marshal(e.meta)
		if err != nil {
			return nil, fmt.Errorf("submit %s: %w", e.ID, err)
		}
		args.Bytes("e"+strconv.Itoa(i+1), meta).Bytes("q"+strconv.Itoa(i+1), e.request)
	}
	r, err := submitScript.Run(ctx, l.rdb, l.slot(t.Dependency), args.Replicas(l.replicas))
	unsure := errors.Is(err, luascript.ErrTooFewReplicas)
	if err != nil && !unsure {
		return nil, err
	}
	if len(r) < 6*len(entries) {
		return nil, unexpected("submit", r)
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

func receipt(e Entry, f luascript.Reply) jobs.Receipt {
	r := jobs.Receipt{Answer: jobs.Answer(f[0]), Operation: e.ID, State: jobs.State(f[1]), Applied: jobs.Applied(f[2]),
		NextAt: jobs.AtMS(f.Int(3)), Merged: f[4] == "1", Differs: []string{}, Warnings: []string{}}
	r.Warnings = append(r.Warnings, e.Warnings...)
	switch {
	case r.Answer == jobs.Conflict:
		if f[5] != "" {
			r.Differs = strings.Split(f[5], ",")
		}
	case f[5] != "":
		why := spans.ReplaceAllStringFunc(f[5], func(text string) string {
			n, _ := strconv.ParseInt(strings.TrimSuffix(text, " ms"), 10, 64)
			return ms(n).String()
		})
		r.Error = &why
		r.Later = strings.HasPrefix(why, backlogFull)
	}
	if r.Answer == jobs.Refused { // there is no record: only the submission can tell of a send
		r.Applied = jobs.AppliedNo
		if a := e.meta.Attempted; a != nil && a.Outcome == string(jobs.OutcomeUnknown) {
			r.Applied = jobs.AppliedUnknown
		}
	}
	return r
}
