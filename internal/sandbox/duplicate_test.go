package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const rejecting = "/v1/charges?duplicates=reject"

func TestSecondChargeOfAReferenceIsRejectedWhereAsked(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.call("POST", rejecting, "", chargeBody("order-1")).want(t, http.StatusCreated)
	tb.call("POST", rejecting, "", chargeBody("order-1")).wantCode(t, http.StatusConflict, "duplicate_reference")
	if e := tb.entry("order-1"); e.Requests != 2 || e.SideEffects != 1 || len(e.IDs) != 1 {
		t.Errorf("got %+v, want 2 requests and 1 side effect", e)
	}
	tb.call("POST", "/v1/charges", "", chargeBody("order-1")).want(t, http.StatusCreated) // not asked: charged again
	if n := tb.sandbox.SideEffects("charges", "order-1"); n != 2 {
		t.Errorf("got %d side effects, want 2", n)
	}
	if n := tb.sandbox.SideEffects("refunds", "order-1"); n != 0 {
		t.Errorf("got %d side effects of another route, want 0", n)
	}
	tb.call("POST", "/v1/charges?duplicates=perhaps", "", chargeBody("order-2")).wantCode(t, http.StatusBadRequest, "invalid_request")
}

func TestDeclinedChargeIsNoDuplicate(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.setFault(Fault{Mode: Decline, Share: new(1.0)})
	tb.call("POST", rejecting, "", chargeBody("order-1")).wantCode(t, http.StatusPaymentRequired, "card_declined")
	tb.setFault(Fault{Mode: None})
	tb.call("POST", rejecting, "", chargeBody("order-1")).want(t, http.StatusCreated)
}

func TestOfManyChargesAtOnceOneIsAccepted(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() { tb.call("POST", rejecting, "", chargeBody("order-1")) })
	}
	calls.Wait()
	if e := tb.entry("order-1"); e.Requests != 20 || e.SideEffects != 1 {
		t.Errorf("got %+v, want 20 requests and 1 side effect", e)
	}
}

func TestInquiryLagsBehindUnderEveryMode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		b := s.book.Load()
		q := request{payment: payment{Reference: "order-1", Amount: 1, Currency: "GBP"}, route: "charges"}
		b.arrive(q)
		o, _ := b.apply(q, StatusSucceeded)
		seen := func() bool {
			now := time.Now()
			upTo := now.Add(-s.fault.readLag(now))
			_, byID := b.object("charges", o.ID, upTo)
			listed := len(b.find("charges", "order-1", upTo)) == 1
			if byID != listed {
				t.Errorf("seen by id: %t, in the list: %t", byID, listed)
			}
			return listed
		}
		for _, f := range []Fault{{Mode: None, ReadLag: 3 * time.Second}, {Mode: Slow, ReadLag: 3 * time.Second, For: time.Second}} {
			if err := s.SetFault(f); err != nil {
				t.Fatal(err)
			}
			if seen() {
				t.Errorf("%s: seen at once, want a lag", f.Mode)
			}
		}
		time.Sleep(time.Second)
		if !seen() {
			t.Error("not seen when the fault is over")
		}
		if err := s.SetFault(Fault{Mode: None, ReadLag: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if !seen() {
			t.Error("not seen when it is as old as the lag")
		}
	})
}

func TestReadLagOnTheWire(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.call("PUT", "/_sandbox/fault", "", `{"mode":"none","read_lag":"3s"}`).want(t, http.StatusOK)
	if got := tb.call("GET", "/_sandbox/fault", "", ""); strings.TrimSpace(got.body) != `{"mode":"none","read_lag":"3s"}` {
		t.Errorf("got %s", got.body)
	}
	tb.charge("order-1", "").want(t, http.StatusCreated)
	if got := tb.call("GET", "/v1/charges?reference=order-1", "", ""); got.body != "{\"data\":[]}\n" {
		t.Errorf("got %q, want nothing seen yet", got.body)
	}
	var e apiError
	got := tb.call("PUT", "/_sandbox/fault", "", `{"mode":"slow","read_lag":"2h"}`)
	if err := json.Unmarshal([]byte(got.body), &e); got.status != http.StatusBadRequest || err != nil || !strings.Contains(e.Error.Message, "read_lag") {
		t.Errorf("got %d %s, want a refusal that names read_lag", got.status, got.body)
	}
}
