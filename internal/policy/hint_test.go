package policy

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"redrive/internal/jobs"
)

var received = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func throttled(header map[string][]string) Sample {
	return Sample{Phase: PhaseAnswered, Status: 429, Header: header, WireBytes: 1, ReceivedAt: received}
}

func retryAfterOf(values ...string) Hint {
	return hintOf(throttled(map[string][]string{"Retry-After": values}))
}

func TestT45NonIntegerAndUnitForms(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"0.503": time.Second, "1.5": 2 * time.Second, " 3 ": 3 * time.Second, "3,": 3 * time.Second, "007": 7 * time.Second, "2.000": 2 * time.Second} {
		if h := retryAfterOf(value); h.From != "Retry-After" || h.Wait != want || h.Raw == "" {
			t.Errorf("%q: got %+v, want %v", value, h, want)
		}
	}
	for _, value := range []string{"1m0s", "+3", "-3", "abc", "", ".5", "5.", "1.-5", "0x10", "3 s", "1_000", "٣"} {
		h := retryAfterOf(value)
		if h.From != "" || h.Wait != 0 || h.Raw != value {
			t.Errorf("%q: got %+v, want no hint and the raw value kept", value, h)
		}
		in := roomy(Classify(throttled(map[string][]string{"Retry-After": {value}}), jobs.IdempotencyKeyed), jobs.IdempotencyKeyed)
		if d := Decide(in); d.Next != NextRetry || d.Delay < MinDelay {
			t.Errorf("%q: decided %+v, want an ordinary backoff", value, d)
		}
	}
	long := retryAfterOf(strings.Repeat("x", 10_000) + "\xff")
	if len(long.Raw) > maxRawBytes || !utf8.ValidString(long.Raw) {
		t.Errorf("raw value has %d bytes", len(long.Raw))
	}
	if h := retryAfterOf(strings.Repeat("é", 60)); len(h.Raw) > maxRawBytes || !utf8.ValidString(h.Raw) {
		t.Errorf("raw value %q is cut inside a character", h.Raw)
	}
}

func TestT46AbsurdWaits(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"9223372036854775807", strings.Repeat("9", 400), "86400", "99999.9", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		if h := retryAfterOf(value); h.From == "" || h.Wait != MaxWait {
			t.Errorf("%.30q: got %+v, want %v", value, h, MaxWait)
		}
	}
	for _, value := range []string{"inf", "nan", "NaN", "1e309", "-9223372036854775808"} {
		if h := retryAfterOf(value); h.From != "" {
			t.Errorf("%q: got %+v, want no hint", value, h)
		}
	}
	// Longer than the deadline allows: it ends at once instead of coming back early.
	in := roomy(Classify(throttled(map[string][]string{"Retry-After": {"9223372036854775807"}}), jobs.IdempotencyKeyed), jobs.IdempotencyKeyed)
	in.ResendSafeFor = 100 * time.Hour
	if d := Decide(in); d.Next != NextEnd || d.Reason != jobs.ReasonDeadline {
		t.Errorf("decided %+v, want the deadline", d)
	}
	in.DeadlineIn = 48 * time.Hour
	if d := Decide(in); d.Next != NextRetry || d.Delay < MaxWait || d.Delay > MaxWait+MaxExtra {
		t.Errorf("decided %+v, want a retry after 24h and at most 30s", d)
	}
}

func TestT47ZeroAndPastDatesMakeNoHotLoop(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]map[string][]string{
		"zero":        {"Retry-After": {"0"}},
		"past":        {"Retry-After": {received.Add(-5 * time.Second).Format(dateLayouts[0])}},
		"past, dated": {"Retry-After": {"Mon, 30 Nov 2026 11:00:00 GMT"}, "Date": {"Mon, 30 Nov 2026 11:00:05 GMT"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Classify(throttled(header), jobs.IdempotencyKeyed)
			if c.Hint.From == "" || c.Hint.Wait != 0 {
				t.Fatalf("got hint %+v, want a valid one of 0", c.Hint)
			}
			// Sixty seconds in which every answer is the same 429, mean jitter.
			calls, clock, last := 0, time.Duration(0), time.Duration(0)
			for attempt := 1; clock < time.Minute; attempt++ {
				calls++
				in := roomy(c, jobs.IdempotencyKeyed)
				in.Attempt = attempt
				d := Decide(in)
				if d.Next != NextRetry || d.Delay < last {
					t.Fatalf("attempt %d: %+v, want a retry no sooner than %v", attempt, d, last)
				}
				last = d.Delay
				clock += d.Delay
			}
			if calls > 7 {
				t.Errorf("%d calls in a minute, want at most 7", calls)
			}
		})
	}
}

