package sandbox

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSameKeyAndBytesReplayTheFirstAnswer(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	first, again := tb.charge("order-1", "key-1"), tb.charge("order-1", "key-1")
	first.want(t, http.StatusCreated)
	again.want(t, http.StatusCreated)
	if first.body != again.body {
		t.Errorf("got %q, want the first answer %q", again.body, first.body)
	}
	if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the replay, and only the replay, must say so")
	}
	if e := tb.entry("order-1"); e.Requests != 2 || e.SideEffects != 1 || len(e.Keys) != 1 {
		t.Errorf("got %+v, want 2 requests, 1 side effect, 1 key", e)
	}
	if st := tb.sandbox.Stats(); st.Replays != 1 {
		t.Errorf("got %d replays, want 1", st.Replays)
	}
}

func TestSameKeyWithOtherBytesOrRouteIsRefused(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.charge("order-1", "key-1").want(t, http.StatusCreated)
	tb.call("POST", "/v1/charges", "key-1", chargeBody("order-1")+" ").wantCode(t, 422, "idempotency_key_reused")
	tb.call("POST", "/v1/refunds", "key-1", chargeBody("order-1")).wantCode(t, 422, "idempotency_key_reused")
	if st := tb.sandbox.Stats(); st.SideEffects != 1 || st.Requests != 3 {
		t.Errorf("got %+v, want 3 requests and 1 side effect", st)
	}
}

func TestLostReplyIsReplayedUnderItsKey(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.setFault(Fault{Mode: LostReplies, Share: new(1.0)})
	wantCut(t, tb.charge("order-1", "key-1"))
	wantCut(t, tb.charge("order-1", "key-1")) // the reply of a replay is lost too
	tb.setFault(Fault{Mode: None})
	r := tb.charge("order-1", "key-1")
	r.want(t, http.StatusCreated)
	if e := tb.entry("order-1"); e.Requests != 3 || e.SideEffects != 1 || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %+v, want 3 requests, 1 side effect and a replay", e)
	}
}

func TestRefusedRequestLeavesItsKeyFresh(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.setFault(Fault{Mode: Refuse})
	tb.charge("order-1", "key-1").want(t, http.StatusServiceUnavailable)
	tb.setFault(Fault{Mode: None})
	if r := tb.charge("order-1", "key-1"); r.status != 201 || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %+v, want a first answer", r)
	}
}

func TestWithoutHonouredKeyEverySendIsASideEffect(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{HonourKeys: new(false)})
	for range 2 {
		tb.charge("order-1", "key-1").want(t, http.StatusCreated)
	}
	if e := tb.entry("order-1"); e.SideEffects != 2 || len(e.Keys) != 1 || e.Keys[0] != "key-1" {
		t.Errorf("got %+v, want 2 side effects and the key on record", e)
	}
	honest := setup(t, Options{})
	for range 2 {
		honest.charge("order-1", "").want(t, http.StatusCreated)
	}
	if e := honest.entry("order-1"); e.SideEffects != 2 || len(e.Keys) != 0 {
		t.Errorf("got %+v, want 2 side effects without a key", e)
	}
}

func TestReferenceComesFromTheKeyWhenTheBodyHasNone(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	r := tb.call("POST", "/v1/charges", "charge:order-1", `{"amount":1,"currency":"GBP"}`)
	r.want(t, http.StatusCreated)
	if e := tb.entry("charge:order-1"); e.SideEffects != 1 || !strings.Contains(r.body, `"reference":"charge:order-1"`) {
		t.Errorf("got %+v and %s", e, r.body)
	}
}

// waitFor polls until ok, for at most 10 s.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 10 s in vain")
		}
	}
}
