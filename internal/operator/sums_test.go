package operator

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"redrive/internal/jobs"
)

func TestSumsAreExactAndKeepCurrenciesApart(t *testing.T) {
	t.Parallel()
	reason := jobs.ReasonAttempts
	op := func(columns ...string) *jobs.Operation {
		o := &jobs.Operation{Kind: "charge", State: jobs.Dead, Reason: &reason, Columns: map[string]string{}}
		for i := 0; i < len(columns); i += 2 {
			o.Columns[columns[i]] = columns[i+1]
		}
		return o
	}
	huge := fmt.Sprint(int64(math.MaxInt64 / 10))
	found := Groups([]*jobs.Operation{
		op("amount", "0.1", "currency", "GBP"), op("amount", "0.2", "currency", "GBP"), op("amount", "-7", "currency", "JPY"), op("amount", huge, "currency", "USD"), op("amount", huge, "currency", "USD"),
		op("amount", "1e999999999", "currency", "GBP"), op("amount", "many"), op("amount", "5"), op("note", "x"),
	})
	if len(found) != 1 || found[0].Operations != 9 {
		t.Fatalf("%d groups", len(found))
	}
	if got, want := found[0].Sums.String(), "amount=5, amount=0.3 GBP, amount=-7 JPY, amount=1844674407370955160 USD"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	text, err := json.Marshal(found[0].Sums)
	if want := `{"amount":{"":"5","GBP":"0.3","JPY":"-7","USD":"1844674407370955160"}}`; err != nil || string(text) != want {
		t.Errorf("%s %v\nwant %s", text, err, want)
	}
}

func TestTheLargestGroupComesFirst(t *testing.T) {
	t.Parallel()
	op := func(kind jobs.Kind, reason jobs.Reason, class jobs.Class) *jobs.Operation {
		o := &jobs.Operation{Kind: kind, Reason: &reason}
		if class != "" {
			o.Last = &jobs.LastAttempt{Class: class}
		}
		return o
	}
	var got []string
	for _, g := range Groups([]*jobs.Operation{op("void", jobs.ReasonDeadline, ""), op("charge", jobs.ReasonDeadline, ""), op("refund", jobs.ReasonAttempts, jobs.Class503),
		op("refund", jobs.ReasonAttempts, jobs.Class503), op("charge", jobs.ReasonAttempts, jobs.ClassTimeout)}) {
		class := "never sent"
		if g.Class != nil {
			class = string(*g.Class)
		}
		got = append(got, fmt.Sprint(g.Operations, " ", g.Kind, " ", *g.Reason, " ", class))
	}
	want := []string{"2 refund attempts 503", "1 charge attempts timeout", "1 charge deadline never sent", "1 void deadline never sent"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestWhatWasNotReachedIsNoOutcome(t *testing.T) {
	t.Parallel()
	r := Report{Action: "cancel", Batch: "b-1", Results: []Result{{Result: ResultDone, Unsure: true}, {}, {Result: ResultPending}, {Result: ResultUnsafe}, {Result: ResultRefused}, {Result: ResultMissing}}}
	o := r.Outcome([]Fault{{Line: 3, Error: "what?"}})
	if o.Done != 1 || o.Pending != 1 || o.Unsafe != 1 || o.Refused != 1 || o.Missing != 1 || o.Invalid != 1 || o.Unsure != 1 || len(o.Items) != 5 || *o.Batch != "b-1" || len(r.Results) != 6 {
		t.Errorf("%+v", o)
	}
	empty := (&Report{}).Outcome(nil)
	if text, err := json.Marshal(empty.Items); err != nil || string(text) != "[]" || empty.Batch != nil {
		t.Errorf("of nothing: %s %v %v", text, err, empty.Batch)
	}
}
