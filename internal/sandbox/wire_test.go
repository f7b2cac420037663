package sandbox

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestFaultIsReadFromItsWholeForm(t *testing.T) {
	t.Parallel()
	var f Fault
	err := f.UnmarshalJSON([]byte(` {"mode":"lost-replies","latency":"2.4s","share":0.3,"for":"60s","retry_after":"5"} `))
	if err != nil {
		t.Fatal(err)
	}
	if f.Mode != LostReplies || f.Latency != 2400*time.Millisecond || *f.Share != 0.3 || f.For != time.Minute || *f.RetryAfter != "5" {
		t.Errorf("got %+v", f)
	}
}

func TestFaultDecoderSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{``, `want a JSON object such as {"mode":"slow"}`},
		{`["slow"]`, `want a JSON object such as {"mode":"slow"}`},
		{`{}`, `mode is missing`},
		{`{"share":1}`, `mode is missing`},
		{`{"mode":"slowly"}`, `field "mode": unknown mode "slowly": want one of none, slow, down`},
		{`{"mode":null}`, `field "mode": want a string such as "slow", got null`},
		{`{"Mode":"slow"}`, `unknown field "Mode"`},
		{`{"mode":"slow","mode":"down"}`, `field "mode" is given more than once`},
		{`{"mode":"slow","latency":2.4}`, `field "latency": want a string such as "2.4s", got 2.4`},
		{`{"mode":"slow","latency":"2.4"}`, `field "latency": want a duration such as "2.4s", got "2.4"`},
		{`{"mode":"slow","for":""}`, `field "for": want a duration`},
		{`{"mode":"slow","share":"0.3"}`, `field "share": want a number such as 0.3, got "0.3"`},
		{`{"mode":"slow","share":1e999}`, `field "share": want a number`},
		{`{"mode":"refuse","retry_after":5}`, `field "retry_after": want a string such as "5", got 5`},
		{`{"mode":"storm","per_second":0}`, `field "per_second": want more than 0`},
		{`{"mode":"slow"`, `not JSON`},
		{`{"mode":"slow",}`, `not JSON`},
		{`{"mode":}`, `field "mode": not JSON`},
		{`{"mode":"slow"} {}`, `text after the JSON object`},
	} {
		var f Fault
		err := f.UnmarshalJSON([]byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %s", c.text, err, c.want)
		}
		if f != (Fault{}) {
			t.Errorf("%s: a refused text changed the fault to %+v", c.text, f)
		}
	}
}

// FuzzFault: what the decoder accepts is JSON, what the sandbox accepts of it is
// within its documented bounds, survives writing and reading, and never plans a
// wait beyond them.
func FuzzFault(f *testing.F) {
	for _, m := range Modes {
		text, err := json.Marshal(map[string]any{"mode": m, "latency": "2.4s", "share": 0.5, "for": "60s", "retry_after": "5"})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, uint64(1))
	}
	f.Add([]byte(`{"mode":"storm","per_second":0.001,"latency":"1h"}`), uint64(2))
	f.Add([]byte(`{"mode":"rate_limit","per_second":1e6,"share":0}`), uint64(3))
	f.Add([]byte(`{"mode":"down","retry_after":"\u00e9"} x`), uint64(4))
	f.Fuzz(func(t *testing.T, text []byte, n uint64) {
		var read Fault
		if read.UnmarshalJSON(text) != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("accepted %q, which is not JSON", text)
		}
		filled, err := read.filled()
		if err != nil {
			return
		}
		written, err := json.Marshal(filled)
		if err != nil {
			t.Fatalf("%+v: %v", filled, err)
		}
		var again Fault
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(written) {
			t.Fatalf("written as %s, then as %s (%v)", written, twice, err)
		}
		now := time.Unix(1_800_000_000, 0)
		var slot armedSlot
		slot.arm(filled, now)
		a := slot.at(now)
		if a == nil {
			if filled.Mode != None {
				t.Fatalf("%s is over before it began", written)
			}
			return
		}
		for i := range uint64(20) {
			p := a.plan(dice(7, n+i), now)
			limit := filled.Latency
			switch filled.Mode {
			case Slow, Flaky:
				limit *= 4
			case Storm:
				limit += StormPatience
			}
			if p.before < 0 || p.after < 0 || p.before+p.after > limit {
				t.Fatalf("%s: waits %s and %s, beyond %s", written, p.before, p.after, limit)
			}
			if !p.hit && p != (plan{}) {
				t.Fatalf("%s: changes a request it does not hit: %+v", written, p)
			}
			if *filled.Share == 0 && p.hit {
				t.Fatalf("%s: share 0 hits", written)
			}
		}
	})
}
