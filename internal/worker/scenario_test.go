package worker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/sandbox"
)

// Failures that people reported of systems like this one, as far as the calls
// themselves decide them: judged by what the gateway counted. docs/scenarios.md lists
// where each of them is tested.

// atSandbox points the dependency at a sandbox, charges and payouts at its routes.
func (b *testBundle) atSandbox(f sandbox.Fault) *sandbox.Sandbox {
	b.Helper()
	box := sandbox.New(sandbox.Options{Seed: 7})
	url, err := box.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(box.Stop)
	b.config.Dependencies[dep].BaseURL = url
	b.config.Kinds["payout"].Request.Path = "/v1/refunds"
	b.misbehave(box, f)
	return box
}

func (b *testBundle) misbehave(box *sandbox.Sandbox, f sandbox.Fault) {
	b.Helper()
	if err := box.SetFault(f); err != nil {
		b.Fatal(err)
	}
}

// asksSandbox gives payouts an inquiry that the sandbox understands.
func (b *testBundle) asksSandbox(change ...func(*config.Inquiry)) {
	b.Helper()
	b.asks(append([]func(*config.Inquiry){func(q *config.Inquiry) { q.Path = "/v1/refunds?reference={key}" }}, change...)...)
}

// payment makes a submission one that the sandbox takes.
func payment(_ int, s *jobs.Submission) {
	s.Body = []byte(fmt.Sprintf(`{"amount":100,"currency":"GBP","reference":%q}`, s.Key))
}

// overHTTP lets a worker send with the real client.
func overHTTP(o *Options) { o.Sender = gateway.New(gateway.Options{}) }

// wantOnce fails unless the sandbox read one request of each of n references, and
// money moved once for each.
func (b *testBundle) wantOnce(box *sandbox.Sandbox, n int) {
	b.Helper()
	entries := box.Ledger()
	if len(entries) != n {
		b.Errorf("%d operations reached the gateway, want %d", len(entries), n)
	}
	for _, e := range entries {
		if e.Requests != 1 || e.SideEffects != 1 {
			b.Errorf("%s %s: %d requests, %d effects, want 1 and 1", e.Route, e.Reference, e.Requests, e.SideEffects)
		}
	}
}

// attempts are the events of the timeline that tell of attempts.
func attempts(d *ledger.Detail) []jobs.Event {
	return slices.DeleteFunc(slices.Clone(d.Timeline), func(e jobs.Event) bool { return e.Event != "attempt" })
}

// T03: an attempt is given up, goes on at the gateway, and the next one starts.
func TestT03AnAttemptThatTimedOutIsAskedAboutAndNotRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Dependencies[dep].Timeout = 200 * time.Millisecond
	box := b.atSandbox(sandbox.Fault{Mode: sandbox.Slow, Latency: 3 * time.Second}) // at least a quarter of it
	b.asksSandbox()
	const n = 10
	b.submit("payout", n, payment)
	b.worker(overHTTP)
	b.until(5*time.Second, "all are with the gateway", func() bool { return box.Stats().Requests == n })
	b.misbehave(box, sandbox.Fault{Mode: sandbox.None})
	b.ended(10*time.Second, jobs.Succeeded, n)
	b.wantOnce(box, n)
	for i := range n {
		d := b.get("payout", i)
		if a := attempts(d); len(a) != 1 || a[0].Outcome != jobs.OutcomeUnknown || a[0].Class != jobs.ClassTimeout || d.Inquiries < 1 {
			t.Errorf("payout-%d: attempts %+v, %d inquiries", i, a, d.Inquiries)
		}
	}
}

