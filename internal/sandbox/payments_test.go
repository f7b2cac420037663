package sandbox

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestChargeIsFoundByReferenceAndByID(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	var made Object
	r := tb.charge("order-1", "")
	r.want(t, http.StatusCreated)
	if err := json.Unmarshal([]byte(r.body), &made); err != nil {
		t.Fatal(err)
	}
	if made.ID == "" || made.Reference != "order-1" || made.Amount != 4200 || made.Currency != "GBP" || made.Status != StatusSucceeded {
		t.Errorf("got %+v", made)
	}
	var list struct{ Data []Object }
	found := tb.call("GET", "/v1/charges?reference=order-1", "", "")
	found.want(t, http.StatusOK)
	if err := json.Unmarshal([]byte(found.body), &list); err != nil || len(list.Data) != 1 || list.Data[0] != made {
		t.Errorf("got %q (%v), want %+v", found.body, err, made)
	}
	byID := tb.call("GET", "/v1/charges/"+made.ID, "", "")
	byID.want(t, http.StatusOK)
	if byID.body != r.body {
		t.Errorf("got %q by id, want %q", byID.body, r.body)
	}
	none := tb.call("GET", "/v1/charges?reference=order-2", "", "")
	none.want(t, http.StatusOK)
	if none.body != "{\"data\":[]}\n" {
		t.Errorf("got %q for an unknown reference", none.body)
	}
	tb.call("GET", "/v1/charges/ch_99", "", "").wantCode(t, 404, "not_found")
	tb.call("GET", "/v1/refunds/"+made.ID, "", "").wantCode(t, 404, "not_found")
	tb.call("GET", "/v1/charges", "", "").wantCode(t, 400, "invalid_request")
	if len(tb.sandbox.Ledger()) != 1 {
		t.Error("an inquiry must not make an entry")
	}
}

func TestRoutesAreCountedApart(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	prefix := map[string]string{"charges": "ch_", "refunds": "re_", "voids": "vo_"}
	for _, route := range routes {
		tb.call("POST", "/v1/"+route, "", chargeBody("order-1")).want(t, http.StatusCreated)
	}
	tb.call("POST", "/v1/voids", "", `{"reference":"order-2"}`).want(t, http.StatusCreated) // needs no sum
	for _, route := range routes {
		e := entryOf(tb.sandbox, route, "order-1")
		if e.Requests != 1 || e.SideEffects != 1 || len(e.IDs) != 1 || !strings.HasPrefix(e.IDs[0], prefix[route]) {
			t.Errorf("%s: got %+v", route, e)
		}
		tb.call("GET", "/v1/"+route+"/"+e.IDs[0], "", "").want(t, http.StatusOK)
	}
}

func TestInvalidRequestIsRecordedUnderItsReferenceAndHasNoEffect(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	long := strings.Repeat("x", maxReferenceBytes+1)
	for i, c := range []struct{ key, body, message string }{
		{"key", ``, "body: want a JSON object"},
		{"key", `[]`, "body: want a JSON object"},
		{"key", `{"amount":1,`, "body: "},
		{"key", `{"amount":"1","currency":"GBP"}`, "amount: want int64, got string"},
		{"key", `{"amount":1.5,"currency":"GBP"}`, "amount: want int64, got number 1.5"},
		{"key", `{"amount":-1,"currency":"GBP"}`, "amount: must be positive"},
		{"key", `{"currency":"GBP"}`, "amount: must be given"},
		{"key", `{"amount":1}`, "currency: must be given"},
		{long, `{"amount":1,"currency":"GBP","reference":"order-1"}`, "Idempotency-Key: has more than 255 bytes"},
	} {
		r := tb.call("POST", "/v1/charges", c.key, c.body)
		r.wantCode(t, 400, "invalid_request")
		if !strings.Contains(r.body, `"message":"`+c.message) {
			t.Errorf("%s: got %s, want %s", c.body, r.body, c.message)
		}
		if st := tb.sandbox.Stats(); st.Requests != i+1 || st.Unreferenced != 0 || st.SideEffects != 0 {
			t.Errorf("%s: got %+v", c.body, st)
		}
	}
	if e := tb.entry("key"); e.Requests != 8 || e.SideEffects != 0 {
		t.Errorf("got %+v, want 8 requests and no side effect", e)
	}
	if r := tb.charge("key", "key"); r.status != 201 {
		t.Errorf("got %+v: an invalid request must leave its key fresh", r)
	}
}

func TestRequestWithoutReferenceIsOnlyInTheTotals(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.call("POST", "/v1/charges", "", `{"amount":1,"currency":"GBP"}`).wantCode(t, 400, "invalid_request")
	tb.call("POST", "/v1/charges", "", fmt.Sprintf(`{"amount":1,"currency":"GBP","reference":%q}`, strings.Repeat("x", 256))).wantCode(t, 400, "invalid_request")
	if st := tb.sandbox.Stats(); st.Requests != 2 || st.Unreferenced != 2 || len(tb.sandbox.Ledger()) != 0 {
		t.Errorf("got %+v", st)
	}
}

func TestRequestThatNeverArrivesWholeIsUnread(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(tb.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"amount\":4200,")
	conn.Close()
	waitFor(t, func() bool { return tb.sandbox.Stats().Unread == 1 })
	tb.call("POST", "/v1/charges", "", `{"reference":"`+strings.Repeat("x", maxBodyBytes)+`"}`).wantCode(t, 413, "request_too_large")
	if st := tb.sandbox.Stats(); st.Unread != 2 || st.Requests != 0 || st.SideEffects != 0 {
		t.Errorf("got %+v, want 2 unread and nothing else", st)
	}
}

func TestLedgerKeepsKeysAttemptsAndInstantsInOrderOfArrival(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	before := time.Now()
	for _, c := range []struct{ key, attempt string }{{"a", "1"}, {"a", "2"}, {"b", ""}, {"", "4"}} {
		r, err := http.NewRequest("POST", tb.url+"/v1/charges", strings.NewReader(chargeBody("order-1")))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Idempotency-Key": c.key, "Redrive-Attempt": c.attempt} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		resp, err := tb.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	e := tb.entry("order-1")
	if !slices.Equal(e.Keys, []string{"a", "b"}) || !slices.Equal(e.Attempts, []string{"1", "2", "", "4"}) {
		t.Errorf("got keys %q and attempts %q", e.Keys, e.Attempts)
	}
	if e.FirstAt.Before(before) || !e.FirstAt.Before(e.LastAt) || e.LastAt.After(time.Now()) || e.FirstAt.Location() != time.UTC {
		t.Errorf("got first %s and last %s", e.FirstAt, e.LastAt)
	}
}
