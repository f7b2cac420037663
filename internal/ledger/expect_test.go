package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redrive/internal/jobs"
)

// What attempts bring, as policy would put it.

func succeeded() Result {
	return Result{Outcome: jobs.OutcomeSucceeded, Class: jobs.Class2xx, Status: 201, Verdict: jobs.VerdictSucceeded, Step: StepSucceed, Counted: true, Body: []byte("paid")}
}

func refused(delay time.Duration) Result {
	return Result{Outcome: jobs.OutcomeRefused, Class: jobs.Class503, Status: 503, Verdict: jobs.VerdictRetryAfter, Step: StepRetry, Delay: delay, Counted: true, Error: "503 overloaded"}
}

func unknown(delay time.Duration) Result {
	return Result{Outcome: jobs.OutcomeUnknown, Class: jobs.ClassTimeout, Verdict: jobs.VerdictRetrySameKey, Step: StepRetry, Delay: delay, Counted: true, Error: "no answer in 3s"}
}

func ends(reason jobs.Reason) Result {
	return Result{Outcome: jobs.OutcomeRefused, Class: jobs.Class4xx, Status: 400, Verdict: jobs.VerdictPermanentFailure, Step: StepEnd, Reason: reason, Counted: true, Error: "400 declined"}
}

// lost is what policy makes of a worker that went away.
func lost(delay time.Duration) Result {
	r := unknown(delay)
	r.Class, r.Error = jobs.ClassWorkerLost, "worker lost"
	return r
}

func (b *bundle) get(key string) *Detail {
	b.Helper()
	d, err := b.Get(b.Context(), dep, id(key), &b.spec)
	b.must(err)
	return d
}

// want checks the state of an operation and, after a slash, its reason.
func (b *bundle) want(key, state string) {
	b.Helper()
	d := b.get(key)
	got := string(d.State)
	if d.Reason != nil {
		got += "/" + string(*d.Reason)
	}
	if got != state {
		b.Fatalf("%s is %s, want %s", key, got, state)
	}
}

func (b *bundle) wantApplied(key string, want jobs.Applied) {
	b.Helper()
	if got := b.get(key).Applied; got != want {
		b.Fatalf("%s: applied %s, want %s", key, got, want)
	}
}

func (b *bundle) wantFlags(key string, want ...jobs.Flag) {
	b.Helper()
	if got := b.get(key).Flags; !slices.Equal(got, want) {
		b.Fatalf("%s: flags %v, want %v", key, got, want)
	}
}

func (b *bundle) wantHow(f Finish, want How) {
	b.Helper()
	if f.How != want {
		b.Fatalf("finish was taken as %s (state %s), want %s", f.How, f.State, want)
	}
}

// outcomes lists what the timeline says of each attempt, such as "1:unknown 2:open".
func (b *bundle) outcomes(key string) string {
	b.Helper()
	var out []string
	for _, e := range b.get(key).Timeline {
		if e.Event == "attempt" {
			outcome := string(e.Outcome)
			if outcome == "" {
				outcome = "open"
			}
			out = append(out, fmt.Sprintf("%d:%s", e.N, outcome))
		}
	}
	return strings.Join(out, " ")
}

func (b *bundle) wantOutcomes(key, want string) {
	b.Helper()
	if got := b.outcomes(key); got != want {
		b.Fatalf("%s: attempts %q, want %q", key, got, want)
	}
}

// near checks a span that may have shrunk by what the test itself took.
func (b *bundle) near(what string, got, want time.Duration) {
	b.Helper()
	if got > want || got < want-5*time.Second {
		b.Fatalf("%s is %v, want %v or a little less", what, got, want)
	}
}
