package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/policy"
	"redrive/internal/sandbox"
	"redrive/internal/worker"
)

// shortCourse is a rehearsal for a test: the same parts, less waiting.
var shortCourse = course{trickle: 400 * time.Millisecond, fault: time.Second, deadline: 40 * time.Second, grace: 10 * time.Second}

// promised fails the test with what a person would want to see.
func promised(t *testing.T, r *Report) {
	t.Helper()
	if !r.Kept() {
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Error(err)
		}
		t.Errorf("a promise was broken:\n%s", b.String())
	}
}

// A rehearsal mostly waits, so several are played at once, whichever test they belong
// to: more than tests run at once on a machine with few cores, and not so many that
// they starve each other there. One value per rehearsal under way.
var places = make(chan struct{}, 6)

// playAll plays each, and returns the reports in the same order.
func playAll(t *testing.T, options []Options) []*Report {
	t.Helper()
	reports, errs := make([]*Report, len(options)), make([]error, len(options))
	var played sync.WaitGroup
	for i, o := range options {
		o.Workers, o.course = 1, shortCourse
		t.Logf("%d operations, fault %s, seed %d, %s", o.Operations, o.Fault, o.Seed, o.Store)
		places <- struct{}{}
		played.Go(func() {
			defer func() { <-places }()
			reports[i], errs[i] = Run(t.Context(), o)
		})
	}
	played.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return reports
}

// everySeed draws operations of every kind, timed out payouts and tight deadlines among
// them, also where they are few.
const everySeed = 10

func TestPromisesHoldUnderEveryFaultOnBothStores(t *testing.T) {
	t.Parallel()
	// The store in memory interprets every script in this process: few operations.
	for store, operations := range map[StoreChoice]int{StoreMemory: 24, StoreRedis: 40} {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			var options []Options
			for _, fault := range slices.Backward(sandbox.Modes) { // the last one, storm, takes longest
				options = append(options, Options{Operations: operations, Fault: fault, Seed: everySeed, Store: store})
			}
			for i, r := range playAll(t, options) {
				t.Run(string(options[i].Fault), func(t *testing.T) { checkEnds(t, r, operations) })
			}
		})
	}
}

func checkEnds(t *testing.T, r *Report, operations int) {
	t.Helper()
	promised(t, r)
	ended := r.Succeeded
	for _, n := range r.Dead {
		ended += n
	}
	if r.Operations != operations || ended != operations || r.Succeeded == 0 {
		t.Errorf("%d operations, %d ended: %+v", r.Operations, ended, r)
	}
}

func TestADeclineIsAnEndAndNoLoss(t *testing.T) {
	t.Parallel()
	c := shortCourse
	c.fault = time.Hour // whenever a call comes, it may be declined
	r, err := Run(t.Context(), Options{Operations: 40, Fault: sandbox.Decline, Seed: 7, Workers: 1, Store: StoreMemory, course: c})
	if err != nil {
		t.Fatal(err)
	}
	promised(t, r)
	if r.Dead[jobs.ReasonPermanent] == 0 || r.Lost != 0 {
		t.Errorf("nothing was declined, or something counts as lost: %+v", r)
	}
}

func TestLostRepliesOfClassNoneAreSettledByInquiryOrLeftToAPersonAndNeverResent(t *testing.T) {
	t.Parallel()
	var evidence [2]Evidence
	options := make([]Options, len(evidence))
	for i := range options {
		options[i] = Options{Operations: 60, Fault: sandbox.LostReplies, Seed: 5, Store: StoreRedis, noInquiry: i == 1, noBreaker: true,
			evidenceFunc: func(e Evidence) { evidence[i] = e }}
	}
	for i, r := range playAll(t, options) {
		t.Run(map[bool]string{true: "without an inquiry", false: "with one"}[options[i].noInquiry], func(t *testing.T) {
			promised(t, r)
			checkClassNone(t, evidence[i], !options[i].noInquiry)
			if (r.Inquiries > 0) == options[i].noInquiry {
				t.Errorf("%d inquiries reported", r.Inquiries)
			}
		})
	}
}

