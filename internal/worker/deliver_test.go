package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

func TestAThousandDueAtOnceAreSentOnceByTwoWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("charge", 1000)
	b.worker()
	b.worker()
	b.ended(20*time.Second, jobs.Succeeded, 1000)
	if n := b.sender.total(); n != 1000 || b.sender.most() != 1 {
		t.Errorf("%d sends, at most %d of one operation; want 1000 and 1", n, b.sender.most())
	}
}

func TestACallCarriesWhatTheConfigurationAndTheLedgerSay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.config.Dependencies[dep]
	secret := func(text string) config.Secret {
		s, err := config.NewSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	d.Headers["Authorization"] = secret("Bearer ${TOKEN}")
	d.Credentials["m1"] = config.Credential{Headers: map[string]config.Secret{"Authorization": secret("Bearer other")}}
	calls := make(chan gateway.Call, 2)
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		calls <- call
		return answered(200)
	})
	b.submit("charge", 2, func(i int, s *jobs.Submission) {
		if i == 1 {
			s.Credential = "m1"
		}
	})
	b.worker(func(o *Options) {
		o.Headers = attempt.Headers(b.config, func(name string) string { return map[string]string{"TOKEN": "t0k"}[name] })
	})
	b.ended(10*time.Second, jobs.Succeeded, 2)
	for range 2 {
		call := receive(b, "a call", calls)
		want := "Bearer t0k"
		if name(call) == "charge:charge-1" {
			want = "Bearer other"
		}
		if got := call.Header.Get("Authorization"); got != want {
			t.Errorf("%s was sent with %q, want %q", name(call), got, want)
		}
		if call.Attempt != 1 || call.BaseURL != d.BaseURL || call.KeyHeader != "Idempotency-Key" || call.Request.Path != "/v1/charges" ||
			string(call.Request.Body) != `{"amount":1}` || call.Timeout != time.Second {
			t.Errorf("the call is %+v", call)
		}
		if call.SendBy > policy.SendWindow || call.SendBy <= 0 || time.Since(call.StartedAt) > 10*time.Second {
			t.Errorf("it may be sent until %s after %s", call.SendBy, call.StartedAt)
		}
	}
}

func TestARetryWaitsFromTheEndOfTheAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const took, base = 300 * time.Millisecond, 100 * time.Millisecond // the least delay is 100 ms
	var ends, starts = make(chan time.Time, 9), make(chan time.Time, 9)
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		starts <- time.Now()
		if call.Attempt == 1 {
			time.Sleep(took)
			ends <- time.Now()
			return answered(503)
		}
		return answered(200)
	})
	b.submit("charge", 1)
	b.worker()
	b.ended(10*time.Second, jobs.Succeeded, 1)
	<-starts
	if gap := (<-starts).Sub(<-ends); gap < base {
		t.Errorf("the retry started %s after the attempt ended, want at least %s", gap, base)
	}
	if n := b.sender.of("charge", 0); n != 2 {
		t.Errorf("%d sends", n)
	}
}

// T56: a deadline passes in the queue, and the operation is sent all the same.
func TestT56PastItsDeadlineNothingIsSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("charge", 3, func(i int, s *jobs.Submission) { s.Deadline = "50ms" })
	time.Sleep(60 * time.Millisecond) // until no worker could make it
	b.worker()
	b.ended(5*time.Second, jobs.Dead, 3)
	if d := b.get("charge", 0); *d.Reason != jobs.ReasonDeadline || d.Sends != 0 {
		t.Errorf("reason %s after %d sends", *d.Reason, d.Sends)
	}
	if b.sender.total() != 0 {
		t.Errorf("%d sends", b.sender.total())
	}
	b.until(time.Second, "one line that tells why, with its correlation id", func() bool {
		return len(b.log.with("retry refused", "reason", "deadline", "correlation_id", "corr-0", "dependency", string(dep))) == 1
	})
}

// T57: an operation sleeps towards a retry that cannot happen, and its error is lost.
func TestT57ARetryThatWouldMissTheDeadlineEndsNowAndKeepsItsError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Kinds["charge"].Backoff = config.Backoff{Base: 24 * time.Hour, Cap: 24 * time.Hour}
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return in(policy.PhaseConnect, 0) })
	b.submit("charge", 1, func(_ int, s *jobs.Submission) { s.Deadline = "5s" })
	b.worker()
	b.ended(2*time.Second, jobs.Dead, 1)
	d := b.get("charge", 0)
	if *d.Reason != jobs.ReasonDeadline || d.Last == nil || d.Last.Error == nil || *d.Last.Error != string(policy.PhaseConnect) {
		t.Errorf("reason %v, last %+v", *d.Reason, d.Last)
	}
	if n := b.sender.total(); n != 1 {
		t.Errorf("%d sends", n)
	}
}

func TestWithoutItsCredentialNothingIsSentAndAPersonMustLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Dependencies[dep].Credentials["m1"] = config.Credential{}
	b.submit("charge", 1, func(_ int, s *jobs.Submission) { s.Credential = "m1" })
	delete(b.config.Dependencies[dep].Credentials, "m1")
	b.worker()
	b.ended(5*time.Second, jobs.Dead, 1)
	d := b.get("charge", 0)
	if *d.Reason != jobs.ReasonMisconfigured || d.Applied != jobs.AppliedNo || b.sender.total() != 0 {
		t.Errorf("reason %s, applied %s, %d sends", *d.Reason, d.Applied, b.sender.total())
	}
	b.until(time.Second, "a line that names it", func() bool {
		line := b.log.with("call", "outcome", "not_sent")
		return len(line) == 1 && strings.Contains(line[0]["err"], "m1")
	})
}

