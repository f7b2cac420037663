package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"redrive/internal/jobs"
)

func seeded(seed uint64) func() float64 { return rand.New(rand.NewPCG(seed, 1)).Float64 }

func half() float64 { return 0.5 }

// roomy is an input in which nothing but the classification stands in the way of a retry.
func roomy(c Classification, class jobs.Idempotency) DecideInput {
	in := DecideInput{C: c, Idempotency: class, Attempt: 1, Used: 1, MaxAttempts: 25,
		DeadlineIn: 2 * time.Hour, MinResponse: 150 * time.Millisecond,
		Backoff: Backoff{Base: time.Second, Cap: 10 * time.Minute}, Rand: half}
	switch class {
	case jobs.IdempotencyNatural:
		in.ResendSafeFor = Forever
	case jobs.IdempotencyKeyed:
		in.ResendSafeFor = 19 * time.Hour
	}
	return in
}

func TestDecideInOrder(t *testing.T) {
	t.Parallel()
	type change = func(*DecideInput)
	inquiry := func(in *DecideInput) { in.HasInquiry = true }
	unknownBefore := func(in *DecideInput) { in.UnknownBefore = true }
	unsafe := func(in *DecideInput) { in.ResendSafeFor = 0 }
	used := func(in *DecideInput) { in.Used = in.MaxAttempts }
	deadline := func(in *DecideInput) { in.DeadlineIn = 200 * time.Millisecond }
	refusals := func(n int) change { return func(in *DecideInput) { in.CredentialRefusals = n } }
	losses := func(n int) change { return func(in *DecideInput) { in.WorkerLosses = n } }
	paused := func(in *DecideInput) { in.DependencyPaused = true }
	const natural, keyed, conditional, none = jobs.IdempotencyNatural, jobs.IdempotencyKeyed, jobs.IdempotencyConditional, jobs.IdempotencyNone

	for name, tc := range map[string]struct {
		row    string
		class  jobs.Idempotency
		with   []change
		next   Next
		reason jobs.Reason
		stop   string
	}{
		"a success":                                {"H200", none, nil, NextSucceed, "", ""},
		"a success beats everything":               {"H200", none, []change{unknownBefore, used, deadline, losses(3)}, NextSucceed, "", ""},
		"a recognised duplicate":                   {"H404", natural, nil, NextSucceed, "", ""},
		"refused, safe to repeat":                  {"H425", none, nil, NextRetry, "", ""},
		"not sent":                                 {"N05", none, nil, NextRetry, "", ""},
		"unknown, none":                            {"N12", none, nil, NextAsk, "", "unsafe"},
		"unknown, none, inquiry":                   {"N12", none, []change{inquiry}, NextAsk, "", "unresolved"},
		"unknown, none, told it is safe":           {"N12", none, []change{func(in *DecideInput) { in.ResendSafeFor = Forever }}, NextAsk, "", "unsafe"},
		"unknown, conditional":                     {"N12", conditional, nil, NextAsk, "", "unsafe"},
		"unknown, keyed":                           {"N12", keyed, nil, NextRetry, "", ""},
		"unknown, keyed, window over":              {"N12", keyed, []change{unsafe}, NextAsk, "", "unsafe"},
		"unknown, natural":                         {"N12", natural, nil, NextRetry, "", ""},
		"unknown, natural, target changed":         {"N12", natural, []change{unsafe}, NextAsk, "", "unsafe"},
		"to be asked, keyed, inquiry":              {"H500", keyed, []change{inquiry}, NextAsk, "", "unresolved"},
		"to be asked, keyed, nobody to ask":        {"H500", keyed, nil, NextRetry, "", ""},
		"to be asked, none, nobody to ask":         {"H500", none, nil, NextAsk, "", "unsafe"},
		"the no of a lock is not trusted for none": {"H423", none, nil, NextAsk, "", "unsafe"},
		"refused after an unknown one, none":       {"H425", none, []change{unknownBefore}, NextAsk, "", "unsafe"},
		"not sent after an unknown one, none":      {"N05", none, []change{unknownBefore}, NextAsk, "", "unsafe"},
		"refused after an unknown one, keyed":      {"H425", keyed, []change{unknownBefore}, NextRetry, "", ""},
		"permanent":                                {"H400", keyed, nil, NextEnd, jobs.ReasonPermanent, "permanent"},
		"a redirect":                               {"H307", keyed, nil, NextEnd, jobs.ReasonMisconfigured, "misconfigured"},
		"426":                                      {"H426", none, nil, NextEnd, jobs.ReasonMisconfigured, "misconfigured"},
		"511":                                      {"H511", natural, nil, NextEnd, jobs.ReasonMisconfigured, "misconfigured"},
		"pending":                                  {"H202", keyed, []change{inquiry}, NextAsk, "", "unresolved"},
		"pending, nobody to ask":                   {"H202", natural, nil, NextAsk, "", "unsafe"},
		"cut 2xx, keyed":                           {"N19", keyed, nil, NextRetry, "", ""},
		"cut 2xx, natural":                         {"N19", natural, nil, NextSucceed, "", ""},
		"read the original":                        {"H409U", conditional, []change{inquiry}, NextAsk, "", "unresolved"},
		"read the original, nobody to ask":         {"H409U", conditional, nil, NextConflict, jobs.ReasonConflict, "permanent"},
		"404, conditional, nobody to ask":          {"H404", conditional, nil, NextConflict, jobs.ReasonConflict, "permanent"},
		"428, keyed, nobody to ask":                {"H428", keyed, nil, NextConflict, jobs.ReasonConflict, "permanent"},
		"428, none":                                {"H428", none, nil, NextEnd, jobs.ReasonMisconfigured, "misconfigured"},
		"no attempts left":                         {"H425", none, []change{used}, NextEnd, jobs.ReasonAttempts, "attempts"},
		"attempts come before the deadline":        {"H425", none, []change{used, deadline}, NextEnd, jobs.ReasonAttempts, "attempts"},
		"asking comes before attempts":             {"N12", none, []change{used, deadline}, NextAsk, "", "unsafe"},
		"the next would miss the deadline":         {"H425", none, []change{deadline}, NextEnd, jobs.ReasonDeadline, "deadline"},
		"a deadline that has passed":               {"H425", none, []change{func(in *DecideInput) { in.DeadlineIn = math.MinInt64 }}, NextEnd, jobs.ReasonDeadline, "deadline"},
		"first refused credential":                 {"H401", none, []change{refusals(1)}, NextRetry, "", ""},
		"third refused credential":                 {"H401", none, []change{refusals(3)}, NextEnd, jobs.ReasonMisconfigured, "misconfigured"},
		"third refused credential while paused":    {"H401", none, []change{refusals(3), paused}, NextRetry, "", ""},
		"refused credential after an unknown one":  {"H401", none, []change{refusals(1), unknownBefore}, NextAsk, "", "unsafe"},
		"bad certificate":                          {"N07", none, []change{refusals(2)}, NextRetry, "", ""},
		"lost its worker":                          {"N18", keyed, []change{losses(2)}, NextRetry, "", ""},
		"lost its worker a third time":             {"N18", keyed, []change{losses(3)}, NextEnd, jobs.ReasonPoison, "poison"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := roomy(index.id[tc.row].classify(tc.class, true, true), tc.class)
			for _, change := range tc.with {
				change(&in)
			}
			d := Decide(in)
			if d.Next != tc.next || d.Reason != tc.reason || d.Stop != tc.stop {
				t.Errorf("got %+v, want next %s, reason %q, stop %q", d, tc.next, tc.reason, tc.stop)
			}
		})
	}
}

