package outage

import (
	"testing"
	"time"
)

const sec = time.Second

func TestAnAlertFiresAfterItsTimeAndNotSooner(t *testing.T) {
	t.Parallel()
	between := func(from, to time.Duration) func(time.Duration) bool {
		return func(at time.Duration) bool { return at >= from && at < to }
	}
	for _, tc := range []struct {
		name      string
		holdsFunc func(time.Duration) bool
		want      Alert
	}{
		{"it holds from between two looks", between(61*sec, 1000*sec), Alert{Fired: true, Began: 75 * sec, At: 195 * sec}},
		{"it holds for just long enough", between(75*sec, 196*sec), Alert{Fired: true, Began: 75 * sec, At: 195 * sec}},
		{"it ends one look too early", between(75*sec, 195*sec), Alert{}},
		{"it never holds", between(0, 0), Alert{}},
		{"it holds at the end, and not for long enough", between(500*sec, 1000*sec), Alert{}},
		{"a pause begins it anew", func(at time.Duration) bool { return at >= 30*sec && at != 90*sec }, Alert{Fired: true, Began: 105 * sec, At: 225 * sec}},
	} {
		got := fires(rule{name: "a", text: "b", holds: 2 * time.Minute, holdsFunc: tc.holdsFunc}, 10*time.Minute)
		tc.want.Name, tc.want.Rule, tc.want.For = "a", "b", 2*time.Minute
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestACounterGrowsByWhatCameInTheSpan(t *testing.T) {
	t.Parallel()
	c := tally([]time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 90 * sec, -sec, time.Hour}, 2*time.Minute)
	for _, tc := range []struct {
		at, span time.Duration
		want     float64
	}{{sec, time.Minute, 1}, {2 * sec, time.Minute, 2}, {time.Minute, time.Minute, 2}, {62 * sec, time.Minute, 0}, {91 * sec, time.Minute, 1}, {0, time.Minute, 0}, {time.Hour, time.Hour, 3}} {
		if got := c.increase(tc.at, tc.span); got != tc.want {
			t.Errorf("in the %s before %s it grew by %v, want %v", tc.span, tc.at, got, tc.want)
		}
	}
}

// An outage of which everything is known: it begins at a minute and lasts six.
func TestTheBudgetsAlertComesBeforeThatOfFailures(t *testing.T) {
	t.Parallel()
	o := observed{end: 10 * time.Minute, compared: true}
	refused := int64(0)
	for at := sec; at <= o.end; at += sec {
		g := GateSample{At: at - sec/2, Breaker: "closed", Refused: map[string]int64{}}
		inOutage := at > time.Minute && at <= 7*time.Minute
		if inOutage {
			refused += 3
			g.Breaker = "open"
		}
		if refused > 0 {
			g.Refused["budget"], g.Refused["deadline"] = refused, refused
		}
		o.gate = append(o.gate, g)
		for range 10 {
			o.firsts, o.ended, o.naiveEnded = append(o.firsts, at), append(o.ended, at), append(o.naiveEnded, at)
			if inOutage {
				o.firstsFailed, o.naiveFailed = append(o.firstsFailed, at), append(o.naiveFailed, at)
			}
		}
	}
	want := map[string]Alert{
		alertBudget:  {Fired: true, Began: 75 * sec, At: 195 * sec},
		alertRefused: {Fired: true, Began: 75 * sec, At: 195 * sec},
		alertBreaker: {Fired: true, Began: 75 * sec, At: 375 * sec},
		alertFirsts:  {Fired: true, Began: 75 * sec, At: 375 * sec},
		alertOrders:  {},
		alertNaive:   {Fired: true, Began: 75 * sec, At: 375 * sec},
	}
	alerts := alertsOf(o)
	for _, got := range alerts {
		w, ok := want[got.Name]
		delete(want, got.Name)
		if !ok || got.Fired != w.Fired || got.Began != w.Began || got.At != w.At {
			t.Errorf("%+v, want %+v", got, w)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	r := &Report{Alerts: alerts}
	if got := budgetBeforeFailures(&verdict{Report: r}); !got[0].Reached {
		t.Errorf("%+v", got)
	}
	for i := range r.Alerts {
		if r.Alerts[i].Name == alertNaive {
			r.Alerts[i].At = 195 * sec
		}
	}
	if got := budgetBeforeFailures(&verdict{Report: r}); got[0].Reached {
		t.Errorf("at the same instant is not before: %+v", got)
	}
}
