package worker

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/attempt"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// asks gives payouts, of class none, an inquiry that settles after a second.
func (b *testBundle) asks(change ...func(*config.Inquiry)) {
	b.Helper()
	k := b.config.Kinds["payout"]
	q := config.NewInquiry(k, "/v1/payouts?reference={key}")
	q.Settle, q.Backoff, q.AfterNotFoundDead = time.Second, policy.Backoff{Base: 50 * time.Millisecond, Cap: 100 * time.Millisecond}, true
	var err error
	if q.Read, err = policy.CompileInquiry(policy.InquirySpec{Answers: []int{200}, Succeeded: `body.data.exists(c, c.status == "succeeded")`,
		Pending: `body.data.exists(c, c.status == "pending")`, Failed: `size(body.data) > 0 && body.data.all(c, c.status == "failed")`,
		NotFound: `size(body.data) == 0`}); err != nil {
		b.Fatal(err)
	}
	for _, f := range change {
		f(q)
	}
	k.Inquiry = q
}

// timesOut answers no attempt.
func (b *testBundle) timesOut() {
	b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return in(policy.PhaseNoAnswer, 100) })
}

func TestAnUnknownPayoutIsSettledByInquiryAndNeverResent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.asks()
	b.timesOut()
	b.sender.saysBody(200, `{"data":[{"status":"failed"},{"status":"succeeded"}]}`)
	b.submit("payout", 20)
	b.worker()
	b.ended(20*time.Second, jobs.Succeeded, 20)
	if b.sender.most() != 1 || b.sender.total() != 20 || b.sender.questions() < 20 {
		t.Errorf("%d sends, at most %d of one, %d inquiries", b.sender.total(), b.sender.most(), b.sender.questions())
	}
	d := b.get("payout", 0)
	if d.Inquiries < 1 || d.Applied != jobs.AppliedYes {
		t.Errorf("%d inquiries, applied %s", d.Inquiries, d.Applied)
	}
	asked := slices.ContainsFunc(d.Timeline, func(e jobs.Event) bool { return e.Event == "inquiry" && *e.Note == "succeeded" })
	if !asked {
		t.Errorf("the timeline does not tell of the inquiry: %v", d.Timeline)
	}
	if n := b.value(`redrive_calls_total{call="inquiry",class="2xx",dependency="payrail",kind="payout"}`); n < 20 {
		t.Errorf("%v inquiries counted", n)
	}
}

// What an inquiry answers when it fails proves nothing, and least of all that the
// operation was not found.
func TestAnInquiryThatFailsNeverLeadsToAResend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"500 with an empty list":   {500, `{"data":[]}`},
		"401":                      {401, `{"data":[]}`},
		"429":                      {429, `{"data":[]}`},
		"HTML":                     {200, `<html>maintenance</html>`},
		"null":                     {200, `{"data":null}`},
		"an unknown status word":   {200, `{"data":[{"status":"processing"}]}`},
		"a page that is cut short": {200, `{"data":[{"status":"fai`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.asks(func(q *config.Inquiry) { q.AfterNotFoundDead = false })
			b.timesOut()
			b.sender.saysBody(c.status, c.body)
			b.submit("payout", 1)
			b.worker()
			some := 4
			if c.status == 401 {
				some = 3 // then the refused credential pauses the dependency
			}
			b.until(20*time.Second, "some inquiries", func() bool { return b.sender.questions() >= some })
			if d := b.get("payout", 0); d.State != jobs.Unresolved || b.sender.total() != 1 {
				t.Errorf("%s after %d sends", d.State, b.sender.total())
			}
		})
	}
}

func TestNotFoundTwiceSendsAgainWhereTheKindSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.asks(func(q *config.Inquiry) { q.AfterNotFoundDead = false })
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		if call.Attempt == 1 {
			return in(policy.PhaseNoAnswer, 100)
		}
		return answered(200)
	})
	b.sender.saysBody(200, `{"data":[]}`)
	b.submit("payout", 1)
	b.worker()
	b.ended(30*time.Second, jobs.Succeeded, 1)
	if d := b.get("payout", 0); d.Sends != 2 || d.Inquiries < 2 {
		t.Errorf("%d sends after %d inquiries", d.Sends, d.Inquiries)
	}
}

func TestWhatTheGatewayNeverSawIsLeftToAPersonAfterwards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.asks()
	b.timesOut()
	b.sender.saysBody(200, `{"data":[]}`)
	b.submit("payout", 1)
	b.worker()
	b.ended(30*time.Second, jobs.Dead, 1)
	if d := b.get("payout", 0); *d.Reason != jobs.ReasonUnresolved || d.Applied != jobs.AppliedNo || b.sender.total() != 1 {
		t.Errorf("dead(%s), applied %s, %d sends", *d.Reason, d.Applied, b.sender.total())
	}
}

func TestAStopLeavesInquiriesUnderWayToTheirLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.asks()
	b.timesOut()
	asked := make(chan struct{}, 100)
	b.sender.mu.Lock()
	b.sender.says = func(string) gateway.Answer {
		asked <- struct{}{}
		return in(policy.PhaseNoAnswer, 100)
	}
	b.sender.mu.Unlock()
	b.submit("payout", 1)
	w := b.worker()
	receive(b, "an inquiry", asked)
	w.Stop()
	if d := b.get("payout", 0); d.State != jobs.Unresolved || b.sender.total() != 1 {
		t.Errorf("%s after %d sends", d.State, b.sender.total())
	}
}