// T07: a worker that had lost its claim reports a success after another one, or an
// inquiry, has settled the operation as failed. Neither is silently overwritten.
func TestT07AZombiesSuccessAfterAFailureIsAConflict(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		kind  jobs.Kind
		sends int
	}{"the next attempt was declined": {"charge", 2}, "an inquiry said failed": {"payout", 1}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.asks()
			b.sender.saysBody(200, `{"data":[{"status":"failed"}]}`)
			paused, resumed := make(chan struct{}), make(chan struct{})
			b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
				if call.Attempt > 1 {
					return answered(402)
				}
				close(paused)
				<-resumed
				return answered(200)
			})
			b.submit(c.kind, 1)
			b.worker()
			receive(b, "the first attempt", paused)
			b.expire(c.kind, 0)
			b.worker()
			b.ended(15*time.Second, jobs.Dead, 1)
			if d := b.get(c.kind, 0); *d.Reason != jobs.ReasonPermanent || d.Applied != jobs.AppliedNo {
				t.Errorf("dead(%s), applied %s, before the zombie speaks", *d.Reason, d.Applied)
			}
			if n := b.value(`redrive_conflicts_total{dependency="payrail"}`); n != 0 {
				t.Errorf("%v conflicts counted before there was one", n)
			}
			close(resumed)
			b.ended(5*time.Second, jobs.Succeeded, 1)
			if d := b.get(c.kind, 0); !slices.Equal(d.Flags, []jobs.Flag{jobs.FlagLate, jobs.FlagConflict}) || b.sender.total() != c.sends {
				t.Errorf("flags %v after %d sends, want late and conflict after %d", d.Flags, b.sender.total(), c.sends)
			}
			b.until(time.Second, "one conflict counted", func() bool { return b.value(`redrive_conflicts_total{dependency="payrail"}`) == 1 })
			page, err := b.ledger.List(t.Context(), ledger.Filter{Dependencies: []jobs.Dependency{dep}, Flags: []jobs.Flag{jobs.FlagConflict}}, nil)
			if err != nil || len(page.Items) != 1 {
				t.Errorf("%d operations listed as conflicts, %v", len(page.Items), err)
			}
		})
	}
}

// T13: a retry goes out under another key than the first attempt.
func TestT13EveryAttemptCarriesTheKeyThatIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	none := ""
	box := b.atSandbox(sandbox.Fault{Mode: sandbox.Refuse, RetryAfter: &none})
	b.submit("charge", 1, payment)
	for lives, requests := range []int{2, 4} { // two lives of the worker, the second ends by kill -9
		w, kill := b.killable(overHTTP)
		b.until(10*time.Second, "attempts", func() bool { return box.Stats().Requests >= requests })
		if lives == 0 {
			w.Stop()
		}
		kill()
		w.StopNow()
	}
	b.misbehave(box, sandbox.Fault{Mode: sandbox.None})
	b.bury(everybody)
	b.worker(overHTTP)
	b.ended(15*time.Second, jobs.Succeeded, 1)
	e, d := box.Ledger(), b.get("charge", 0)
	if len(e) != 1 || e[0].Requests < 5 || e[0].SideEffects != 1 || !slices.Equal(e[0].Keys, []string{d.IdempotencyKey}) {
		t.Errorf("the gateway saw %+v, the ledger's key is %q; want at least 5 requests under it and 1 effect", e, d.IdempotencyKey)
	}
}

// T15: "a request with this key is under way" is taken for a refusal.
func TestT15AKeyInUseIsWaitedFor(t *testing.T) {
	t.Parallel()
	t.Run("keyed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.config.Dependencies[dep].Timeout = 150 * time.Millisecond
		box := b.atSandbox(sandbox.Fault{Mode: sandbox.Slow, Latency: time.Second}) // the gateway holds the key meanwhile
		const n = 5
		b.submit("charge", n, payment)
		b.worker(overHTTP)
		b.until(5*time.Second, "all are with the gateway", func() bool { return len(box.Ledger()) == n })
		b.misbehave(box, sandbox.Fault{Mode: sandbox.None})
		b.ended(10*time.Second, jobs.Succeeded, n)
		inUse := 0
		for i := range n {
			if effects := box.SideEffects("charges", fmt.Sprintf("charge-%d", i)); effects != 1 {
				t.Errorf("charge-%d took effect %d times", i, effects)
			}
			for _, a := range attempts(b.get("charge", i)) {
				if a.Status != 409 {
					continue
				}
				if inUse++; a.Verdict != jobs.VerdictRetryAfter || a.Outcome != jobs.OutcomeUnknown {
					t.Errorf("a 409 is %s, verdict %s", a.Outcome, a.Verdict)
				}
			}
		}
		if inUse < 3 {
			t.Errorf("%d answers of 409: the test proves nothing", inUse)
		}
	})
	t.Run("none, with an inquiry", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.asks()
		b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return answered(409) })
		b.saysPending(3)
		b.submit("payout", 1)
		b.worker()
		b.ended(10*time.Second, jobs.Succeeded, 1)
		if b.sender.total() != 1 {
			t.Errorf("%d sends", b.sender.total())
		}
	})
}

