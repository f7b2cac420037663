package operator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// invalid returns the error about a field, and fails the test if err is none.
func invalid(t testing.TB, err error) *InvalidError {
	t.Helper()
	var e *InvalidError
	if !errors.As(err, &e) {
		t.Fatalf("%v, want an error about a field", err)
	}
	return e
}

func asFlag(f Field) string { return "--" + strings.ReplaceAll(string(f), "_", "-") }

func TestRatesAreReadStrictly(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{"5/s": 200 * time.Millisecond, "300/m": 200 * time.Millisecond, "1000/h": 3600 * time.Millisecond, "0.5/s": 2 * time.Second} {
		if got, err := parseRate(s); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "5", "5/d", "/s", "0/s", "-1/s", "NaN/s", "Inf/s", "1e9/s", "0.0001/h", "1e-9/h", "1e-300/h"} {
		if _, err := parseRate(s); invalid(t, err).Field != FieldRate {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestSinceIsAnInstantATimeOfTodayOrASpanAgo(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 30, 14, 30, 15, 0, berlin)
	for s, want := range map[string]time.Time{
		"":                          {},
		"2h":                        now.Add(-2 * time.Hour),
		"0s":                        now,
		"09:00":                     time.Date(2026, 11, 30, 9, 0, 0, 0, berlin),
		"23:15:01":                  time.Date(2026, 11, 30, 23, 15, 1, 0, berlin),
		"2026-11-30T09:00:00Z":      time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC),
		"2026-11-30T09:00:00+02:00": time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseWhen(FieldSince, s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"-2h", "25:00", "yesterday", "2026-11-30", "5"} {
		if _, err := ParseWhen(FieldUntil, s, now); invalid(t, err).Field != FieldUntil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestAFilterNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 14, 30, 0, 0, time.UTC)
	for field, w := range map[Field]FilterWords{
		FieldDependency: {Dependencies: []string{"Pay Rail"}},
		FieldKind:       {Kinds: []string{""}},
		FieldState:      {States: []string{"lost"}},
		FieldReason:     {Reasons: []string{"attempts", "bored"}},
		FieldClass:      {Classes: []string{"6xx"}},
		FieldFlag:       {Flags: []string{"red"}},
		FieldKey:        {Key: "[a"},
		FieldLimit:      {Limit: -1},
		FieldSince:      {Since: "10:00", Until: "09:00"},
		FieldUntil:      {Until: "tomorrow"},
	} {
		_, err := w.Filter(now)
		if e := invalid(t, err); e.Field != field || !strings.HasPrefix(e.Text(asFlag), asFlag(field)) || !strings.HasPrefix(e.Error(), string(field)) {
			t.Errorf("%s: about %s: %s", field, e.Field, e)
		}
	}
}

func TestAFilterSaysForTheAuditWhatItChoosesBy(t *testing.T) {
	t.Parallel()
	if got := (&FilterWords{}).String(); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	w := FilterWords{Dependencies: []string{"payrail"}, Kinds: []string{"charge", "refund"}, States: []string{"dead"}, Reasons: []string{"deadline"}, Classes: []string{"5xx"},
		Flags: []string{"late"}, Credentials: []string{"m1"}, Batches: []string{"b-1"}, Key: "o*", ErrorText: "no", Unknown: true, Since: "2h", Until: "1h", Limit: 7}
	const want = "dependency=payrail kind=charge,refund state=dead reason=deadline class=5xx flag=late credential=m1 batch=b-1 key=o* error=no unknown=true since=2h until=1h limit=7"
	if got := w.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestAPlanNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	n, none, wait, never := 2, 0, time.Minute, time.Duration(0)
	for _, c := range []struct {
		w    RequeueWords
		text string
	}{
		{RequeueWords{MoreAttempts: &none}, "--more-attempts 0: must be at least 1"},
		{RequeueWords{Deadline: "soon"}, `--deadline "soon" is neither`},
		{RequeueWords{Deadline: "-1s"}, "--deadline -1s: a span must be above 0"},
		{RequeueWords{Rate: "5"}, `--rate "5": want such as 5/s`},
		{RequeueWords{Canary: &none}, "--canary 0: must be at least 1"},
		{RequeueWords{CanaryWait: &wait}, "--canary-wait says how long to wait for --canary, which is missing"},
		{RequeueWords{Canary: &n, CanaryWait: &never}, "--canary-wait 0s: must be above 0"},
	} {
		_, err := c.w.Plan()
		if text := invalid(t, err).Text(asFlag); !strings.HasPrefix(text, c.text) {
			t.Errorf("%s\nwant %s", text, c.text)
		}
	}
	p, err := RequeueWords{}.Plan()
	if err != nil || p.Canary != 0 || p.Apart != 0 || p.CanaryWait != DefaultCanaryWait || p.base.AtLeast != attemptsLeft || p.base.More != 0 {
		t.Errorf("of nothing: %+v %v", p, err)
	}
	p, err = RequeueWords{MoreAttempts: &n, Deadline: "2h", Rate: "2/s", Canary: &n, CanaryWait: &wait}.Plan()
	if err != nil || p.Canary != 2 || p.Apart != 500*time.Millisecond || p.CanaryWait != wait || p.base.More != 2 || p.base.AtLeast != 0 || p.base.DeadlineSpan != 2*time.Hour {
		t.Errorf("%+v %v", p, err)
	}
}

func TestNamesOfOperationsAreTakenOnce(t *testing.T) {
	t.Parallel()
	ids, err := ParseIDs([]string{"charge/b", "charge/a", "charge/b", "refund/b"})
	if err != nil || fmt.Sprint(ids) != "[charge/b charge/a refund/b]" {
		t.Errorf("%v %v", ids, err)
	}
	var wrong *NameError
	if _, err := ParseIDs([]string{"charge/a", "charge/a", "charge"}); !errors.As(err, &wrong) || wrong.Index != 2 || wrong.Err == nil {
		t.Errorf("%v", err)
	}
}

func TestNotesAndRefsAreWhatTheAuditCanKeep(t *testing.T) {
	t.Parallel()
	for _, note := range []string{"", " \t", strings.Repeat("x", maxNoteBytes+1), "\xff"} {
		if e := invalid(t, CheckNote(note)); e.Field != FieldNote || !strings.HasPrefix(e.Text(asFlag), "--note ") {
			t.Errorf("%q: %s", note, e)
		}
	}
	if err := CheckNote(strings.Repeat("x", maxNoteBytes)); err != nil {
		t.Error(err)
	}
	for _, ref := range []string{strings.Repeat("x", maxRefBytes+1), "a\nb"} {
		if CheckRef(ref) == nil {
			t.Errorf("%q passed", ref)
		}
	}
	if err := CheckRef("ch_1"); err != nil {
		t.Error(err)
	}
}

// Whatever is typed, a rate is refused or spreads operations by a span that neither is
// negative nor lasts more than a day.
func FuzzRate(f *testing.F) {
	for _, s := range []string{"5/s", "300/m", "1000/h", "0.5/s", "NaN/s", "1e6/s", "1e-9/h", "1e-300/h", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		apart, err := parseRate(s)
		if err != nil {
			if invalid(t, err).Field != FieldRate {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if apart < 0 || apart > 24*time.Hour {
			t.Errorf("%q: %s apart", s, apart)
		}
	})
}

// Whatever is typed, an instant is refused or is one that does not lie after now,
// unless it was written out.
func FuzzWhen(f *testing.F) {
	for _, s := range []string{"", "2h", "09:00", "23:59:59", "2026-11-30T09:00:00Z", "-2h", "9999999h"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 30, 14, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseWhen(FieldSince, s, now)
		if err != nil {
			if invalid(t, err).Field != FieldSince || !at.IsZero() {
				t.Errorf("%q: %v %v", s, at, err)
			}
			return
		}
		if _, written := time.Parse(time.RFC3339, s); written != nil && at.Sub(now) >= 24*time.Hour {
			t.Errorf("%q: %s lies after %s", s, at, now)
		}
	})
}
