package policy

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const maxRawBytes = 64 // of Hint.Raw

// hintHeader is one header that may carry a hint, and how one of its values is read.
type hintHeader struct {
	name  string
	parse func(value string, now time.Time) (time.Duration, bool)
}

// Retry-After counts on every answer. The RateLimit family stands on many answers
// that have nothing to do with a limit, so it counts on 429 and 503 alone, and
// only where Retry-After gave nothing (draft-ietf-httpapi-ratelimit-headers).
// Within each list the first header with a valid value wins.
var (
	retryAfterHeaders = []hintHeader{
		{"Retry-After-Ms", parseMilliseconds},
		{"Retry-After", parseSecondsOrDate},
	}
	rateLimitHeaders = []hintHeader{
		{"RateLimit", parseRateLimit},
		{"RateLimit-Reset", parseSecondsOrDate},
		{"X-RateLimit-Reset", parseEpochOrSeconds},
	}
)

// hintOf reads how long an answer asks us to wait.
func hintOf(s Sample) Hint {
	hint := retryAfter(s)
	if hint.From != "" || s.Status != 429 && s.Status != 503 {
		return hint
	}
	if body := bodyHint(s); body.From != "" {
		return body
	}
	limit := readHint(s, rateLimitHeaders)
	if limit.From == "" && hint.Raw != "" {
		return hint
	}
	return limit
}

func retryAfter(s Sample) Hint { return readHint(s, retryAfterHeaders) }

// readHint takes the longest valid value of the first header that has one. What
// is not valid is ignored, but kept as Raw to be seen.
func readHint(s Sample, headers []hintHeader) Hint {
	now := s.ReceivedAt
	// The answer's own Date as "now" cancels the skew between its clock and ours.
	if date, ok := parseDate(firstValue(s.Header, "Date")); ok {
		now = date
	}
	var hint Hint
	for _, h := range headers {
		for _, line := range headerValues(s.Header, h.name) {
			if hint.Raw == "" {
				hint.Raw = cutRaw(line)
			}
			for _, value := range elements(line) {
				wait, ok := h.parse(value, now)
				if !ok || hint.From != "" && wait <= hint.Wait {
					continue
				}
				hint = Hint{Wait: wait, From: h.name, Raw: cutRaw(line)}
			}
		}
		if hint.From != "" {
			return hint
		}
	}
	return hint
}

// elements splits a joined header line at commas outside quotes; the comma inside
// an HTTP-date does not split.
func elements(line string) []string {
	var out []string
	quoted, start := false, 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted && !weekday(strings.TrimSpace(line[start:i])):
			out = append(out, strings.TrimSpace(line[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(line[start:]))
}

func weekday(s string) bool {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if s == d.String() || s == d.String()[:3] {
			return true
		}
	}
	return false
}

func parseMilliseconds(v string, _ time.Time) (time.Duration, bool) {
	return parseDecimal(v, time.Millisecond)
}

func parseSecondsOrDate(v string, now time.Time) (time.Duration, bool) {
	if wait, ok := parseDecimal(v, time.Second); ok {
		return wait, true
	}
	date, ok := parseDate(v)
	if !ok || now.IsZero() {
		return 0, false
	}
	return clampWait(date.Sub(now)), true
}

// parseEpochOrSeconds reads what gateways write in X-RateLimit-Reset: a number
// above 1e12 is the instant in milliseconds, above 1e9 in seconds, else a span.
func parseEpochOrSeconds(v string, now time.Time) (time.Duration, bool) {
	n, err := strconv.ParseUint(v, 10, 53)
	if err != nil || n <= 1e9 {
		return parseDecimal(v, time.Second)
	}
	if now.IsZero() {
		return 0, false
	}
	reset := time.Unix(int64(n), 0)
	if n > 1e12 {
		reset = time.UnixMilli(int64(n))
	}
	return clampWait(reset.Sub(now)), true
}

// parseRateLimit reads one policy of the RateLimit header, such as
// `"burst";r=0;t=30`: the seconds until the quota is there again, unless the
// policy says that some of it is left (then it is not what refused us).
func parseRateLimit(v string, _ time.Time) (time.Duration, bool) {
	_, params, ok := strings.Cut(afterName(v), ";")
	if !ok {
		return 0, false
	}
	var reset string
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		switch {
		case name == "r" && strings.Trim(value, "0") != "":
			return 0, false
		case name == "t":
			reset = value
		}
	}
	if strings.Contains(reset, ".") {
		return 0, false // the draft allows whole seconds only
	}
	return parseDecimal(reset, time.Second)
}

// afterName skips a policy's name, which may hold semicolons when quoted.
func afterName(v string) string {
	if !strings.HasPrefix(v, `"`) {
		return v
	}
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return v[i+1:]
		}
	}
	return ""
}

// parseDecimal reads digits with an optional fraction, rounded up to the unit.
// However long the number is, it is a valid one and is cut to [MaxWait]; signs,
// exponents and words are not numbers here.
func parseDecimal(v string, unit time.Duration) (time.Duration, bool) {
	whole, frac, hasFrac := strings.Cut(v, ".")
	if !digits(whole) || hasFrac && !digits(frac) {
		return 0, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n >= int64(MaxWait/unit) {
		return MaxWait, true
	}
	if strings.Trim(frac, "0") != "" {
		n++
	}
	return time.Duration(n) * unit, true
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// dateLayouts are the three forms of RFC 9110 section 5.6.7.
var dateLayouts = []string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	"Monday, 02-Jan-06 15:04:05 GMT",
	"Mon Jan _2 15:04:05 2006",
}

func parseDate(v string) (time.Time, bool) {
	if v == "" { // as a rule: three errors need not be made of it
		return time.Time{}, false
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, v); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// clampWait turns an instant's distance into a wait: one in the past asks for
// none, and the backoff goes on growing.
func clampWait(d time.Duration) time.Duration { return min(max(d, 0), MaxWait) }

func cutRaw(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxRawBytes {
		return s
	}
	s = s[:maxRawBytes]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
