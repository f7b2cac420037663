package sandbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble calls the handler without a network, so that time is virtual. A cut
// gives status 0.
func inBubble(s *Sandbox, method, path, key, body string) (status int, header http.Header) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return recorded(s, r)
}

func recorded(s *Sandbox, r *http.Request) (status int, header http.Header) {
	defer func() {
		if cut := recover(); cut != nil { // a recorder has no connection to cut
			if cut != http.ErrAbortHandler {
				panic(cut)
			}
			status, header = 0, nil
		}
	}()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, w.Header()
}

func chargeInBubble(s *Sandbox, reference, key string) int {
	status, _ := inBubble(s, "POST", "/v1/charges", key, chargeBody(reference))
	return status
}

func TestSlowAppliesAtOnceAndAnswersAroundTheMedian(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 5})
		if err := s.SetFault(Fault{Mode: Slow}); err != nil {
			t.Fatal(err)
		}
		var took []time.Duration
		for i := range 201 {
			reference := fmt.Sprint("order-", i)
			began, done := time.Now(), make(chan int, 1) // sent once by the request, received below
			go func() { done <- chargeInBubble(s, reference, "") }()
			synctest.Wait()
			if e := entryOf(s, "charges", reference); e.SideEffects != 1 || !time.Now().Equal(began) {
				t.Fatalf("got %+v before any time passed, want 1 side effect", e)
			}
			if status := <-done; status != 201 {
				t.Fatalf("got status %d", status)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		if median := took[100]; median < 2*time.Second || median > 3*time.Second {
			t.Errorf("got a median of %s, want about 2.4s", median)
		}
		if took[0] < 600*time.Millisecond || took[200] > 9600*time.Millisecond || took[200] < 4*time.Second {
			t.Errorf("got %s to %s, want a spread within a quarter and four times 2.4s", took[0], took[200])
		}
	})
}

func TestKeyInFlightIsRefusedUntilItsAnswerIsMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Slow}); err != nil {
			t.Fatal(err)
		}
		first := make(chan int, 1) // sent once by the request, received below
		go func() { first <- chargeInBubble(s, "order-1", "key-1") }()
		synctest.Wait()
		if err := s.SetFault(Fault{Mode: None}); err != nil {
			t.Fatal(err)
		}
		status, header := inBubble(s, "POST", "/v1/charges", "key-1", chargeBody("order-1"))
		if status != http.StatusConflict || header.Get("Idempotent-Replayed") != "" {
			t.Errorf("got status %d while the key is in flight, want 409", status)
		}
		if got := chargeInBubble(s, "order-2", "key-1"); got != http.StatusUnprocessableEntity {
			t.Errorf("got status %d for other bytes, want 422", got)
		}
		if got := <-first; got != 201 {
			t.Errorf("got status %d for the first, want 201", got)
		}
		status, header = inBubble(s, "POST", "/v1/charges", "key-1", chargeBody("order-1"))
		if status != 201 || header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("got status %d afterwards, want a replay", status)
		}
		if e := entryOf(s, "charges", "order-1"); e.Requests != 3 || e.SideEffects != 1 {
			t.Errorf("got %+v, want 3 requests and 1 side effect", e)
		}
	})
}

func TestKeyIsForgottenAfterItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{IdempotencyWindow: 24 * time.Hour})
		for _, step := range []struct {
			wait    time.Duration
			effects int
		}{{0, 1}, {24*time.Hour - 1, 1}, {1, 2}} {
			time.Sleep(step.wait)
			if got := chargeInBubble(s, "order-1", "key-1"); got != 201 {
				t.Fatalf("got status %d", got)
			}
			if e := entryOf(s, "charges", "order-1"); e.SideEffects != step.effects {
				t.Errorf("after %s more: got %d side effects, want %d", step.wait, e.SideEffects, step.effects)
			}
		}
	})
}

func TestFaultEndsByItselfAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Refuse, For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - 1)
		if got := chargeInBubble(s, "order-1", ""); got != 503 {
			t.Errorf("got status %d just before the end, want 503", got)
		}
		if f := s.Fault(); f.Mode != Refuse || f.For != time.Millisecond {
			t.Errorf("got %+v just before the end, want refuse for the smallest time shown", f)
		}
		time.Sleep(time.Nanosecond)
		if got := chargeInBubble(s, "order-1", ""); got != 201 {
			t.Errorf("got status %d after the end, want 201", got)
		}
		if f := s.Fault(); f.Mode != None {
			t.Errorf("got mode %s after the end, want none", f.Mode)
		}
	})
}

func TestLatencyDelaysTheAnswerOfEveryMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode          Mode
		status        int
		effectsAtOnce int
	}{{Down, 0, 0}, {Refuse, 503, 0}, {LostReplies, 0, 1}, {Decline, 402, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{})
			if err := s.SetFault(Fault{Mode: c.mode, Share: new(1.0), Latency: 5 * time.Second}); err != nil {
				t.Fatal(err)
			}
			began, done := time.Now(), make(chan int, 1) // sent once by the request, received below
			go func() { done <- chargeInBubble(s, "order-1", "") }()
			synctest.Wait()
			if got := s.Stats().SideEffects; got != c.effectsAtOnce {
				t.Errorf("%s: got %d side effects at once, want %d", c.mode, got, c.effectsAtOnce)
			}
			if got := <-done; got != c.status || time.Since(began) != 5*time.Second {
				t.Errorf("%s: got status %d after %s, want %d after 5s", c.mode, got, time.Since(began), c.status)
			}
		})
	}
}

