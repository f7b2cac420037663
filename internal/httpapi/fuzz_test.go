package httpapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// answerTo serves a request without a connection.
func (b *apiBundle) answerTo(t *testing.T, method, target, body string) got {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.url+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+all)
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	w := &recorded{discard: discard{header: http.Header{}}}
	b.server.door.ServeHTTP(w, r)
	b.holds(r, w.status, w.header, []byte(w.text.String()), true)
	return got{w.status, w.header, w.text.String()}
}

// refused checks that an answer which is no success is a client's problem that says
// where, or what.
func (g got) refused(t *testing.T) {
	t.Helper()
	var p Problem
	if err := json.Unmarshal([]byte(g.body), &p); err != nil || p.Status != g.status || g.status < 400 || g.status >= 500 || !strings.HasPrefix(p.Type, problemURN) || p.Detail == "" {
		t.Fatalf("%d %s", g.status, g.body)
	}
	if p.Type == problemURN+invalid.name && (len(p.Errors) == 0 || p.Errors[0].Location == "") {
		t.Fatalf("it does not say where: %s", g.body)
	}
}

// Whatever is submitted, what is taken is JSON with the key that the receipt names, and
// is a duplicate when it comes again.
func FuzzSubmission(f *testing.F) {
	for _, seed := range []string{`{"kind":"charge","key":"a","body":{}}`, `{"kind":"payout","key":"a/b","body_text":"x","attempted":{"outcome":"unknown","attempts":2}}`,
		`{"kind":"charge","key":"a","key":"b"}`, `{"kind":"charge","key":"\ud800"}`, `{"kind":"refund","key":"a","body_base64":"AA==","deadline":"2h","headers":{"X-A":"b"},"params":{"p":"q"}}`,
		`{"kind":"charge","key":"a","body":{"a":1e999}}`, `[`, `nul`, "\ufeff{}"} {
		f.Add(seed)
	}
	b := setupAPI(f)
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		g := b.answerTo(t, "POST", "/v1/operations", text)
		if g.status != http.StatusCreated && g.status != http.StatusOK {
			g.refused(t)
			return
		}
		var named struct {
			Kind jobs.Kind `json:"kind"`
			Key  jobs.Key  `json:"key"`
		}
		if err := json.Unmarshal([]byte(text), &named); err != nil {
			t.Fatalf("taken, and no JSON: %v", err)
		}
		if r := into[jobs.Receipt](t, g); r.Operation != (jobs.ID{Kind: named.Kind, Key: named.Key}) {
			t.Fatalf("taken as %s: %s", r.Operation, g.body)
		}
		if again := b.answerTo(t, "POST", "/v1/operations", text); again.status != http.StatusOK || into[jobs.Receipt](t, again).Answer != jobs.Duplicate {
			t.Fatalf("again: %d %s", again.status, again.body)
		}
	})
}

// Whatever the order is, a bulk action is refused whole or accounts for everything that
// it chose, under a note.
func FuzzBulkBody(f *testing.F) {
	actions := []string{"/v1/operations:cancel", "/v1/operations:reconcile", "/v1/operations:resolve", "/v1/dead-letters/requeue", "/v1/dead-letters/discard"}
	for i, seed := range []string{`{"note":"x","filter":{"key":"a*","limit":2}}`, `{"note":"x","operations":["payout/a","payout/a"],"first_sent_at":"2026-11-29T08:00:00Z"}`,
		`{"note":"x","findings":[{"operation":"refund/a","verdict":"applied","ref":"r"}]}`, `{"note":"x","operations":["refund/a"],"rate":"5/s","deadline":"2h","more_attempts":2}`,
		`{"note":"x","filter":{},"dry_run":true}`, `{"note":"\u0000","filter":null,"operations":[]}`, `{"note":"x","filter":{"since":"1h","until":"2h"}}`, `{"note":"x","filter":{},"filter":{}}`} {
		f.Add(uint8(i), seed)
	}
	b := setupAPI(f)
	b.dead("a", true)
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		if text == "" || strings.Contains(text, "canary") { // canaries are waited for
			return
		}
		g := b.answerTo(t, "POST", actions[int(which)%len(actions)], text)
		if g.status != http.StatusOK {
			g.refused(t)
			return
		}
		d, dry := into[BulkDone](t, g), strings.Contains(text, "dry_run")
		if told := d.Done + d.Pending + d.Unsafe + d.Refused + d.Missing; !d.Over || d.Problem != nil || told != d.Chosen && !(dry && told == 0) || len(d.Items) != told {
			t.Fatalf("%d of %d are told: %s", told, d.Chosen, g.body)
		}
		var order Order
		if err := json.Unmarshal([]byte(text), &order); err != nil || strings.TrimSpace(order.Note) == "" {
			t.Fatalf("done without a note: %s", text)
		}
	})
}