func TestT49RepeatedAndJoinedHeaders(t *testing.T) {
	t.Parallel()
	in90s := received.Add(90 * time.Second)
	for name, tc := range map[string]struct {
		values []string
		want   time.Duration
	}{
		"two lines":               {[]string{"30", "120"}, 2 * time.Minute},
		"two lines, longer first": {[]string{"120", "30"}, 2 * time.Minute},
		"one line":                {[]string{"30,120"}, 2 * time.Minute},
		"with garbage":            {[]string{"soon, 30, -9", "x"}, 30 * time.Second},
		"date and seconds":        {[]string{in90s.Format(dateLayouts[0]) + ", 30"}, 90 * time.Second},
		"seconds and date":        {[]string{"30, " + in90s.Format(dateLayouts[1])}, 90 * time.Second},
		"two dates":               {[]string{in90s.Format(dateLayouts[0]) + ", " + in90s.Add(time.Minute).Format(dateLayouts[0])}, 150 * time.Second},
		"capped":                  {[]string{"30", "999999"}, MaxWait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if h := retryAfterOf(tc.values...); h.Wait != tc.want || h.From != "Retry-After" {
				t.Errorf("got %+v, want %v", h, tc.want)
			}
		})
	}
}

func TestHintsInTheOrderOfTheirHeaders(t *testing.T) {
	t.Parallel()
	type header = map[string][]string
	for name, tc := range map[string]struct {
		status int
		header header
		want   time.Duration
		from   string
	}{
		"milliseconds first":                {429, header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, 1500 * time.Millisecond, "Retry-After-Ms"},
		"milliseconds round up":             {429, header{"retry-after-ms": {"0.2"}}, time.Millisecond, "Retry-After-Ms"},
		"garbage falls to the next":         {429, header{"Retry-After-Ms": {"x"}, "Retry-After": {"9"}}, 9 * time.Second, "Retry-After"},
		"retry-after beats ratelimit":       {429, header{"Retry-After": {"9"}, "Ratelimit": {`"b";r=0;t=30`}}, 9 * time.Second, "Retry-After"},
		"ratelimit":                         {429, header{"Ratelimit": {`"b";r=0;t=30`}}, 30 * time.Second, "RateLimit"},
		"ratelimit, a policy with quota":    {429, header{"Ratelimit": {`"day";r=500;t=40000, "burst";r=0;t=2`}}, 2 * time.Second, "RateLimit"},
		"ratelimit, quoted name":            {429, header{"Ratelimit": {`"a;t=9,\"b";t=4`}}, 4 * time.Second, "RateLimit"},
		"ratelimit, only quota left":        {429, header{"Ratelimit": {`"day";r=500;t=40000`}}, 0, ""},
		"ratelimit, malformed":              {429, header{"Ratelimit": {`limit=100, remaining=0, reset=5`, `"open;t=5`, `b;t=-1`, `b;t=1.5`}}, 0, ""},
		"reset":                             {429, header{"Ratelimit-Reset": {"12"}}, 12 * time.Second, "RateLimit-Reset"},
		"reset as a date":                   {429, header{"Ratelimit-Reset": {received.Add(time.Minute).Format(dateLayouts[0])}}, time.Minute, "RateLimit-Reset"},
		"x-reset, span":                     {429, header{"X-Ratelimit-Reset": {"12"}}, 12 * time.Second, "X-RateLimit-Reset"},
		"x-reset, epoch":                    {429, header{"X-Ratelimit-Reset": {"1796040030"}}, 30 * time.Second, "X-RateLimit-Reset"},
		"x-reset, epoch in ms":              {429, header{"X-Ratelimit-Reset": {"1796040030500"}}, 30500 * time.Millisecond, "X-RateLimit-Reset"},
		"x-reset, past":                     {429, header{"X-Ratelimit-Reset": {"1700000000"}}, 0, "X-RateLimit-Reset"},
		"the server's clock is 1 h ahead":   {503, header{"Retry-After": {"Mon, 30 Nov 2026 13:00:10 GMT"}, "Date": {"Mon, 30 Nov 2026 13:00:00 GMT"}}, 10 * time.Second, "Retry-After"},
		"old date forms":                    {503, header{"Retry-After": {"Mon Nov 30 12:00:07 2026"}}, 7 * time.Second, "Retry-After"},
		"ratelimit means nothing on a 502":  {502, header{"Ratelimit-Reset": {"3600"}}, 0, ""},
		"retry-after means the same on 502": {502, header{"Retry-After": {"5"}}, 5 * time.Second, "Retry-After"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := throttled(tc.header)
			s.Status = tc.status
			if h := Classify(s, jobs.IdempotencyNone).Hint; h.Wait != tc.want || h.From != tc.from {
				t.Errorf("got %+v, want %v from %q", h, tc.want, tc.from)
			}
		})
	}
}

func TestADateNeedsANow(t *testing.T) {
	t.Parallel()
	s := throttled(map[string][]string{"Retry-After": {"Mon, 30 Nov 2026 12:00:10 GMT"}, "X-Ratelimit-Reset": {"1796040030"}})
	s.ReceivedAt = time.Time{}
	if h := hintOf(s); h.From != "" {
		t.Errorf("got %+v, want no hint without a now", h)
	}
}