func TestAnInquiryThatCannotBeAskedSaysWhy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.asks(func(q *config.Inquiry) { q.Path = "/v1/payouts/{result.id}" })
	b.timesOut()
	b.submit("payout", 1)
	b.worker(func(o *Options) {
		inner := attempt.Headers(o.Config, func(string) string { return "" })
		o.Headers = func(dep jobs.Dependency, credential string) (http.Header, error) {
			if b.sender.total() > 0 {
				return nil, errors.New("the vault is shut")
			}
			return inner(dep, credential)
		}
	})
	b.until(20*time.Second, "it was tried", func() bool { return b.get("payout", 0).Inquiries > 1 })
	if b.sender.questions() != 0 || b.get("payout", 0).State != jobs.Unresolved {
		t.Errorf("%d inquiries on the wire", b.sender.questions())
	}
}

func TestALateSuccessIsVoidedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.config.Dependencies[dep]
	void := config.NewKind("void", d, "/v1/voids")
	void.Idempotency = jobs.IdempotencyKeyed
	b.config.Kinds["void"] = void
	b.asks()
	b.config.Kinds["payout"].VoidLate = &jobs.VoidSpec{Kind: "void", Params: map[string]string{"reference": "key"}}
	b.sender.answer(func(_ context.Context, call gateway.Call) gateway.Answer {
		if name(call) == "payout:payout-0" {
			return in(policy.PhaseNoAnswer, 100)
		}
		return answered(200)
	})
	b.sender.saysBody(200, `{"data":[{"status":"succeeded"}]}`)
	b.submit("payout", 1, func(_ int, s *jobs.Submission) { s.Deadline = "3s" })
	for range 2 {
		b.worker()
	}
	b.until(40*time.Second, "it is voided", func() bool { return b.sender.total() == 2 && b.states()[jobs.Succeeded] == 2 })
	got, err := b.ledger.Get(context.Background(), dep, jobs.ID{Kind: "void", Key: "payout:payout-0"}, nil)
	if err != nil || got.State != jobs.Succeeded || string(got.Request.Body) != `{"reference":"payout-0"}` || got.SubmittedBy == nil || *got.SubmittedBy != "redrive" {
		t.Errorf("%v %v", got, err)
	}
	if d := b.get("payout", 0); len(d.Flags) != 1 || d.Flags[0] != jobs.FlagLate {
		t.Errorf("flags %v", d.Flags)
	}
	b.until(20*time.Second, "the outbox is empty", func() bool { return b.rdb.ZCard(context.Background(), b.key("outbox")).Val() == 0 })
}

// What changed between an unknown attempt and its resend makes the resend unsafe: the
// gateway is asked instead, and what the inquiry does not know proves nothing where it
// asks elsewhere.
func TestWhatChangedAfterAnUnknownAttemptIsAskedAboutAndNotResent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Config)
		found  jobs.State // what "not found", twice, leads to; the next attempt is hours away
	}{
		"base_url":   {func(c *config.Config) { c.Dependencies[dep].BaseURL = "http://127.0.0.1:2" }, jobs.Unresolved},
		"class":      {func(c *config.Config) { c.Kinds["charge"].Idempotency = jobs.IdempotencyNone }, jobs.Waiting},
		"key header": {func(c *config.Config) { c.Kinds["charge"].IdempotencyKey.Header = "X-Key" }, jobs.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.asks()
			b.config.Kinds["charge"].Inquiry = b.config.Kinds["payout"].Inquiry
			b.config.Kinds["charge"].Inquiry.AfterNotFoundDead = false
			b.config.Kinds["charge"].Backoff = config.Backoff{Base: time.Hour, Cap: time.Hour}
			b.timesOut()
			b.submit("charge", 1)
			w := b.worker()
			b.until(10*time.Second, "an unknown attempt, and a resend planned", func() bool {
				d := b.get("charge", 0)
				return d.Sends == 1 && (d.State == jobs.Waiting || d.State == jobs.Unresolved)
			})
			w.Stop()
			if d := b.get("charge", 0); d.State == jobs.Waiting { // due now
				b.rdb.ZAdd(context.Background(), b.key("waiting"), redis.Z{Score: 1, Member: "charge/charge-0"})
			}
			b.sender.answer(func(context.Context, gateway.Call) gateway.Answer { return answered(200) })
			b.sender.saysBody(200, `{"data":[]}`)
			c.change(b.config)
			b.worker()
			b.until(40*time.Second, "some inquiries", func() bool { return b.sender.questions() >= 3 || c.found == jobs.Waiting && b.sender.questions() >= 2 })
			b.until(20*time.Second, string(c.found), func() bool { return b.states()[c.found] == 1 })
			d := b.get("charge", 0)
			if d.Sends != 1 {
				t.Errorf("%d sends: it was resent", d.Sends)
			}
			if d.Inquiries < 2 {
				t.Errorf("%d inquiries", d.Inquiries)
			}
		})
	}
}