func TestRateLimitLetsTheRateThroughAndRefusesWhatIsAbove(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond float64
		step      time.Duration
		burst     int // let through at once
		then      int // let through in the 10 s after
	}{
		{perSecond: 10, step: 10 * time.Millisecond, burst: 10, then: 100},
		{perSecond: 0.5, step: 100 * time.Millisecond, burst: 1, then: 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{})
			if err := s.SetFault(Fault{Mode: RateLimit, PerSecond: c.perSecond, RetryAfter: new("7")}); err != nil {
				t.Fatal(err)
			}
			passed := func() int {
				status, header := inBubble(s, "POST", "/v1/charges", "", chargeBody("order-1"))
				if status == 429 && header.Get("Retry-After") != "7" || status != 429 && status != 201 {
					t.Fatalf("got status %d with header %v", status, header)
				}
				if status == 201 {
					return 1
				}
				return 0
			}
			burst, then, sent := 0, 0, 0
			for range 50 {
				burst += passed()
				sent++
			}
			for range 10 * time.Second / c.step {
				time.Sleep(c.step)
				then += passed()
				sent++
			}
			if burst != c.burst || then != c.then {
				t.Errorf("%v per second: got %d at once and %d in 10 s, want %d and %d", c.perSecond, burst, then, c.burst, c.then)
			}
			if e := entryOf(s, "charges", "order-1"); e.Requests != sent || e.SideEffects != burst+then {
				t.Errorf("got %d requests and %d side effects, want %d and %d", e.Requests, e.SideEffects, sent, burst+then)
			}
		})
	}
}

func TestStormServesInTurnAndShedsWhatWouldWaitTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Storm, PerSecond: 10, Latency: 100 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var (
			mu     sync.Mutex // guards served, shed
			served []time.Duration
			shed   int
			wg     sync.WaitGroup
		)
		for i := range 150 {
			wg.Go(func() {
				status := chargeInBubble(s, fmt.Sprint("order-", i), "")
				mu.Lock()
				defer mu.Unlock()
				switch status {
				case 201:
					served = append(served, time.Since(began))
				case 503:
					shed++
				}
			})
		}
		synctest.Wait()
		if got := s.Stats(); got.Requests != 150 || got.SideEffects != 0 {
			t.Errorf("got %+v before any time passed, want 150 requests and no side effect", got)
		}
		time.Sleep(5*time.Second + 50*time.Millisecond)
		if got := s.Stats().SideEffects; got != 50 { // those whose turn was at 0 to 4.9 s, 100 ms later
			t.Errorf("got %d side effects after 5.05 s, want 50", got)
		}
		wg.Wait()
		slices.Sort(served)
		// Turns at 0, 100 ms, … 10 s: 101 of them.
		if len(served) != 101 || shed != 49 || served[0] != 100*time.Millisecond || served[100] != StormPatience+100*time.Millisecond {
			t.Errorf("got %d served from %s to %s and %d shed", len(served), served[0], served[len(served)-1], shed)
		}
	})
}

func TestStatsCountBySecondOfArrivalAndOfEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Storm, Latency: 1500 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		start := time.Now().UTC().Truncate(time.Second)
		chargeInBubble(s, "order-1", "")
		if err := s.SetFault(Fault{Mode: None}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		inBubble(s, "GET", "/v1/charges?reference=order-1", "", "")
		want := []Second{{At: start, Requests: 1}, {At: start.Add(time.Second), SideEffects: 1}, {At: start.Add(6 * time.Second), Inquiries: 1}}
		got := s.Stats().Seconds
		if !slices.EqualFunc(got, want, func(a, b Second) bool {
			return a.At.Equal(b.At) && a.Requests == b.Requests && a.SideEffects == b.SideEffects && a.Inquiries == b.Inquiries
		}) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestEffectAfterAResetStaysInTheOldBook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Storm, Latency: time.Second}); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 1) // sent once by the request, received below
		go func() { done <- chargeInBubble(s, "order-1", "key-1") }()
		synctest.Wait()
		s.Reset()
		<-done
		if got := s.Stats(); got.Requests != 0 || got.SideEffects != 0 || len(s.Ledger()) != 0 {
			t.Errorf("got %+v after a reset, want nothing", got)
		}
	})
}

func TestDeclineLeavesInquiriesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if err := s.SetFault(Fault{Mode: Decline, Share: new(1.0), Latency: time.Minute}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		status, _ := inBubble(s, "GET", "/v1/charges?reference=order-1", "", "")
		if status != 200 || time.Since(began) != 0 || s.Stats().Hits != 0 {
			t.Errorf("got status %d after %s and %d hits, want an answer at once", status, time.Since(began), s.Stats().Hits)
		}
	})
}

func TestShareOfARateLimitLetsTheOthersAboveTheRateThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 2})
		if err := s.SetFault(Fault{Mode: RateLimit, Share: new(0.5)}); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for range 410 {
			if chargeInBubble(s, "order-1", "") == 429 {
				refused++
			}
		}
		if refused < 150 || refused > 250 {
			t.Errorf("got %d of the 400 above the rate refused, want about half", refused)
		}
	})
}

func TestKeyInFlightOutlivesItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{IdempotencyWindow: time.Second})
		if err := s.SetFault(Fault{Mode: LostReplies, Share: new(1.0), Latency: time.Minute}); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 1) // sent once by the request, received below
		go func() { done <- chargeInBubble(s, "order-1", "key-1") }()
		time.Sleep(2 * time.Second)
		if err := s.SetFault(Fault{Mode: None}); err != nil {
			t.Fatal(err)
		}
		if got := chargeInBubble(s, "order-1", "key-1"); got != http.StatusConflict {
			t.Errorf("got status %d, want 409: a key under way cannot be forgotten", got)
		}
		<-done
	})
}