// saysPending lets the gateway say pending n times of whatever it is asked about, and
// then succeeded. Below 0 it says pending for ever.
func (b *testBundle) saysPending(n int) {
	left := n
	b.sender.mu.Lock()
	defer b.sender.mu.Unlock()
	b.sender.says = func(string) gateway.Answer {
		b.sender.mu.Lock()
		defer b.sender.mu.Unlock()
		if left--; left != -1 {
			return answeredWith(200, `{"data":[{"status":"pending"}]}`)
		}
		left = 0
		return answeredWith(200, `{"data":[{"status":"succeeded"}]}`)
	}
}

// T17: with an inquiry every one of the lost answers is found out.
func TestT17WhatBecameOfALostReplyIsAskedAndNotTriedOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	box := b.atSandbox(sandbox.Fault{Mode: sandbox.LostReplies}) // inquiries lose theirs too
	b.asksSandbox()
	const n = 30
	b.submit("payout", n, payment)
	b.worker(overHTTP)
	b.ended(15*time.Second, jobs.Succeeded, n)
	b.wantOnce(box, n)
	if b.value(`redrive_calls_total{call="inquiry",class="2xx",dependency="payrail",kind="payout"}`) == 0 {
		t.Error("nothing was asked: the fault did nothing")
	}
}

// T17, the other half: where not one byte arrived, trying again is right.
func TestT17ARefusedConnectionIsSafelyTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	box := b.atSandbox(sandbox.Fault{Mode: sandbox.None})
	box.Stop()
	const n = 10
	b.submit("payout", n, payment)
	b.worker(overHTTP)
	b.until(5*time.Second, "each was tried twice", func() bool {
		for i := range n {
			if b.get("payout", i).Sends < 2 {
				return false
			}
		}
		return true
	})
	if _, err := box.Listen(strings.TrimPrefix(b.config.Dependencies[dep].BaseURL, "http://")); err != nil {
		t.Fatal(err)
	}
	b.ended(10*time.Second, jobs.Succeeded, n)
	b.wantOnce(box, n)
	if first := attempts(b.get("payout", 0))[0]; first.Outcome != jobs.OutcomeNotSent || first.Class != jobs.ClassConnect {
		t.Errorf("the first attempt is %s, class %s", first.Outcome, first.Class)
	}
}

// T19: an inquiry that says pending is taken for an error, or for a reason to send again.
func TestT19PendingIsNoErrorAndNoReasonToSend(t *testing.T) {
	t.Parallel()
	t.Run("twenty times, then success", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.config.Kinds["payout"].MaxAttempts = 3
		b.asks()
		b.timesOut()
		b.saysPending(20)
		b.submit("payout", 1)
		b.worker()
		b.ended(15*time.Second, jobs.Succeeded, 1)
		d := b.get("payout", 0)
		if d.Sends != 1 || b.sender.total() != 1 || d.Inquiries != 21 || b.sender.questions() != 21 {
			t.Errorf("%d sends, %d on the wire; %d inquiries, %d on the wire; want 1 and 21", d.Sends, b.sender.total(), d.Inquiries, b.sender.questions())
		}
		if n := b.value(`redrive_calls_total{call="inquiry",class="2xx",dependency="payrail",kind="payout"}`); n != 21 {
			t.Errorf("%v inquiries counted as good answers, want 21", n)
		}
		if n := b.value(`redrive_first_attempts_total{dependency="payrail",result="failed"}`); n != 1 { // the attempt itself, whose answer was lost
			t.Errorf("%v failed first attempts", n)
		}
	})
	t.Run("past the deadline, until it is given up", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.asks(func(q *config.Inquiry) { q.GiveUpAfter = 4 * time.Second })
		b.timesOut()
		b.saysPending(-1)
		b.submit("payout", 1, func(_ int, s *jobs.Submission) { s.Deadline = "2s" })
		b.worker()
		b.ended(10*time.Second, jobs.Dead, 1)
		d := b.get("payout", 0)
		if *d.Reason != jobs.ReasonUnresolved || d.Applied != jobs.AppliedUnknown || b.sender.total() != 1 {
			t.Errorf("dead(%s), applied %s, after %d sends", *d.Reason, d.Applied, b.sender.total())
		}
		if late := d.EndedAt.Sub(d.DeadlineAt.Time); late < time.Second {
			t.Errorf("ended %s after the deadline: it was not asked about for as long as give_up_after says", late)
		}
	})
}

// wild is a gateway that answers 503 with a body, over and over or until it succeeds.
func (b *testBundle) wild(answer func(n int64, w http.ResponseWriter)) {
	b.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(n.Add(1), w) }))
	b.Cleanup(s.Close)
	b.config.Dependencies[dep].BaseURL = s.URL
}

