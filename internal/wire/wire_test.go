package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const full = `{"kind":"charge","key":"order-1001","body":{"amount":4200,"currency":"GBP"},"deadline":"2h","not_before":"2026-12-01T09:00:00Z",` +
	`"attempted":{"id":"req-1","outcome":"unknown","attempts":1,"first_sent_at":"2026-11-30T09:14:00Z","class":"timeout","counted":true,"status":307,"step":"end","reason":"misconfigured","acted":true,"refused_credential":true},` +
	`"created_at":"2026-11-30T09:14:03Z","idempotency_key":"order-1001-charge","correlation_id":"checkout-77","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","credential":"m1","params":{"id":"x"},"headers":{"X-Account":"a1"},"new_attempt_of":"charge/order-1000"}`

func TestEveryFieldOfASubmissionIsRead(t *testing.T) {
	t.Parallel()
	got, err := DecodeSubmission([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	var want jobs.Submission
	if err := json.Unmarshal([]byte(full), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

func TestDecodingIsStrictAndSaysWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text      string
		offset    int
		field     string
		malformed bool
	}{
		{`{"kind":"charge","bdy":{}}`, 17, "", false},
		{`{"Kind":"charge"}`, 1, "", false},
		{`{"kind":"charge","kind":"void"}`, 17, "", false},
		{`{"kind":"charge","key":7}`, 23, "key", false},
		{`{"attempted":{"attempts":1.5}}`, 25, "attempted.attempts", false},
		{`{"attempted":{"acted":"yes"}}`, 22, "attempted.acted", false},
		{`{"params":{"a":1}}`, 15, "params.a", false},
		{`[]`, 0, "", false},
		{`{"kind":"charge"`, 16, "", true},
		{"{\"kind\":\"ch\xffrge\"}", 11, "", true},
		{``, 0, "", true},
	} {
		_, err := DecodeSubmission([]byte(c.text))
		var wrong *Error
		if !errors.As(err, &wrong) || wrong.Offset != c.offset || wrong.Field != c.field || wrong.Malformed != c.malformed {
			t.Errorf("%s: %#v, want offset %d, field %q, malformed %v", c.text, err, c.offset, c.field, c.malformed)
		}
	}
}

func TestFieldsAreFoundAgain(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"kind": `"charge"`, "attempted.class": `"timeout"`, "params.id": `"x"`, "headers.X-Account": `"a1"`, "body": `{"amount"`,
		"attempted.nothing": `{"id":"req-1"`, "nothing": `{"kind"`, "credential": `"m1"`,
	} {
		if at := Locate([]byte(full), field); !strings.HasPrefix(full[at:], want) {
			t.Errorf("%s is said to stand at %q, want at %s", field, full[at:min(at+20, len(full))], want)
		}
	}
}

// A field that was null counted as not given: a "deadline" that a program had no value for.
func TestNullIsRefusedEverywhereButAsABody(t *testing.T) {
	t.Parallel()
	s, err := DecodeSubmission([]byte(`{"kind":"charge","key":"a","body":null}`))
	if err != nil || string(s.Body) != "null" {
		t.Errorf("a body: %v, %+v", err, s)
	}
	var whole map[string]any
	if err := json.Unmarshal([]byte(full), &whole); err != nil {
		t.Fatal(err)
	}
	for name := range whole {
		refusesNull(t, fmt.Sprintf(`{"kind":"charge",%q:null}`, name), name, name == "body" || name == "kind")
	}
	for name := range whole["attempted"].(map[string]any) {
		refusesNull(t, fmt.Sprintf(`{"attempted":{%q:null}}`, name), "attempted."+name, false)
	}
	for _, name := range []string{"kind", "body_text", "body_base64"} {
		refusesNull(t, fmt.Sprintf(`{%q:null}`, name), name, false)
	}
	refusesNull(t, `{"params":{"id":null}}`, "params.id", false)
	refusesNull(t, `{"headers":{"X-Account":null}}`, "headers.X-Account", false)
}

func refusesNull(t *testing.T, text, field string, except bool) {
	t.Helper()
	if except {
		return
	}
	_, err := DecodeSubmission([]byte(text))
	var wrong *Error
	if !errors.As(err, &wrong) || wrong.Field != field || wrong.Malformed || !strings.Contains(wrong.Error(), "not null") {
		t.Errorf("%s: %v, want it to be refused at %s", text, err, field)
	}
}

func TestAnObjectMeansOneThingAlone(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{`{"a":1,"b":{"a":1}}`: true, `{"a":1,"a":1}`: false, `{"b":{"a":1,"a":2}}`: false, `[]`: false, `{`: false, `{} {}`: false, "\xff": false, `{}`: true,
		`{"a":[{"b":1},{"b":2}]}`: true, `{"a":[{"b":1},{"b":2,"b":3}]}`: false, `{"a":[ ] , "b" : [ 1 , "]" , [ ] ]}`: true} {
		if err := CheckObject([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, field := range map[string]string{`{"a":null}`: "a", `{"a":{"b":null}}`: "a.b", `{"a":["x",null]}`: "a[1]", `{"a":[[],{"b":[1e999]}]}`: "a[1].b[0]", `{"a":1e999}`: "a",
		`{"a":` + strings.Repeat("[", 9) + strings.Repeat("]", 9) + `}`: "a" + strings.Repeat("[0]", 8)} {
		err := CheckObject([]byte(text))
		var wrong *Error
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v, want it to be refused at %s", text, err, field)
		}
	}
}

// The decoder never panics, says a place inside the text for what it refuses, and reads
// what it takes as package json does.
func FuzzDecodeSubmission(f *testing.F) {
	for _, seed := range []string{full, `{"kind":"charge","key":"a","body":[1,{"x":"\"}"}],"body_text":"é\u0000"}`, `{"a":{"b":[[]]}}`, "{}", "[", `{"key":"\ud83d\ude00"}`,
		" {\t\"kind\" : \"x\" } ", `{"params":{"":""},"attempted":{}}`, "\xef\xbb\xbf{}", `{"body":-0.5e10}`, `{"body":tru}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		_ = CheckObject(text)
		got, err := DecodeSubmission(text)
		if !bytes.Equal(before, text) {
			t.Fatal("the text was changed")
		}
		if err != nil {
			var where *Error
			if !errors.As(err, &where) || where.Offset < 0 || where.Offset > len(text) {
				t.Fatalf("no place in the text: %#v", err)
			}
			return
		}
		var want jobs.Submission
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("package json refuses it: %v", err)
		}
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("got  %+v\nwant %+v", *got, want)
		}
	})
}

func TestLimitsAreStoredExactlyOrRefusedByName(t *testing.T) {
	t.Parallel()
	got, err := StoredLimits(map[string]float64{"ratio": 0.3, "cap": 50, "floor": 2.5, "rate": 0, "drain": 0.001, "max_in_flight": 7})
	want := map[string]int64{"ratio": 300, "cap": 50, "floor": 2500, "rate": 0, "drain": 1, "max_in_flight": 7}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for name, value := range map[string]float64{"ratio": 1.1, "cap": 1.5, "floor": -1, "drain": 0.0001, "max_in_flight": 1e9, "speed": 1} {
		var wrong *Error
		if _, err := StoredLimits(map[string]float64{name: value}); !errors.As(err, &wrong) || wrong.Field != name {
			t.Errorf("%s %v: %v, want an error of that field", name, value, err)
		}
	}
}

func TestATimelineTellsWhatPeopleDidWhereItHappened(t *testing.T) {
	t.Parallel()
	at := func(s int) *jobs.Instant { return jobs.At(time.Unix(int64(s), 0)) }
	events := []jobs.Event{{At: at(1), Event: "submitted"}, {At: at(5), Event: "cancelled"}}
	got := Timeline(events, []ledger.AuditEntry{{At: at(5), Action: "cancel", By: "ann", Note: "shop closed"}, {At: at(6), Action: ActionReveal, By: "ann"},
		{At: at(3), Action: "requeue", To: "refused", Note: "why"}})
	var names []string
	for _, e := range got {
		names = append(names, e.Event)
	}
	if want := []string{"submitted", "requeue", "cancel", "cancelled"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if len(events) != 2 || *got[1].Note != "refused; why" {
		t.Errorf("the events handed in were changed, or the refusal is not told: %+v", got[1])
	}
}

func TestWhatIsHiddenRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	text, note := "card 4111111111111111 of a@b.example, Bearer abcdefghi", "https://x.example/?token=1"
	o := jobs.Operation{Last: &jobs.LastAttempt{Error: &text}, Timeline: []jobs.Event{{Note: &note}}}
	got := Hidden(o)
	for _, secret := range []string{"4111111111111111", "a@b.example", "abcdefghi", "token=1"} {
		if strings.Contains(*got.Last.Error+*got.Timeline[0].Note, secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if *o.Last.Error != text || *o.Timeline[0].Note != note {
		t.Error("the operation handed in was changed")
	}
}

func TestAGateThatNobodyDescribedShowsNoLimits(t *testing.T) {
	t.Parallel()
	g := GateOf(ledger.GateState{Dependency: "payrail", ReadAt: time.Unix(1, 0), Gate: budget.Gate{State: budget.Closed}})
	if g.Known || g.Cap != nil || g.Tokens != nil || g.Forecast != nil || g.Override != nil || g.Credentials == nil {
		t.Errorf("%+v", g)
	}
}

func TestTheAuditOfTheGateIsToldInPeoplesUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ had, want ledger.AuditEntry }{
		{ledger.AuditEntry{Action: "override", From: "", To: "1796029200000 cap=5 ratio=250"}, ledger.AuditEntry{Action: "override", To: "ratio 0.25, cap 5 until 2026-11-30T09:00:00Z"}},
		{ledger.AuditEntry{Action: "clear", From: "drain=0 max_in_flight=3", To: ""}, ledger.AuditEntry{Action: "clear", From: "drain 0 (shut), max-in-flight 3"}},
		{ledger.AuditEntry{Action: "resume", Operation: "m1"}, ledger.AuditEntry{Action: "resume credential m1", Operation: "-"}},
		{ledger.AuditEntry{Action: "resume", Operation: "-"}, ledger.AuditEntry{Action: "resume", Operation: "-"}},
		{ledger.AuditEntry{Action: "cancel", Operation: "charge/a", From: "waiting", To: "cancelled"}, ledger.AuditEntry{Action: "cancel", Operation: "charge/a", From: "waiting", To: "cancelled"}},
	} {
		if got := Told(c.had); got != c.want {
			t.Errorf("%+v\nis told as %+v\nwant       %+v", c.had, got, c.want)
		}
	}
}

func TestStatsAddUpAndWarnOfWhatStandsStill(t *testing.T) {
	t.Parallel()
	s := NewStats()
	since := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	snapshot := ledger.Snapshot{Dependency: "payrail", DueFirst: 2, DueRetry: 1, TokensMilli: 1500, Paused: true, PausedBy: "ann", OldestDueAt: since, Counts: []ledger.Count{
		{Kind: "charge", State: jobs.Waiting, N: 3}, {Kind: "charge", State: jobs.Dead, Reason: jobs.ReasonDeadline, N: 2}, {Kind: "gift", State: jobs.Unresolved, N: 1}}}
	gate := ledger.GateState{Dependency: "payrail", Gate: budget.Gate{State: budget.Open, UntilMS: since.UnixMilli()}, PausedSince: since,
		PausedCredentials: map[string]time.Time{"m1": since}, ReadAt: since}
	s.Add(snapshot, gate, []ledger.Worker{{Dependencies: []jobs.Dependency{"payrail"}, Kinds: []jobs.Kind{"charge"}}})
	s.Add(ledger.Snapshot{Dependency: "bank", TokensMilli: -1, Counts: []ledger.Count{{Kind: "refund", State: jobs.Waiting, N: 1}}}, ledger.GateState{Dependency: "bank", ReadAt: since}, nil)
	d := s.Dependencies["payrail"]
	if s.States[jobs.Waiting] != 4 || s.States[jobs.Dead] != 2 || s.States[jobs.Succeeded] != 0 || d.Due != 3 || d.Reasons[jobs.ReasonDeadline] != 2 ||
		d.Kinds["gift"][jobs.Unresolved] != 1 || *d.Tokens != 1.5 || d.Workers != 1 || d.Paused.By != "ann" || !d.Paused.Since.Equal(since) || s.Dependencies["bank"].Tokens != nil {
		t.Errorf("%+v", s)
	}
	want := []string{"no live worker knows kind gift of dependency payrail, which has 1 operation to send",
		"the breaker of payrail is open until 2026-11-30T09:00:00Z, because of -: nothing leaves",
		"credential m1 of payrail is paused since 2026-11-30T09:00:00Z, because it was refused: mend it, then enqueue resume payrail --credential m1",
		"no live worker serves dependency bank, which has 1 operation to send"}
	if !reflect.DeepEqual(s.Warnings, want) {
		t.Errorf("%q\nwant %q", s.Warnings, want)
	}
}