func TestASecretThatCannotBeReadNowHoldsTheOperationBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("charge", 1)
	b.worker(func(o *Options) {
		o.Headers = func(jobs.Dependency, string) (http.Header, error) {
			return nil, errors.New("file /run/secret is empty")
		}
	})
	b.until(5*time.Second, "the operation waits again", func() bool {
		d := b.get("charge", 0)
		return d.State == jobs.Waiting && d.Sends == 1
	})
	if d := b.get("charge", 0); b.sender.total() != 0 || time.Until(d.NextAt.Time) < 3*time.Second {
		t.Errorf("%d sends, next at %s", b.sender.total(), d.NextAt)
	}
}

func TestAKindThatThisProcessDoesNotKnowIsGivenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("charge", 1)
	// Another worker released it, with a configuration that knows the kind; the task
	// comes to one that does not.
	rel, err := b.ledger.Release(t.Context(), ledger.Terms{Dependency: dep}, []jobs.Kind{"charge"}, 1)
	if err != nil || len(rel.Deliveries) != 1 {
		t.Fatalf("%+v %v", rel, err)
	}
	delete(b.config.Kinds, "charge")
	w := b.worker()
	c := w.current().conveyors[dep]
	c.deliver(t.Context(), rel.Deliveries[0])
	d := b.get("charge", 0)
	if wait := time.Until(d.NextAt.Time); d.State != jobs.Waiting || wait < 3*time.Second || d.Sends != 0 {
		t.Errorf("state %s, next in %s after %d sends", d.State, wait, d.Sends)
	}
}

// T78: a panic in what is plugged in ends the process.
func TestT78APanicInTheSenderIsAnUnknownOutcomeOfThatOperationAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		if name(call) == "payout:payout-3" {
			panic("body: " + string(call.Request.Body))
		}
		return answered(200)
	})
	b.submit("payout", 10)
	b.worker()
	b.until(10*time.Second, "nine succeed and one is dead", func() bool {
		s := b.states()
		return s[jobs.Succeeded] == 9 && s[jobs.Dead] == 1
	})
	d := b.get("payout", 3)
	if *d.Reason != jobs.ReasonUnsafe || d.Applied != jobs.AppliedUnknown || b.sender.of("payout", 3) != 1 {
		t.Errorf("reason %s, applied %s, %d sends", *d.Reason, d.Applied, b.sender.of("payout", 3))
	}
	b.wantOnePanic("deliver")
}

// T78: the same in what decides.
func TestT78APanicInWhatDecidesEndsNothingButThatOperation(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*testBundle, *Options){
		"headers": func(_ *testBundle, o *Options) {
			o.Headers = func(jobs.Dependency, string) (http.Header, error) { panic("headers") }
		},
		"backoff": func(b *testBundle, o *Options) {
			b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return answered(503) })
			calm := rand.NewPCG(1, 2)
			o.Rand = rand.New(source(func() uint64 {
				if b.sender.total() > 0 {
					panic("backoff")
				}
				return calm.Uint64()
			}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.submit("charge", 1)
			w := b.worker(func(o *Options) { change(b, o) })
			b.ended(10*time.Second, jobs.Dead, 1)
			if err := w.Alive(); err != nil {
				t.Error(err)
			}
			if why := w.Ready(); len(why) != 0 {
				t.Error(why)
			}
			b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return answered(200) })
			if n := b.value("redrive_panics_total"); n < 1 {
				t.Errorf("panics_total is %v", n)
			}
		})
	}
}

type source func() uint64

func (s source) Uint64() uint64 { return s() }

func TestEachCallIsOneLineWithoutPayload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		if call.Attempt == 1 {
			return answered(503)
		}
		return answered(200)
	})
	b.submit("charge", 1)
	b.worker()
	b.ended(10*time.Second, jobs.Succeeded, 1)
	b.until(time.Second, "two lines", func() bool { return len(b.log.with("call")) == 2 })
	first := b.log.with("call")[0]
	for key, want := range map[string]string{"operation": "charge/charge-0", "kind": "charge", "dependency": "payrail", "attempt": "1", "delivery": "1",
		"class": "503", "outcome": "unknown", "correlation_id": "corr-0"} {
		if first[key] != want {
			t.Errorf("%s is %q, want %q", key, first[key], want)
		}
	}
	for _, key := range []string{"verdict", "delay", "deadline_in", "err"} {
		if first[key] == "" {
			t.Errorf("no %s in %v", key, first)
		}
	}
	if all := fmt.Sprint(b.log.with("call")); strings.Contains(all, "amount") || strings.Contains(all, "ch_1") {
		t.Errorf("a payload is in the log: %s", all)
	}
	for metric, want := range map[string]float64{
		`redrive_calls_total{call="first",class="503",dependency="payrail",kind="charge"}`: 1,
		`redrive_calls_total{call="retry",class="2xx",dependency="payrail",kind="charge"}`: 1,
		`redrive_first_attempts_total{dependency="payrail",result="failed"}`:               1,
		`redrive_operations_ended_total{kind="charge",reason="",state="succeeded"}`:        1,
		`redrive_slots{dependency="payrail"}`:                                              10,
	} {
		if got := b.value(metric); got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
}
