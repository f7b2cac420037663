package policy

import (
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"

	"redrive/internal/jobs"
)

func FuzzHints(f *testing.F) {
	for _, v := range []string{"3", "0.503", "1m0s", "30,120", "Sun, 06 Nov 1994 08:49:37 GMT, 5", `"b";r=0;t=30`, "1796040030", "9223372036854775807", "nan", `"\`, "\xff\x00"} {
		f.Add(v, v, v, 429)
	}
	f.Fuzz(func(t *testing.T, a, b, c string, status int) {
		s := Sample{Phase: PhaseAnswered, Status: status, ReceivedAt: received, Header: map[string][]string{
			"Retry-After": {a, b}, "Retry-After-Ms": {c}, "Ratelimit": {b}, "Ratelimit-Reset": {c}, "X-Ratelimit-Reset": {a}, "Date": {b}}}
		h := hintOf(s)
		if h.Wait < 0 || h.Wait > MaxWait {
			t.Errorf("wait %v is out of bounds", h.Wait)
		}
		if h.From == "" && h.Wait != 0 {
			t.Errorf("a wait of %v from nowhere", h.Wait)
		}
		if len(h.Raw) > maxRawBytes || !utf8.ValidString(h.Raw) {
			t.Errorf("raw value %q", h.Raw)
		}
	})
}

func FuzzDecide(f *testing.F) {
	for i := range Table() {
		f.Add(uint8(i), uint8(i%4), "30", int64(time.Hour), int64(time.Hour), int64(time.Second), 3, uint8(i), uint64(i))
	}
	rows := Table()
	f.Fuzz(func(t *testing.T, row, class uint8, hint string, safeFor, deadlineIn, base int64, attempt int, bits uint8, seed uint64) {
		idempotency := jobs.Idempotencies[int(class)%len(jobs.Idempotencies)]
		c := index.id[rows[int(row)%len(rows)].ID].classify(idempotency, bits&1 != 0, bits&2 != 0)
		c.Hint = hintOf(throttled(map[string][]string{"Retry-After": {hint}}))
		rnd := rand.New(rand.NewPCG(seed, 0))
		in := DecideInput{C: c, Idempotency: idempotency,
			UnknownBefore: bits&4 != 0, ResendSafeFor: time.Duration(safeFor), HasInquiry: bits&8 != 0,
			Attempt: attempt, Used: attempt, MaxAttempts: rnd.IntN(30),
			DeadlineIn: time.Duration(deadlineIn), MinResponse: time.Duration(rnd.Int64N(int64(time.Minute))),
			Backoff:            Backoff{Base: time.Duration(base), Cap: 10 * time.Minute},
			CredentialRefusals: rnd.IntN(5), DependencyPaused: bits&16 != 0, WorkerLosses: rnd.IntN(4), Rand: rnd.Float64}
		checkDecision(t, in, Decide(in))
	})
}

// checkDecision holds a decision against the promises it must keep.
func checkDecision(t *testing.T, in DecideInput, d Decision) {
	t.Helper()
	c := in.C
	unknown := c.Outcome == jobs.OutcomeUnknown || in.UnknownBefore && !d.SettlesPrior
	weak := in.Idempotency == jobs.IdempotencyNone || in.Idempotency == jobs.IdempotencyConditional
	if weak && d.SettlesPrior {
		t.Errorf("%+v: class %s has no key that could speak for earlier attempts", in, in.Idempotency)
	}
	if d.Next != NextRetry {
		if d.Delay != 0 {
			t.Errorf("%+v: a delay without a retry", d)
		}
		if (d.Next == NextSucceed) != (d.Stop == "") {
			t.Errorf("%+v: a stop without its label, or a label without a stop", d)
		}
		if (d.Next == NextEnd || d.Next == NextConflict) != (d.Reason != "") {
			t.Errorf("%+v: reason and end do not agree", d)
		}
		return
	}
	if unknown && (weak || d.Delay > in.ResendSafeFor) {
		t.Errorf("%+v: %+v is resent though an attempt is unknown", in, d)
	}
	if d.Delay+in.MinResponse > in.DeadlineIn {
		t.Errorf("%+v: %+v would miss the deadline", in, d)
	}
	if d.Delay < c.Hint.Wait || d.Delay < MinDelay || d.Delay > MaxWait+MaxExtra {
		t.Errorf("%+v: delay %v is out of bounds", in, d.Delay)
	}
	if in.Used >= in.MaxAttempts {
		t.Errorf("%+v: a retry without an attempt left", in)
	}
	if c.Verdict == jobs.VerdictPermanentFailure || c.Verdict == jobs.VerdictPendingPoll || c.Verdict == jobs.VerdictConflictRead {
		t.Errorf("%+v: verdict %s is resent", in, c.Verdict)
	}
}
