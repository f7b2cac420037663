package rehearsal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/sandbox"
)

var began = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return began.Add(d) }

// clean is the evidence of a rehearsal in which nothing went wrong: a charge that
// was sent twice under its key and took effect once, a transfer that ended unsafe
// after one send without effect, and a payout that was asked about until it was found.
func clean() Evidence {
	charge := Order{ID: jobs.ID{Kind: kindCharge, Key: "order-1"}, Route: "charges", Reference: "order-1", Correlation: "demo-1", Keyed: true}
	transfer := Order{ID: jobs.ID{Kind: kindTransfer, Key: "transfer-2"}, Route: "charges", Reference: "transfer-2", Correlation: "demo-2"}
	payout := Order{ID: jobs.ID{Kind: kindPayout, Key: "payout-3"}, Route: "charges", Reference: "payout-3", Correlation: "demo-3"}
	unsafe := jobs.ReasonUnsafe
	return Evidence{
		Orders: []Order{charge, transfer, payout},
		Ledger: []sandbox.Entry{
			{Route: "charges", Reference: "order-1", Requests: 2, SideEffects: 1, Keys: []string{"charge:order-1"}},
			{Route: "charges", Reference: "transfer-2", Requests: 1},
			{Route: "charges", Reference: "payout-3", Requests: 1, SideEffects: 1},
		},
		Arrivals: []Arrival{
			{Correlation: "demo-1", Key: "charge:order-1", At: after(0), Ended: after(400 * time.Millisecond)},
			{Correlation: "demo-2", Attempt: "1", At: after(time.Second), Ended: after(1100 * time.Millisecond)},
			{Correlation: "demo-1", Attempt: "2", Key: "charge:order-1", At: after(2 * time.Second), Ended: after(2100 * time.Millisecond)},
			{Correlation: "demo-3", Attempt: "1", At: after(3 * time.Second), Ended: after(3100 * time.Millisecond)},
			{Correlation: "demo-3", Inquiry: true, At: after(8 * time.Second), Ended: after(8100 * time.Millisecond)},
			{Correlation: "demo-3", Inquiry: true, At: after(14 * time.Second), Ended: after(14100 * time.Millisecond)},
		},
		Operations: []jobs.Operation{
			{Kind: kindCharge, Key: "order-1", State: jobs.Succeeded, Applied: jobs.AppliedYes, DeadlineAt: jobs.At(after(time.Minute))},
			{Kind: kindTransfer, Key: "transfer-2", State: jobs.Dead, Reason: &unsafe, Applied: jobs.AppliedUnknown, DeadlineAt: jobs.At(after(time.Minute))},
			{Kind: kindPayout, Key: "payout-3", State: jobs.Succeeded, Applied: jobs.AppliedYes, DeadlineAt: jobs.At(after(5 * time.Second))},
		},
		Limits: Limits{Cap: 2, Ratio: 0.1, FloorPerSecond: 1, Slots: 2, InquirySlots: 1, Timeout: time.Second},
		Took:   15 * time.Second,
	}
}

// broken lists the promises that a report says are broken.
func broken(r Report) string {
	var out []string
	for _, p := range Promises {
		if !r.Promises[p] {
			out = append(out, p)
		}
	}
	return strings.Join(out, " ")
}