// T83: an error text that is no text breaks what records it, so that the retry is late
// or the class wrong.
func TestT83AnErrorThatIsNoTextDelaysNothing(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{
		"bad bytes": []byte("a\xff\xfeb"), "NUL": []byte("a\x00b"), "lone surrogate": []byte("a\xed\xa0\x80b"),
		"1 MB of binary": bytes.Repeat([]byte{0, 0xff, 0xfe, 0x80, 'a'}, 1<<20/5),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			at := make(chan time.Time, 9)
			b.wild(func(n int64, w http.ResponseWriter) {
				at <- time.Now()
				if n > 1 {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write(body)
			})
			b.submit("charge", 1)
			b.worker(overHTTP)
			first := receive(b, "an attempt", at)
			b.until(5*time.Second, "the first attempt is on record", func() bool {
				a := attempts(b.get("charge", 0))
				return len(a) > 0 && a[0].Class == jobs.Class503
			})
			for key, value := range b.rdb.HGetAll(t.Context(), b.key("answers:charge/charge-0")).Val() {
				if !utf8.ValidString(value) || strings.Contains(value, "\x00") || len(value) > 2*gateway.MaxKeptBytes {
					t.Errorf("%s is kept as %d bytes: %.60q", key, len(value), value)
				}
			}
			if wait := receive(b, "the retry", at).Sub(first); wait < time.Second || wait > 3*time.Second {
				t.Errorf("the retry came after %s, want 1 s and half of it as jitter", wait)
			}
			b.ended(5*time.Second, jobs.Succeeded, 1)
			for _, line := range b.log.with("call") {
				for key, value := range line {
					if !utf8.ValidString(value) || strings.Contains(value, "\x00") {
						t.Errorf("logged as %s: %.60q", key, value)
					}
				}
			}
			if n := b.value(`redrive_calls_total{call="first",class="503",dependency="payrail",kind="charge"}`); n != 1 {
				t.Errorf("%v calls counted as 503", n)
			}
		})
	}
}

// T84: huge errors, kept with each of many attempts, fill Redis.
func TestT84HugeErrorsOnEveryAttemptStaySmallInRedis(t *testing.T) {
	t.Parallel()
	const n = 25
	for what, c := range map[string]struct {
		status int
		limit  int64 // bytes
	}{
		"refused: of the last answer alone the body is kept":         {http.StatusTooEarly, 100 << 10}, // of 1,000 operations less than 100 MB
		"unknown: each body is evidence, and is kept within a limit": {http.StatusServiceUnavailable, n * 22 << 10},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			huge := bytes.Repeat([]byte("überlastet "), 8<<20/12)
			b.wild(func(n int64, w http.ResponseWriter) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, n, " ")
				_, _ = w.Write(huge)
			})
			b.config.Kinds["charge"].MaxAttempts = n
			b.submit("charge", 1)
			b.worker(overHTTP)
			b.ended(20*time.Second, jobs.Dead, 1)
			if d := b.get("charge", 0); len(attempts(d)) != n || len(*d.Last.Error) > gateway.MaxErrBytes {
				t.Errorf("%d attempts on record, last error of %d bytes", len(attempts(d)), len(*d.Last.Error))
			}
			keys, err := b.rdb.Keys(t.Context(), b.namespace+":*charge-0*").Result()
			if err != nil || len(keys) < 3 {
				t.Fatalf("keys %v, %v", keys, err)
			}
			var total int64
			for _, key := range keys {
				total += b.rdb.MemoryUsage(t.Context(), key, 0).Val()
			}
			t.Logf("%d bytes in Redis after %d attempts with 8 MB each", total, n)
			if total > c.limit {
				t.Errorf("%d bytes in Redis, want at most %d", total, c.limit)
			}
		})
	}
}

// T85: a payload at the limit arrives byte for byte.
func TestT85APayloadAtTheLimitArrivesWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := []byte(`{"amount":1,"note":"` + strings.Repeat("x", jobs.MaxBodyBytes-len(`{"amount":1,"note":""}`)) + `"}`)
	got := make(chan []byte, 9)
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		got <- call.Request.Body
		return answered(200)
	})
	b.submit("charge", 1, func(_ int, s *jobs.Submission) { s.Body = body })
	b.worker()
	b.ended(5*time.Second, jobs.Succeeded, 1)
	if sent := receive(b, "the call", got); len(body) != jobs.MaxBodyBytes || !bytes.Equal(sent, body) {
		t.Errorf("%d bytes of %d were sent, or others", len(sent), len(body))
	}
}

