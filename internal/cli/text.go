package cli

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible escapes what a terminal would obey or hide: control and format characters
// (also those that turn the direction of text), line separators, and bytes that are
// not UTF-8.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case hidden(r) && r != utf8.RuneError:
			b.WriteString(escaped(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// escaped writes r as JSON does, which is also how it is shown.
func escaped(r rune) string {
	if r > 0xffff {
		hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
		return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// visibleJSON escapes the same in an encoded JSON text, where such characters can
// only stand inside strings.
func visibleJSON(text []byte) []byte {
	if !strings.ContainsFunc(string(text), func(r rune) bool { return hidden(r) && r >= 0x7f && r != utf8.RuneError }) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		if hidden(r) && r >= 0x7f && r != utf8.RuneError {
			b.WriteString(escaped(r))
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// What error texts may carry although they should not: gateways like to repeat what
// they were sent.
var (
	cardNumber  = regexp.MustCompile(`\b(?:\d{14,19}|\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{1,7}|\d{4}[ -]\d{6}[ -]\d{4,5})\b`)
	email       = regexp.MustCompile(`[\w.%+-]+@[\w-]+(?:\.[\w-]+)+`)
	bearer      = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}`)
	credentials = regexp.MustCompile(`(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization))(["']?\s*[:=]\s*["']?)[^\s"',;&]+`)
	query       = regexp.MustCompile(`(https?://[^\s?"']+\?)[^\s"']+`)
)

// masked blots out card numbers, e-mail addresses, tokens and the queries of URLs
// in a text that is not payload by itself.
func masked(s string) string {
	s = query.ReplaceAllString(s, "${1}[masked]")
	s = bearer.ReplaceAllString(s, "${1} [masked]")
	s = credentials.ReplaceAllString(s, "${1}${2}[masked]")
	s = email.ReplaceAllString(s, "[e-mail]")
	return cardNumber.ReplaceAllStringFunc(s, func(run string) string {
		if luhn(run) {
			return "[card number]"
		}
		return run
	})
}

// luhn is the check sum of card numbers (ISO/IEC 7812-1); anything but digits is
// passed over.
func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		d := int(s[i] - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}