func TestAResendMustStaySafeUntilTheDelayIsOver(t *testing.T) {
	t.Parallel()
	c := Classify(answer(503, map[string][]string{"Retry-After": {"3600"}}, ""), jobs.IdempotencyKeyed)
	in := roomy(c, jobs.IdempotencyKeyed)
	in.ResendSafeFor = time.Hour // the hint alone is as long, and the wait is longer
	d := Decide(in)
	if d.Next != NextAsk || d.Verdict != jobs.VerdictUnknownInquire {
		t.Errorf("got %+v, want ask with verdict unknown_inquire", d)
	}
	in.ResendSafeFor = time.Hour + MaxExtra
	if d := Decide(in); d.Next != NextRetry || d.Verdict != jobs.VerdictRetryAfter {
		t.Errorf("got %+v, want a retry", d)
	}
}

func TestAnAnswerSpeaksForEarlierAttemptsOnlyUnderTheSameKey(t *testing.T) {
	t.Parallel()
	for class, want := range map[jobs.Idempotency]bool{jobs.IdempotencyNatural: true, jobs.IdempotencyKeyed: true,
		jobs.IdempotencyConditional: false, jobs.IdempotencyNone: false} {
		in := roomy(Classify(answer(402, nil, "{}"), class), class)
		in.UnknownBefore = true
		if !in.C.SettlesPrior {
			t.Fatal("402 settles earlier attempts in the table")
		}
		if d := Decide(in); d.SettlesPrior != want {
			t.Errorf("%s: settles earlier attempts %v, want %v", class, d.SettlesPrior, want)
		}
		in.ResendSafeFor = 0 // the gateway may have forgotten the key: the decline is of this attempt alone
		if d := Decide(in); d.SettlesPrior {
			t.Errorf("%s: settles earlier attempts outside the safe time", class)
		}
	}
}

func TestWhatDoesNotCount(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]bool{"N05": false, "N09": false, "H401": false, "H403": false, "H503": true, "H500": true, "N12": true, "H400": true, "N18": true} {
		if c := index.id[row].classify(jobs.IdempotencyKeyed, true, true); Counts(c) != want {
			t.Errorf("%s: counts %v, want %v", row, !want, want)
		}
	}
	if Counts(Classify(answer(429, nil, ""), jobs.IdempotencyNone)) {
		t.Error("429 counts")
	}
}

func TestARefusedCredentialWaitsForAPauseToTakeHold(t *testing.T) {
	t.Parallel()
	in := roomy(Classify(answer(401, nil, ""), jobs.IdempotencyNone), jobs.IdempotencyNone)
	in.CredentialRefusals = 1
	for _, r := range []float64{0, 0.3, 0.999} {
		in.Rand = func() float64 { return r }
		if d := Decide(in); d.Next != NextRetry || d.Delay < 5*time.Second || d.Counted {
			t.Errorf("rand %v: got %+v, want an uncounted retry after at least 5s", r, d)
		}
	}
}

func TestClaimLeaseAndSafeTime(t *testing.T) {
	t.Parallel()
	if got := ClaimLease(3 * time.Second); got != 7*time.Second {
		t.Errorf("claim lease %v, want 7s", got)
	}
	lease := 7 * time.Second
	for window, want := range map[time.Duration]time.Duration{
		24 * time.Hour:   24 * time.Hour / 5 * 4,
		time.Minute:      46 * time.Second, // two leases are more than a fifth
		10 * time.Second: -4 * time.Second, // leaves nothing
	} {
		if got := ResendSafe(window, lease); got != want {
			t.Errorf("window %v: safe for %v, want %v", window, got, want)
		}
	}
	sent := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	if got := SafeUntil(sent, time.Minute, lease); !got.Equal(sent.Add(46 * time.Second)) {
		t.Errorf("safe until %v", got)
	}
}