// Whatever the cursor is, a list refuses it or goes on with one that it takes itself.
func FuzzListCursor(f *testing.F) {
	b := setupAPI(f)
	for _, key := range []string{"a", "b", "c"} {
		b.dead(key, true)
	}
	first := into[Page](f, b.get("/v1/operations?limit=1"))
	f.Add(first.NextCursor)
	for _, seed := range []string{"", "x", "eyJ9", "AAAA", strings.Repeat("A", 5000), first.NextCursor[:len(first.NextCursor)-1], first.NextCursor + "A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, path := range []string{"/v1/operations?limit=1&cursor=", "/v1/dead-letters?limit=1&cursor="} {
			seen := 0
			for next := cursor; ; seen++ {
				g := b.answerTo(t, "GET", path+url.QueryEscape(next), "")
				if g.status != http.StatusOK && seen == 0 {
					g.refused(t)
					break
				}
				page := into[Page](t, g)
				if next = page.NextCursor; next == "" {
					break
				}
				if len(page.Items) != 1 || seen > 3 {
					t.Fatalf("it does not end: %s", g.body)
				}
			}
		}
	})
}

// Whatever the filter is, a list refuses it and says which parameter, or gives only
// what exists.
func FuzzFilterQuery(f *testing.F) {
	names := []string{"dependency", "kind", "state", "reason", "class", "flag", "credential", "batch", "key", "error", "unknown", "since", "until", "limit"}
	for i, seed := range []string{"payrail", "charge,refund", "dead,waiting", "unsafe", "timeout,5xx", "merged", "default", "b-1", "[a-c]*", "TIME", "true", "09:00", "2026-11-30T09:00:00Z", "7"} {
		f.Add(uint8(i), seed, uint8(0), "")
		f.Add(uint8(i), seed, uint8(i+1), ",")
	}
	b := setupAPI(f)
	b.dead("a", true)
	b.submit(`{"kind":"charge","key":"b","body":{}}`)
	f.Fuzz(func(t *testing.T, one uint8, first string, other uint8, second string) {
		query := url.Values{names[int(one)%len(names)]: {first}}
		if second != "" {
			query.Set(names[int(other)%len(names)], second)
		}
		g := b.answerTo(t, "GET", "/v1/operations?"+query.Encode(), "")
		if g.status == http.StatusOK {
			if page := into[Page](t, g); len(page.Items) > 2 {
				t.Fatalf("%d operations of 2", len(page.Items))
			}
			return
		}
		g.refused(t)
		p := into[Problem](t, g)
		if name, ok := strings.CutPrefix(p.Errors[0].Location, "query."); !ok || !query.Has(strings.SplitN(name, "[", 2)[0]) {
			t.Fatalf("%s: %s", query, g.body)
		}
	})
}

// Whatever the id is, a stream refuses it or can read on from it.
func FuzzLastEventID(f *testing.F) {
	for _, seed := range []string{"payrail=1-1", "payrail=1764500000000-0,bank=0-0", "payrail=18446744073709551616-0", "payrail=99999999999999999999-99999999999999999999", "a=1-1,a=2-2", "", ",", "payrail=-1"} {
		f.Add(seed)
	}
	b := setupAPI(f)
	b.submit(`{"kind":"charge","key":"a","body":{}}`)
	f.Fuzz(func(t *testing.T, last string) {
		changes, p := b.server.door.changesAfter(t.Context(), last)
		if p != nil {
			if p.Status != invalid.status || len(p.Errors) != 1 || p.Errors[0].Location != "header.Last-Event-ID" {
				t.Fatalf("%+v", p)
			}
			return
		}
		some, err := changes.Next(t.Context(), noWait)
		if err != nil {
			t.Fatalf("it was taken, and cannot be read on from: %v", err)
		}
		for _, c := range some {
			if _, p := b.server.door.changesAfter(t.Context(), c.Cursor); p != nil {
				t.Fatalf("an event bears the id %q, which is refused", c.Cursor)
			}
		}
	})
}

// Whatever the report is, it is refused whole or counts what it says.
func FuzzFirstAttempts(f *testing.F) {
	for _, seed := range []string{`{"ok":9,"failed":1}`, `{"timed_out":1000000}`, `{"ok":1,"process":"p","seq":1}`, `{"ok":1e0}`, `{"ok":9223372036854775807,"failed":1}`, `{"ok":-0}`, `{"ok":1,"seq":-1}`, `{"ok":null,"failed":2}`} {
		f.Add(seed)
	}
	b := setupAPI(f)
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		g := b.answerTo(t, "POST", "/v1/dependencies/payrail/first-attempts", text)
		if g.status != http.StatusOK {
			g.refused(t)
			return
		}
		var said map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			t.Fatalf("taken, and no JSON: %v", err)
		}
		var sum int64
		for name, value := range said {
			var n int64
			switch {
			case slices.Contains([]string{"process", "seq"}, name):
			case !slices.Contains([]string{"ok", "failed", "timed_out"}, name):
				t.Fatalf("%s was passed over", name)
			case json.Unmarshal(value, &n) != nil || n < 0:
				t.Fatalf("%s of %s was taken", name, value)
			}
			sum += n
		}
		taken := into[FirstsTaken](t, g)
		if taken.Counted != sum && !(taken.Counted == 0 && said["process"] != nil) || sum < 1 || sum > maxFirsts {
			t.Fatalf("%d counted of %d: %s", taken.Counted, sum, text)
		}
	})
}
