package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFaultIsSetShownAndRefusedOverHTTP(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	set := tb.call("PUT", "/_sandbox/fault", "", `{"mode":"refuse","retry_after":"9"}`)
	set.want(t, 200)
	if want := `{"mode":"refuse","share":1,"retry_after":"9"}` + "\n"; set.body != want {
		t.Errorf("got %q, want %q", set.body, want)
	}
	if got := tb.call("GET", "/_sandbox/fault", "", ""); got.body != set.body {
		t.Errorf("got %q, want what was set", got.body)
	}
	for body, message := range map[string]string{
		`{"mode":"refuse","shares":1}`:                               `unknown field`,
		`{"mode":"refuse","share":1.5}`:                              `share 1.5: want a number from 0 to 1`,
		`{"mode":"refuse","for":"a while"}`:                          `want a duration`,
		`{"mode":"boom"}`:                                            `unknown mode`,
		`{"mode":"slow"}` + strings.Repeat(" ", maxFaultBytes) + `x`: `request body too large`,
	} {
		r := tb.call("PUT", "/_sandbox/fault", "", body)
		r.wantCode(t, 400, "invalid_request")
		if !strings.Contains(r.body, message) {
			t.Errorf("got %q, want %q", r.body, message)
		}
	}
	if got := tb.call("GET", "/_sandbox/fault", "", ""); got.body != set.body {
		t.Errorf("got %q: a refused fault must change nothing", got.body)
	}
}

func TestShownFaultCanBeSetAgain(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	for _, m := range Modes {
		tb.setFault(Fault{Mode: m, For: time.Hour})
		shown := tb.call("GET", "/_sandbox/fault", "", "")
		tb.call("PUT", "/_sandbox/fault", "", shown.body).want(t, 200)
	}
}

func TestLedgerIsPagedAndFiltered(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	for i := range 7 {
		tb.charge(fmt.Sprint("order-", i), "")
	}
	tb.call("POST", "/v1/refunds", "", chargeBody("order-3"))
	var all []Entry
	cursor, pages := "", 0
	for {
		r := tb.call("GET", "/_sandbox/ledger?limit=3&cursor="+cursor, "", "")
		r.want(t, 200)
		var p page
		if err := json.Unmarshal([]byte(r.body), &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Items...)
		pages++
		if cursor = p.NextCursor; cursor == "" {
			break
		}
	}
	want := tb.sandbox.Ledger()
	if pages != 3 || len(all) != 8 || len(want) != 8 {
		t.Fatalf("got %d entries on %d pages, want 8 on 3", len(all), pages)
	}
	for i := range all {
		if all[i].Route != want[i].Route || all[i].Reference != want[i].Reference {
			t.Errorf("entry %d is %+v, want %+v", i, all[i], want[i])
		}
	}
	one := tb.call("GET", "/_sandbox/ledger?reference=order-3", "", "")
	if strings.Count(one.body, `"reference":"order-3"`) != 2 || strings.Count(one.body, `"reference"`) != 2 {
		t.Errorf("got %s, want the charge and the refund of order-3", one.body)
	}
	if none := tb.call("GET", "/_sandbox/ledger?reference=order-9", "", ""); none.body != `{"items":[],"next_cursor":""}`+"\n" {
		t.Errorf("got %q for an unknown reference", none.body)
	}
	if past := tb.call("GET", "/_sandbox/ledger?cursor=99", "", ""); past.body != `{"items":[],"next_cursor":""}`+"\n" {
		t.Errorf("got %q past the end", past.body)
	}
	for _, bad := range []string{"limit=0", "limit=10001", "limit=x", "cursor=-1", "cursor=x", "page=2", "limit=1&limit=2", "reference=order-1&limit=1", "%zz"} {
		tb.call("GET", "/_sandbox/ledger?"+bad, "", "").wantCode(t, 400, "invalid_request")
	}
}

func TestDeleteResetsEverything(t *testing.T) {
	t.Parallel()
	tb := setup(t, Options{})
	tb.charge("order-1", "key-1").want(t, 201)
	tb.setFault(Fault{Mode: Down})
	tb.call("DELETE", "/_sandbox", "", "").want(t, 200)
	if got := tb.call("GET", "/_sandbox/stats", "", ""); got.body !=
		`{"requests":0,"unreferenced":0,"unread":0,"inquiries":0,"hits":0,"replays":0,"side_effects":0,"seconds":[]}`+"\n" {
		t.Errorf("got %s, want nothing counted", got.body)
	}
	if r := tb.charge("order-1", "key-1"); r.status != 201 || r.header.Get("Idempotent-Replayed") != "" || !strings.Contains(r.body, `"id":"ch_1"`) {
		t.Errorf("got %+v, want the first charge of a new sandbox", r)
	}
	if e := tb.entry("order-1"); e.Requests != 1 || e.SideEffects != 1 {
		t.Errorf("got %+v", e)
	}
}