// checkClassNone looks at the operations of class none one by one. Each reply that was
// lost had an effect. asked: payouts can be asked about.
func checkClassNone(t *testing.T, e Evidence, asked bool) {
	t.Helper()
	ended, sends, effects := map[jobs.ID]jobs.Operation{}, map[string]int{}, map[string]int{}
	for _, o := range e.Operations {
		ended[o.ID()] = o
	}
	for _, a := range e.Arrivals {
		if !a.Inquiry {
			sends[a.Correlation]++
		}
	}
	for _, entry := range e.Ledger {
		effects[entry.Reference] = entry.SideEffects
	}
	lost := 0 // replies
	for _, order := range e.Orders {
		if order.ID.Kind != kindPayout && order.ID.Kind != kindTransfer {
			continue
		}
		o, canAsk := ended[order.ID], asked && order.ID.Kind == kindPayout
		unsafe := o.State == jobs.Dead && reasonOf(&o) == jobs.ReasonUnsafe
		if unsafe || o.Inquiries > 0 {
			lost++
		}
		if unsafe && canAsk || o.Inquiries > 0 && !canAsk || !unsafe && o.State != jobs.Succeeded || effects[order.Reference] != 1 {
			t.Errorf("%s ended %s %s after %d inquiries with %d effects", order.ID, o.State, reasonOf(&o), o.Inquiries, effects[order.Reference])
		}
		if order.way != refused && sends[order.Correlation] != 1 { // what was refused may have been refused again
			t.Errorf("%s was sent %d times", order.ID, sends[order.Correlation])
		}
	}
	if lost < 4 {
		t.Errorf("only %d replies were lost", lost)
	}
}

func TestPromisesHoldWithThreeWorkers(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Options{Operations: 60, Fault: sandbox.LostReplies, Seed: 3, Workers: 3, Store: StoreRedis, course: shortCourse})
	if err != nil {
		t.Fatal(err)
	}
	promised(t, r)
}

// brokenSender is a client as it must not be. Its requests go out by a plain HTTP
// client that obeys no deadline.
type brokenSender struct {
	worker.Sender
	key      func(gateway.Call) string // of one request
	requests int                       // for each call
	late     map[string]bool           // correlations of operations that are sent after their deadline
	lie      bool                      // say "succeeded" and send nothing
}

// in returns s in the place of a whole client.
func (s brokenSender) in(whole worker.Sender) worker.Sender { s.Sender = whole; return s }