// T78: an inquiry panics. The operation stays as unknown as it was and is asked about
// again; nobody else notices.
func TestT78APanicInAnInquiryLeavesTheOperationUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Dependencies[dep].Timeout = 100 * time.Millisecond // the lease of an inquiry is 4.1 s then
	b.asks()
	b.timesOut()
	var panicked atomic.Bool
	b.sender.mu.Lock()
	b.sender.says = func(path string) gateway.Answer {
		if strings.HasSuffix(path, "payout-3") && panicked.CompareAndSwap(false, true) {
			panic("body: amount")
		}
		return answeredWith(200, `{"data":[{"status":"succeeded"}]}`)
	}
	b.sender.mu.Unlock()
	b.submit("payout", 6)
	w := b.worker()
	b.until(10*time.Second, "the others are settled", func() bool { s := b.states(); return s[jobs.Succeeded] == 5 && s[jobs.Unresolved] == 1 })
	if d := b.get("payout", 3); d.Applied != jobs.AppliedUnknown {
		t.Errorf("applied %s", d.Applied)
	}
	if err := w.Alive(); err != nil || len(w.Ready()) != 0 {
		t.Error(err, w.Ready())
	}
	b.wantOnePanic("ask")
	b.ended(10*time.Second, jobs.Succeeded, 6)
	if b.sender.most() != 1 {
		t.Errorf("%d sends of one operation", b.sender.most())
	}
}

// wantOnePanic fails unless one panic was counted, and logged with the function that
// it went through but without the payload that it quotes.
func (b *testBundle) wantOnePanic(through string) {
	b.Helper()
	if n := b.value("redrive_panics_total"); n != 1 {
		b.Errorf("panics_total is %v, want 1", n)
	}
	lines := b.log.with("panic caught")
	if len(lines) != 1 || !strings.Contains(lines[0]["stack"], through) || strings.Contains(fmt.Sprint(lines), "amount") {
		b.Errorf("log %v", lines)
	}
}

// explosive is a log that panics at a record as told, quoting a payload.
type explosive struct {
	slog.Handler
	at func(slog.Record) bool
}

func (e explosive) Handle(ctx context.Context, r slog.Record) error {
	if e.at(r) {
		panic("body: amount")
	}
	return e.Handler.Handle(ctx, r)
}

// T78: what logs and counts a call panics after the call. Its result is on record.
func TestT78APanicInWhatLogsLosesNoResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("payout", 3)
	var panicked atomic.Bool
	w := b.worker(func(o *Options) {
		o.Log = slog.New(explosive{b.log, func(r slog.Record) bool { return r.Message == "call" && panicked.CompareAndSwap(false, true) }})
	})
	b.ended(5*time.Second, jobs.Succeeded, 3)
	b.until(time.Second, "it panicked", panicked.Load)
	b.until(time.Second, "it is counted", func() bool { return b.value("redrive_panics_total") == 1 })
	b.wantOnePanic("called")
	if err := w.Alive(); err != nil || b.sender.total() != 3 {
		t.Errorf("%v, %d sends", err, b.sender.total())
	}
}

// T56: a deadline passes while the outcome is unknown. Nothing more is sent, and what
// became of it is asked all the same.
func TestT56AnUnknownOutcomeIsAskedAboutAfterTheDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.asks(func(q *config.Inquiry) { q.Settle, q.AfterNotFoundDead = 3*time.Second, false })
	b.timesOut()
	var asked atomic.Int64
	b.sender.mu.Lock()
	b.sender.says = func(string) gateway.Answer {
		asked.CompareAndSwap(0, time.Now().UnixNano())
		return answeredWith(200, `{"data":[]}`)
	}
	b.sender.mu.Unlock()
	b.submit("payout", 1, func(_ int, s *jobs.Submission) { s.Deadline = "1s" })
	b.worker()
	b.ended(30*time.Second, jobs.Dead, 1)
	d := b.get("payout", 0)
	if *d.Reason != jobs.ReasonDeadline || d.Applied != jobs.AppliedNo || b.sender.total() != 1 {
		t.Errorf("dead(%s), applied %s, after %d sends", *d.Reason, d.Applied, b.sender.total())
	}
	if at := time.Unix(0, asked.Load()); !at.After(d.DeadlineAt.Time) {
		t.Errorf("first asked at %s, the deadline was %s", at, d.DeadlineAt)
	}
}
