package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

func play(t *testing.T, o Options) *Report {
	t.Helper()
	o.course = shortCourse
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Store == "" {
		o.Store = StoreMemory
	}
	t.Logf("%d operations, fault %s, seed %d, %s", o.Operations, o.Fault, o.Seed, o.Store)
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

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

// A rehearsal mostly waits, so several are played at once.
const playedAtOnce = 3

func TestPromisesHoldUnderEveryFaultOnBothStores(t *testing.T) {
	t.Parallel()
	for _, store := range []StoreChoice{StoreMemory, StoreRedis} {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			reports, errs := make([]*Report, len(sandbox.Modes)), make([]error, len(sandbox.Modes))
			var played sync.WaitGroup
			places := make(chan struct{}, playedAtOnce) // one value per rehearsal under way
			for i, fault := range sandbox.Modes {
				played.Go(func() {
					places <- struct{}{}
					defer func() { <-places }()
					reports[i], errs[i] = Run(t.Context(), Options{Operations: 40, Fault: fault, Seed: 7, Workers: 1, Store: store, course: shortCourse})
				})
			}
			played.Wait()
			for i, fault := range sandbox.Modes {
				t.Run(string(fault), func(t *testing.T) {
					if errs[i] != nil {
						t.Fatal(errs[i])
					}
					checkEnds(t, reports[i])
				})
			}
		})
	}
}

func checkEnds(t *testing.T, r *Report) {
	t.Helper()
	promised(t, r)
	ended := r.Succeeded
	for _, n := range r.Dead {
		ended += n
	}
	if r.Operations != 40 || ended != 40 || r.Succeeded == 0 {
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

func TestPromisesHoldWithThreeWorkers(t *testing.T) {
	t.Parallel()
	r := play(t, Options{Operations: 60, Fault: sandbox.LostReplies, Seed: 3, Workers: 3, Store: StoreRedis})
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
	for _, tc := range []struct {
		name   string
		fault  sandbox.Mode
		sender brokenSender
		want   string // promise
		counts func(*Report) bool
	}{
		{"a new key for each attempt", sandbox.LostReplies, brokenSender{requests: 1, key: func(c gateway.Call) string {
			return fmt.Sprintf("%s-%d", c.Request.IdempotencyKey, c.Attempt)
		}}, "P1", func(r *Report) bool { return r.ChargedTwice > 0 }},
		{"a hidden resend without a key", sandbox.None, brokenSender{requests: 2, key: func(gateway.Call) string { return "" }}, "P1",
			func(r *Report) bool { return r.ChargedTwice > 0 }},
		{"a success that is made up", sandbox.None, brokenSender{lie: true}, "P2", func(r *Report) bool { return r.Lost > 0 }},
		{"sent long after the clocks were looked at", sandbox.None, brokenSender{requests: 1, key: ownKey, late: tight(40, brokenSeed)}, "P3",
			func(r *Report) bool { return r.Late > 0 }},
		{"eight requests for each attempt", sandbox.None, brokenSender{requests: 8, key: ownKey}, "P4", func(r *Report) bool { return r.Retries > 200 }},
		{"no timeout", sandbox.Slow, brokenSender{requests: 1, key: ownKey}, "P5", func(*Report) bool { return true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := play(t, Options{Operations: 40, Fault: tc.fault, Seed: brokenSeed,
				senderFunc: func(s worker.Sender) worker.Sender { tc.sender.Sender = s; return tc.sender }})
			if r.Promises[tc.want] || r.Kept() || !tc.counts(r) {
				t.Errorf("%s was not found broken: %+v", tc.want, r)
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