func (s brokenSender) Send(_ context.Context, call gateway.Call) gateway.Answer {
	a := gateway.Answer{Sample: policy.Sample{Phase: policy.PhaseAnswered, Status: http.StatusCreated, Body: []byte(`{}`), ReceivedAt: time.Now()}, WireBytes: 1}
	if s.lie {
		return a
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range s.requests {
		if s.late[call.Request.CorrelationID] {
			time.Sleep(tightDeadline + 200*time.Millisecond)
		}
		req, err := http.NewRequest(call.Request.Method, call.BaseURL+call.Request.Path, bytes.NewReader(call.Request.Body))
		if err != nil {
			panic(err)
		}
		req.Header.Set("X-Correlation-Id", call.Request.CorrelationID)
		req.Header.Set("Redrive-Attempt", fmt.Sprint(call.Attempt))
		if call.KeyHeader != "" {
			req.Header.Set(call.KeyHeader, s.key(call))
		}
		resp, err := client.Do(req)
		if err != nil {
			a.Sample = policy.Sample{Phase: policy.PhaseNoAnswer, WireBytes: 1}
			continue
		}
		resp.Body.Close()
		a.Sample.Status = resp.StatusCode
	}
	a.Sample.WireBytes = 1
	return a
}

// inventor is a client whose inquiries are made up.
type inventor struct {
	worker.Sender
	body string // of each answer to one
}

// in returns s in the place of a whole client.
func (s inventor) in(whole worker.Sender) worker.Sender { s.Sender = whole; return s }

func (s inventor) Ask(context.Context, gateway.Question) gateway.Answer {
	return gateway.Answer{Sample: policy.Sample{Phase: policy.PhaseAnswered, Status: http.StatusOK, Body: []byte(s.body), ReceivedAt: time.Now()}, WireBytes: 1}
}

func ownKey(call gateway.Call) string { return call.Request.IdempotencyKey }

const brokenSeed = 11

// tight returns the correlations of the orders of a seed that have the tight deadline.
func tight(n int, seed uint64) map[string]bool {
	out := map[string]bool{}
	for _, order := range drawOrders(n, orderSource(seed)) {
		if order.deadline > 0 {
			out[order.Correlation] = true
		}
	}
	return out
}

// The judge is worth something only if it says so when a client breaks a promise.
func TestABrokenClientIsFoundOut(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		fault  sandbox.Mode
		sender func(whole worker.Sender) worker.Sender
		want   string // promise
		counts func(*Report) bool
	}{
		{"a new key for each attempt", sandbox.LostReplies, brokenSender{requests: 1, key: func(c gateway.Call) string {
			return fmt.Sprintf("%s-%d", c.Request.IdempotencyKey, c.Attempt)
		}}.in, "P1", func(r *Report) bool { return r.ChargedTwice > 0 }},
		{"a hidden resend without a key", sandbox.None, brokenSender{requests: 2, key: func(gateway.Call) string { return "" }}.in, "P1",
			func(r *Report) bool { return r.ChargedTwice > 0 }},
		{"a success that is made up", sandbox.None, brokenSender{lie: true}.in, "P2", func(r *Report) bool { return r.Lost > 0 }},
		{"sent long after the clocks were looked at", sandbox.None, brokenSender{requests: 1, key: ownKey, late: tight(40, brokenSeed)}.in, "P3",
			func(r *Report) bool { return r.Late > 0 }},
		{"eight requests for each attempt", sandbox.None, brokenSender{requests: 8, key: ownKey}.in, "P4", func(r *Report) bool { return r.Retries > 200 }},
		{"an inquiry that finds nothing", sandbox.LostReplies, inventor{body: `{"data":[]}`}.in, "P1", func(r *Report) bool { return r.ChargedTwice > 0 }},
		{"an inquiry that finds everything", sandbox.Down, inventor{body: `{"data":[{"status":"succeeded"}]}`}.in, "P2", func(r *Report) bool { return r.Lost > 0 }},
		{"no timeout", sandbox.Slow, brokenSender{requests: 1, key: ownKey}.in, "P5", func(*Report) bool { return true }},
	}
	options := make([]Options, len(cases))
	for i, tc := range cases {
		options[i] = Options{Operations: 40, Fault: tc.fault, Seed: brokenSeed, Store: StoreRedis, senderFunc: tc.sender}
	}
	for i, r := range playAll(t, options) {
		t.Run(cases[i].name, func(t *testing.T) {
			if r.Promises[cases[i].want] || r.Kept() || !cases[i].counts(r) {
				t.Errorf("%s was not found broken: %+v", cases[i].want, r)
			}
		})
	}
}

func TestOptionsThatCannotBePlayedAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Operations: 0, Workers: 1, Fault: sandbox.None}, "operations 0: want 1 to 10000"},
		{Options{Operations: 10_001, Workers: 1, Fault: sandbox.None}, "operations 10001: want 1 to 10000"},
		{Options{Operations: 1, Fault: sandbox.None}, "workers 0: want at least 1"},
		{Options{Operations: 1, Workers: 1, Fault: "hail"}, `unknown mode "hail"`},
		{Options{Operations: 1001, Workers: 1, Fault: sandbox.None, Store: StoreMemory}, "operations 1001: a store in memory carries at most 1000"},
	} {
		if _, err := Run(t.Context(), tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want one that says %q", tc.o, err, tc.want)
		}
	}
}

func TestAnInterruptEndsEverythingInOrder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []Progress
	_, err := Run(ctx, Options{Operations: 100, Fault: sandbox.Down, Seed: 1, Workers: 2, Store: StoreRedis, ShowFunc: func(p Progress) {
		seen = append(seen, p)
		if p.Requests > 10 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
	if len(seen) == 0 || seen[len(seen)-1].Requests <= 10 {
		t.Fatalf("nobody was told how it went: %+v", seen)
	}
}

func TestTheStoreIsGoneAfterwards(t *testing.T) {
	t.Parallel()
	s, err := openStore(t.Context(), StoreRedis)
	if err != nil {
		t.Fatal(err)
	}
	socket, ok := strings.CutPrefix(s.url, "unix://")
	if !ok {
		t.Fatalf("url %q is not that of a socket", s.url)
	}
	if _, err := os.Stat(socket); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
}
