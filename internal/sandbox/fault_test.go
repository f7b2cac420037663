package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wellDefined are the faults with one effect; flaky, garbage, rate_limit and
// storm have tests of their own.
var wellDefined = []struct {
	fault       Fault
	status      int // 0: the connection is cut
	retryAfter  string
	requests    int
	sideEffects int
	objects     int
	unread      int
	inquiry     int // status of an inquiry under the same fault, 0: cut
}{
	{fault: Fault{Mode: None}, status: 201, requests: 1, sideEffects: 1, objects: 1, inquiry: 200},
	{fault: Fault{Mode: Slow, Latency: time.Millisecond}, status: 201, requests: 1, sideEffects: 1, objects: 1, inquiry: 200},
	{fault: Fault{Mode: Down}, unread: 1},
	{fault: Fault{Mode: Refuse}, status: 503, retryAfter: "1", requests: 1, inquiry: 503},
	{fault: Fault{Mode: Refuse, RetryAfter: new("120")}, status: 503, retryAfter: "120", requests: 1, inquiry: 503},
	{fault: Fault{Mode: Refuse, RetryAfter: new("")}, status: 503, requests: 1, inquiry: 503},
	{fault: Fault{Mode: LostReplies, Share: new(1.0)}, requests: 1, sideEffects: 1, objects: 1},
	{fault: Fault{Mode: Decline, Share: new(1.0)}, status: 402, requests: 1, objects: 1, inquiry: 200},
	{fault: Fault{Mode: Down, Share: new(0.0)}, status: 201, requests: 1, sideEffects: 1, objects: 1, inquiry: 200},
}

func TestFaultShowsItsEffectInReplyAndLedger(t *testing.T) {
	t.Parallel()
	for _, c := range wellDefined {
		t.Run(string(c.fault.Mode), func(t *testing.T) {
			t.Parallel()
			tb := setup(t, Options{})
			tb.setFault(c.fault)
			r := tb.charge("order-1", "")
			if c.status == 0 {
				wantCut(t, r)
			} else {
				r.want(t, c.status)
			}
			if got := r.header.Get("Retry-After"); got != c.retryAfter {
				t.Errorf("got Retry-After %q, want %q", got, c.retryAfter)
			}
			e, st := tb.entry("order-1"), tb.sandbox.Stats()
			if e.Requests != c.requests || e.SideEffects != c.sideEffects || len(e.IDs) != c.objects || st.Unread != c.unread {
				t.Errorf("got entry %+v and unread %d, want requests %d, side effects %d, objects %d, unread %d",
					e, st.Unread, c.requests, c.sideEffects, c.objects, c.unread)
			}
			if got := tb.call("GET", "/v1/charges?reference=order-1", "", ""); c.inquiry == 0 {
				wantCut(t, got)
			} else {
				got.want(t, c.inquiry)
			}
			if got := tb.sandbox.Stats(); got.Inquiries != 1 || got.SideEffects != c.sideEffects {
				t.Errorf("got stats %+v, want 1 inquiry and %d side effects", got, c.sideEffects)
			}
		})
	}
}

// wantCut checks that the connection ended before any byte of an answer.
func wantCut(t *testing.T, r reply) {
	t.Helper()
	if !isCut(r.err) || r.status != 0 {
		t.Errorf("got status %d and error %v, want a cut connection", r.status, r.err)
	}
}

func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func TestLostReplyIsCutInBothWays(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{Seed: 1})
	tb.setFault(Fault{Mode: LostReplies, Share: new(1.0)})
	closed, aborted := 0, 0
	for i := range 40 {
		r := tb.charge(fmt.Sprint("order-", i), "")
		wantCut(t, r)
		if errors.Is(r.err, io.EOF) {
			closed++
		} else {
			aborted++
		}
	}
	if closed == 0 || aborted == 0 {
		t.Errorf("got %d closed and %d aborted connections, want some of each", closed, aborted)
	}
}

func TestDeclinedChargeIsListedAsFailed(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.setFault(Fault{Mode: Decline, Share: new(1.0)})
	tb.charge("order-1", "key-1").wantCode(t, 402, "card_declined")
	r := tb.call("GET", "/v1/charges?reference=order-1", "", "")
	if !strings.Contains(r.body, `"status":"failed"`) {
		t.Errorf("got %q, want a failed charge", r.body)
	}
	tb.setFault(Fault{Mode: None})
	again := tb.charge("order-1", "key-1")
	again.wantCode(t, 402, "card_declined")
	if again.header.Get("Idempotent-Replayed") != "true" {
		t.Error("a decline must be replayed under its key")
	}
}

