package wire

import "regexp"

// What error texts may carry although they should not: gateways like to repeat what
// they were sent.
var (
	cardNumber  = regexp.MustCompile(`\b(?:\d{14,19}|\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{1,7}|\d{4}[ -]\d{6}[ -]\d{4,5})\b`)
	email       = regexp.MustCompile(`[\w.%+-]+@[\w-]+(?:\.[\w-]+)+`)
	bearer      = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}`)
	credentials = regexp.MustCompile(`(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization))(["']?\s*[:=]\s*["']?)[^\s"',;&]+`)
	query       = regexp.MustCompile(`(https?://[^\s?"']+\?)[^\s"']+`)
)

// Masked blots out card numbers, e-mail addresses, tokens and the queries of URLs
// in a text that is not payload by itself.
func Masked(s string) string {
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