func TestJudgeCountsWhatTheGatewayCounts(t *testing.T) {
	t.Parallel()
	r := Judge(clean())
	got, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"operations":3,"succeeded":2,"dead":{"unsafe":1},"charged_once":2,"charged_twice":0,"lost":0,"late":0,` +
		`"first_attempts":3,"retries":1,"inquiries":2,"seconds":15,"promises":{"P1":true,"P2":true,"P3":true,"P4":true,"P5":true}}`
	if string(got) != want || !r.Kept() || len(r.Broken) != 0 || r.Asked != 1 || r.AskedSucceeded != 1 {
		t.Errorf("report %s\nbroken %+v\nwant   %s", got, r.Broken, want)
	}
}

func TestJudgeFindsEachBrokenPromise(t *testing.T) {
	t.Parallel()
	permanent := jobs.ReasonPermanent
	for _, tc := range []struct {
		name  string
		spoil func(*Evidence)
		want  string
		check func(Report) bool
	}{
		{"an operation that took effect twice", func(e *Evidence) { e.Ledger[0].SideEffects = 2 }, "P1",
			func(r Report) bool { return r.ChargedTwice == 1 && r.ChargedOnce == 1 }},
		{"a key that changes", func(e *Evidence) { e.Arrivals[2].Key = "other" }, "P1", nil},
		{"a key that is left away", func(e *Evidence) { e.Arrivals[2].Key = "" }, "P1", nil},
		{"an effect that nobody asked for", func(e *Evidence) {
			e.Ledger = append(e.Ledger, sandbox.Entry{Route: "charges", Reference: "stranger", SideEffects: 1})
		}, "P1", nil},
		{"an operation that is not listed", func(e *Evidence) { e.Operations = e.Operations[1:] }, "P2", func(r Report) bool { return r.Lost == 1 }},
		{"an operation that is listed twice", func(e *Evidence) { e.Operations = append(e.Operations, e.Operations[0]) }, "P2", nil},
		{"an operation that never ended", func(e *Evidence) { e.Operations[0].State = jobs.Waiting }, "P2",
			func(r Report) bool { return r.Lost == 1 && r.Succeeded == 1 }},
		{"a success without an effect", func(e *Evidence) { e.Ledger[0].SideEffects = 0 }, "P2", func(r Report) bool { return r.Lost == 1 }},
		{"an effect that counts as not applied", func(e *Evidence) {
			e.Operations[0].State, e.Operations[0].Reason, e.Operations[0].Applied = jobs.Dead, &permanent, jobs.AppliedNo
		}, "P2", func(r Report) bool { return r.Lost == 1 && r.Dead[jobs.ReasonPermanent] == 1 }},
		{"what was asked about and sent again although it was there", func(e *Evidence) { e.Ledger[2].SideEffects = 2 }, "P1",
			func(r Report) bool { return r.ChargedTwice == 1 }},
		{"what was not found and had taken effect", func(e *Evidence) {
			unresolved := jobs.ReasonUnresolved
			e.Operations[2].State, e.Operations[2].Reason, e.Operations[2].Applied = jobs.Dead, &unresolved, jobs.AppliedNo
		}, "P2", func(r Report) bool { return r.Asked == 1 && r.AskedSucceeded == 0 }},
		{"what was found and had no effect", func(e *Evidence) { e.Ledger[2].SideEffects = 0 }, "P2", nil},
		{"what is asked about for ever", func(e *Evidence) { e.Operations[2].State = jobs.Unresolved }, "P2", nil},
		{"a request after the deadline", func(e *Evidence) { e.Operations[0].DeadlineAt = jobs.At(after(1999 * time.Millisecond)) }, "P3",
			func(r Report) bool { return r.Late == 1 }},
		{"a request path's own call after the deadline is none of ours", func(e *Evidence) {
			e.Arrivals[2].Attempt = ""
			e.Operations[0].DeadlineAt = jobs.At(after(-time.Second))
		}, "", func(r Report) bool { return r.Late == 0 }},
		{"more calls than the budget gives", func(e *Evidence) {
			for i := range 5 {
				e.Arrivals = append(e.Arrivals, Arrival{Correlation: "demo-1", Attempt: "3", Key: "charge:order-1",
					At: after(2*time.Second + time.Duration(i)*time.Millisecond), Ended: after(2*time.Second + time.Duration(i)*time.Millisecond)})
			}
		}, "P4", nil},
		{"more inquiries than the budget gives", func(e *Evidence) {
			e.Limits.InquirySlots = 10
			for range 5 {
				e.Arrivals = append(e.Arrivals, Arrival{Correlation: "demo-3", Inquiry: true, At: after(14 * time.Second), Ended: after(14 * time.Second)})
			}
		}, "P4", func(r Report) bool { return r.Inquiries == 7 && r.Retries == 1 }},
		{"an inquiry that holds its slot", func(e *Evidence) { e.Arrivals[4].Ended = after(11100 * time.Millisecond) }, "P5", nil},
		{"more inquiries at once than slots for them", func(e *Evidence) {
			e.Arrivals = append(e.Arrivals, Arrival{Correlation: "demo-3", Inquiry: true, At: after(14050 * time.Millisecond), Ended: after(14200 * time.Millisecond)})
		}, "P5", nil},
		{"a call that holds its slot", func(e *Evidence) { e.Arrivals[1].Ended = after(4100 * time.Millisecond) }, "P5", nil},
		{"a call that never ended", func(e *Evidence) { e.Arrivals[1].Ended = time.Time{} }, "P5", nil},
		{"more calls at once than slots", func(e *Evidence) {
			e.Limits.Cap = 10
			for range 3 {
				e.Arrivals = append(e.Arrivals, Arrival{Correlation: "demo-1", Attempt: "2", Key: "charge:order-1", At: after(5 * time.Second), Ended: after(5100 * time.Millisecond)})
			}
		}, "P5", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := clean()
			tc.spoil(&e)
			r := Judge(e)
			if got := broken(r); got != tc.want {
				t.Errorf("broken %q, want %q: %+v", got, tc.want, r.Broken)
			}
			if r.Kept() != (tc.want == "") {
				t.Errorf("Kept %v with broken %q", r.Kept(), tc.want)
			}
			if tc.check != nil && !tc.check(r) {
				t.Errorf("counts are wrong: %+v", r)
			}
		})
	}
}

// The one-pass bound must say the same as the promise written out: every window.
func TestStormBoundHoldsForEveryWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		e := randomStorm(seed)
		got := strings.Contains(broken(Judge(e)), "P4")
		if want := stormInSomeWindow(e); got != want {
			t.Fatalf("seed %d: P4 broken %v, by every window %v", seed, got, want)
		}
	}
}

func randomStorm(seed uint64) Evidence {
	r := dice(seed)
	e := Evidence{Limits: Limits{Cap: int64(1 + r.IntN(8)), Ratio: float64(r.IntN(4)) / 10, FloorPerSecond: float64(r.IntN(4)), Slots: 1000, Timeout: time.Second}}
	at := time.Duration(0)
	for range 40 + r.IntN(60) {
		at += time.Duration(r.IntN(300)) * time.Millisecond
		e.Arrivals = append(e.Arrivals, Arrival{Correlation: fmt.Sprint(r.IntN(60)), Inquiry: r.IntN(5) == 0, At: after(at), Ended: after(at)})
	}
	return e
}

func stormInSomeWindow(e Evidence) bool {
	seen := map[string]bool{}
	first := make([]bool, len(e.Arrivals))
	for i, a := range e.Arrivals {
		first[i] = !a.Inquiry && !seen[a.Correlation]
		seen[a.Correlation] = seen[a.Correlation] || first[i]
	}
	for i, a := range e.Arrivals {
		for k := i; k < len(e.Arrivals); k++ {
			b := e.Arrivals[k]
			extra, firsts := 0.0, 0.0
			for n, c := range e.Arrivals {
				if n <= k && first[n] && !c.At.Before(a.At.Add(-time.Second)) {
					firsts++
				}
				if n >= i && n <= k && !first[n] {
					extra++
				}
			}
			allowed := float64(e.Limits.Cap) + e.Limits.Ratio*firsts + e.Limits.FloorPerSecond*(b.At.Sub(a.At).Seconds()+1)
			if extra > allowed+1e-6 {
				return true
			}
		}
	}
	return false
}

func TestReportForPeopleSaysWhatBroke(t *testing.T) {
	t.Parallel()
	e := clean()
	e.Ledger[0].SideEffects = 3
	r := Judge(e)
	r.Store, r.Fault, r.Seed, r.Settled = "miniredis, in memory", "down", 7, 2
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"P1 never twice", "BROKEN", "charge/order-1 took effect 3 times", "Gateway: down, seed 7. Store: miniredis, in memory.",
		"Answered on the request path, so never handed over: 2.", "calls per operation", "1.33", "retries per first attempt", "0.33", "dead: unsafe",
		"1 of the 1 operations asked about succeeded"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, b.String())
		}
	}
}

func TestReportShowsAtMostTenBreaches(t *testing.T) {
	t.Parallel()
	e := clean()
	for i := range 20 {
		e.Orders = append(e.Orders, Order{ID: jobs.ID{Kind: kindCharge, Key: jobs.Key(fmt.Sprintf("lost-%d", i))}, Route: "charges", Reference: fmt.Sprint("lost-", i)})
	}
	r := Judge(e)
	if r.Lost != 20 {
		t.Fatalf("lost %d, want 20", r.Lost)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(b.String(), "is listed 0 times"); got != maxBreaches || !strings.Contains(b.String(), "... and 10 more") {
		t.Errorf("%d breaches are shown:\n%s", got, b.String())
	}
}