func TestFlakyMixesSixFaultsWithTheirOwnEffects(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{Seed: 7})
	tb.setFault(Fault{Mode: Flaky, Share: new(1.0), Latency: time.Millisecond})
	want := map[string]int{ // reply -> side effects; a cut is either
		"500": 0, "502": 1, "503": 0, "201": 1,
	}
	seen := map[string]int{}
	for i := range 120 {
		reference := fmt.Sprint("order-", i)
		r := tb.charge(reference, "")
		e := tb.entry(reference)
		if e.Requests != 1 {
			t.Fatalf("%s: got %d requests in the ledger, want 1", reference, e.Requests)
		}
		if isCut(r.err) {
			seen[fmt.Sprint("cut after ", e.SideEffects)]++
			continue
		}
		status := fmt.Sprint(r.status)
		effects, ok := want[status]
		if !ok || e.SideEffects != effects {
			t.Fatalf("%s: got status %s, error %v and %d side effects", reference, status, r.err, e.SideEffects)
		}
		if got := r.header.Get("Retry-After"); (got != "") != (r.status == 503) {
			t.Errorf("got Retry-After %q beside status %d", got, r.status)
		}
		seen[status]++
	}
	for _, sort := range []string{"500", "502", "503", "201", "cut after 0", "cut after 1"} {
		if seen[sort] == 0 {
			t.Errorf("no %s among %v", sort, seen)
		}
	}
}

func TestGarbageBreaksTheAnswerInFourWays(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{Seed: 3})
	tb.setFault(Fault{Mode: Garbage, Share: new(1.0)})
	seen := map[string]int{}
	for i := range 60 {
		reference := fmt.Sprint("order-", i)
		r := tb.charge(reference, "")
		effects := 1
		switch {
		case r.status == 0 && strings.Contains(fmt.Sprint(r.err), "malformed HTTP status"):
			seen["status line"]++
		case r.status == 200 && strings.HasPrefix(r.body, "<!doctype html>"):
			seen["html"]++
			effects = 0
		case r.status == 201 && errors.Is(r.err, io.ErrUnexpectedEOF):
			seen["length"]++
		case r.status == 201 && r.err == nil && strings.HasPrefix(r.body, `{"id"`) && !strings.Contains(r.body, "}"):
			seen["truncated"]++
		default:
			t.Fatalf("got %+v, want garbage", r)
		}
		if e := tb.entry(reference); e.Requests != 1 || e.SideEffects != effects {
			t.Errorf("got %+v after %+v, want %d side effects", e, r, effects)
		}
	}
	if len(seen) != 4 {
		t.Errorf("got %v, want all four sorts", seen)
	}
}

func TestShareOfOneThirdHitsThatManyAndTheSeedRepeatsWhich(t *testing.T) {
	t.Parallel()
	const n = 3000
	drawn := func(seed uint64) (hits []bool) {
		a := &armed{fault: mustFill(t, Fault{Mode: Refuse, Share: new(0.3)})}
		for i := range n {
			hits = append(hits, a.plan(dice(seed, uint64(i)), time.Time{}).hit)
		}
		return hits
	}
	count := func(hits []bool) (n int) {
		for _, h := range hits {
			if h {
				n++
			}
		}
		return n
	}
	first, again := drawn(11), drawn(11)
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("draw %d differs between two runs of one seed", i)
		}
	}
	for seed := range uint64(20) {
		// 0.3 of 3000 is 900, its standard deviation 25: six of them.
		if got := count(drawn(seed)); got < 750 || got > 1050 {
			t.Errorf("seed %d: %d of %d hit, want about 900", seed, got, n)
		}
	}
	same := 0
	other := drawn(12)
	for i := range first {
		if first[i] == other[i] {
			same++
		}
	}
	// Independent draws agree with probability 0.58.
	if same > n*65/100 {
		t.Errorf("seeds 11 and 12 agree on %d of %d draws", same, n)
	}
}

func TestSeedRepeatsTheRepliesOfAWholeRun(t *testing.T) {
	t.Parallel()
	replies := func() (statuses []int) {
		tb := setup(t, Options{Seed: 42})
		tb.setFault(Fault{Mode: Flaky, Latency: time.Millisecond})
		for i := range 50 {
			statuses = append(statuses, tb.charge(fmt.Sprint("order-", i), "").status)
		}
		tb.sandbox.Reset()
		tb.setFault(Fault{Mode: Flaky, Latency: time.Millisecond})
		for i := range 50 {
			if got := tb.charge(fmt.Sprint("order-", i), "").status; got != statuses[i] {
				t.Errorf("request %d after a reset: got status %d, want %d", i, got, statuses[i])
			}
		}
		return statuses
	}
	first, second := replies(), replies()
	if fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("two runs of one seed differ:\n%v\n%v", first, second)
	}
}

func TestEveryModeHasTheDefaultsThatAreDocumented(t *testing.T) {
	t.Parallel()
	want := map[Mode]string{
		None:        `{"mode":"none"}`,
		Slow:        `{"mode":"slow","latency":"2.4s","share":1,"retry_after":"1"}`,
		Down:        `{"mode":"down","share":1,"retry_after":"1"}`,
		Refuse:      `{"mode":"refuse","share":1,"retry_after":"1"}`,
		LostReplies: `{"mode":"lost_replies","share":0.3,"retry_after":"1"}`,
		Flaky:       `{"mode":"flaky","latency":"2.4s","share":0.3,"retry_after":"1"}`,
		RateLimit:   `{"mode":"rate_limit","share":1,"retry_after":"1","per_second":10}`,
		Decline:     `{"mode":"decline","share":0.3,"retry_after":"1"}`,
		Garbage:     `{"mode":"garbage","share":0.3,"retry_after":"1"}`,
		Storm:       `{"mode":"storm","latency":"180ms","share":1,"retry_after":"1","per_second":20}`,
	}
	for _, m := range Modes {
		got, err := mustFill(t, Fault{Mode: m}).MarshalJSON()
		if err != nil || string(got) != want[m] {
			t.Errorf("%s: got %s (%v), want %s", m, got, err, want[m])
		}
	}
}

func TestFaultOutOfRangeIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	if err := s.SetFault(Fault{Mode: Refuse}); err != nil {
		t.Fatal(err)
	}
	nan := 0.0
	nan /= nan
	for _, f := range []Fault{
		{}, {Mode: "slowly"}, {Mode: "SLOW"},
		{Mode: Slow, Latency: -1}, {Mode: Slow, Latency: MaxLatency + 1},
		{Mode: Slow, Share: new(-0.1)}, {Mode: Slow, Share: new(1.1)}, {Mode: Slow, Share: &nan},
		{Mode: Slow, For: -1}, {Mode: Slow, PerSecond: 5}, {Mode: Storm, PerSecond: -1}, {Mode: Storm, PerSecond: 1e-9},
		{Mode: RateLimit, PerSecond: 2e6}, {Mode: RateLimit, PerSecond: nan},
		{Mode: Refuse, RetryAfter: new("5\r\nX: y")}, {Mode: Refuse, RetryAfter: new(strings.Repeat("5", 201))},
	} {
		if err := s.SetFault(f); err == nil {
			t.Errorf("%+v: accepted", f)
		}
	}
	if got := s.Fault().Mode; got != Refuse {
		t.Errorf("got mode %s after refused faults, want %s", got, Refuse)
	}
}

func TestModeNamesTakeADashForAnUnderscore(t *testing.T) {
	t.Parallel()
	if m, err := ParseMode("lost-replies"); err != nil || m != LostReplies {
		t.Errorf("got %q, %v, want %s", m, err, LostReplies)
	}
	if _, err := ParseMode("lost"); err == nil {
		t.Error("an unknown mode was accepted")
	}
}

func TestNoFaultHitsHealthAndControls(t *testing.T) {
	t.Parallel()
	for _, m := range Modes {
		tb := setup(t, Options{})
		tb.setFault(Fault{Mode: m, Share: new(1.0)})
		for _, path := range []string{"/livez", "/_sandbox/fault", "/_sandbox/ledger", "/_sandbox/stats"} {
			tb.call("GET", path, "", "").want(t, http.StatusOK)
		}
		tb.call("PUT", "/_sandbox/fault", "", `{"mode":"none"}`).want(t, http.StatusOK)
		tb.charge("order-1", "").want(t, http.StatusCreated)
	}
}

func mustFill(t *testing.T, f Fault) Fault {
	t.Helper()
	f, err := f.filled()
	if err != nil {
		t.Fatal(err)
	}
	return f
}
